"""The types of values: shape, dtype, weak type, and per mesh axis how devices differ.

Types are hash-consed: `ArrayType(...)` called twice with equal contents returns one object, so
comparing two types and using one as a dictionary key is work on a pointer. Nothing here knows how a
value is stored.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.base.util import Immutable
from weft.errors import Fix, ShapeError, WeftNotImplementedError, WeftTypeError, WeftValueError
from weft.sharding import AbstractMesh, NamedSharding, PartitionSpec

_NO_AXES: frozenset[str] = frozenset()
_NO_MESH = AbstractMesh((), ())
_table: weakref.WeakValueDictionary[tuple[Any, ...], ArrayType] = weakref.WeakValueDictionary()
# Keeps the newest types alive, which a loop that drops its results would otherwise rebuild.
_recent: deque[ArrayType] = deque(maxlen=256)
_lock = threading.Lock()
_MOST_BYTES = (1 << 63) - 1


class ArrayType(Immutable):
    """The type of an array.

    shape: the length of each dimension; dtype: a NumPy dtype, or an extended one (random keys);
    weak_type: whether the dtype came from a Python number and yields to others in promotion;
    varying: the manual mesh axes along which devices may hold different values;
    unreduced: the manual mesh axes along which each device holds a term of a pending sum;
    sharding: None or that of a type, which interpreters written for JAX pass on.

    Raises ShapeError if the elements take 2**63 bytes or more, WeftNotImplementedError for
    another sharding.

    >>> ArrayType((2, 3), np.float32)
    f32[2,3]
    >>> ArrayType((2, 3), np.float32) is ArrayType((2, 3), np.float32)
    True
    """

    __slots__ = (
        "__weakref__",
        "_tangent",
        "dtype",
        "ndim",
        "shape",
        "size",
        "unreduced",
        "varying",
        "weak_type",
    )

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    varying: frozenset[str]
    unreduced: frozenset[str]
    ndim: int
    size: int
    _tangent: ArrayType | None

    def __new__(
        cls,
        shape: Iterable[int],
        dtype: Any,
        weak_type: bool = False,
        varying: Iterable[str] = _NO_AXES,
        unreduced: Iterable[str] = _NO_AXES,
        *,
        sharding: NamedSharding | None = None,
    ) -> ArrayType:
        if not (sharding is None or getattr(sharding, "without_axes", False)):
            message = "the type of an array does not say how it lies on devices"
            wanted = "sharding=None, or that of another type"
            raise WeftNotImplementedError(message, got=f"{sharding=}", wanted=wanted)
        shape = tuple(shape)
        if not isinstance(dtype, np.dtype) and not hasattr(dtype, "short_name"):
            dtype = dtypes.parse(dtype)
        key = (shape, dtype, bool(weak_type), frozenset(varying), frozenset(unreduced))
        out = _table.get(key)
        if out is not None:
            return out
        _check_shape(shape, dtype)
        with _lock:
            out = _table.get(key)
            if out is None:
                out = object.__new__(cls)
                out.shape = shape = tuple(int(size) for size in shape)
                out.dtype, out.weak_type, out.varying, out.unreduced = key[1:]
                out.ndim = len(shape)
                out.size = prod(shape)
                out._tangent = None
                _table[key] = out
                _recent.append(out)
        return out

    def update(self, **changes: Any) -> ArrayType:
        """The same type with some fields changed."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "varying": self.varying,
            "unreduced": self.unreduced,
        }
        return ArrayType(**(fields | changes))

    def strong(self) -> ArrayType:
        """The same type, not weak."""
        return self.update(weak_type=False) if self.weak_type else self

    def tangent(self) -> ArrayType:
        """The type of a tangent of a value of this type: float0 for integers and booleans."""
        out = self._tangent
        if out is None:
            tangent_dtype = dtypes.tangent_dtype(self.dtype)
            out = self if tangent_dtype == self.dtype else self.update(dtype=tangent_dtype)
            self._tangent = out
        return out

    # Names under which interpreters written for JAX read types.

    @property
    def vma(self) -> frozenset[str]:
        """The manual mesh axes along which devices may hold different values (`varying`)."""
        return self.varying

    @property
    def sharding(self) -> NamedSharding:
        """A sharding over a mesh without axes: a type does not say how an array is spread over
        devices."""
        return NamedSharding(_NO_MESH, PartitionSpec(*[None] * self.ndim))

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayType, (self.shape, self.dtype, self.weak_type, self.varying, self.unreduced)

    def __str__(self) -> str:
        text = f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]"
        if self.varying or self.unreduced:
            marks = sorted(map(str, self.varying)) + [f"sum={a}" for a in sorted(self.unreduced)]
            text += "{" + ",".join(marks) + "}"
        return text

    def __repr__(self) -> str:
        return str(self) + ("~" if self.weak_type else "")


