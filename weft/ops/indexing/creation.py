"""Creates arrays: one value everywhere, counting along a dimension, listed integers.

Only counting and listing are primitives: an array of one value is a broadcast scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array, to_place
from weft.arrays.conversion import as_array
from weft.arrays.host_values import cast_values
from weft.core import rules
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import AxisError, DTypeError, Fix, ShapeError, WeftTypeError
from weft.errors.argument_errors import integer_of, integers_of, refuse_sharding
from weft.ops.declare import primitive
from weft.ops.elementwise.arithmetic import add, eq
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.operand_errors import unfit
from weft.ops.structural.shape import broadcast_in_dim_p
from weft.ops.structural.sharding_constraint import constrain
from weft.runtime import stablehlo
from weft.typing import ArrayLike

_NUMBERS = (bool, int, float, complex)


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype that an array, a number or a scalar type has as an array; a dtype is its own.

    Raises WeftTypeError for values that are not arrays.

    >>> lax.dtype(1.0), lax.dtype(np.int8), lax.dtype(np.dtype("int8"))
    (dtype('float32'), dtype('int8'), dtype('int8'))
    """
    named = isinstance(x, (type, np.dtype, str))
    out: np.dtype[Any] = dtypes.parse(x) if named else type_of(x).dtype
    return out


def shape_as_value(shape: Sequence[int]) -> Array:
    """The lengths of dimensions as a vector of int32.

    >>> lax.shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    return as_array(np.asarray(_lengths("shape_as_value", shape), np.int32))


def stage(x: ArrayLike, /) -> Array:
    """A value as an array of the current trace; it may be a number or a NumPy array.

    >>> lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    value: Any = user_value(x)
    if isinstance(value, Tracer):
        return value  # type: ignore[return-value]  # a tracer stands for an array
    shape = type_of(value).shape
    return broadcast_in_dim_p.bind(
        value, shape=shape, broadcast_dimensions=tuple(range(len(shape)))
    )


def full(
    shape: Sequence[int], fill_value: Any, dtype: Any = None, *, sharding: Any = None
) -> Array:
    """Returns an array of one value.

    `fill_value` is a number or an array without dimensions; `dtype` is by default its own; the
    result is then weakly typed if the value is. Raises ShapeError for a value with dimensions,
    DTypeError for a dtype of random keys.

    sharding: where the result is put and how it is split over devices; None leaves it to the
    default device.

    >>> full((2,), 7, np.int8)
    Array([7, 7], dtype=int8)
    """
    lengths = _lengths("full", shape)
    value = fill_value if dtype is None else _as_dtype(fill_value, dtypes.parse(dtype), "full")
    of = type_of(value)
    if of.shape:
        takes, wanted = "a value without dimensions", "a number, or an array of shape ()"
        fix = Fix("broadcast", "use weft.numpy.full, which broadcasts it")
        raise unfit(ShapeError, "full", takes, [f"a value of type {of}"], wanted, fix)
    made = broadcast_in_dim_p.bind(value, shape=lengths, broadcast_dimensions=())
    return made if sharding is None else constrain(made, sharding, "full", "the result")


def _lengths(operation: str, shape: Sequence[int] | int) -> tuple[int, ...]:
    """The shape as Python integers. Raises ShapeError for a negative length."""
    out = (shape,) if isinstance(shape, int) else integers_of(shape, "shape", operation)
    if any(length < 0 for length in out):
        message, got = f"{operation}: a length is negative", f"shape {out}"
        raise ShapeError(message, operation=operation, got=got, wanted="lengths of at least 0")
    return out


def _as_dtype(value: Any, dtype: Any, operation: str) -> Any:
    """Converts a fill value to another dtype: numbers at once, arrays by an operation."""
    if dtypes.is_extended(dtype):
        message, got = f"{operation} cannot make random keys", f"dtype {dtypes.short_name(dtype)}"
        wanted = "a dtype of numbers or booleans"
        fix = Fix("random_key", "make keys with weft.random.key and weft.random.split")
        raise DTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    if isinstance(value, (*_NUMBERS, np.generic)):
        if type(value) is int and dtype in dtypes.INTEGER:
            return dtypes.number(value, dtype, "dtype")
        return cast_values(np.asarray(value), dtype)[()]
    return convert_element_type(value, dtype)


