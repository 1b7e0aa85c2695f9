"""Choosing and finding elements: where, nonzero, argmax, searchsorted, take, select, isin.

What depends on how many elements fulfil a condition has a shape that only the values know: such
functions run on known values, or under tracing with `size=`, which fixes the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.array import as_array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ConcretizationError, Fix, ShapeError, WeftTypeError, WeftValueError
from weft.numpy.arguments import (
    axis_of,
    broadcast_shape,
    broadcasted,
    check_arrays,
    convert,
    inexact,
    integer_of,
    promoted,
    refuse_out,
    strong,
)
from weft.numpy.compiled import compiled, is_eager
from weft.numpy.indexing import counted_from_start
from weft.numpy.joining import static_array
from weft.numpy.reductions import boolean, is_nan, kept, without_nan
from weft.ops import argreduce, slicing
from weft.ops.arithmetic import add, div, eq, ge, le, lt, mul, rem, sub
from weft.ops.arithmetic import max as larger
from weft.ops.arithmetic import min as smaller
from weft.ops.bits import bitwise_and, bitwise_not, bitwise_or
from weft.ops.creation import iota
from weft.ops.cumulative import cumsum
from weft.ops.gather import GatherDimensionNumbers, gather
from weft.ops.joining import concatenate, rev
from weft.ops.reduce import highest, lowest, reduce_and, reduce_or
from weft.ops.scatter import ScatterDimensionNumbers, scatter
from weft.ops.selection import select as choose_elements
from weft.ops.shape import broadcast_in_dim, reduce_sum, reshape
from weft.ops.sorting import sort

__all__ = [
    "argmax",
    "argmin",
    "argwhere",
    "choose",
    "compress",
    "digitize",
    "extract",
    "flatnonzero",
    "interp",
    "isin",
    "nanargmax",
    "nanargmin",
    "nonzero",
    "piecewise",
    "place",
    "put",
    "put_along_axis",
    "searchsorted",
    "select",
    "take",
    "take_along_axis",
    "where",
]

INT32 = np.dtype(np.int32)


def known(value: Any, operation: str, fix: str) -> np.ndarray[Any, Any]:
    """The values of an operand whose values decide a shape. Raises ConcretizationError."""
    concrete = value.concrete() if isinstance(value, Tracer) else value
    if concrete is None:
        raise ConcretizationError(
            f"{operation}: how many elements there are decides the shape of the result, so the "
            "values must be known while tracing",
            operation=operation,
            got=value.describe(),
            wanted="a known array, or size=",
            fix=Fix("size", fix, {"argument": "size"}),
        )
    return np.asarray(concrete)


def index_dtype() -> Any:
    """The dtype of positions in results."""
    return dtypes.default_int()


# ---- where -------------------------------------------------------------------------------------


@compiled
def _where(condition: Any, x: Any, y: Any) -> Any:
    x, y = promoted("where", x, y)
    shapes = [type_of(v).shape for v in (condition, x, y)]
    shape = broadcast_shape("where", *shapes)
    condition = boolean(condition)
    if shapes[0]:
        condition = broadcasted(condition, shape)
    return choose_elements(condition, broadcasted(x, shape), broadcasted(y, shape))


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition` holds and `y` elsewhere; without them, the positions where it holds.

    The three broadcast together. For the derivative the other branch counts as zero, unless it is
    infinite or NaN: guard its input, not its result. size, fill_value: as in `nonzero`.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise WeftValueError(
            "where takes both x and y, or neither", operation="where", got="one of them"
        )
    if size is not None or fill_value is not None:
        raise WeftValueError(
            "where: size and fill_value belong to the form without x and y", operation="where"
        )
    check_arrays("where", condition, x, y)
    return _where(condition, x, y)


# ---- nonzero -----------------------------------------------------------------------------------


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The positions of the elements that differ from zero: one array per dimension.

    size: how many positions to return; more are cut off and missing ones are `fill_value` (0, one
    number, or one per dimension). Without it the values must be known.
    """
    check_arrays("nonzero", a)
    of = type_of(a)
    if size is None:
        value = known(a, "nonzero", "pass size=, a bound on the number of elements")
        if not value.ndim:
            raise WeftValueError(
                "nonzero takes an array with dimensions",
                operation="nonzero",
                got=str(of),
                wanted="at least one dimension",
                fix=Fix("atleast_1d", "use weft.numpy.atleast_1d(a)", {}),
            )
        return tuple(as_array(places.astype(index_dtype())) for places in np.nonzero(value))
    wanted = integer_of(size, "nonzero", "size")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * of.ndim
    if len(fills) != of.ndim:
        raise WeftValueError(
            f"nonzero got {len(fills)} fill values for {of.ndim} dimensions", operation="nonzero"
        )
    return _nonzero(a, *[as_array(f) if is_eager() else f for f in fills], size=wanted)


