"""Order statistics: quantile, percentile and median, with and without NaN.

Elements are sorted once and neighbours picked by position, so that `q` may be traced.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.argument_errors import not_taken, refusal, refuse_sharding, unknown_option
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    axes_of,
    broadcasted,
    check_flag,
    convert,
    inexact,
    operand,
    operands,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import number_for
from weft.kinds.repeated import repeated
from weft.numpy.creation import full
from weft.numpy.nan_reductions import is_nan
from weft.numpy.taking import take_axis
from weft.ops.elementwise.arithmetic import add, div, eq, gt, lt, mul, ne, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_and, bitwise_not, bitwise_or
from weft.ops.elementwise.rounding import RoundingMethod, ceil, floor
from weft.ops.elementwise.rounding import round as nearest
from weft.ops.elementwise.selection import clamp, select
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import iota
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.reduce import reduce_and, reduce_or
from weft.ops.reductions.sorting import sort
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from weft.typing import ArrayLike

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
# The methods of Hyndman and Fan that interpolate, by their two parameters.
_INTERPOLATED = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")
_ALL_METHODS = (*_METHODS, *_INTERPOLATED, *_STEPS)


@compiled
def _quantile(
    a: Any, q: Any, *, axes: tuple[int, ...], method: str, keepdims: bool, skip: bool, scale: int
) -> Any:
    of = type_of(a)
    target = inexact(dtypes.promote_types(of.dtype, inexact(type_of(q).dtype)))
    if type_of(q).weak_type or type_of(q).dtype not in dtypes.INEXACT:
        target = inexact(of.dtype)
    working = accumulator(target)
    x, q = convert(a, working), convert(q, working)
    if scale != 1:
        q = div(q, working.type(scale))
    rest = tuple(d for d in range(of.ndim) if d not in axes)
    left = tuple(of.shape[d] for d in rest)
    n = of.size // max(1, int(np.prod(left, dtype=np.int64))) if left else of.size
    x = sort(reshape(transpose(x, (*rest, *axes)), (*left, n)), -1)
    out = _at_fraction(x, q, method, skip)
    rank = type_of(q).ndim
    if keepdims:
        shape = tuple(1 if d in axes else s for d, s in enumerate(of.shape))
        out = reshape(out, (*type_of(out).shape[:rank], *shape))
    return convert(out, target)


def _at_fraction(x: Any, q: Any, method: str, skip: bool) -> Any:
    """The elements at fractions `q` of the last, sorted dimension; q's dimensions come first."""
    of, shape = type_of(x), type_of(q).shape
    left, n, dtype = of.shape[:-1], of.shape[-1], of.dtype
    rank = len(shape)
    grid = (*shape, *left)
    number = is_nan(x)
    q = broadcast_in_dim(q, grid, tuple(range(rank)))
    dims = tuple(range(rank, len(grid)))
    if skip:
        counted = reduce_sum(convert(bitwise_not(number), dtype), (len(left),))
        count = broadcast_in_dim(counted, grid, dims)
    else:
        count = broadcasted(dtype.type(n), grid)
    last = larger(sub(count, dtype.type(1)), dtype.type(0))
    if method in _METHODS:
        place = mul(q, last)
        low, high = floor(place), ceil(place)
        weight = sub(place, low)
    else:
        low, weight = _step_of(q, count, method)
        high = add(low, dtype.type(1))
    if method == "nearest":
        if config.settings().argument_rule == "jax":  # the lower one of two that are as near
            low = high = ceil(sub(place, dtype.type(0.5)))
        else:
            low = high = nearest(place, RoundingMethod.TO_NEAREST_EVEN)
    low, high = (_clamped(v, last) for v in (low, high))
    below, above = _pick(x, low), _pick(x, high)
    if method == "linear" or method not in _METHODS:
        out = add(mul(below, sub(dtype.type(1), weight)), mul(above, weight))
    elif method == "midpoint":
        out = mul(add(below, above), dtype.type(0.5))
    else:
        out = above if method == "higher" else below
    bad = reduce_or(number, (len(left),))
    if skip:
        bad = eq(counted, dtype.type(0))
    outside = bitwise_or(lt(q, dtype.type(0)), gt(q, dtype.type(1)))
    wrong = bitwise_or(broadcast_in_dim(bad, grid, dims), outside)
    return select(wrong, broadcasted(dtype.type(np.nan), grid), out)


