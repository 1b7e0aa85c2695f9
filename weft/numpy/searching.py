"""Finding elements: argmax, searchsorted, digitize, isin, and interpolation between points."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_value, refusal, unknown_option
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    axis_of,
    broadcasted,
    check_choice,
    check_flag,
    check_flags,
    check_number,
    convert,
    inexact,
    operand,
    operands,
    promoted,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import number_for, promote_operands
from weft.kinds.repeated import repeated
from weft.numpy.nan_reductions import is_nan, without_nan
from weft.numpy.reductions import kept
from weft.numpy.taking import take_axis
from weft.ops.elementwise.arithmetic import abs as absolute
from weft.ops.elementwise.arithmetic import add, div, eq, le, lt, mul, rem, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_and, bitwise_not, bitwise_or
from weft.ops.elementwise.selection import select as choose_elements
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import iota
from weft.ops.reductions import argreduce
from weft.ops.reductions.reduce import highest, lowest, reduce_and, reduce_or
from weft.ops.reductions.sorting import sort
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape
from weft.typing import ArrayLike

__all__ = [
    "argmax", "argmin", "digitize", "interp", "isin", "nanargmax", "nanargmin", "searchsorted",
]  # fmt: skip

INT32 = np.dtype(np.int32)


@compiled
def _arg(a: Any, *, name: str, axis: int | None, keepdims: bool) -> Any:
    of = type_of(a)
    axes = tuple(range(of.ndim)) if axis is None else (axis,)
    function = argreduce.argmax if name.endswith("max") else argreduce.argmin
    if name.startswith("nan") and of.dtype in dtypes.INEXACT:
        fill = (lowest if name.endswith("max") else highest)(of.dtype)
        empty = reduce_and(is_nan(a), axes)
        found = _arg.function(
            without_nan(a, fill), name=name.removeprefix("nan"), axis=axis, keepdims=False
        )
        none = broadcasted(dtypes.default_int().type(-1), type_of(found).shape)
        out = choose_elements(empty, none, found)
    elif axis is None:
        out = function(reshape(a, (of.size,)), 0, dtypes.default_int())
    else:
        out = function(a, axis, dtypes.default_int())
    return kept(out, of.shape, axes, keepdims)


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    check_flag(keepdims, name, "keepdims")
    refuse_out(name, out)
    a = operand(name, a)
    of = type_of(a)
    place = None if axis is None else axis_of(axis, of.ndim, name)
    if (of.size if place is None else of.shape[place]) == 0:
        message = f"{name}: there are no elements to choose from"
        got = f"{of}, axis {axis}"
        raise refusal(WeftValueError, message, name, got, "at least one element along the axis")
    return _arg(a, name=name, axis=place, keepdims=bool(keepdims))


@repeated
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """The position of the largest element along `axis` (None: in the flattened array).

    The first of equal ones; NaN counts as the largest. Raises ValueError for no elements.

    >>> jnp.argmax(jnp.array([3.0, 5.0, 4.0]))
    Array(1, dtype=int32)
    """
    return _position("argmax", a, axis, out, keepdims)


@repeated
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """The position of the smallest element along `axis` (None: in the flattened array).

    >>> jnp.argmin(jnp.array([[3.0, 5.0], [4.0, 1.0]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _position("argmin", a, axis, out, keepdims)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """The position of the largest element that is not NaN; -1 if there is none.

    The result is int32 (int64 under `enable_x64`), of the shape that `argmax` gives. Raises
    WeftValueError for no elements.

    >>> jnp.nanargmax(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2, dtype=int32)
    """
    return _position("nanargmax", a, axis, out, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """The position of the smallest element that is not NaN; -1 if there is none.

    >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1, dtype=int32)
    """
    return _position("nanargmin", a, axis, out, keepdims)


def less_than(x: Any, y: Any) -> Any:
    """x < y in the order of `sort`, in which NaN is the greatest."""
    found = lt(x, y)
    if type_of(x).dtype in dtypes.FLOATING:
        found = bitwise_or(found, bitwise_and(is_nan(y), bitwise_not(is_nan(x))))
    return found


def _bisected(a: Any, v: Any, n: int, dtype: Any, side: str) -> Any:
    """How many of the n elements of `a` go before each value, from the highest bit of that count.

    One number that grows, not an interval: XLA computes all earlier steps again in each step.
    """
    shape, v_nan = type_of(v).shape, None
    if type_of(v).dtype in dtypes.FLOATING:  # NaN is the greatest
        v_nan = is_nan(v)

    def before(value: Any) -> Any:
        if v_nan is None:
            return lt(value, v) if side == "left" else bitwise_not(lt(v, value))
        found = lt(value, v) if side == "left" else le(value, v)
        return bitwise_or(found, v_nan if side == "right" else bitwise_and(v_nan, eq(value, value)))

    count = broadcasted(dtype.type(0), shape)
    for k in reversed(range(n.bit_length())):
        further = add(count, dtype.type(1 << k))
        value = take_axis(a, sub(further, dtype.type(1)), 0, "clip")
        found = bitwise_and(le(further, dtype.type(n)), before(value))
        count = choose_elements(found, further, count)
    return count


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
    if n == 0:
        return broadcasted(dtype.type(0), shape)
    return _bisected(a, v, n, dtype, side)


@repeated
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Array:
    """Where the values `v` would go into the sorted array `a` of one dimension.

    side: "left" goes before equal elements, "right" behind them; sorter: the positions that sort
    `a`. method: "scan", "scan_unrolled" and "sort" halve the interval; "compare_all" counts the
    smaller elements, which suits accelerators where `a` is short. Raises ValueError for others.

    >>> jnp.searchsorted(jnp.array([1.0, 2.0, 4.0]), jnp.array([2.0, 3.0]))
    Array([1, 2], dtype=int32)
    """
    a, v = promote_operands("searchsorted", a, v)
    if side not in ("left", "right"):
        raise invalid_value("searchsorted: side is 'left' or 'right'", "searchsorted", "side", side)
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        wanted = "'scan', 'scan_unrolled', 'sort' or 'compare_all'"
        raise unknown_option("searchsorted", "method", method, wanted)
    if type_of(a).ndim != 1:
        message = "searchsorted takes a sorted array of one dimension"
        raise refusal(ShapeError, message, "searchsorted", str(type_of(a)), "one dimension")
    extra = () if sorter is None else operands("searchsorted", sorter)
    return _searchsorted(a, v, *extra, side=side, method=method)


def _ends(x: Any) -> list[Any]:
    """The first and the last element of a vector."""
    n = type_of(x).shape[0]
    return [reshape(slicing.slice(x, (i,), (i + 1,)), ()) for i in (0, n - 1)]


@compiled
def _digitize(x: Any, bins: Any, *, right: bool) -> Any:
    n = type_of(bins).shape[0]
    side = "left" if right else "right"
    if n == 0:
        return broadcasted(np.int32(0), type_of(x).shape)
    up = _searchsorted.function(bins, x, side=side, method="scan")
    falling = _searchsorted.function(rev(bins, (0,)), x, side=side, method="scan")
    first, last = _ends(bins)
    return choose_elements(le(first, last), up, sub(np.int32(n), falling))


def digitize(x: ArrayLike, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin that each value falls into; bins rise or fall.

    bins: the edges, a vector. method: a name as in `searchsorted`, without effect. right: whether a
    bin includes its right end instead of its left one. Numbers 0 and len(bins) are outside.

    >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 3], dtype=int32)
    """
    check_flag(right, "digitize", "right")
    x, bins = promote_operands("digitize", x, bins)
    if type_of(bins).ndim != 1:
        message = "digitize takes bins of one dimension"
        raise refusal(ShapeError, message, "digitize", str(type_of(bins)))
    methods = (None, "scan", "scan_unrolled", "sort", "compare_all")
    check_choice(method, methods, "digitize", "method")
    return _digitize(x, bins, right=bool(right))


# Among so few elements comparing with all of them is faster than bisection.
_FEW = 64


@compiled
def _isin(element: Any, test: Any, *, invert: bool, method: str) -> Any:
    element, test = promoted("isin", element, test)
    shape, n = type_of(element).shape, type_of(test).size
    test = reshape(test, (n,))
    ordered = type_of(element).dtype not in dtypes.COMPLEX and n
    if ordered and (n > _FEW if method == "auto" else method != "compare_all"):
        test = sort((test,), 0)[0]
        place = _searchsorted.function(test, element, side="left", method="scan")
        # NaN equals nothing, wherever it goes.
        found = eq(take_axis(test, place, 0, "clip"), element)
    else:
        rank = len(shape)
        grid = (*shape, n)
        rows = broadcast_in_dim(element, grid, tuple(range(rank)))
        found = reduce_or(eq(rows, broadcast_in_dim(test, grid, (rank,))), (rank,))
    return bitwise_not(found) if invert else found


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is among `test_elements`.

    element: any shape, which the boolean result has; test_elements: any shape. method:
    "compare_all" compares each with each, "binary_search" and "sort" sort `test_elements` first,
    "auto" chooses by their number. assume_unique: without effect. invert: whether the result is
    true for elements that are not there.

    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    check_flags("isin", assume_unique=assume_unique, invert=invert)
    element, test_elements = promote_operands("isin", element, test_elements)
    check_choice(method, ("auto", "compare_all", "binary_search", "sort"), "isin", "method")
    return _isin(element, test_elements, invert=bool(invert), method=method)


_EXTRAPOLATE = "extrapolate"


@compiled
def _interp(x: Any, xp: Any, fp: Any, *ends: Any, given: tuple[Any, ...]) -> Any:
    dtype = inexact(dtypes.promote_types(type_of(x).dtype, type_of(xp).dtype))
    values = inexact(dtypes.promote_types(type_of(fp).dtype, dtype))
    x, xp, fp = convert(x, dtype), convert(xp, dtype), convert(fp, values)
    found = iter(ends)
    left, right, period = (next(found) if flag is True else None for flag in given)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, absolute(convert(period, dtype)))
    n, shape = type_of(xp).shape[0], type_of(x).shape
    i = _searchsorted.function(xp, x, side="right", method="scan")
    i = smaller(larger(i, np.int32(1)), np.int32(n - 1))
    before = sub(i, np.int32(1))
    x0, x1, f0, f1 = (take_axis(v, j, 0, "clip") for v in (xp, fp) for j in (before, i))
    run, rise = sub(x1, x0), sub(f1, f0)
    level = eq(run, dtype.type(0))
    safe = choose_elements(level, broadcasted(dtype.type(1), shape), run)
    slope = convert(div(sub(x, x0), safe), values)
    out = choose_elements(level, f0, add(f0, mul(slope, rise)))
    if period is None:
        lowest_x, highest_x = _ends(xp)
        f_first, f_last = _ends(fp)
        # The first and the last line go on beyond the points.
        if given[0] != _EXTRAPOLATE:
            below = f_first if left is None else convert(left, values)
            out = choose_elements(lt(x, lowest_x), broadcasted(below, shape), out)
        if given[1] != _EXTRAPOLATE:
            above = f_last if right is None else convert(right, values)
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
    return choose_elements(lt(r, type_of(x).dtype.type(0)), add(r, period), r)


def interp(
    x: ArrayLike, xp: ArrayLike, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Linear interpolation at `x` between the points (xp, fp); xp must increase.

    left, right: the values below and above all points (by default those of the end points), or
    "extrapolate" for the line through the two points at that end; period: the period of the points,
    which then need no order. Raises ShapeError if xp and fp differ, and WeftValueError for a period
    of 0 that is known.

    x: any shape, which the result has; xp, fp: shape (n,).

    >>> jnp.interp(jnp.array([0.5, 5.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
    Array([15., 20.], dtype=float32)
    """
    given_values = fp
    *_, fp = operands("interp", x, xp, fp)
    x, xp = promote_operands("interp", x, xp)
    if type_of(xp).shape != type_of(fp).shape or type_of(xp).ndim != 1 or not type_of(xp).size:
        message = "interp takes xp and fp of one dimension and of one length, which is not 0"
        raise refusal(ShapeError, message, "interp", f"xp {type_of(xp)} and fp {type_of(fp)}")
    ends = (left, right, period)
    for name, end in zip(("left", "right", "period"), ends, strict=True):
        if end is not None and not (end == _EXTRAPOLATE and name != "period"):
            check_number(end, "interp", name)
    if period is not None and not isinstance(period, Tracer) and not np.asarray(period):
        message = "interp: points of period 0 are all one"
        fix = Fix("period", "leave it out for points that do not repeat", {"period": None})
        raise invalid_value(message, "interp", "period", period, "a number other than 0", fix=fix)
    given = tuple(end if isinstance(end, str) else end is not None for end in ends)
    dtype = inexact(dtypes.promote_types(type_of(x).dtype, type_of(xp).dtype))
    values = inexact(dtypes.promote_types(type_of(fp).dtype, dtype))
    fp = number_for("interp", given_values, values)
    kept = [
        number_for("interp", end, of)
        for end, of in zip(ends, (values, values, dtype), strict=True)
        if end is not None and not isinstance(end, str)
    ]
    return _interp(x, xp, fp, *kept, given=given)
