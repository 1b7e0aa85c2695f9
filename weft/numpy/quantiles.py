"""Order statistics: quantile, percentile and median, with and without NaN.

Elements are sorted once and neighbours picked by position, so that `q` may be traced.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import unsupported_argument
from weft.kinds.arguments import Axes, Flag, NoSharding, Operand, Out, choice, operand_kind
from weft.kinds.array_function import array_function, constant
from weft.kinds.checks import broadcasted, check_arrays, inexact
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.elementwise import maximum, minimum
from weft.numpy.nan_reductions import is_nan
from weft.numpy.taking import take_axis
from weft.ops.elementwise.rounding import RoundingMethod, ceil, floor
from weft.ops.elementwise.rounding import round as nearest
from weft.ops.elementwise.selection import clamp, select
from weft.ops.flags import check_flag
from weft.ops.indexing.creation import full, iota
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.sorting import sort
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim

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


# ---- kinds ---------------------------------------------------------------------------------------


def _fractions(scale: int) -> Kind:
    """The kind of fractions of 1 or of 100.

    Numbers on the host out of range are refused; in an array on a device they give NaN. Under the
    setting `argument_rule="jax"` they mean the nearest end.
    """

    def take(value: Any, call: Arguments) -> Any:
        if not config.lenient():
            _check_fractions(value, scale, call)
        check_arrays(value, argument=call.name)
        if type_of(value).ndim > 1:
            message = "takes q of at most one dimension"
            raise ShapeError(message, got=str(type_of(value)))
        real = call.type.dtype in dtypes.REAL
        return number_for(value, inexact(call.type.dtype)) if real else value

    return dataclasses.replace(
        operand_kind, take=take, means=f"numbers from 0 to {scale}", arrays=False, right=0.5
    )


def _check_fractions(q: Any, scale: int, call: Arguments) -> None:
    name = call.operation
    for value in q if isinstance(q, (list, tuple)) else [q]:
        if not isinstance(value, (int, float, np.number, np.ndarray)):
            continue
        if not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= scale)):
            other = {"quantile": "percentile", "nanquantile": "nanpercentile"}.get(name)
            percent = other and 0 <= np.min(value) and np.max(value) <= 100 * scale
            text = f"for a q in percent call {other}"
            fix = Fix("percent", text, {"function": other}) if percent else None
            message, wanted = f"q lies between 0 and {scale}", f"numbers from 0 to {scale}"
            raise WeftValueError(message, got=f"q={q!r:.80}", wanted=wanted, fix=fix)


def _not_overwritten(value: Any, call: Arguments) -> None:
    check_flag(value, call.name)
    if value:
        why = "arrays do not change in place"
        raise unsupported_argument(call.operation, call.name, value, why, "leave it out", False)


def _weights(value: Any, call: Arguments) -> Any:
    if call["method"] != "inverted_cdf":
        message = "takes weights with one method only"
        got = f"method={call['method']!r} with weights"
        fix = Fix("argument", "pass method='inverted_cdf'", {})
        raise WeftValueError(message, got=got, wanted="method='inverted_cdf'", fix=fix)
    value = operand_kind.take(value, call)
    given = str(type_of(value))
    if type_of(value).dtype in dtypes.COMPLEX:
        raise WeftValueError("weights are real", got=given, wanted="real numbers")
    if not isinstance(value, Tracer):
        call.reads = True
        if (np.asarray(value) < 0).any():
            message = "weights are not negative"
            raise WeftValueError(message, got=given, wanted="0 or more")
    return value


Fractions = Annotated[Any, _fractions(1)]
Percents = Annotated[Any, _fractions(100)]
Method = Annotated[
    str, choice(*_METHODS, *_INTERPOLATED, *_STEPS, means="the value between two elements, by name")
]
NotOverwritten = Annotated[
    bool, Kind(_not_overwritten, "False: arrays do not change in place", (True, "no"))
]
Weights = Annotated[Any, dataclasses.replace(operand_kind, take=_weights, arrays=False, wrong=(1,))]


# ---- elements at a position ----------------------------------------------------------------------


def _quantile(
    a: Any, q: Any, axes: Any, method: str, keepdims: bool, weights: Any, skip: bool, scale: int
) -> Any:
    """The elements at the fractions `q` of `scale` (None: in the middle); `skip`: without NaN."""
    if a.dtype in dtypes.COMPLEX:
        raise WeftValueError("it takes real numbers", got=str(a.type))
    target, middle = inexact(a.dtype), q is None
    q = constant(0.5) if q is None else q
    if 0 in [a.shape[d] for d in axes]:
        if not skip and not middle:
            raise WeftValueError("there are no elements", got=str(a.type))
        rest = [1 if d in axes else n for d, n in enumerate(a.shape) if keepdims or d not in axes]
        return full((*q.shape, *rest), math.nan, target)
    typed = q.dtype in dtypes.INEXACT and not q.weak_type
    if typed and weights is None:
        target = inexact(dtypes.promote_types(a.dtype, q.dtype))
    working = accumulator(target)
    if config.lenient():
        q = clamp(q.dtype.type(0), q, q.dtype.type(scale))
    q = q.astype(working)
    if scale != 1:
        q = q / scale
    x = _in_rows(a.astype(working), axes)
    if weights is None:
        out = _at_fraction(sort(x, -1), q, method, skip)
    else:
        out = _at_weight(x, _in_rows(_expand(weights, a, axes).astype(working), axes), q, skip)
    if keepdims:
        out = out.reshape(*q.shape, *(1 if d in axes else n for d, n in enumerate(a.shape)))
    return out.astype(target)


def _in_rows(x: Any, axes: tuple[int, ...]) -> Any:
    """Merges the axes into the last dimension."""
    rest = [d for d in range(x.ndim) if d not in axes]
    count = math.prod(x.shape[d] for d in axes)
    return x.transpose((*rest, *axes)).reshape(*(x.shape[d] for d in rest), count)


def _at_fraction(x: Any, q: Any, method: str, skip: bool) -> Any:
    """The elements at fractions `q` of the last, sorted dimension; q's dimensions come first."""
    grid, dtype = (*q.shape, *x.shape[:-1]), x.dtype
    q = broadcast_in_dim(q, grid, tuple(range(q.ndim)))
    missing = is_nan(x)
    if skip:
        count = (~missing).sum(-1, dtype=dtype)
        bad, count = count == 0, broadcasted(count, grid)
    else:
        bad, count = missing.any(-1), full(grid, x.shape[-1], dtype)
    last = maximum(count - 1, 0)
    if method in _METHODS:
        place = q * last
        low, high = floor(place), ceil(place)
        weight = place - low
    else:
        low, weight = _step_of(q, count, method)
        high = low + 1
    if method == "nearest":
        if config.lenient():  # the lower one of two that are as near
            low = high = ceil(place - 0.5)
        else:
            low = high = nearest(place, RoundingMethod.TO_NEAREST_EVEN)
    below, above = (_pick(x, minimum(maximum(v, 0), last)) for v in (low, high))
    if method == "linear" or method not in _METHODS:
        out = below * (1 - weight) + above * weight
    elif method == "midpoint":
        out = (below + above) * 0.5
    else:
        out = above if method == "higher" else below
    return _or_nan(out, q, bad)


