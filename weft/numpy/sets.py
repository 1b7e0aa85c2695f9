"""Sets of values: unique, union, intersection, difference.

The number of values depends on the elements: they are concrete, or `size=` fixes the shape.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, NamedTuple, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.util import keep_marked
from weft.core.trace import Tracer
from weft.errors import Fix, WeftValueError
from weft.kinds.arguments import (
    NEVER,
    Axis,
    Flag,
    Operand,
    Passed,
    Prepared,
    Promoted,
    promoted_kind,
)  # fmt: skip
from weft.kinds.array_function import private_function, python_function
from weft.kinds.checks import broadcasted, check_fill, convert, length_of
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.choosing import compress, concrete_values, flat_nonzero
from weft.numpy.nan_reductions import is_nan
from weft.numpy.searching import isin
from weft.numpy.taking import take_axis
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.sorting import sort
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.shape import broadcast_in_dim, transpose

__all__ = [
    "intersect1d", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

INT32 = np.dtype(np.int32)


# ---- kinds ---------------------------------------------------------------------------------------


def _size(value: Any, call: Arguments) -> int | None:
    if value is not None:
        return length_of(value, call.name)
    for x in call.values():
        if isinstance(x, Tracer):
            concrete_values(x, "pass size=, a bound on the number of values")
    return None


def _fill(value: Any, call: Arguments) -> Any:
    check_fill(value, call["size"])
    return number_for(value, call.type.dtype)


# A number gets the dtype of an array beside it; arrays keep their own.
Compared = Annotated[Any, dataclasses.replace(promoted_kind, together=lambda name, values: values)]
_SIZE = "an integer of 0 or more, or None"
Size = Annotated[int | None, Kind(_size, _SIZE, (-1, 0.5), plain=NEVER)]
FillValue = Annotated[Any, Kind(_fill, "a number, with size=", (1,))]


# ---- different values ----------------------------------------------------------------------------


def _differ(above: Any, below: Any, equal_nan: bool) -> Any:
    """Whether neighbours differ; `equal_nan`: all NaN are one value."""
    out = above != below
    if equal_nan and above.dtype in dtypes.INEXACT:
        out = out & ~(is_nan(above) & is_nan(below))
    return out


@private_function
def _group_rows(rows: Prepared, *, equal_nan: Passed) -> tuple[Any, Any, Any]:
    """Sorts rows; returns their old positions, the first of each value, and each row's value
    number."""
    n, k = rows.shape
    columns = [slice_in_dim(rows, i, i + 1, axis=1).reshape(n) for i in range(k)]
    if not k:
        columns = [full((n,), 0, INT32)]
    found = sort((*columns, iota(INT32, n)), 0, num_keys=len(columns))
    differs = full((max(n - 1, 0),), False)
    for column in found[:-1]:
        above, below = slice_in_dim(column, 0, n - 1), slice_in_dim(column, 1, n)
        differs = differs | _differ(above, below, equal_nan)
    first = join([full((1,), True), differs], 0)
    return found[-1], first, cumsum(first.astype(INT32), 0) - 1


@private_function
def _unique(
    rows: Prepared,
    order: Prepared,
    first: Prepared,
    number: Prepared,
    fill: Prepared | None,
    *,
    size: Passed,
) -> tuple[Any, Any, Any, Any]:
    """The values, the first position of each, each row's value number, and the counts."""
    n, k = rows.shape
    dtype = dtypes.default_int()
    # One more than is wanted ends the last value.
    ends, count = flat_nonzero(first, size + 1)
    beyond = iota(INT32, size + 1) >= count
    ends = select(beyond, full((size + 1,), n, INT32), ends)
    counts = slice_in_dim(ends, 1, None) - slice_in_dim(ends, 0, size)
    missing = slice_in_dim(beyond, 0, size)
    index = take_axis(order, slice_in_dim(ends, 0, size), 0, "clip")
    values = take_axis(rows, index, 0, "clip")
    # By default the first and smallest value, the only one that always exists.
    least = slice_in_dim(values, 0, min(1, size))
    value = least if fill is None else convert(fill, rows.dtype)
    missing_rows = broadcast_in_dim(missing, (size, k), (0,))
    values = select(missing_rows, broadcasted(value, (size, k)), values)
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    inverse = scatter(full((n,), 0, INT32), order.reshape(n, 1), number, numbers)
    index = select(missing, broadcasted(slice_in_dim(index, 0, min(1, size)), (size,)), index)
    return values, index.astype(dtype), inverse.astype(dtype), counts.astype(dtype)


