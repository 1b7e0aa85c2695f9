"""Finding elements: argmax, searchsorted, digitize, isin, and interpolation between points."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.errors import Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import invalid_value
from weft.kinds.arguments import (
    Axis,
    Flag,
    Operand,
    Out,
    Promoted,
    choice,
    operand_kind,
    promoted_kind,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, check_arrays, check_number, inexact
from weft.kinds.kind import Arguments
from weft.kinds.numbers import canonical_type, number_for
from weft.numpy.nan_reductions import is_nan, without_nan
from weft.numpy.reductions import keep_dims
from weft.numpy.taking import take_axis
from weft.ops.elementwise.arithmetic import le, lt, rem
from weft.ops.elementwise.complex import complex, imag, real
from weft.ops.elementwise.distances import height_p
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.reductions import argreduce
from weft.ops.reductions.reduce import highest, lowest
from weft.ops.reductions.sorting import sort
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim
from weft.typing import ArrayLike

__all__ = [
    "argmax", "argmin", "digitize", "interp", "isin", "nanargmax", "nanargmin", "searchsorted",
]  # fmt: skip

INT32 = np.dtype(np.int32)


# ---- extrema -------------------------------------------------------------------------------------


def _position(a: Any, axis: int | None, keepdims: bool, largest: bool, skip: bool) -> Any:
    """The position of the largest or smallest element; `skip`: without NaN."""
    if not (a.size if axis is None else a.shape[axis]):
        raise WeftValueError(
            "there are no elements to choose from",
            got=f"{a.type}, axis {axis}",
            wanted="at least one element along the axis",
        )
    skip = skip and a.dtype in dtypes.INEXACT
    x = without_nan(a, (lowest if largest else highest)(a.dtype)) if skip else a
    x, dim = (x.reshape(-1), 0) if axis is None else (x, axis)
    out = (argreduce.argmax if largest else argreduce.argmin)(x, dim, dtypes.default_int())
    if skip:
        none = broadcasted(out.dtype.type(-1), out.shape)
        out = select(is_nan(a).all(axis), none, out)
    return keep_dims(out, a.shape, (*range(a.ndim),) if axis is None else (axis,), keepdims)


@array_function
def argmax(a: Operand, axis: Axis = None, out: Out = None, keepdims: Flag = False) -> Array:
    """The position of the largest element along `axis` (None: in the flattened array).

    The first of equal ones; NaN counts as the largest. Raises ValueError for no elements.

    >>> jnp.argmax(jnp.array([3.0, 5.0, 4.0]))
    Array(1, dtype=int32)
    """
    return _position(a, axis, keepdims, True, False)


@array_function
def argmin(a: Operand, axis: Axis = None, out: Out = None, keepdims: Flag = False) -> Array:
    """The position of the smallest element along `axis` (None: in the flattened array).

    >>> jnp.argmin(jnp.array([[3.0, 5.0], [4.0, 1.0]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _position(a, axis, keepdims, False, False)


@array_function
def nanargmax(a: Operand, axis: Axis = None, out: Out = None, keepdims: Flag = False) -> Array:
    """The position of the largest element that is not NaN; -1 if there is none.

    The result is int32 (int64 under `enable_x64`), of the shape that `argmax` gives. Raises
    WeftValueError for no elements.

    >>> jnp.nanargmax(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2, dtype=int32)
    """
    return _position(a, axis, keepdims, True, True)


@array_function
def nanargmin(a: Operand, axis: Axis = None, out: Out = None, keepdims: Flag = False) -> Array:
    """The position of the smallest element that is not NaN; -1 if there is none.

    >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1, dtype=int32)
    """
    return _position(a, axis, keepdims, False, True)


# ---- sorted arrays -------------------------------------------------------------------------------


def _less_than(x: Any, y: Any) -> Any:
    """x < y in the order of `sort`, in which NaN is the greatest."""
    less = lt(x, y)
    return less | (is_nan(y) & ~is_nan(x)) if x.dtype in dtypes.FLOATING else less


def _bisect(a: Any, v: Any, side: str, dtype: Any) -> Any:
    """The number of elements of `a` before each value, from its highest bit.

    One growing number, not an interval: XLA computes all earlier steps again in each step.
    """
    n, v_nan = a.size, None
    if v.dtype in dtypes.FLOATING:  # NaN is the greatest
        v_nan = is_nan(v)

    def before(value: Any) -> Any:
        if v_nan is None:
            # Unlike operators, these refuse complex numbers.
            return lt(value, v) if side == "left" else ~lt(v, value)
        less = lt(value, v) if side == "left" else le(value, v)
        return less | (v_nan if side == "right" else v_nan & (value == value))

    count = broadcasted(dtype.type(0), v.shape)
    for k in reversed(range(n.bit_length())):
        further = count + (1 << k)
        value = take_axis(a, further - 1, 0, "clip")
        count = select((further <= n) & before(value), further, count)
    return count


def _search(a: Any, v: Any, side: str, method: str = "scan") -> Any:
    """The positions of values in a sorted vector of their dtype."""
    dtype = INT32 if a.size < 2**31 else np.dtype(np.int64)
    if method == "compare_all":
        grid = (a.size, *v.shape)
        rows, points = broadcast_in_dim(a, grid, (0,)), broadcasted(v, grid)
        before = _less_than(rows, points) if side == "left" else ~_less_than(points, rows)
        return before.sum(0, dtype=dtype)
    return _bisect(a, v, side, dtype) if a.size else full(v.shape, 0, dtype)


Side = Annotated[str, choice("left", "right")]
_NAMES = ("scan", "scan_unrolled", "sort", "compare_all")
Search = Annotated[str, choice(*_NAMES, "default")]
NamedSearch = Annotated[str | None, choice(None, *_NAMES)]
Comparison = Annotated[str, choice("auto", "compare_all", "binary_search", "sort")]


@array_function
def searchsorted(
    a: Promoted,
    v: Promoted,
    side: Side = "left",
    sorter: Operand | None = None,
    *,
    method: Search = "scan",
) -> Array:
    """Where the values `v` would go into the sorted array `a` of one dimension.

    side: "left" goes before equal elements, "right" behind them; sorter: the positions that sort
    `a`. method: "scan", "scan_unrolled" and "sort" halve the interval; "compare_all" counts the
    smaller elements, which suits accelerators where `a` is short. Raises ValueError for others.

    >>> jnp.searchsorted(jnp.array([1.0, 2.0, 4.0]), jnp.array([2.0, 3.0]))
    Array([1, 2], dtype=int32)
    """
    if a.ndim != 1:
        raise ShapeError("it takes a sorted array of one dimension", got=str(a.type))
    return _search(a if sorter is None else take_axis(a, sorter, 0, "clip"), v, side, method)


def _ends(x: Any) -> list[Any]:
    """The first and the last element of a vector."""
    return [x[i : i + 1].reshape(()) for i in (0, x.size - 1)]


@array_function
def digitize(
    x: Promoted, bins: Promoted, right: Flag = False, *, method: NamedSearch = None
) -> Array:
    """The number of the bin that each value falls into; bins rise or fall.

    bins: the edges, a vector. method: a name as in `searchsorted`, without effect. right: whether a
    bin includes its right end instead of its left one. Numbers 0 and len(bins) are outside.

    >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 3], dtype=int32)
    """
    if bins.ndim != 1:
        raise ShapeError("it takes bins of one dimension", got=str(bins.type))
    if not bins.size:
        return full(x.shape, 0, np.int32)
    side = "left" if right else "right"
    first, last = _ends(bins)
    falling = bins.size - _search(rev(bins, (0,)), x, side)
    return select(first <= last, _search(bins, x, side), falling)


# Among so few elements comparing with all of them is faster than bisection.
_FEW = 64


@array_function
def isin(
    element: Promoted,
    test_elements: Promoted,
    assume_unique: Flag = False,
    invert: Flag = False,
    *,
    method: Comparison = "auto",
) -> Array:
    """Whether each element is among `test_elements`.

    element: any shape, which the boolean result has; test_elements: any shape. method:
    "compare_all" compares each with each, "binary_search" and "sort" sort `test_elements` first,
    "auto" chooses by their number. assume_unique: without effect. invert: whether the result is
    true for elements that are not there.

    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    test = test_elements.reshape(-1)
    ordered = element.dtype not in dtypes.COMPLEX and test.size
    if ordered and (test.size > _FEW if method == "auto" else method != "compare_all"):
        test = sort((test,), 0)[0]
        # NaN equals nothing, wherever it goes.
        out = take_axis(test, _search(test, element, "left"), 0, "clip") == element
    else:
        grid = (*element.shape, test.size)
        out = (broadcast_in_dim(element, grid, (*range(element.ndim),)) == test).any(-1)
    return ~out if invert else out


# ---- interpolation -------------------------------------------------------------------------------


def _abscissa_dtype(call: Arguments) -> Any:
    types = [canonical_type(call[name]) for name in ("x", "xp")]
    return inexact(dtypes.promote(*[(of.dtype, of.weak_type) for of in types])[0])


def _value_dtype(call: Arguments) -> Any:
    return inexact(dtypes.promote_types(canonical_type(call["fp"]).dtype, _abscissa_dtype(call)))


def _heights(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    call["fp"] = value
    return number_for(value, _value_dtype(call))


def _end(value: Any, call: Arguments) -> Any:
    if isinstance(value, str) and value == "extrapolate":
        return ()  # no value
    check_number(value, call.name)
    return number_for(value, _value_dtype(call))


def _period(value: Any, call: Arguments) -> Any:
    check_number(value, call.name)
    if not isinstance(value, Tracer):
        call.reads = isinstance(value, Array)
        if not np.asarray(value):
            message = "interp: points of period 0 are all one"
            fix = Fix("period", "leave it out for points that do not repeat", {"period": None})
            wanted = "a number other than 0"
            raise invalid_value(message, call.operation, call.name, value, wanted, fix=fix)
    return number_for(value, _abscissa_dtype(call))


_line = np.array([1.0, 2.0, 4.0])
Abscissae = Annotated[ArrayLike, dataclasses.replace(promoted_kind, right=_line)]
Heights = Annotated[Any, dataclasses.replace(operand_kind, take=_heights, right=_line)]
_end_kind = dataclasses.replace(operand_kind, take=_end, arrays=False, wrong=("text", [1]))
End = Annotated[Any, dataclasses.replace(_end_kind, means='a number, or "extrapolate"')]
Period = Annotated[Any, dataclasses.replace(_end_kind, take=_period, wrong=("text", [1], 0))]


@array_function
def interp(
    x: Promoted,
    xp: Abscissae,
    fp: Heights,
    left: End | None = None,
    right: End | None = None,
    period: Period | None = None,
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
    if xp.shape != fp.shape or xp.ndim != 1 or not xp.size:
        message = "it takes xp and fp of one dimension and of one length, which is not 0"
        raise ShapeError(message, got=f"xp {xp.type} and fp {fp.type}")
    dtype = inexact(x.dtype)
    values = inexact(dtypes.promote_types(fp.dtype, dtype))
    x, xp, fp = x.astype(dtype), xp.astype(dtype), fp.astype(values)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, abs(period.astype(dtype)))
    i = _search(xp, x, "right").clip(1, xp.size - 1)
    before = i - 1
    x0, x1, f0, f1 = (take_axis(v, j, 0, "clip") for v in (xp, fp) for j in (before, i))
    run = x1 - x0
    level = run == 0
    part = (x - x0) / select(level, broadcasted(dtype.type(1), x.shape), run)
    out = select(level, f0, _height(part.astype(dtypes.to_real(values)), f0, f1))
    if period is not None:
        return out
    (x_first, x_last), (f_first, f_last) = _ends(xp), _ends(fp)
    # Without a value the first and the last line go on beyond the points.
    if not isinstance(left, tuple):
        below = f_first if left is None else left.astype(values)
        out = select(x < x_first, broadcasted(below, x.shape), out)
    if not isinstance(right, tuple):
        above = f_last if right is None else right.astype(values)
        out = select(x_last < x, broadcasted(above, x.shape), out)
    return out


def _height(part: Any, first: Any, last: Any) -> Any:
    """The height at a part of the way between two, which may be complex."""
    if first.dtype not in dtypes.COMPLEX:
        return height_p.bind(part, first, last)
    return complex(*[height_p.bind(part, of(first), of(last)) for of in (real, imag)])


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The points of one period in order, with one more at each end."""
    x, xp = _modulo(x, period), _modulo(xp, period)
    xp, order = sort((xp, iota(INT32, xp.size)), 0, num_keys=1)
    fp = take_axis(fp, order, 0, "clip")
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period], 0)
    return x, xp, concatenate([fp[-1:], fp, fp[:1]], 0)


def _modulo(x: Any, period: Any) -> Any:
    r = rem(x, broadcasted(period, x.shape))
    return select(r < 0, r + period, r)