def full_like(
    x: ArrayLike,
    fill_value: Any,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Array:
    """Returns an array of one value, by default of the shape and dtype of `x`.

    fill_value: the value of all elements, a number or an array without dimensions; sharding: where
    the result is put and how it is split over devices; None puts it where an `x` of the same shape
    is.

    Raises DTypeError if that would be an array of random keys.

    >>> lax.full_like(np.array([1.0, 2.0]), 7)
    Array([7., 7.], dtype=float32)
    """
    of = type_of(x)
    target = of.dtype if dtype is None else dtypes.parse(dtype)
    value = _as_dtype(fill_value, target, "full_like")
    made = full(of.shape if shape is None else shape, value, sharding=sharding)
    place = None if sharding is not None else place_of(x, made)
    return made if place is None else to_place(made, place)


def place_of(x: Any, made: Any) -> Any:
    """The place of a new array like `x`: its committed place, or a type's sharding. None for traced
    values and for another shape."""
    if type(made) is not Array or isinstance(x, Tracer) or made.shape != getattr(x, "shape", ()):
        return None
    if type(x) is Array:
        return x._committed_place()
    return None if type(x) is ArrayType else getattr(x, "sharding", None)


def zeros_like_array(x: ArrayLike) -> Array:
    """Returns an array of zeros of the shape and dtype of `x`.

    >>> lax.zeros_like_array(np.array([1.5, 2.0]))
    Array([0., 0.], dtype=float32)
    """
    return full_like(x, 0)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: None = None) -> Array:
    """Returns an array of unspecified elements; here they are zeros.

    >>> lax.empty((2, 3), np.float32).shape
    (2, 3)
    """
    refuse_sharding("empty", out_sharding)
    return full(shape, 0, dtype)


def eye(dtype: Any, shape: Sequence[int], offset: int = 0) -> Any:
    """Returns ones on a diagonal and zeros elsewhere; `offset` counts diagonals upwards."""
    rows, columns = (broadcasted_iota(np.int32, shape, d) for d in (0, 1))
    on_diagonal = eq(add(rows, np.int32(offset)), columns)
    return select(on_diagonal, full(shape, 1, dtype), full(shape, 0, dtype))


def iota(dtype: Any, size: int) -> Array:
    """Returns 0, 1, 2, … as an array of `size` numbers.

    >>> iota(np.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: None = None
) -> Array:
    """Returns an array that counts 0, 1, 2, … along one dimension and repeats along the others.

    dimension: the index of the dimension along which it counts.

    Raises AxisError for a dimension that the shape does not have, DTypeError for booleans.

    >>> lax.broadcasted_iota(np.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    refuse_sharding("broadcasted_iota", out_sharding)
    lengths = _lengths("broadcasted_iota", shape)
    return iota_p.bind(
        dtype=dtypes.parse(dtype),
        shape=lengths,
        dimension=integer_of(dimension, "dimension", "iota"),
    )


def iota_type(*, dtype: Any, shape: tuple[int, ...], dimension: int) -> ArrayType:
    if dtype not in dtypes.NUMERIC:
        got, wanted = f"dtype {dtypes.short_name(dtype)}", "an integer, floating or complex dtype"
        raise DTypeError("iota makes numbers", got=got, wanted=wanted)
    if not 0 <= dimension < len(shape):
        message = f"iota: there is no dimension {dimension} in shape {shape}"
        got = f"dimension {dimension}"
        raise AxisError(message, got=got, wanted=f"0 <= dimension < {len(shape)}")
    return ArrayType(shape, dtype)


def iota_lower(context: Any, *, dtype: Any, shape: tuple[int, ...], dimension: int) -> Any:
    # A device adds the number at which its part starts to numbers that have been rounded already,
    # and the sum is rounded again: so numbers that a float does not hold are counted in integers.
    length = shape[dimension]
    if dtype in dtypes.INEXACT and length > 2 ** (dtypes.finfo(dtype).nmant + 1):
        counter = dtypes.int32 if length < 2**31 else dtypes.int64
        return stablehlo.convert(stablehlo.iota(shape, counter, dimension), dtype)
    return stablehlo.iota(shape, dtype, dimension)


iota_p = primitive(
    "iota", type_rule=iota_type, lower=iota_lower, cheap=True, flops="none", fusible=True
)


# ---- listed integers -------------------------------------------------------------------------


def index_vector(values: Sequence[int]) -> Any:
    """An int32 array of the given integers, a parameter of its equation. Rules list the positions
    of a fixed permutation with it, because they cannot add inputs."""
    return index_vector_p.bind(values=tuple(values))


def index_vector_type(*, values: tuple[int, ...]) -> ArrayType:
    if not all(isinstance(value, int) for value in values):
        message, got = "index_vector lists Python integers", repr(values)[:200]
        raise WeftTypeError(message, got=got, wanted="a tuple of ints")
    return ArrayType((len(values),), np.int32)


index_vector_p = primitive(
    "index_vector",
    type_rule=index_vector_type,
    lower=lambda context, *, values: stablehlo.constant(np.asarray(values, np.int32)),
    cheap=True,
    flops="none",
    fusible=True,
)
# Evaluated without a compilation: every list would need one of its own.
rules.impl.register(index_vector_p, lambda *, values: as_array(np.asarray(values, np.int32)))