def _step_of(q: Any, count: Any, method: str) -> tuple[Any, Any]:
    """The position below a quantile by a method of Hyndman and Fan, and how far it is to the next.

    Positions count from 0 and may lie outside of the elements.
    """
    dtype = type_of(q).dtype
    if method in _INTERPOLATED:
        alpha, beta = _INTERPOLATED[method]
        offset = add(mul(q, dtype.type(1 - alpha - beta)), dtype.type(alpha - 1))
        place = add(mul(q, count), offset)
        return floor(place), sub(place, floor(place))
    # The product is rounded down before anything is added: fused with a sum into one rounding, it
    # might miss the whole number that decides.
    halves = method == "closest_observation"
    product = mul(q, mul(count, dtype.type(2 if halves else 1)))
    whole = floor(product)
    exact = eq(product, whole)
    stay, mean, step = (broadcasted(dtype.type(v), type_of(q).shape) for v in (0, 0.5, 1))
    if not halves:
        low = sub(whole, dtype.type(1))
        return low, select(exact, mean if method == "averaged_inverted_cdf" else stay, step)
    place = mul(sub(whole, dtype.type(3)), dtype.type(0.5))
    low = floor(place)
    # Halfway between two, the one whose number is even, counted from 1.
    half = mul(low, dtype.type(0.5))
    on_element = bitwise_and(bitwise_and(exact, eq(place, low)), ne(floor(half), half))
    return low, select(on_element, stay, step)


@compiled
def _weighted_quantile(
    a: Any, q: Any, w: Any, *, axes: tuple[int, ...], keepdims: bool, skip: bool, scale: int
) -> Any:
    """The first element up to which the weights make the fraction q of all of them."""
    of = type_of(a)
    target = inexact(of.dtype)
    working = accumulator(target)
    q = convert(q, working) if scale == 1 else div(convert(q, working), working.type(scale))
    rest = tuple(d for d in range(of.ndim) if d not in axes)
    left = tuple(of.shape[d] for d in rest)
    n = int(np.prod([of.shape[d] for d in axes], dtype=np.int64))

    def rows(x: Any) -> Any:
        return reshape(transpose(convert(x, working), (*rest, *axes)), (*left, n))

    x, w = rows(a), rows(w)
    number = is_nan(x)
    zero = broadcasted(working.type(0), (*left, n))
    w = select(number, zero, w) if skip else w
    x, w = sort((x, w), -1)
    reached = cumsum(w, len(left))
    total = slicing.slice_in_dim(reached, n - 1, n, axis=len(left))
    part = div(reached, broadcasted(total, (*left, n)))
    # Elements without weight in front of all others are no quantile of anything.
    part = select(eq(part, zero), broadcasted(working.type(-1), (*left, n)), part)
    shape, rank = type_of(q).shape, type_of(q).ndim
    grid = (*shape, *left)
    spread = broadcast_in_dim(q, (*grid, n), tuple(range(rank)))
    part = broadcast_in_dim(part, (*grid, n), tuple(range(rank, rank + len(left) + 1)))
    place = reduce_sum(convert(lt(part, spread), working), (len(grid),))
    out = _pick(x, _clamped(place, broadcasted(working.type(n - 1), grid)))
    bad = reduce_and(number, (len(left),)) if skip else reduce_or(number, (len(left),))
    wide = broadcast_in_dim(q, grid, tuple(range(rank)))
    outside = bitwise_or(lt(wide, working.type(0)), gt(wide, working.type(1)))
    wrong = bitwise_or(broadcast_in_dim(bad, grid, tuple(range(rank, len(grid)))), outside)
    out = select(wrong, broadcasted(working.type(np.nan), grid), out)
    if keepdims:
        out = reshape(out, (*shape, *(1 if d in axes else s for d, s in enumerate(of.shape))))
    return convert(out, target)