@compiled
def _nonzero(a: Any, *fills: Any, size: int) -> tuple[Any, ...]:
    of, dtype = type_of(a), index_dtype()
    flat, count = flat_nonzero(reshape(boolean(a), (of.size,)), size)
    missing = ge(iota(dtype, size), broadcasted(convert(count, dtype), (size,)))
    out = []
    rest = convert(flat, dtype)
    for d in range(of.ndim):
        step = max(1, prod(of.shape[d + 1 :]))
        place = div(rest, dtype.type(step))
        rest = rem(rest, dtype.type(step))
        fill = broadcasted(convert(fills[d], dtype), (size,))
        out.append(choose_elements(missing, fill, place))
    return tuple(out)


def flat_nonzero(mask: Any, size: int) -> tuple[Any, Any]:
    """The first `size` positions where a mask of one dimension holds, and how many there are.

    Each such element knows from the running count where its position goes; others are dropped.
    """
    n = type_of(mask).shape[0]
    if n == 0:
        return broadcasted(np.int32(0), (size,)), np.int32(0)
    counts = cumsum(convert(mask, INT32), 0)
    target = choose_elements(mask, sub(counts, np.int32(1)), broadcasted(np.int32(size), (n,)))
    places = scatter(
        broadcasted(np.int32(0), (size,)),
        reshape(target, (n, 1)),
        iota(INT32, n),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )
    return places, reshape(slicing.slice(counts, (n - 1,), (n,)), ())


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions, in the flattened array, of the elements that differ from zero."""
    check_arrays("flatnonzero", a)
    flat = reshape(a, (type_of(a).size,))
    return nonzero(flat, size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of the elements that differ from zero, one row each."""
    check_arrays("argwhere", a)
    if not type_of(a).ndim:
        count = size if size is not None else int(bool(np.asarray(known(a, "argwhere", "pass size="))))
        return as_array(np.zeros((count, 0), index_dtype()))
    places = nonzero(a, size=size, fill_value=fill_value)
    return concatenate([reshape(p, (*type_of(p).shape, 1)) for p in places], 1)


# ---- argmax ------------------------------------------------------------------------------------


