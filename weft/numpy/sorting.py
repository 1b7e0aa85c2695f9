"""Sorting and cumulative sums and products: sort, argsort, lexsort, partition, cumsum, cumprod.

NaN is the greatest number, and of complex numbers the real parts are compared first, as in NumPy.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import ShapeError, WeftValueError
from weft.kinds.arguments import (
    Axis,
    DType,
    Flag,
    Integer,
    Operand,
    Operands,
    Out,
    choice,
    refused_kind,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import axis_of, convert
from weft.numpy.nan_reductions import without_nan
from weft.numpy.reductions import boolean
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.reductions import cumulative
from weft.ops.reductions import sorting as ordering
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reshape

__all__ = [
    "argpartition", "argsort", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "lexsort",
    "nancumprod", "nancumsum", "partition", "sort", "sort_complex",
]  # fmt: skip

Order = Annotated[
    None, refused_kind("it is for structured dtypes, which there are not", "leave it out")
]
Algorithm = Annotated[
    Any,
    choice(
        None, "quicksort", "mergesort", "heapsort", "stable",
        means="a name of one of NumPy's algorithms, without effect",
    ),
]  # fmt: skip


def line(a: Any, axis: int | None) -> tuple[Any, int]:
    """An array and one of its axes; without one, the flattened array and its axis 0."""
    return (a, axis) if axis is not None else (reshape(a, (type_of(a).size,)), 0)


# ---- sorting -------------------------------------------------------------------------------------


def sorted_along(a: Any, axis: int, stable: bool = True, descending: bool = False) -> Any:
    """The elements in order."""
    out = ordering.sort(a, axis, is_stable=stable)
    return rev(out, (axis,)) if descending else out


def order_along(a: Any, axis: int, stable: bool = True, descending: bool = False) -> Any:
    """The positions of the elements in order."""
    # Equal elements keep their order also when descending: sort the reversed array, count back.
    x = rev(a, (axis,)) if descending else a
    index = broadcasted_iota(dtypes.default_int(), type_of(a).shape, axis)
    index = rev(index, (axis,)) if descending else index
    out = ordering.sort((x, index), axis, is_stable=stable, num_keys=1)[1]
    return rev(out, (axis,)) if descending else out


@array_function
def sort(
    a: Operand,
    axis: Axis = -1,
    *,
    kind: Algorithm = None,
    order: Order = None,
    stable: Flag = True,
    descending: Flag = False,
) -> Array:
    """The elements in increasing order along `axis` (None: of the flattened array).

    stable: whether equal elements keep their order. kind: a name of one of NumPy's algorithms,
    without effect. order: must be None, because there are no structured dtypes. descending: in
    decreasing order, NaN first.

    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    return sorted_along(*line(a, axis), stable, descending)