def _spread_weights(name: str, weights: Any, of: Any, axes: tuple[int, ...], method: str) -> Any:
    """The weights in the shape of the array. Raises where they do not fit, or are negative."""
    if method != "inverted_cdf":
        message = f"{name} takes weights with one method only"
        got = f"method={method!r} with weights"
        fix = Fix("argument", "pass method='inverted_cdf'", {})
        raise refusal(WeftValueError, message, name, got, "method='inverted_cdf'", fix)
    weights = operand(name, weights)
    given = type_of(weights)
    if given.dtype in dtypes.COMPLEX:
        raise refusal(WeftValueError, f"{name}: weights are real", name, str(given), "real numbers")
    if not isinstance(weights, Tracer) and (np.asarray(weights) < 0).any():
        message = f"{name}: weights are not negative"
        raise refusal(WeftValueError, message, name, str(given), "0 or more")
    if given.shape == of.shape:
        return weights
    if given.shape != tuple(of.shape[d] for d in axes):
        message = f"{name}: weights have the shape of the array, or of its axes"
        wanted = f"{of.shape} or {tuple(of.shape[d] for d in axes)}"
        raise refusal(ShapeError, message, name, f"weights of type {given} for {of}", wanted)
    return broadcast_in_dim(weights, of.shape, axes)


def _clamped(x: Any, last: Any) -> Any:
    return smaller(larger(x, type_of(x).dtype.type(0)), last)


def _pick(x: Any, place: Any) -> Any:
    """The elements at float positions along the last dimension; new dimensions come first."""
    of, grid = type_of(x), type_of(place).shape
    left, n = of.shape[:-1], of.shape[-1]
    rank = len(grid) - len(left)
    index = convert(place, np.dtype(np.int32 if n < 2**31 else np.int64))
    order = (*range(rank, len(grid)), *range(rank))
    size = int(np.prod(grid[:rank], dtype=np.int64))
    flat = reshape(transpose(index, order), (*left, size))
    found = take_last(x, flat)
    back = reshape(found, (*left, *grid[:rank]))
    return transpose(back, (*range(len(left), len(grid)), *range(len(left))))


def take_last(x: Any, index: Any) -> Any:
    """The elements at positions along the last dimension, row by row."""
    rows = int(np.prod(type_of(x).shape[:-1], dtype=np.int64))
    n, k = type_of(x).shape[-1], type_of(index).shape[-1]
    base = mul(iota(type_of(index).dtype, rows), type_of(index).dtype.type(n))
    flat = add(reshape(index, (rows, k)), broadcast_in_dim(base, (rows, k), (0,)))
    return reshape(take_axis(reshape(x, (rows * n,)), flat, 0, "clip"), type_of(index).shape)


def _check_fractions(name: str, q: Any, scale: int) -> None:
    """Raises WeftValueError for fractions out of range that are numbers on the host; in an array
    on a device they give NaN. Under the setting `argument_rule="jax"` they mean the nearest end."""
    if config.lenient():
        return
    for value in q if isinstance(q, (list, tuple)) else [q]:
        if not isinstance(value, (int, float, np.number, np.ndarray)):
            continue
        if not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= scale)):
            other = {"quantile": "percentile", "nanquantile": "nanpercentile"}.get(name)
            percent = other and 0 <= np.min(value) and np.max(value) <= 100 * scale
            text = f"for a q in percent call {other}"
            fix = Fix("percent", text, {"function": other}) if percent else None
            message, wanted = f"{name}: q lies between 0 and {scale}", f"numbers from 0 to {scale}"
            raise refusal(WeftValueError, message, name, f"q={q!r:.80}", wanted, fix)


