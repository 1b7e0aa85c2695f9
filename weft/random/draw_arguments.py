"""The arguments of functions that draw: keys, parameters of a distribution, shapes, dtypes."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core.array_value import array_of_value
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError
from weft.kinds.arguments import NEVER
from weft.kinds.kind import Arguments, Kind
from weft.ops.structural.extended_dtypes import KeyDType, use_key
from weft.ops.structural.shape import canonical_axis
from weft.ops.structural.sharding_constraint import is_place
from weft.random.threefry import default_generator

_MAKE = Fix("key", "make a key first: weft.random.key(0)", {"seed": 0})


def check_keys(keys: Any) -> tuple[Any, tuple[int, ...]]:
    """Keys (typed, or uint32 bits of the default generator) and the shape of the array of keys.

    Raises WeftTypeError for anything else.
    """
    wanted = "a random key, made by weft.random.key or weft.random.split"
    dtype = getattr(keys, "dtype", None)
    no_numbers = isinstance(dtype, np.dtype) and dtype.kind in "OSUMm"
    if not isinstance(dtype, (np.dtype, KeyDType)) or no_numbers:
        message = f"takes a random key first, not {_describe(keys)}"
        got = _describe(keys)
        raise WeftTypeError(message, got=got, wanted=wanted, fix=_seed_fix(keys))
    if isinstance(keys, (np.ndarray, np.generic)):
        keys = as_array(keys)
    of = type_of(keys)
    if isinstance(of.dtype, KeyDType):
        return keys, of.shape
    inner = default_generator().key_shape
    if of.dtype != np.uint32 or of.shape[-len(inner) :] != inner:
        raise DTypeError(
            f"takes a random key first, not {of}",
            got=str(of),
            wanted=f"{wanted} (or its bits, of type u32[{','.join(map(str, inner))}])",
            fix=_MAKE,
        )
    if (setting := config.settings().legacy_prng_key) != "allow":
        _refuse_bits(setting, of)
    return keys, of.shape[: -len(inner)]


def _refuse_bits(setting: str, of: Any) -> None:
    """Warns or raises WeftValueError for keys without a type, as `legacy_prng_key` says."""
    if setting == "warn":
        sources.warn("a random key comes first, not the bits of one; make it by weft.random.key")
        return
    wanted = "a typed key, because the setting legacy_prng_key is 'error'"
    text = "make it by weft.random.key, or wrap the bits: weft.random.wrap_key_data(key)"
    fix = Fix("key", text, {"seed": 0})
    message = "takes a random key first, not the bits of one"
    raise WeftValueError(message, got=str(of), wanted=wanted, fix=fix)


def _describe(value: Any) -> str:
    if isinstance(value, (bool, int, float, complex)):
        return f"the Python number {value!r}"
    return f"{value!r:.60} of class {type(value).__name__}"


def _seed_fix(value: Any) -> Fix:
    if type(value) is int:
        return Fix("key", f"make a key of the number: weft.random.key({value})", {"seed": value})
    return _MAKE


def check_key(key: Any, function: str = "draw") -> Any:
    """One key. Raises ShapeError for an array of keys, whose fix maps the function over them."""
    key, shape = check_keys(key)
    if shape:
        message = f"takes one key, not an array of keys of shape {shape}"
        text = f"use one of them (keys[0]), or map over them: weft.vmap({function})"
        fix = Fix("vmap", text, {"shape": shape})
        raise ShapeError(message, got=f"keys of shape {shape}", wanted="one key", fix=fix)
    return key


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape from an int or a sequence of ints. Raises ShapeError for a negative length."""
    try:
        several = hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0
        lengths = tuple(shape) if several else (shape,)
        out = tuple(operator.index(size) for size in lengths)
    except TypeError as error:
        if isinstance(error, WeftTypeError):
            raise  # a traced length: the error says what to do
        message, got = "a shape is an int or a tuple of ints", f"shape={shape!r:.80}"
        raise WeftTypeError(message, got=got, wanted="a shape such as (3, 4)") from None
    if any(size < 0 for size in out):
        message, got = "the lengths of a shape are not negative", f"shape={out}"
        raise ShapeError(message, got=got, wanted="lengths of 0 or more")
    return out