class Typed:
    """A mixin: the properties of every value that has a `type`."""

    __slots__ = ()

    type: ArrayType

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python number and gives way to others."""
        return self.type.weak_type


# Class whose values stand for an array (see `core.array_value`) -> function that returns the array.
values_of_class: dict[type, Callable[[Any], Any]] = {}
# Registers a class that has JAX's method for it, `__jax_array__`, and gives such a function.
learn_class: list[Callable[[type], Callable[[Any], Any]]] = []

# Class -> function from a value of that class to its type. Values with a `.type` need no entry.
types_by_class: dict[type, Callable[[Any], ArrayType]] = {}


def _check_shape(shape: tuple[int, ...], dtype: Any) -> None:
    for length in shape:
        if isinstance(length, (int, np.integer)) and length >= 0:
            continue
        message = "the lengths of an array type are integers of 0 or more"
        got = f"shape {shape!r:.100}"
        wanted = "integers of 0 or more"
        fix = Fix("shape", "pass a tuple of such integers")
        raise WeftTypeError(message, operation="ArrayType", got=got, wanted=wanted, fix=fix)
    # Beyond, XLA ends the process. It multiplies the lengths one by one, also of empty arrays, and
    # counts the bits of dtypes that it packs.
    count = prod(int(length) for length in shape if length)
    bits = dtypes.itemsize_bits(dtype) if dtype in dtypes.NARROW else 8
    most = _MOST_BYTES // (bits if bits < 8 else dtype.itemsize or 1)
    if count > most:
        name = dtypes.short_name(dtype)
        message = f"an array of shape {shape!r:.100} and dtype {name} is larger than any memory"
        got = f"{count} elements" + (", were none of the lengths 0" if 0 in shape else "")
        wanted = f"at most {most} elements of {name}: fewer than 2**63 bytes"
        text = f"make it in pieces, of shapes such as ({most},) at most"
        raise ShapeError(
            message, operation=None, got=got, wanted=wanted, fix=Fix("pieces", text, {"most": most})
        )


def register_type_of(cls: type, function: Callable[[Any], ArrayType]) -> None:
    """Sets the function that returns the type of values of a class without a `.type`.

    Args:
        function: From a value to its type.
    """
    types_by_class[cls] = function


def type_of(value: Any) -> ArrayType:
    """The type of any value that may be an operand: an array, a tracer, a number, a NumPy array.

    Raises WeftTypeError for anything else.

    Args:
        value: The value whose type is wanted.

    >>> from weft.extend.core import type_of
    >>> type_of(np.ones((2, 3), "float32")), type_of(1.0)
    (f32[2,3], f32[]~)
    """
    out = getattr(value, "type", None)
    if type(out) is ArrayType:
        return out
    function = types_by_class.get(type(value))
    if function is not None:
        return function(value)
    for cls in type(value).__mro__:
        function = types_by_class.get(cls)
        if function is not None:
            check_unmasked(value)
            return function(value)
    asked = values_of_class.get(type(value))
    if asked is None and hasattr(type(value), "__jax_array__"):
        asked = learn_class[0](type(value))
    if asked is not None:
        return type_of(asked(value))
    name = type(value).__name__
    raise WeftTypeError(
        f"a value of class {name} is not an array or a number",
        operation=None,
        got=repr(value)[:200],
        wanted="an array, a NumPy array, or a Python number",
        fix=Fix(
            "register_array_value",
            f"make its class known: weft.extend.core.register_array_value({name})",
            {"class": name},
        )
        if hasattr(type(value), "__weft_array__")
        else None,
    )


dtypes.register_operand_type(type_of)


# Cached, since every call with a Python number needs its type, and unused types are freed.
@functools.cache
def _number_type(dtype: Any, weak_type: bool = True) -> ArrayType:
    return ArrayType((), dtype, weak_type)


def _type_of_int(value: int) -> ArrayType:
    dtype = dtypes.default_int()
    if not dtypes.fits(value, dtype):
        raise dtypes.does_not_fit(value, dtype, "value")
    return _number_type(dtype)


register_type_of(bool, lambda value: _number_type(dtypes.bool_, False))
register_type_of(int, _type_of_int)
register_type_of(float, lambda value: _number_type(dtypes.default_float()))
register_type_of(complex, lambda value: _number_type(dtypes.default_complex()))


# Includes the dtypes that ml_dtypes adds, which have NumPy's kind V (opaque bytes).
_STORABLE = dtypes.ANY | dtypes.NARROW | {dtypes.float0}


def _check_numpy_dtype(dtype: Any) -> None:
    if dtype.kind in "OSUMm" or (dtype.kind == "V" and dtype not in _STORABLE):
        message = f"a NumPy array of dtype {dtype} holds no numbers"
        raise WeftTypeError(
            message, operation=None, got=f"dtype {dtype}", wanted="a numeric or boolean dtype"
        )


# Caches types by shape and dtype, since every call with a NumPy array needs its type.
_numpy_types: dict[Any, ArrayType] = {}


def _type_of_numpy(value: Any) -> ArrayType:
    key = (value.shape, value.dtype, config.settings().enable_x64)
    out = _numpy_types.get(key)
    if out is None:
        _check_numpy_dtype(value.dtype)
        if len(_numpy_types) >= 4096:
            _numpy_types.clear()
        out = _numpy_types[key] = ArrayType(value.shape, dtypes.canonical(value.dtype))
    return out


register_type_of(np.ndarray, _type_of_numpy)


def check_unmasked(value: Any, operation: str | None = None) -> None:
    """Raises WeftValueError for a NumPy array with masked elements: arrays keep no mask.

    Not a WeftTypeError: at that, operators give way to the other operand's class.
    """
    # Using numpy.ma loads it, so only a subclass of ndarray gets that far.
    if type(value) is np.ndarray or not isinstance(value, np.ndarray):
        return
    if not isinstance(value, np.ma.MaskedArray) or not np.ma.is_masked(value):
        return
    count = int(np.ma.getmaskarray(value).sum())
    message = "a masked array would lose its mask: arrays of weft have none"
    got = f"a numpy.ma array of shape {value.shape} with {count} masked elements"
    wanted = "an array of which no element is masked"
    fix = Fix(
        "fill",
        "fill the masked elements with x.filled(value), and pass the mask ~x.mask as where= "
        "or to weft.numpy.where; x.compressed() leaves them out",
        {"method": "filled"},
    )
    raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


@functools.cache
def _type_of_numpy_dtype(dtype: Any) -> ArrayType:
    _check_numpy_dtype(dtype)
    return ArrayType((), dtype)


# The exact type: rules write the constants of a jaxpr as NumPy scalars of its dtypes.
register_type_of(np.generic, lambda value: _type_of_numpy_dtype(value.dtype))


def user_value(value: Any) -> Any:
    """A leaf that a user passes: a NumPy scalar takes the default width, as NumPy arrays do, and a
    value that stands for an array becomes that array.

    Raises OverflowError for an integer that does not fit.

    Args:
        value: A leaf of the arguments.
    """
    if values_of_class and type(value) in values_of_class:
        value = values_of_class[type(value)](value)
    if not isinstance(value, np.generic):
        return value
    dtype = dtypes.canonical(value.dtype)
    if dtype == value.dtype:
        return value
    return dtypes.number(value, dtype, "value")
