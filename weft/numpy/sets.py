"""Sets of values: unique, union, intersection, difference.

The number of values depends on the elements: they are concrete, or `size=` fixes the shape.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.marked_lists import marked
from weft.core.types import type_of
from weft.errors import Fix, WeftValueError
from weft.kinds.checks import (
    axis_of,
    broadcasted,
    check_fill,
    check_flag,
    check_flags,
    convert,
    length_of,
    operand,
    promoted,
)
from weft.kinds.compiled_functions import compiled, is_eager
from weft.kinds.numbers import number_for, promote_operands
from weft.numpy.choosing import compress, flat_nonzero, known
from weft.numpy.joining import concatenate
from weft.numpy.nan_reductions import is_nan
from weft.numpy.searching import isin
from weft.numpy.taking import take_axis
from weft.ops.elementwise.arithmetic import eq, ge, ne, sub
from weft.ops.elementwise.bits import bitwise_and, bitwise_not
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import iota
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.sorting import sort
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.shape import broadcast_in_dim, reshape, transpose
from weft.typing import ArrayLike

__all__ = [
    "intersect1d", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

INT32 = np.dtype(np.int32)


@compiled
def _grouped(rows: Any, *, equal_nan: bool) -> tuple[Any, Any, Any]:
    """Sorts rows; returns their positions before, where each value begins, each value's number."""
    n, k = type_of(rows).shape
    columns = [reshape(slice_in_dim(rows, i, i + 1, axis=1), (n,)) for i in range(k)]
    if not k:
        columns = [broadcasted(np.int32(0), (n,))]
    found = sort((*columns, iota(INT32, n)), 0, num_keys=len(columns))
    order = found[-1]
    differs = broadcasted(np.bool_(False), (max(n - 1, 0),))
    for column in found[:-1]:
        above, below = slice_in_dim(column, 0, n - 1), slice_in_dim(column, 1, n)
        new = ne(above, below)
        if equal_nan and type_of(column).dtype in dtypes.INEXACT:
            new = bitwise_and(new, bitwise_not(bitwise_and(is_nan(above), is_nan(below))))
        differs = bitwise_not(bitwise_and(bitwise_not(differs), bitwise_not(new)))
    first = join([broadcasted(np.bool_(True), (1,)), differs], 0)
    return order, first, sub(cumsum(convert(first, INT32), 0), np.int32(1))


@compiled
def _unique(
    rows: Any, order: Any, first: Any, number: Any, *fill: Any, size: int
) -> tuple[Any, Any, Any, Any]:
    """The values, the position of the first of each, the number of each row's value, the counts."""
    n, k = type_of(rows).shape
    dtype = dtypes.default_int()
    # One more than is wanted ends the last value.
    ends, count = flat_nonzero(first, size + 1)
    beyond = ge(iota(INT32, size + 1), broadcasted(count, (size + 1,)))
    ends = select(beyond, broadcasted(np.int32(n), (size + 1,)), ends)
    counts = sub(slice_in_dim(ends, 1, None), slice_in_dim(ends, 0, size))
    missing = slice_in_dim(beyond, 0, size)
    index = take_axis(order, slice_in_dim(ends, 0, size), 0, "clip")
    values = take_axis(rows, index, 0, "clip")
    # By default the first and smallest value, the only one that always exists.
    value = convert(fill[0], type_of(rows).dtype) if fill else slice_in_dim(values, 0, min(1, size))
    value = broadcasted(value, (size, k))
    values = select(broadcast_in_dim(missing, (size, k), (0,)), value, values)
    zero = broadcasted(np.int32(0), (n,))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    inverse = scatter(zero, reshape(order, (n, 1)), number, numbers)
    index = select(missing, broadcasted(slice_in_dim(index, 0, min(1, size)), (size,)), index)
    return values, convert(index, dtype), convert(inverse, dtype), convert(counts, dtype)