def check_dtype(dtype: Any, accepts: frozenset[Any], default: Callable[[], Any], kind: str) -> Any:
    """A dtype among `accepts`; None means the default."""
    if dtype is None:
        return default()
    try:
        out = dtypes.requested(dtype)
    except DTypeError as error:
        name = default().name
        fix = Fix("dtype", f"pass dtype={name!r}, or leave dtype out", {"dtype": name})
        message = error.message
        raise DTypeError(message, got=error.got, wanted=error.wanted, fix=fix) from None
    if out not in accepts:
        name = default().name
        message = f"draws {kind}, which {dtypes.short_name(out)} does not hold"
        got = f"dtype={dtypes.short_name(out)}"
        wanted = "a dtype among " + ", ".join(sorted(d.name for d in accepts))
        fix = Fix("dtype", f"pass dtype={name!r}, or leave dtype out", {"dtype": name})
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return out


def check_parameter(name: str, value: Any, complex_numbers: bool = False) -> Any:
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
        wanted = "a number or an array of numbers"
        got = f"{name}={value!r:.80} of class {type(value).__name__}"
        raise WeftTypeError(f"{name} is {wanted}", got=got, wanted=wanted, fix=fix)
    if of.dtype in dtypes.COMPLEX and not complex_numbers:
        message, got = f"{name} is a real number or an array of those", f"{name} of type {of}"
        raise DTypeError(message, got=got, wanted="real numbers")
    return value


def joined_shape(shape: Any, /, **parameters: Any) -> tuple[int, ...]:
    """The shape of the result: `shape`, to which all parameters have to broadcast, or their common
    shape if it is None."""
    shapes = {name: type_of(value).shape for name, value in parameters.items()}
    try:
        joined = np.broadcast_shapes(*shapes.values(), *(() if shape is None else (shape,)))
    except ValueError:
        joined = None
    if joined is None or (shape is not None and joined != shape):
        how = "together" if shape is None else f"to shape {shape}"
        got = ", ".join(f"{name} of shape {lengths}" for name, lengths in shapes.items())
        got += "" if shape is None else f", shape={shape}"
        wanted = "shapes that broadcast together, and to the shape of the result"
        fix = None if joined is None else Fix("shape", f"pass shape={joined}", {"shape": joined})
        raise ShapeError(f"the parameters do not broadcast {how}", got=got, wanted=wanted, fix=fix)
    return joined


# ---- kinds -------------------------------------------------------------------------------------

_WRONG_SHAPES = ("text", 0.5, -1)


def _key(value: Any, call: Arguments) -> Any:
    return check_key(value, f"weft.random.{call.operation}")


def _mark_used(operation: str, keys: Sequence[Any]) -> Sequence[Any]:
    """Marks keys as used under `debug_key_reuse`; bits without a type may be used again."""
    if not config.settings().debug_key_reuse:
        return keys
    typed = [isinstance(type_of(key).dtype, KeyDType) for key in keys]
    return [use_key(key, operation) if t else key for key, t in zip(keys, typed, strict=True)]


def _real(value: Any, call: Arguments) -> Any:
    value = check_parameter(call.name, value)
    # A Python number is as exact as the result.
    dtype = call.get("dtype")
    wide = dtype is not None and dtype == dtypes.float64 != dtypes.default_float()
    return np.float64(value) if wide and type(value) in (int, float) else value


def _shape(value: Any, call: Arguments) -> tuple[int, ...]:
    return check_shape(value)


def _joined_shape(value: Any, call: Arguments) -> tuple[int, ...]:
    # The parameters of a distribution stand between the key and the shape.
    parameters = {name: call[name] for name in tuple(call)[1 : call.position]}
    shape = None if value is None else check_shape(value)
    return joined_shape(shape, **parameters)


def _dtype(numbers: str, accepts: frozenset[Any], default: Callable[[], Any]) -> Kind:
    """The kind of a dtype that holds `numbers`."""

    def take(value: Any, call: Arguments) -> Any:
        return check_dtype(value, accepts, default, numbers)

    wrong = ("text", "complex64" if dtypes.complex64 not in accepts else "bool")
    return Kind(take, f"a dtype of {numbers}, or None for the default", wrong, plain=NEVER)


def _mode(*modes: str, default: Callable[[], str] | None = None) -> Kind:
    """The kind of a mode; None means the default, if there is one."""
    *others, last = map(repr, modes)
    wanted = f"{', '.join(others)} or {last}"

    def take(value: Any, call: Arguments) -> str:
        if value is None and default is not None:
            return default()
        if value not in modes:
            got, fix = f"mode={value!r:.80}", Fix("mode", "leave mode out", {"mode": "low"})
            raise WeftValueError(f"mode is {wanted}", got=got, wanted=wanted, fix=fix)
        return str(value)

    return Kind(take, wanted, ("?", 0.5), plain=NEVER)