def _or_nan(out: Any, q: Any, bad: Any) -> Any:
    """The result, with NaN where it is bad or the fraction is out of range."""
    wrong = broadcasted(bad, out.shape) | ((q < 0) | (q > 1))
    return select(wrong, full(out.shape, math.nan, out.dtype), out)


def _step_of(q: Any, count: Any, method: str) -> tuple[Any, Any]:
    """The position below a quantile by a method of Hyndman and Fan, and the share of the next.

    Positions count from 0 and may be outside of the elements.
    """
    if method in _INTERPOLATED:
        alpha, beta = _INTERPOLATED[method]
        place = q * count + (q * (1 - alpha - beta) + (alpha - 1))
        return floor(place), place - floor(place)
    # The product is rounded down before anything is added: fused with a sum into one rounding, it
    # might miss the whole number that decides.
    halves = method == "closest_observation"
    product = q * (count * (2 if halves else 1))
    whole = floor(product)
    exact = product == whole
    stay, mean, step = (full(q.shape, v, q.dtype) for v in (0, 0.5, 1))
    if not halves:
        return whole - 1, select(exact, mean if method == "averaged_inverted_cdf" else stay, step)
    place = (whole - 3) * 0.5
    low = floor(place)
    # Halfway between two, the one whose number is even, counted from 1.
    half = low * 0.5
    return low, select(exact & (place == low) & (floor(half) != half), stay, step)