@array_function
def argsort(
    a: Operand,
    axis: Axis = -1,
    *,
    kind: Algorithm = None,
    order: Order = None,
    stable: Flag = True,
    descending: Flag = False,
    dtype: DType = None,
) -> Array:
    """The positions that put the elements in increasing order along `axis`.

    stable: whether equal elements keep their order. kind: a name of one of NumPy's algorithms,
    without effect. order: must be None, because there are no structured dtypes. descending: in
    decreasing order, NaN first. dtype: of the positions, an integer one.

    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    out = order_along(*line(a, axis), stable, descending)
    return out if dtype is None else convert(out, dtype)


@array_function
def sort_complex(a: Operand) -> Array:
    """The elements along the last axis in increasing order, as complex numbers.

    >>> jnp.sort_complex(jnp.array([2.0, 1.0 + 1j, 1.0]))
    Array([1.+0.j, 1.+1.j, 2.+0.j], dtype=complex64)
    """
    x = convert(a, dtypes.to_complex(type_of(a).dtype))
    return sorted_along(x, axis_of(-1, type_of(x).ndim, "sort_complex"))


@array_function
def lexsort(keys: Operands, axis: Integer = -1) -> Array:
    """The positions that sort by several keys of one shape: the last one counts first.

    keys: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.lexsort((jnp.array([3, 1, 2]), jnp.array([0, 0, 0])))
    Array([1, 2, 0], dtype=int32)
    """
    if not keys:
        raise WeftValueError("there are no keys", got="no keys")
    shapes = {x.shape for x in keys}
    if len(shapes) > 1:
        got = ", ".join(str(x.type) for x in keys)
        raise ShapeError("the keys are not of one shape", got=got, wanted="equal shapes")
    (shape,) = shapes
    if not shape:
        return as_array(np.zeros((), dtypes.default_int()))
    axis = axis_of(axis, len(shape), "lexsort")
    index = broadcasted_iota(dtypes.default_int(), shape, axis)
    return ordering.sort((*reversed(keys), index), axis, num_keys=len(keys))[-1]


def _check_kth(a: Any, kth: int, axis: int) -> None:
    """Raises WeftValueError if a position is out of range."""
    length = type_of(a).shape[axis]
    if not -length <= kth < length:
        raise WeftValueError("kth is out of range", got=f"kth={kth} of {length} elements")


@array_function
def partition(a: Operand, kth: Integer, axis: Axis = -1) -> Array:
    """The elements along `axis` with the one at `kth` where sorting would put it.

    Smaller ones come before it, others behind. The order within the two parts is that of sorting.

    >>> jnp.partition(jnp.array([3, 1, 2]), 0)[0]
    Array(1, dtype=int32)
    """
    a, axis = line(a, axis)
    _check_kth(a, kth, axis)
    return sorted_along(a, axis)


@array_function
def argpartition(a: Operand, kth: Integer, axis: Axis = -1) -> Array:
    """The positions that put the elements along `axis` in the order of `partition`.

    kth: the position for which sorting decides which element comes there.

    >>> jnp.argpartition(jnp.array([3, 1, 2]), 1)[1]
    Array(2, dtype=int32)
    """
    a, axis = line(a, axis)
    _check_kth(a, kth, axis)
    return order_along(a, axis)


# ---- cumulative sums and products ----------------------------------------------------------------


def accumulate(unit: int, a: Any, axis: int, dtype: Any, initial: bool = False) -> Any:
    """Cumulative sums (unit 0) or products (unit 1)."""
    operand_dtype = type_of(a).dtype
    target = dtype or (dtypes.default_int() if operand_dtype == dtypes.bool_ else operand_dtype)
    if target == dtypes.bool_:
        # Sums and products of booleans are "any" and "all", which no integer counts wrongly.
        x = convert(boolean(a), dtypes.int32)
        out = (cumulative.cummin if unit else cumulative.cummax)(x, axis)
    else:
        x = convert(a, accumulator(target))
        out = (cumulative.cumprod if unit else cumulative.cumsum)(x, axis)
    out = convert(out, target)
    if initial:
        shape = tuple(1 if d == axis else n for d, n in enumerate(type_of(a).shape))
        out = concatenate([broadcast_in_dim(target.type(unit), shape, ()), out], axis)
    return out


@array_function
def cumsum(a: Operand, axis: Axis = None, dtype: DType = None, out: Out = None) -> Array:
    """The sums of the elements up to each one along `axis` (None: of the flattened array).

    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return accumulate(0, *line(a, axis), dtype)


@array_function
def cumprod(a: Operand, axis: Axis = None, dtype: DType = None, out: Out = None) -> Array:
    """The products of the elements up to each one along `axis`.

    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return accumulate(1, *line(a, axis), dtype)


@array_function
def nancumsum(a: Operand, axis: Axis = None, dtype: DType = None, out: Out = None) -> Array:
    """The sums of the elements up to each one along `axis`, NaN counted as 0.

    >>> jnp.nancumsum(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 5.], dtype=float32)
    """
    return accumulate(0, *line(without_nan(a, 0), axis), dtype)


@array_function
def nancumprod(a: Operand, axis: Axis = None, dtype: DType = None, out: Out = None) -> Array:
    """The products of the elements up to each one along `axis`, NaN counted as 1.

    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return accumulate(1, *line(without_nan(a, 1), axis), dtype)


def _cumulate(unit: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    """`accumulate` as in the array API standard: narrow integers are widened."""
    of = type_of(x)
    if of.ndim == 0:
        raise ShapeError("it takes an array with dimensions", got=str(of))
    if axis is None and of.ndim > 1:
        message = "an array of several dimensions needs axis="
        raise WeftValueError(message, got=str(of), wanted="axis")
    if dtype is None and of.dtype in dtypes.INTEGER:
        default = dtypes.default_int() if of.dtype in dtypes.SIGNED else dtypes.default_uint()
        dtype = dtypes.promote_types(of.dtype, default)
    return accumulate(unit, x, axis or 0, dtype, include_initial)


@array_function
def cumulative_sum(
    x: Operand, /, *, axis: Axis = None, dtype: DType = None, include_initial: Flag = False
) -> Array:
    """The sums of the elements up to each one along `axis`.

    include_initial: whether the result begins with the sum of no elements, 0.

    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulate(0, x, axis, dtype, include_initial)


@array_function
def cumulative_prod(
    x: Operand, /, *, axis: Axis = None, dtype: DType = None, include_initial: Flag = False
) -> Array:
    """The products of the elements up to each one along `axis`.

    include_initial: whether the result begins with the product of no elements, 1.

    >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulate(1, x, axis, dtype, include_initial)