def axis_kind(parameter: str) -> Kind:
    """The kind of an axis of a parameter; a number of elements has one axis."""

    def take(value: Any, call: Arguments) -> int:
        of = call[parameter]
        ndim = 1 if type(of) is int else type_of(of).ndim
        return canonical_axis(value, ndim)

    return Kind(take, f"an axis of {parameter}", (99, 0.5, None), 0, plain=NEVER, late=True)


def check_replaced(draws: int, count: int, of: str, got: str) -> None:
    """Raises WeftValueError for more draws without replacement than there are elements."""
    if draws > count:
        message = f"{draws} draws without replacement from {count} {of}"
        fix = Fix("replace", "draw with replacement: replace=True", {"replace": True})
        raise WeftValueError(message, got=got, wanted=f"no more draws than {of}", fix=fix)


def check_sharding(value: Any) -> None:
    """Raises WeftTypeError unless an `out_sharding` is a sharding over a mesh."""
    if not is_place(value) or hasattr(value, "platform"):
        fix = Fix("sharding", "pass weft.NamedSharding(mesh, weft.P()): each device has a copy")
        got = f"out_sharding={value!r:.100} of class {type(value).__name__}"
        wanted = "a NamedSharding, a PartitionSpec, or None"
        raise WeftTypeError("takes shardings over a mesh", got=got, wanted=wanted, fix=fix)


def _sharding(value: Any, call: Arguments) -> Any:
    check_sharding(value)
    return value


# Floating-point dtypes of 8 bits with a mantissa and a sign: the formulas hold for them as well.
_SHORT = frozenset(
    dtype
    for dtype in dtypes.NARROW_FLOATING
    if dtype.name not in ("float8_e8m0fnu", "float4_e2m1fn")
)
_BITS = np.array([0, 1], np.uint32)
_key_kind = Kind(
    _key,
    "a random key",
    (0, 0.5, "text", np.ones(3, np.float32)),
    _BITS,
    static=False,
    plain=NEVER,
    together=_mark_used,
)
Key = Annotated[Any, _key_kind]
# One from which others are derived, and that may be used again.
UnusedKey = Annotated[Any, dataclasses.replace(_key_kind, together=None)]
real_kind = Kind(
    _real,
    "a real number or an array of them",
    ("text", [1.0], 1j),
    0.5,
    static=False,
    plain=NEVER,
    late=True,
)
Real = Annotated[Any, dataclasses.replace(real_kind, by_class=True)]
Shape = Annotated[Any, Kind(_shape, "the lengths of the result", _WRONG_SHAPES, (3,), plain=NEVER)]
# The parameters broadcast to it.
_OF_PARAMETERS = "the lengths of the result; None for those to which the parameters broadcast"
Joined = Annotated[Any, Kind(_joined_shape, _OF_PARAMETERS, _WRONG_SHAPES, plain=NEVER, late=True)]
Reals = Annotated[Any, _dtype("real numbers", dtypes.FLOATING | _SHORT, dtypes.default_float)]
Numbers = Annotated[
    Any, _dtype("real or complex numbers", dtypes.INEXACT | _SHORT, dtypes.default_float)
]
Integers = Annotated[Any, _dtype("integers", dtypes.INTEGER, dtypes.default_int)]
Bits = Annotated[Any, _dtype("random bits", dtypes.UNSIGNED, dtypes.default_uint)]
Signs = Annotated[Any, _dtype("signs", dtypes.NUMERIC - dtypes.UNSIGNED, dtypes.default_int)]
Sharding = Annotated[Any, Kind(_sharding, "how the result is split over devices", ("text",))]
Mode = Annotated[str, _mode("low", "high")]
# Those of Gumbel distributed numbers, and of draws that add them to logarithms.
_GUMBEL = ("low", "high", "highest")
GumbelMode = Annotated[
    Any,
    _mode(*_GUMBEL, default=lambda: ("low", "high")[config.settings().high_dynamic_range_gumbel]),
]
NoiseMode = Annotated[Any, _mode(*_GUMBEL, default=lambda: "low")]