def _at_weight(x: Any, w: Any, q: Any, skip: bool) -> Any:
    """The first element at which the cumulative weight reaches the fraction q."""
    missing = is_nan(x)
    if skip:
        w = select(missing, full(w.shape, 0, w.dtype), w)
    x, w = sort((x, w), -1)
    reached = cumsum(w, x.ndim - 1)
    part = reached / reached[..., -1:]
    # Elements without weight in front of all others are no quantile of anything.
    part = select(part == 0, full(part.shape, -1, part.dtype), part)
    grid = (*q.shape, *x.shape[:-1])
    q = broadcast_in_dim(q, grid, tuple(range(q.ndim)))
    wanted = broadcast_in_dim(q, (*grid, x.shape[-1]), tuple(range(len(grid))))
    place = (part < wanted).sum(-1, dtype=x.dtype)
    out = _pick(x, minimum(place, x.shape[-1] - 1))
    return _or_nan(out, q, missing.all(-1) if skip else missing.any(-1))


def _expand(weights: Any, a: Any, axes: tuple[int, ...]) -> Any:
    """Broadcasts weights to the array. Raises ShapeError if they do not fit."""
    shape = tuple(a.shape[d] for d in axes)
    if weights.shape == a.shape:
        return weights
    if weights.shape != shape:
        message = "weights have the shape of the array, or of its axes"
        got = f"weights of type {weights.type} for {a.type}"
        raise ShapeError(message, got=got, wanted=f"{a.shape} or {shape}")
    return broadcast_in_dim(weights, a.shape, axes)


def _pick(x: Any, place: Any) -> Any:
    """The elements at float positions along the last dimension; new dimensions come first."""
    index = place.astype(np.int32 if x.size < 2**31 else np.int64)
    if x.ndim > 1:
        rows = iota(index.dtype, math.prod(x.shape[:-1])) * x.shape[-1]
        index = index + rows.reshape(x.shape[:-1])
    return take_axis(x.reshape(-1), index, 0, "clip")


# ---- functions -----------------------------------------------------------------------------------


@array_function
def quantile(
    a: Operand, q: Fractions, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten =
    False, method: Method = "linear", keepdims: Flag = False, *, weights: Weights | None = None,
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
    return _quantile(a, q, axis, method, keepdims, weights, False, 1)


@array_function
def nanquantile(
    a: Operand, q: Fractions, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten =
    False, method: Method = "linear", keepdims: Flag = False, *, weights: Weights | None = None,
) -> Array:  # fmt: skip
    """`quantile` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 1; method, weights: as
    in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.nanquantile(jnp.array([jnp.nan, 1.0, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _quantile(a, q, axis, method, keepdims, weights, True, 1)


@array_function
def percentile(
    a: Operand, q: Percents, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten =
    False, method: Method = "linear", keepdims: Flag = False, *, weights: Weights | None = None,
    out_sharding: NoSharding = None,
) -> Array:  # fmt: skip
    """`quantile` with `q` in percent.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 100; method, weights:
    as in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 75.0]))
    Array([1. , 2.5], dtype=float32)
    """
    return _quantile(a, q, axis, method, keepdims, weights, False, 100)


@array_function
def nanpercentile(
    a: Operand, q: Percents, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten =
    False, method: Method = "linear", keepdims: Flag = False, *, weights: Weights | None = None,
) -> Array:  # fmt: skip
    """`percentile` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. q: numbers between 0 and 100; method, weights:
    as in `quantile`. Shapes, dtypes and errors are those of `quantile`.

    >>> jnp.nanpercentile(jnp.array([jnp.nan, 1.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    return _quantile(a, q, axis, method, keepdims, weights, True, 100)


@array_function
def median(
    a: Operand, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten = False,
    keepdims: Flag = False,
) -> Array:  # fmt: skip
    """The middle of the sorted elements along `axis`, or the mean of the middle two.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.median(jnp.array([3.0, 1.0, 2.0, 10.0]))
    Array(2.5, dtype=float32)
    """
    return _quantile(a, None, axis, "midpoint", keepdims, None, False, 1)


@array_function
def nanmedian(
    a: Operand, axis: Axes = None, out: Out = None, overwrite_input: NotOverwritten = False,
    keepdims: Flag = False,
) -> Array:  # fmt: skip
    """`median` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. Shapes, dtypes and errors are those of
    `median`.

    >>> jnp.nanmedian(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2., dtype=float32)
    """
    return _quantile(a, None, axis, "midpoint", keepdims, None, True, 1)