def _all_of(
    ar: Any, axis: int | None, equal_nan: bool, size: int | None, fill_value: Any
) -> tuple[Any, Any, Any, Any]:
    order: tuple[int, ...] = ()
    if axis is None:
        rows = ar.reshape(ar.size, 1)
    else:
        order = (axis, *(d for d in range(ar.ndim) if d != axis))
        n = ar.shape[axis]
        rows = transpose(ar, order).reshape(n, ar.size // max(1, n))
    if not len(rows):
        return _of_nothing(ar, axis, size or 0, fill_value)
    grouped = _group_rows(rows, equal_nan=equal_nan)
    if size is None:
        last = grouped[2][len(rows) - 1]
        size = int(np.asarray(last.concrete() if isinstance(last, Tracer) else last)) + 1
    values, index, inverse, counts = _unique(rows, *grouped, fill_value, size=size)
    if axis is None:
        values, inverse = values.reshape(size), inverse.reshape(ar.shape)
    else:
        values = values.reshape(size, *(ar.shape[d] for d in order[1:]))
        values = transpose(values, tuple(order.index(d) for d in range(ar.ndim)))
    return values, index, inverse, counts


def _of_nothing(
    ar: Any, axis: int | None, count: int, fill_value: Any
) -> tuple[Any, Any, Any, Any]:
    """The result of `_all_of` without values: as many fill values as wanted."""
    if count and fill_value is None:
        fix = Fix("fill", "pass fill_value=, the value of those missing", {"fill_value": 0})
        message, got = f"size={count} values of no elements", str(ar.type)
        raise WeftValueError(message, got=got, wanted="a fill_value", fix=fix)
    shape = (count,) if axis is None else (*ar.shape[:axis], count, *ar.shape[axis + 1 :])
    values = broadcasted(convert(0 if fill_value is None else fill_value, ar.dtype), shape)
    dtype = dtypes.default_int()
    none = as_array(np.zeros((0,), dtype))
    inverse = as_array(np.zeros(ar.shape if axis is None else (0,), dtype))
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
@python_function
def unique(
    ar: Operand, return_index: Flag = False, return_inverse: Flag = False, return_counts: Flag =
    False, axis: Axis = None, *, equal_nan: Flag = True, size: Size = None, fill_value: FillValue =
    None, sorted: Flag = True,
) -> Any:  # fmt: skip
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
    found = _all_of(ar, axis, equal_nan, size, fill_value)
    chosen = keep_marked((True, return_index, return_inverse, return_counts), found)
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


@python_function
def unique_all(x: Operand, /, *, size: Size = None, fill_value: FillValue = None) -> UniqueAll:
    """The different values, the first position of each, each element's value's number, the counts.

    Each NaN is a value of its own. size, fill_value: as in `unique`.

    >>> jnp.unique_all(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return UniqueAll(*_all_of(x, None, False, size, fill_value))


@python_function
def unique_counts(
    x: Operand, /, *, size: Size = None, fill_value: FillValue = None
) -> UniqueCounts:
    """The different values and how often each occurs; each NaN is a value of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    found = _all_of(x, None, False, size, fill_value)
    return UniqueCounts(found[0], found[3])


@python_function
def unique_inverse(
    x: Operand, /, *, size: Size = None, fill_value: FillValue = None
) -> UniqueInverse:
    """The different values and the number of each element's value; each NaN is one of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    found = _all_of(x, None, False, size, fill_value)
    return UniqueInverse(found[0], found[2])


@python_function
def unique_values(x: Operand, /, *, size: Size = None, fill_value: FillValue = None) -> Array:
    """The different values; each NaN is a value of its own.

    size, fill_value: as in `unique`.

    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return _all_of(x, None, False, size, fill_value)[0]


# ---- two sets ------------------------------------------------------------------------------------


@python_function
def union1d(
    ar1: Promoted, ar2: Promoted, *, size: Size = None, fill_value: FillValue = None
) -> Array:
    """The different values of two arrays, in increasing order; size, fill_value: as in `unique`.

    ar1, ar2: any shapes; the elements of both are taken together. The result has one dimension.
    Raises ConcretizationError under `jit` without `size`.

    >>> jnp.union1d(jnp.array([3, 1]), jnp.array([1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    both = join([ar1.reshape(-1), ar2.reshape(-1)], 0)
    return unique(both, size=size, fill_value=fill_value)


@python_function
def setdiff1d(
    ar1: Compared, ar2: Compared, assume_unique: Flag = False, *, size: Size = None, fill_value:
    FillValue = None,
) -> Array:  # fmt: skip
    """The different values of `ar1` that are not in `ar2`, in increasing order.

    assume_unique: promises that no value is twice in `ar1`; the result then has their order there.
    size: how many values to return, needed if the arrays are traced. fill_value: what stands for
    missing ones, by default 0.

    The result has one dimension. Raises ConcretizationError under `jit` without `size`.

    >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    values = ar1.reshape(-1) if assume_unique or size is not None else unique(ar1)
    mask = isin(values, ar2, invert=True)
    if size is not None and not assume_unique:
        values, _, mask = _distinct_values(values, mask)
    return compress(mask, values, size=size, fill_value=fill_value)


@private_function
def _distinct_values(values: Prepared, valid: Prepared) -> tuple[Any, Any, Any]:
    """The valid values in increasing order, their positions, and the first of each value."""
    n = values.size
    last, values, places = sort(((~valid).astype(INT32), values, iota(INT32, n)), 0, num_keys=2)
    above, below = slice_in_dim(values, 0, max(n - 1, 0)), slice_in_dim(values, min(n, 1), n)
    first = join([full((min(n, 1),), True), _differ(above, below, True)], 0)
    return values, places, first & (last == 0)


def _least_or(fill_value: Any, values: Any, mask: Any) -> Any:
    """The value that fills up sorted values: by default the smallest one, or 0 for none."""
    if fill_value is not None:
        return fill_value
    return compress(mask, values, size=1).reshape(())


@private_function
def _merge_sets(a: Prepared, b: Prepared, *, both: Passed) -> tuple[Any, Any, Any]:
    """Merges two sets in order, and marks values that are in both (or in one)."""
    n = a.size + b.size
    values, order = sort((join([a, b], 0), iota(INT32, n)), 0, num_keys=1)
    no = full((min(n, 1),), False)
    after = [slice_in_dim(values, 0, n - 1) == slice_in_dim(values, 1, n)] if n else []
    same_next = join([*after, no], 0)
    if both:
        return values, order, same_next
    return values, order, ~same_next & ~join([no, *after], 0)


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
@python_function
def intersect1d(
    ar1: Promoted, ar2: Promoted, assume_unique: Flag = False, return_indices: Flag = False, *,
    size: Size = None, fill_value: FillValue = None,
) -> Any:  # fmt: skip
    """The values that are in both arrays, in increasing order.

    return_indices: also the first position of each in both. size: how many values to return, needed
    if the arrays are traced. fill_value: what stands for missing ones, by default the smallest
    value found. ar1, ar2: any shapes. assume_unique: promises that no value is in one array twice.

    >>> jnp.intersect1d(jnp.array([1, 2, 3]), jnp.array([3, 2, 7]))
    Array([2, 3], dtype=int32)
    """
    if size is not None:
        return _intersect_traced(ar1, ar2, size, fill_value, return_indices)
    (a, a_index), (b, b_index) = [
        (x.reshape(-1), None) if assume_unique else unique(x, return_index=True) for x in (ar1, ar2)
    ]
    values, order, mask = _merge_sets(a, b, both=True)
    out = compress(mask, values)
    if not return_indices:
        return out
    places = np.nonzero(np.asarray(mask))[0]
    where = np.asarray(order)
    one, two = where[places], where[places + 1] - a.size
    if a_index is not None:
        one, two = np.asarray(a_index)[one], np.asarray(b_index)[two]
    dtype = dtypes.default_int()
    return out, as_array(one.astype(dtype)), as_array(two.astype(dtype))


def _intersect_traced(a: Any, b: Any, size: int, fill_value: Any, return_indices: bool) -> Any:
    a, b = a.reshape(-1), b.reshape(-1)
    found: list[Any] = []
    for one, other in ((a, b), (b, a))[: 2 if return_indices else 1]:
        values, places, mask = _distinct_values(one, isin(one, other))
        if not found:
            fill = _least_or(fill_value, values, mask)
            found.append(compress(mask, values, size=size, fill_value=fill))
        found.append(compress(mask, places, size=size, fill_value=one.size))
    return tuple(found) if return_indices else found[0]


@python_function
def setxor1d(
    ar1: Promoted, ar2: Promoted, assume_unique: Flag = False, *, size: Size = None, fill_value:
    FillValue = None,
) -> Array:  # fmt: skip
    """The values that are in exactly one of the arrays, in increasing order.

    size: how many values to return, needed if the arrays are traced. fill_value: what stands for
    missing ones, by default the smallest value found. ar1, ar2: any shapes. assume_unique: promises
    that no value is in one array twice.

    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    a, b = ar1.reshape(-1), ar2.reshape(-1)
    if size is not None and not assume_unique:
        valid = join([isin(a, b, invert=True), isin(b, a, invert=True)], 0)
        values, _, mask = _distinct_values(join([a, b], 0), valid)
    else:
        a, b = (a, b) if assume_unique else (unique(a), unique(b))
        values, _, mask = _merge_sets(a, b, both=False)
    if size is None:
        return compress(mask, values)
    return compress(mask, values, size=size, fill_value=_least_or(fill_value, values, mask))