def _fraction(
    name: str, a: Any, q: Any, axis: Any, out: Any, overwrite_input: bool, method: str, keepdims:
    bool, weights: Any = None,
) -> Any:  # fmt: skip
    check_flag(keepdims, name, "keepdims")
    refuse_out(name, out)
    scale = 100 if name.endswith("percentile") else 1
    _check_fractions(name, q, scale)
    a, given = operands(name, a, q)
    if type_of(a).dtype in dtypes.REAL:
        given = number_for(name, q, inexact(type_of(a).dtype))
    kind = type_of(given).dtype.type
    q = clamp(kind(0), given, kind(scale)) if config.lenient() else given
    check_flag(overwrite_input, name, "overwrite_input")
    if overwrite_input:
        why = "arrays do not change in place"
        raise not_taken(name, "overwrite_input", overwrite_input, why, "leave it out", False)
    if method not in _ALL_METHODS:
        raise unknown_option(name, "method", method, ", ".join(_ALL_METHODS))
    of = type_of(a)
    if of.dtype in dtypes.COMPLEX:
        raise WeftValueError(f"{name} takes real numbers", operation=name, got=str(of))
    axes = axes_of(axis, of.ndim, name)
    if type_of(q).ndim > 1:
        raise refusal(ShapeError, f"{name} takes q of at most one dimension", name, str(type_of(q)))
    if 0 in [of.shape[d] for d in axes]:
        if name in ("quantile", "percentile"):
            raise WeftValueError(f"{name}: there are no elements", operation=name, got=str(of))
        rest = [1 if d in axes else s for d, s in enumerate(of.shape) if keepdims or d not in axes]
        return full((*type_of(q).shape, *rest), math.nan, inexact(of.dtype))
    how = {"keepdims": bool(keepdims), "skip": name.startswith("nan"), "scale": scale}
    if weights is not None:
        spread = _spread_weights(name, weights, of, axes, method)
        return _weighted_quantile(a, q, spread, axes=axes, **how)
    return _quantile(a, q, axes=axes, method=method, **how)


@repeated
def quantile(
    a: ArrayLike, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method:
    str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """The values below which the fractions `q` of the elements along `axis` are.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 1, whose dimension
    comes first in the result; method: the value between two elements: "linear", "lower", "higher",
    "midpoint", "nearest", or one of the other methods of Hyndman and Fan, Sample quantiles in
    statistical packages (1996), by NumPy's names. weights: of the array's shape or that of `axis`,
    with method="inverted_cdf". NaN where there is one.

    >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0]), 0.75)
    Array(2.5, dtype=float32)
    """
    return _fraction("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


def nanquantile(
    a: ArrayLike, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method:
    str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """`quantile` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 1; method, weights: as
    in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.nanquantile(jnp.array([jnp.nan, 1.0, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _fraction("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@repeated
def percentile(
    a: ArrayLike, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method:
    str = "linear", keepdims: bool = False, *, weights: Any = None, out_sharding: None = None,
) -> Array:  # fmt: skip
    """`quantile` with `q` in percent.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 100; method, weights:
    as in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 75.0]))
    Array([1. , 2.5], dtype=float32)
    """
    refuse_sharding("percentile", out_sharding)
    return _fraction("percentile", a, q, axis, out, overwrite_input, method, keepdims, weights)


def nanpercentile(
    a: ArrayLike, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method:
    str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """`percentile` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 100; method, weights:
    as in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.nanpercentile(jnp.array([jnp.nan, 1.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    return _fraction("nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@repeated
def median(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle of the sorted elements along `axis`, or the mean of the middle two.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.median(jnp.array([3.0, 1.0, 2.0, 10.0]))
    Array(2.5, dtype=float32)
    """
    return _fraction("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """`median` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. Shapes, dtypes and errors are those of
    `median`.

    >>> jnp.nanmedian(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2., dtype=float32)
    """
    return _fraction("nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)