@compiled
def _arg(a: Any, *, name: str, axis: int | None, keepdims: bool) -> Any:
    of = type_of(a)
    function = argreduce.argmax if name.endswith("max") else argreduce.argmin
    if name.startswith("nan") and of.dtype in dtypes.INEXACT:
        fill = (lowest if name.endswith("max") else highest)(of.dtype)
        empty = reduce_and(is_nan(a), tuple(range(of.ndim)) if axis is None else (axis,))
        found = _arg.function(
            without_nan(a, fill), name=name.removeprefix("nan"), axis=axis, keepdims=False
        )
        out = choose_elements(empty, broadcasted(index_dtype().type(-1), type_of(found).shape), found)
    elif axis is None:
        out = function(reshape(a, (of.size,)), 0, index_dtype())
    else:
        out = function(a, axis, index_dtype())
    axes = tuple(range(of.ndim)) if axis is None else (axis,)
    return kept(out, of.shape, axes, keepdims)


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    refuse_out(name, out)
    check_arrays(name, a)
    of = type_of(a)
    place = None if axis is None else axis_of(axis, of.ndim, name)
    if (of.size if place is None else of.shape[place]) == 0:
        raise WeftValueError(
            f"{name}: there are no elements to choose from",
            operation=name,
            got=f"{of}, axis {axis}",
            wanted="at least one element along the axis",
        )
    return _arg(a, name=name, axis=place, keepdims=bool(keepdims))


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """The position of the largest element along `axis` (None: in the flattened array).

    The first of equal ones; NaN counts as the largest. Raises ValueError for no elements.
    """
    return _position("argmax", a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """The position of the smallest element along `axis` (None: in the flattened array)."""
    return _position("argmin", a, axis, out, keepdims)


def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """The position of the largest element that is not NaN; -1 where there is none."""
    return _position("nanargmax", a, axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """The position of the smallest element that is not NaN; -1 where there is none."""
    return _position("nanargmin", a, axis, out, keepdims)


# ---- searchsorted ------------------------------------------------------------------------------


def less_than(x: Any, y: Any) -> Any:
    """x < y in the order of `sort`, in which NaN is the greatest."""
    found = lt(x, y)
    if type_of(x).dtype in dtypes.FLOATING:
        found = bitwise_or(found, bitwise_and(is_nan(y), bitwise_not(is_nan(x))))
    return found


@compiled
def _searchsorted(a: Any, v: Any, *extra: Any, side: str, method: str) -> Any:
    a, v = promoted("searchsorted", a, v)
    if extra:
        a = take_axis(a, extra[0], 0, "clip")
    n, shape = type_of(a).shape[0], type_of(v).shape
    dtype = INT32 if n < 2**31 else np.dtype(np.int64)
    if method == "compare_all":
        grid = (n, *shape)
        rows = broadcast_in_dim(a, grid, (0,))
        points = broadcast_in_dim(v, grid, tuple(range(1, len(grid))))
        before = less_than(rows, points) if side == "left" else bitwise_not(less_than(points, rows))
        return reduce_sum(convert(before, dtype), (0,))
    low, high = broadcasted(dtype.type(0), shape), broadcasted(dtype.type(n), shape)
    # Halving: after k steps the answer is known to n / 2**k; the loop has a static length.
    for _ in range(n.bit_length()):
        middle = div(add(low, high), dtype.type(2))
        value = take_axis(a, middle, 0, "clip")
        go_on = lt(low, high)
        before = less_than(value, v) if side == "left" else bitwise_not(less_than(v, value))
        up = bitwise_and(go_on, before)
        down = bitwise_and(go_on, bitwise_not(before))
        low = choose_elements(up, add(middle, dtype.type(1)), low)
        high = choose_elements(down, middle, high)
    return low


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where the values `v` would go into the sorted array `a` of one dimension.

    side: "left" goes before equal elements, "right" behind them; sorter: the positions that sort
    `a`. method: "scan", "scan_unrolled" and "sort" halve the interval; "compare_all" counts the
    smaller elements, which suits accelerators where `a` is short. Raises ValueError for others.
    """
    check_arrays("searchsorted", a, v)
    if side not in ("left", "right"):
        raise WeftValueError(
            "searchsorted: side is 'left' or 'right'", operation="searchsorted", got=f"side={side!r}"
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise WeftValueError(
            f"searchsorted: there is no method {method!r}",
            operation="searchsorted",
            got=f"method={method!r}",
            wanted="'scan', 'scan_unrolled', 'sort' or 'compare_all'",
        )
    if type_of(a).ndim != 1:
        raise ShapeError(
            "searchsorted takes a sorted array of one dimension",
            operation="searchsorted",
            got=str(type_of(a)),
            wanted="one dimension",
        )
    extra = () if sorter is None else (sorter,)
    check_arrays("searchsorted", *extra)
    return _searchsorted(a, v, *extra, side=side, method=method)


@compiled
def _digitize(x: Any, bins: Any, *, right: bool) -> Any:
    n = type_of(bins).shape[0]
    side = "left" if right else "right"
    if n == 0:
        return broadcasted(np.int32(0), type_of(x).shape)
    up = _searchsorted.function(bins, x, side=side, method="scan")
    other = "right" if right else "left"
    rising = _searchsorted.function(rev(bins, (0,)), x, side=other, method="scan")
    first, last = (reshape(slicing.slice(bins, (i,), (i + 1,)), ()) for i in (0, n - 1))
    return choose_elements(le(first, last), up, sub(np.int32(n), rising))


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each value falls into; bins rise or fall.

    right: whether a bin includes its right end instead of its left one. 0 and len(bins) are outside.
    """
    check_arrays("digitize", x, bins)
    if type_of(bins).ndim != 1:
        raise ShapeError(
            "digitize takes bins of one dimension", operation="digitize", got=str(type_of(bins))
        )
    return _digitize(x, bins, right=bool(right))


# ---- take --------------------------------------------------------------------------------------


def take_axis(x: Any, index: Any, axis: int, mode: str, fill_value: Any = None) -> Any:
    """The slices of `x` along an axis at positions not negative; the index's shape stands there."""
    shape, of = type_of(x).shape, type_of(index)
    rank = of.ndim
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(d if d < axis else d + rank - 1 for d in range(len(shape)) if d != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return gather(
        x,
        reshape(index, (*of.shape, 1)),
        numbers,
        slice_sizes=tuple(1 if d == axis else s for d, s in enumerate(shape)),
        mode=mode,
        fill_value=fill_value,
    )


def wrapped(index: Any, size: int) -> Any:
    """Positions modulo the length of a dimension."""
    dtype = type_of(index).dtype
    if not size:
        return index
    r = rem(index, dtype.type(size))
    return choose_elements(lt(r, dtype.type(0)), add(r, dtype.type(size)), r)


def index_in_mode(index: Any, size: int, mode: str | None) -> tuple[Any, str]:
    """Positions as a gather takes them, and its mode, for the modes of `take`."""
    if mode == "wrap":
        of = type_of(index)
        return wrapped(index if of.dtype.itemsize >= 4 else convert(index, INT32), size), "clip"
    if mode == "clip":
        return convert(index, INT32) if type_of(index).dtype.itemsize < 4 else index, "clip"
    found = counted_from_start(index, size)
    return found, mode or "fill"


def _check_take_mode(operation: str, mode: Any) -> None:
    if mode == "raise":
        raise NotImplementedError(
            f"{operation}: mode 'raise' would have to know the values while tracing; "
            "use 'fill', 'clip' or 'wrap'"
        )
    if mode not in (None, "fill", "clip", "wrap", "promise_in_bounds"):
        raise WeftValueError(
            f"{operation}: there is no mode {mode!r}",
            operation=operation,
            got=f"mode={mode!r}",
            wanted="'fill', 'clip', 'wrap' or 'promise_in_bounds'",
        )


def _check_integers(operation: str, index: Any) -> None:
    of = type_of(index)
    if of.dtype not in dtypes.INTEGER:
        raise WeftTypeError(
            f"{operation} takes integers as positions",
            operation=operation,
            got=str(of),
            wanted="an integer dtype",
            fix=Fix("convert", "convert them: indices.astype(int)", {}),
        )


@compiled
def _take(a: Any, indices: Any, *, axis: int | None, mode: Any, fill: Any) -> Any:
    if axis is None:
        a, axis = reshape(a, (type_of(a).size,)), 0
    size = type_of(a).shape[axis]
    index, how = index_in_mode(strong(indices), size, mode)
    return take_axis(a, index, axis, how, fill[1] if fill else None)


def _static_fill(value: Any) -> Any:
    """A fill value as a key that tells 1, 1.0 and True apart; None for none."""
    if value is None:
        return None
    number = value if isinstance(value, (bool, int, float, complex)) else np.asarray(value).item()
    return repr(number), number


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The slices of `a` along `axis` (None: elements of the flattened array) at positions `indices`.

    Their shape stands where the axis was. mode: "fill" (the default) gives `fill_value` (NaN, or an
    extreme integer) for positions out of bounds, "clip" the nearest element, "wrap" counts round.
    """
    refuse_out("take", out)
    check_arrays("take", a, indices)
    _check_take_mode("take", mode)
    _check_integers("take", indices)
    place = None if axis is None else axis_of(axis, type_of(a).ndim, "take")
    size = type_of(a).size if place is None else type_of(a).shape[place]
    if not size and type_of(indices).size:
        raise IndexError("take: there are no elements to take from an axis of length 0")
    return _take(a, indices, axis=place, mode=mode, fill=_static_fill(fill_value))


@compiled
def _take_along(arr: Any, indices: Any, *, axis: int, mode: Any, fill: Any) -> Any:
    arr, index, numbers, sizes, how = _aligned(arr, indices, axis, mode)
    return gather(arr, index, numbers, sizes, mode=how, fill_value=fill[1] if fill else None)


def _aligned(arr: Any, indices: Any, axis: int, mode: Any) -> Any:
    """Operand and positions of a gather along one axis: the other dimensions go together."""
    shape, of = type_of(arr).shape, type_of(indices)
    common = tuple(
        n if d == axis else broadcast_shape("take_along_axis", (n,), (shape[d],))[0]
        for d, n in enumerate(of.shape)
    )
    arr = broadcasted(arr, tuple(shape[d] if d == axis else n for d, n in enumerate(common)))
    index, how = index_in_mode(strong(broadcasted(indices, common)), shape[axis], mode)
    others = tuple(d for d in range(len(shape)) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return arr, reshape(index, (*common, 1)), numbers, (1,) * len(shape), how


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements at positions along `axis` that `indices` lists for every row.

    The other dimensions of the two broadcast together. axis=None flattens the array. mode: as in
    `take`.
    """
    check_arrays("take_along_axis", arr, indices)
    _check_take_mode("take_along_axis", mode)
    _check_integers("take_along_axis", indices)
    if axis is None:
        arr, axis = reshape(arr, (type_of(arr).size,)), 0
    of, index = type_of(arr), type_of(indices)
    if index.ndim != of.ndim:
        raise ShapeError(
            f"take_along_axis: the positions have {index.ndim} dimensions and the array {of.ndim}",
            operation="take_along_axis",
            got=f"{of} and indices {index}",
            wanted="as many dimensions",
        )
    place = axis_of(axis, of.ndim, "take_along_axis")
    return _take_along(arr, indices, axis=place, mode=mode, fill=_static_fill(fill_value))


@compiled
def _put_along(arr: Any, indices: Any, values: Any, *, axis: int, mode: Any) -> Any:
    of, index = type_of(arr), type_of(indices)
    common = tuple(
        n if d == axis else broadcast_shape("put_along_axis", (n,), (of.shape[d],))[0]
        for d, n in enumerate(index.shape)
    )
    places, how = index_in_mode(strong(broadcasted(indices, common)), of.shape[axis], mode)
    others = tuple(d for d in range(of.ndim) if d != axis)
    updates = broadcasted(convert(values, of.dtype), common, "put_along_axis")
    numbers = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    return scatter(arr, reshape(places, (*common, 1)), updates, numbers, mode=how)


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: Any = None
) -> Any:
    """A new array with `values` at the positions along `axis` that `indices` lists for every row.

    Pass inplace=False: arrays do not change in place. Raises ValueError otherwise.
    """
    _not_in_place("put_along_axis", inplace)
    check_arrays("put_along_axis", arr, indices, values)
    _check_integers("put_along_axis", indices)
    of = type_of(arr)
    if axis is None:
        flat = put_along_axis(reshape(arr, (of.size,)), indices, values, 0, False, mode=mode)
        return reshape(flat, of.shape)
    return _put_along(arr, indices, values, axis=axis_of(axis, of.ndim, "put_along_axis"), mode=mode)


def _not_in_place(operation: str, inplace: bool) -> None:
    if inplace:
        raise WeftValueError(
            f"{operation}: arrays do not change in place",
            operation=operation,
            got="inplace=True",
            wanted="inplace=False",
            fix=Fix("inplace", "pass inplace=False and use the result", {"inplace": False}),
        )


@compiled
def _put(a: Any, ind: Any, v: Any, *, mode: Any) -> Any:
    of = type_of(a)
    count = type_of(ind).size
    places, how = index_in_mode(strong(reshape(ind, (count,))), of.size, mode)
    size = type_of(v).size
    values = reshape(convert(v, of.dtype), (size,))
    if size < count and size:
        values = concatenate([values] * -(-count // size), 0)
    updates = slicing.slice(values, (0,), (count,))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    flat = scatter(
        reshape(a, (of.size,)), reshape(places, (count, 1)), updates, numbers, mode=how
    )
    return reshape(flat, of.shape)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A new array with values at positions of the flattened array; the values repeat if too few.

    Pass inplace=False: arrays do not change in place. Raises ValueError otherwise.
    """
    _not_in_place("put", inplace)
    check_arrays("put", a, ind, v)
    _check_integers("put", ind)
    if not type_of(v).size or not type_of(ind).size:
        return a
    return _put(a, ind, v, mode=mode)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A new array with the values put, one after the other, where the mask holds."""
    _not_in_place("place", inplace)
    check_arrays("place", arr, mask, vals)
    return _place(arr, mask, vals)


@compiled
def _place(arr: Any, mask: Any, vals: Any) -> Any:
    of = type_of(arr)
    flat = reshape(boolean(mask), (of.size,))
    counts = sub(cumsum(convert(flat, INT32), 0), np.int32(1))
    values = reshape(convert(vals, of.dtype), (type_of(vals).size,))
    chosen = take_axis(values, wrapped(counts, type_of(values).size), 0, "clip")
    return reshape(choose_elements(flat, chosen, reshape(arr, (of.size,))), of.shape)


# ---- choosing ----------------------------------------------------------------------------------


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements of `arr` where the condition holds, as one dimension.

    size: as in `nonzero`; missing elements are `fill_value`.
    """
    return compress(
        reshape(condition, (type_of(condition).size,)), arr, size=size, fill_value=fill_value
    )


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The slices along `axis` (None: elements of the flattened array) where the condition holds.

    size: how many there are at most, where the condition is traced; missing ones are `fill_value`.
    """
    refuse_out("compress", out)
    check_arrays("compress", a)
    if isinstance(condition, (list, tuple)):
        condition = np.asarray(condition)
    check_arrays("compress", condition)
    if type_of(condition).ndim != 1:
        raise ShapeError(
            "compress takes a condition of one dimension",
            operation="compress",
            got=str(type_of(condition)),
        )
    if axis is None:
        a, axis = reshape(a, (type_of(a).size,)), 0
    place_ = axis_of(axis, type_of(a).ndim, "compress")
    length = type_of(a).shape[place_]
    if size is None:
        value = known(condition, "compress", "pass size=, a bound on the number of elements")
        if np.any(value[length:]):
            raise IndexError("compress: the condition holds beyond the end of the axis")
        index = np.nonzero(value[:length])[0].astype(np.int32)
        return _take(a, index, axis=place_, mode="clip", fill=None)
    return _compress(condition, a, fill_value, axis=place_, size=integer_of(size, "compress", "size"))


@compiled
def _compress(condition: Any, a: Any, fill_value: Any, *, axis: int, size: int) -> Any:
    places, count = flat_nonzero(boolean(condition), size)
    out = take_axis(a, places, axis, "clip")
    of = type_of(out)
    missing = ge(broadcasted(iota(INT32, size), (size,)), broadcasted(count, (size,)))
    fill = broadcasted(convert(fill_value, of.dtype), of.shape)
    return choose_elements(broadcast_in_dim(missing, of.shape, (axis,)), fill, out)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Elementwise, the choice that belongs to the first condition that holds, or `default`."""
    if len(condlist) != len(choicelist) or not condlist:
        raise WeftValueError(
            f"select got {len(condlist)} conditions and {len(choicelist)} choices",
            operation="select",
            wanted="as many, and at least one",
        )
    check_arrays("select", *condlist, *choicelist, default)
    return _select(*condlist, *choicelist, default)


@compiled
def _select(*operands: Any) -> Any:
    n = len(operands) // 2
    values = promoted("select", *operands[n:])
    out = values[-1]
    for condition, choice in reversed(list(zip(operands[:n], values[:n], strict=True))):
        out = _where.function(condition, choice, out)
    return out


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """Elementwise, the element of the choice whose number `a` gives.

    mode: "clip" or "wrap" for numbers out of range; "raise" needs known numbers.
    """
    refuse_out("choose", out)
    check_arrays("choose", a)
    values = list(choices)
    check_arrays("choose", *values)
    if mode == "raise":
        number = static_array(a, "choose", "a (with mode 'raise'; use 'clip' or 'wrap')")
        if number.size and (number.min() < 0 or number.max() >= len(values)):
            raise WeftValueError(
                "choose: a number is out of range",
                operation="choose",
                got=f"{number.min()} to {number.max()}",
                wanted=f"0 to {len(values) - 1}",
            )
    elif mode not in ("clip", "wrap"):
        raise WeftValueError(
            "choose: mode is 'raise', 'clip' or 'wrap'", operation="choose", got=f"mode={mode!r}"
        )
    return _choose(a, *values, mode="clip" if mode == "raise" else mode)


@compiled
def _choose(a: Any, *choices: Any, mode: str) -> Any:
    values = promoted("choose", *choices)
    shape = broadcast_shape("choose", type_of(a).shape, *[type_of(v).shape for v in values])
    index = convert(broadcasted(a, shape), INT32)
    n = len(values)
    index = wrapped(index, n) if mode == "wrap" else smaller(larger(index, np.int32(0)), np.int32(n - 1))
    out = broadcasted(values[0], shape)
    for i, value in enumerate(values[1:], 1):
        out = choose_elements(eq(index, np.int32(i)), broadcasted(value, shape), out)
    return out


def piecewise(
    x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Any:
    """Elementwise, the function (or number) that belongs to the last condition that holds.

    With one function more than conditions, the last one is for where none holds; without, that is 0.
    Every function is evaluated everywhere.
    """
    check_arrays("piecewise", x)
    conditions = [condlist] if not isinstance(condlist, (list, tuple)) else list(condlist)
    check_arrays("piecewise", *conditions)
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    elif len(functions) != len(conditions) + 1:
        raise WeftValueError(
            f"piecewise got {len(functions)} functions for {len(conditions)} conditions",
            operation="piecewise",
            wanted="as many, or one more",
        )
    dtype = type_of(x).dtype

    def value(function: Callable[..., Any] | Any) -> Any:
        return convert(function(x, *args, **kw) if callable(function) else function, dtype)

    out = value(functions[-1])
    for condition, function in zip(conditions, functions, strict=False):
        out = where(condition, value(function), out)
    return out


# ---- membership --------------------------------------------------------------------------------


@compiled
def _isin(element: Any, test: Any, *, invert: bool) -> Any:
    element, test = promoted("isin", element, test)
    shape, n = type_of(element).shape, type_of(test).size
    rank = len(shape)
    grid = (*shape, n)
    rows = broadcast_in_dim(element, grid, tuple(range(rank)))
    columns = broadcast_in_dim(reshape(test, (n,)), grid, (rank,))
    found = reduce_or(eq(rows, columns), (rank,))
    return bitwise_not(found) if invert else found


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Any:
    """Whether each element is among `test_elements` (with invert: is not)."""
    check_arrays("isin", element, test_elements)
    return _isin(element, test_elements, invert=bool(invert))


# ---- interpolation -----------------------------------------------------------------------------


@compiled
def _interp(x: Any, xp: Any, fp: Any, *ends: Any, given: tuple[bool, bool, bool]) -> Any:
    dtype = inexact(dtypes.promote_types(type_of(x).dtype, type_of(xp).dtype))
    values = inexact(dtypes.promote_types(type_of(fp).dtype, dtype))
    x, xp, fp = convert(x, dtype), convert(xp, dtype), convert(fp, values)
    found = iter(ends)
    left, right, period = (next(found) if flag else None for flag in given)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, convert(period, dtype))
    n, shape = type_of(xp).shape[0], type_of(x).shape
    i = smaller(
        larger(_searchsorted.function(xp, x, side="right", method="scan"), np.int32(1)),
        np.int32(n - 1),
    )
    before = sub(i, np.int32(1))
    x0, x1 = take_axis(xp, before, 0, "clip"), take_axis(xp, i, 0, "clip")
    f0, f1 = take_axis(fp, before, 0, "clip"), take_axis(fp, i, 0, "clip")
    run, rise = sub(x1, x0), sub(f1, f0)
    level = eq(run, dtype.type(0))
    safe = choose_elements(level, broadcasted(dtype.type(1), shape), run)
    slope = convert(div(sub(x, x0), safe), values)
    out = choose_elements(level, f0, add(f0, mul(slope, rise)))
    if period is None:
        lowest_x, highest_x = (reshape(slicing.slice(xp, (k,), (k + 1,)), ()) for k in (0, n - 1))
        f_first, f_last = (reshape(slicing.slice(fp, (k,), (k + 1,)), ()) for k in (0, n - 1))
        below = f_first if left is None else convert(left, values)
        above = f_last if right is None else convert(right, values)
        out = choose_elements(lt(x, lowest_x), broadcasted(below, shape), out)
        out = choose_elements(lt(highest_x, x), broadcasted(above, shape), out)
    return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The points of one period in order, with one more at each end."""
    x, xp = _modulo(x, period), _modulo(xp, period)
    n = type_of(xp).shape[0]
    xp, order = sort((xp, iota(INT32, n)), 0, num_keys=1)
    fp = take_axis(fp, order, 0, "clip")
    first = [slicing.slice(v, (0,), (1,)) for v in (xp, fp)]
    last = [slicing.slice(v, (n - 1,), (n,)) for v in (xp, fp)]
    xp = concatenate([sub(last[0], period), xp, add(first[0], period)], 0)
    return x, xp, concatenate([last[1], fp, first[1]], 0)


def _modulo(x: Any, period: Any) -> Any:
    r = rem(x, broadcasted(period, type_of(x).shape))
    zero = type_of(x).dtype.type(0)
    return choose_elements(lt(r, zero), add(r, period), r)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Linear interpolation at `x` between the points (xp, fp), of which xp rises.

    left, right: the values below and above all points (by default those of the end points);
    period: of the points, which then need no order. Raises ShapeError where xp and fp differ.
    """
    check_arrays("interp", x, xp, fp)
    if type_of(xp).shape != type_of(fp).shape or type_of(xp).ndim != 1 or not type_of(xp).size:
        raise ShapeError(
            "interp takes xp and fp of one dimension and of one length, which is not 0",
            operation="interp",
            got=f"xp {type_of(xp)} and fp {type_of(fp)}",
        )
    ends = (left, right, period)
    given = tuple(end is not None for end in ends)
    return _interp(x, xp, fp, *[end for end in ends if end is not None], given=given)