def _all_of(
    operation: str, ar: Any, axis: int | None, equal_nan: bool, size: Any, fill_value: Any
) -> tuple[Any, Any, Any, Any]:
    ar = operand(operation, ar)
    check_fill(fill_value, size, operation)
    of = type_of(ar)
    fill_value = number_for(operation, fill_value, of.dtype)
    order: tuple[int, ...] = ()
    if axis is None:
        rows: Any = reshape(ar, (of.size, 1))
    else:
        place = axis_of(axis, of.ndim, operation)
        order = (place, *(d for d in range(of.ndim) if d != place))
        rows = transpose(ar, order)
        rows = reshape(rows, (of.shape[place], of.size // max(1, of.shape[place])))
    n = type_of(rows).shape[0]
    if size is None:
        known(ar, operation, "pass size=, a bound on the number of values")
    if not n:
        return _of_nothing(operation, ar, axis, size, fill_value)
    grouped = _grouped(rows, equal_nan=equal_nan)
    if size is None:
        last = grouped[2][n - 1]
        wanted = int(np.asarray(last.concrete() if not isinstance(last, Array) else last)) + 1
    else:
        wanted = length_of(size, operation, "size")
    fill = () if fill_value is None else (as_array(fill_value) if is_eager() else fill_value,)
    values, index, inverse, counts = _unique(rows, *grouped, *fill, size=wanted)
    if axis is None:
        values = reshape(values, (wanted,))
        inverse = reshape(inverse, of.shape)
    else:
        values = reshape(values, (wanted, *(of.shape[d] for d in order[1:])))
        values = transpose(values, tuple(order.index(d) for d in range(of.ndim)))
    return values, index, inverse, counts


def _of_nothing(
    operation: str, ar: Any, axis: int | None, size: Any, fill_value: Any
) -> tuple[Any, Any, Any, Any]:
    """What `_all_of` gives if there are no values: as many fill values as `size` wants."""
    of, count = type_of(ar), 0 if size is None else length_of(size, operation, "size")
    if count and fill_value is None:
        message = f"{operation}: size={count} values of no elements"
        fix = Fix("fill", "pass fill_value=, the value of those missing", {"fill_value": 0})
        raise refusal(WeftValueError, message, operation, str(of), "a fill_value", fix)
    place = None if axis is None else axis_of(axis, of.ndim, operation)
    shape = (count,) if place is None else (*of.shape[:place], count, *of.shape[place + 1 :])
    values = broadcasted(convert(0 if fill_value is None else fill_value, of.dtype), shape)
    dtype = dtypes.default_int()
    none = as_array(np.zeros((0,), dtype))
    inverse = as_array(np.zeros(of.shape if place is None else (0,), dtype))
    return values, none, inverse, none


@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> Array: ...
@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    *,
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[True],
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[False] = ...,
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[False] = ...,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def unique(
    ar: Any,
    *,
    return_index: Literal[True],
    return_inverse: Literal[True],
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> tuple[Array, Array, Array, Array]: ...
@overload
def unique(
    ar: Any,
    return_index: bool = ...,
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: Any = ...,
    sorted: bool = ...,
) -> Any: ...
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The different values in increasing order, of all elements or of the slices along `axis`.

    ar: any shape. return_index: also the position of the first of each; return_inverse: also the
    number of each element's value; return_counts: also how often each occurs. equal_nan: whether
    all NaN are one value. size: how many values to return, needed if the array is traced: further
    ones are cut off. fill_value: what stands for missing ones, by default the smallest value.
    sorted: without effect, because the values are in order anyway.

    Raises ConcretizationError for a traced array without `size`.

    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    check_flags("unique", return_index=return_index, return_inverse=return_inverse)
    check_flags("unique", return_counts=return_counts, equal_nan=equal_nan, sorted=sorted)
    found = _all_of("unique", ar, axis, bool(equal_nan), size, fill_value)
    chosen = marked((True, return_index, return_inverse, return_counts), found)
    return chosen[0] if len(chosen) == 1 else tuple(chosen)


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The different values, the first position of each, each element's value's number, the counts.

    Each NaN is a value of its own. size, fill_value: as in `unique`.

    >>> jnp.unique_all(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return UniqueAll(*_all_of("unique_all", x, None, False, size, fill_value))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCounts:
    """The different values and how often each occurs; each NaN is a value of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    found = _all_of("unique_counts", x, None, False, size, fill_value)
    return UniqueCounts(found[0], found[3])


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverse:
    """The different values and the number of each element's value; each NaN is one of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    found = _all_of("unique_inverse", x, None, False, size, fill_value)
    return UniqueInverse(found[0], found[2])


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The different values; each NaN is a value of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return _all_of("unique_values", x, None, False, size, fill_value)[0]


def _flat(x: Any) -> Any:
    return reshape(x, (type_of(x).size,))


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The different values of two arrays, in increasing order; size, fill_value: as in `unique`.

    ar1, ar2: any shapes; the elements of both are taken together. The result has one dimension.
    Raises ConcretizationError under `jit` without `size`.

    >>> jnp.union1d(jnp.array([3, 1]), jnp.array([1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    ar1, ar2 = promote_operands("union1d", ar1, ar2)
    both = concatenate([_flat(ar1), _flat(ar2)])
    return unique(both, size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The different values of `ar1` that are not in `ar2`, in increasing order.

    assume_unique: promises that no value is twice in `ar1`; the result then has their order there.
    size: how many values to return, needed if the arrays are traced. fill_value: what stands for
    missing ones, by default 0.

    The result has one dimension. Raises ConcretizationError under `jit` without `size`.

    >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    check_flag(assume_unique, "setdiff1d", "assume_unique")
    ar1, ar2 = promote_operands("setdiff1d", ar1, ar2)
    check_fill(fill_value, size, "setdiff1d")
    values = _flat(ar1) if assume_unique or size is not None else unique(ar1)
    mask = isin(values, ar2, invert=True)
    if size is not None and not assume_unique:
        values, _, mask = _different(values, mask)
    return compress(mask, values, size=size, fill_value=fill_value)


@compiled
def _different(values: Any, valid: Any) -> tuple[Any, Any, Any]:
    """The valid values in increasing order, their positions, and the first of each value."""
    n = type_of(values).shape[0]
    last = convert(bitwise_not(valid), INT32)
    last, values, places = sort((last, values, iota(INT32, n)), 0, num_keys=2)
    above, below = slice_in_dim(values, 0, max(n - 1, 0)), slice_in_dim(values, min(n, 1), n)
    new = ne(above, below)
    if type_of(values).dtype in dtypes.INEXACT:
        new = bitwise_and(new, bitwise_not(bitwise_and(is_nan(above), is_nan(below))))
    first = join([broadcasted(np.bool_(True), (min(n, 1),)), new], 0)
    return values, places, bitwise_and(first, eq(last, np.int32(0)))


def _least_or(fill_value: Any, values: Any, mask: Any) -> Any:
    """What fills up sorted values: by default the first of those chosen, or 0 if there is none."""
    if fill_value is not None:
        return fill_value
    return reshape(compress(mask, values, size=1), ())


@compiled
def _shared(a: Any, b: Any, *, both: bool) -> tuple[Any, Any, Any]:
    """Two sets of different values in one order, and which of them are in both (or in one)."""
    a, b = promoted("intersect1d", a, b)
    n = type_of(a).shape[0] + type_of(b).shape[0]
    values, order = sort((join([a, b], 0), iota(INT32, n)), 0, num_keys=1)
    after = eq(slice_in_dim(values, 0, n - 1), slice_in_dim(values, 1, n)) if n else None
    no = broadcasted(np.bool_(False), (min(n, 1),))
    same_next = join([after, no], 0) if n else no
    if both:
        return values, order, same_next
    same_last = join([no, after], 0) if n else no
    return values, order, bitwise_and(bitwise_not(same_next), bitwise_not(same_last))


@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = ...,
    return_indices: Literal[False] = ...,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> Array: ...
@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = ...,
    *,
    return_indices: Literal[True],
    size: int | None = ...,
    fill_value: Any = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = ...,
    return_indices: bool = ...,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> Any: ...
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The values that are in both arrays, in increasing order.

    return_indices: also the first position of each in both. size: how many values to return, needed
    if the arrays are traced. fill_value: what stands for missing ones, by default the smallest
    value found. ar1, ar2: any shapes. assume_unique: promises that no value is in one array twice.

    >>> jnp.intersect1d(jnp.array([1, 2, 3]), jnp.array([3, 2, 7]))
    Array([2, 3], dtype=int32)
    """
    check_flags("intersect1d", assume_unique=assume_unique, return_indices=return_indices)
    ar1, ar2 = promote_operands("intersect1d", ar1, ar2)
    check_fill(fill_value, size, "intersect1d")
    if size is not None:
        return _intersect_traced(ar1, ar2, size, fill_value, return_indices)
    (a, a_index), (b, b_index) = [
        (_flat(x), None) if assume_unique else unique(x, return_index=True) for x in (ar1, ar2)
    ]
    values, order, mask = _shared(a, b, both=True)
    found = compress(mask, values)
    if not return_indices:
        return found
    places = np.nonzero(np.asarray(mask))[0]
    where = np.asarray(order)
    one, two = where[places], where[places + 1] - type_of(a).shape[0]
    if a_index is not None:
        one, two = np.asarray(a_index)[one], np.asarray(b_index)[two]
    dtype = dtypes.default_int()
    return found, as_array(one.astype(dtype)), as_array(two.astype(dtype))


def _intersect_traced(a: Any, b: Any, size: int, fill_value: Any, return_indices: bool) -> Any:
    a, b = _flat(a), _flat(b)
    found: list[Any] = []
    for one, other in ((a, b), (b, a))[: 2 if return_indices else 1]:
        values, places, mask = _different(one, isin(one, other))
        if not found:
            found.append(
                compress(mask, values, size=size, fill_value=_least_or(fill_value, values, mask))
            )
        found.append(compress(mask, places, size=size, fill_value=type_of(one).size))
    return tuple(found) if return_indices else found[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The values that are in exactly one of the arrays, in increasing order.

    size: how many values to return, needed if the arrays are traced. fill_value: what stands for
    missing ones, by default the smallest value found. ar1, ar2: any shapes. assume_unique: promises
    that no value is in one array twice.

    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    check_flag(assume_unique, "setxor1d", "assume_unique")
    ar1, ar2 = promote_operands("setxor1d", ar1, ar2)
    check_fill(fill_value, size, "setxor1d")
    a, b = _flat(ar1), _flat(ar2)
    if size is not None and not assume_unique:
        valid = join([isin(a, b, invert=True), isin(b, a, invert=True)], 0)
        values, _, mask = _different(concatenate([a, b]), valid)
    else:
        a, b = (a, b) if assume_unique else (unique(a), unique(b))
        values, _, mask = _shared(a, b, both=False)
    if size is None:
        return compress(mask, values)
    return compress(mask, values, size=size, fill_value=_least_or(fill_value, values, mask))
