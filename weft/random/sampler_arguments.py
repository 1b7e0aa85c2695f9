"""Checks of the arguments that functions of `weft.random` share: keys, shapes, dtypes …"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.argument_errors import invalid_class, invalid_dtype, invalid_shape, invalid_type
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core.array_value import array_of_value
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError
from weft.ops.structural.extended_dtypes import KeyDType
from weft.random.threefry import default_generator

__all__ = [
    "DTYPES", "check_dtype", "check_key", "check_keys", "check_parameter", "check_shape",
    "joined_shape", "parametric",
]  # fmt: skip

Arrays = tuple[Any, ...]
Static = tuple[Any, ...]
Shape = tuple[int, ...]

_MAKE = Fix("key", "make a key first: weft.random.key(0)", {"seed": 0})


def check_keys(operation: str, keys: Any) -> tuple[Any, Shape]:
    """Keys (typed, or uint32 bits of the default generator) and the shape of the array of keys.

    Raises WeftTypeError for anything else.
    """
    wanted = "a random key, made by weft.random.key or weft.random.split"
    dtype = getattr(keys, "dtype", None)
    no_numbers = isinstance(dtype, np.dtype) and dtype.kind in "OSUMm"
    if not isinstance(dtype, (np.dtype, KeyDType)) or no_numbers:
        message = f"{operation} takes a random key first, not {_described(keys)}"
        got = _described(keys)
        fix = _seed_fix(keys)
        raise WeftTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    if isinstance(keys, (np.ndarray, np.generic)):
        keys = as_array(keys)
    of = type_of(keys)
    if isinstance(of.dtype, KeyDType):
        return keys, of.shape
    inner = default_generator().key_shape
    if of.dtype != np.uint32 or of.shape[-len(inner) :] != inner:
        raise DTypeError(
            f"{operation} takes a random key first, not {of}",
            operation=operation,
            got=str(of),
            wanted=f"{wanted} (or its bits, of type u32[{','.join(map(str, inner))}])",
            fix=_MAKE,
        )
    if (said := config.settings().legacy_prng_key) != "allow":
        _speak_of_bits(operation, said, of)
    return keys, of.shape[: -len(inner)]


def _speak_of_bits(operation: str, said: str, of: Any) -> None:
    """Warns, or raises WeftValueError, as the setting `legacy_prng_key` says of keys without a
    type."""
    message = f"{operation} takes a random key first, not the bits of one"
    if said == "warn":
        sources.warn(f"{message}; make it by weft.random.key")
        return
    wanted = "a typed key, because the setting legacy_prng_key is 'error'"
    text = "make it by weft.random.key, or wrap the bits: weft.random.wrap_key_data(key)"
    fix = Fix("key", text, {"seed": 0})
    raise WeftValueError(message, operation=operation, got=str(of), wanted=wanted, fix=fix)


def _described(value: Any) -> str:
    if isinstance(value, (bool, int, float, complex)):
        return f"the Python number {value!r}"
    return f"{value!r:.60} of class {type(value).__name__}"


def _seed_fix(value: Any) -> Fix:
    if type(value) is int:
        return Fix("key", f"make a key of the number: weft.random.key({value})", {"seed": value})
    return _MAKE


def check_key(operation: str, key: Any) -> Any:
    """One key. Raises ShapeError for an array of several."""
    key, shape = check_keys(operation, key)
    if shape:
        called = operation if "." in operation else f"weft.random.{operation}"
        message = f"{operation} takes one key, not an array of keys of shape {shape}"
        fix = Fix(
            "vmap",
            f"use one of them (keys[0]), or map over them: weft.vmap({called})",
            {"shape": shape},
        )
        raise invalid_shape(message, operation, "keys", shape, "one key", fix=fix)
    return key


def check_shape(operation: str, shape: Any) -> Shape:
    """A shape from an int or a sequence of ints. Raises ShapeError for a negative length."""
    try:
        several = hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0
        given = tuple(shape) if several else (shape,)
        found = tuple(operator.index(size) for size in given)
    except TypeError as error:
        if isinstance(error, WeftTypeError):
            raise  # a traced length: the error says what to do
        message = f"{operation}: a shape is an int or a tuple of ints"
        raise invalid_type(message, operation, "shape", shape, "a shape such as (3, 4)") from None
    if any(size < 0 for size in found):
        message, got = f"{operation}: the lengths of a shape are not negative", f"shape={found}"
        raise ShapeError(message, operation=operation, got=got, wanted="lengths of 0 or more")
    return found


def check_dtype(
    operation: str, dtype: Any, accepts: frozenset[Any], default: Callable[[], Any], kind: str
) -> Any:
    """A dtype among those accepted; None stands for the default."""
    if dtype is None:
        return default()
    try:
        found = dtypes.requested(dtype)
    except DTypeError as error:
        error.operation = operation
        raise
    if found not in accepts:
        name = default().name
        message = f"{operation} draws {kind}, which {dtypes.short_name(found)} does not hold"
        got = f"dtype={dtypes.short_name(found)}"
        wanted = "a dtype among " + ", ".join(sorted(d.name for d in accepts))
        fix = Fix("dtype", f"pass dtype={name!r}, or leave dtype out", {"dtype": name})
        raise DTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return found


def check_parameter(operation: str, name: str, value: Any, complex_numbers: bool = False) -> Any:
    """A parameter of a distribution: an array, a tracer or a number. Raises WeftTypeError."""
    of = getattr(value, "type", None)
    if type(of) is not ArrayType and hasattr(value, "__jax_array__"):
        of = type_of(value)  # Learns the class where it is new.
        value = array_of_value(value)
    if isinstance(value, np.generic):
        value = np.asarray(value)  # of default width, as all of NumPy's arrays
    if isinstance(value, (bool, int, float, np.ndarray)):
        of = type_of(value)  # numbers stay Python numbers, and so become literals in a jaxpr
    if type(of) is not ArrayType or not isinstance(of.dtype, np.dtype):
        fix = None
        if isinstance(value, (list, tuple)):
            fix = Fix("array", f"convert it: weft.numpy.array({name})", {"argument": name})
        message = f"{operation}: {name} is a number or an array of numbers"
        wanted = "a number or an array of numbers"
        raise invalid_class(message, operation, name, value, wanted, fix=fix)
    if of.dtype in dtypes.COMPLEX and not complex_numbers:
        message = f"{operation}: {name} is a real number or an array of those"
        raise invalid_dtype(message, operation, name, of, "real numbers")
    return value


def joined_shape(shape: Any, /, **parameters: Any) -> Shape:
    """The shape of the result: the given one, to which all parameters have to broadcast, or (None)
    the one to which they broadcast together."""
    shapes = {name: type_of(value).shape for name, value in parameters.items()}
    try:
        joined = np.broadcast_shapes(*shapes.values(), *(() if shape is None else (shape,)))
    except ValueError:
        joined = None
    if joined is None or (shape is not None and joined != shape):
        how = "together" if shape is None else f"to shape {shape}"
        got = ", ".join(f"{name} of shape {own}" for name, own in shapes.items())
        got += "" if shape is None else f", shape={shape}"
        wanted = "shapes that broadcast together, and to the shape of the result"
        fix = None if joined is None else Fix("shape", f"pass shape={joined}", {"shape": joined})
        message = f"the parameters do not broadcast {how}"
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return joined


# Floating-point dtypes of 8 bits with a mantissa and a sign: the formulas hold for them as well.
_SHORT = frozenset(
    dtype
    for dtype in dtypes.NARROW_FLOATING
    if dtype.name not in ("float8_e8m0fnu", "float4_e2m1fn")
)

DTYPES: dict[str, tuple[frozenset[Any], Callable[[], Any]]] = {
    "real numbers": (dtypes.FLOATING | _SHORT, dtypes.default_float),
    "real or complex numbers": (dtypes.INEXACT | _SHORT, dtypes.default_float),
    "integers": (dtypes.INTEGER, dtypes.default_int),
    "random bits": (dtypes.UNSIGNED, dtypes.default_uint),
    "signs": (dtypes.NUMERIC - dtypes.UNSIGNED, dtypes.default_int),
}


def parametric(
    kind: str, *names: str
) -> Callable[[str, Arrays, Static], tuple[Arrays, tuple[Shape, Any]]]:
    """The check of a sampler of (key, *parameters) with the static parameters (shape, dtype)."""
    accepts, default = DTYPES[kind]

    def check(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, tuple[Shape, Any]]:
        key = check_key(operation, arrays[0])
        values = tuple(
            check_parameter(operation, name, value)
            for name, value in zip(names, arrays[1:], strict=True)
        )
        shape, dtype = static
        dtype = check_dtype(operation, dtype, accepts, default, kind)
        if dtype == dtypes.float64 and dtypes.default_float() != dtype:
            # A Python number is as exact as the result.
            values = tuple(np.float64(x) if type(x) in (int, float) else x for x in values)
        if names:
            shape = None if shape is None else check_shape(operation, shape)
            try:
                shape = joined_shape(shape, **dict(zip(names, values, strict=True)))
            except ShapeError as error:
                error.operation, error.message = operation, f"{operation}: {error.message}"
                raise
            return (key, *values), (shape, dtype)
        return (key,), (check_shape(operation, shape), dtype)

    return check
