"""The normal distribution and those that are functions of normal numbers.

A normal number is the inverse of its distribution function, that is of the error function, at a
uniform number; so each takes a fixed amount of random bits, and no loop.

Normal numbers between two bounds that are both in one tail of the distribution.

There the distribution function is 1 or 0 to within rounding. So the upper tail Q of a sample x is
found from its quotient with that of the nearer bound a: log Q(a) - log Q(x) is the logarithm of a
uniform number. With x = a + d that difference is a d + d^2 / 2, plus log((x + 1) / (a + 1)), minus
the difference of a function that changes by less than 0.3 over the whole tail; one step of Halley's
method finds d in single precision, two in double.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.cond import cond
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.checks import computing_dtype, convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import exp, sqrt, square
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.complex import complex
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.elementary import expm1, log1p
from weft.ops.elementwise.rounding import nextafter
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import erf, erf_inv
from weft.ops.reductions.reduce import reduce_or
from weft.random.draw_arguments import (
    Joined,
    Key,
    Numbers,
    Real,
    Reals,
    Shape,
    Sharding,
    check_shape,
    joined_shape,
)
from weft.random.streams import (
    Stream,
    broadcast_number,
    broadcast_to,
    draw_function,
    full_operand,
    stream_of,
)
from weft.random.uniforms import draw_signs

# log(sqrt(2 pi) (x + 1) exp(x^2 / 2) Q(x)) for x >= 1 as a sum of Chebyshev polynomials of
# 1 - 8 / (x + 3): computed with 40 digits at 48 nodes. (That a rational function of x as the
# variable makes such a series short is from M. Shepherd and J. Laframboise, "Chebyshev
# approximation of (1 + 2x) exp(x^2) erfc x", Mathematics of Computation 36, 1981.)
_SERIES = (
    0.14169958674715447, -0.14141925659697127, -0.005094727322555004, 0.005838484684733822,
    -0.0010829186509566115, 4.802861702056908e-05, 1.0919850091107765e-05, 6.400007266627572e-07,
    -8.455528580391736e-07, 6.999970170393902e-08, 2.0397504080870632e-08, -1.164615478183083e-09,
    -1.130480884143924e-09, 8.27300959910427e-11, 4.1719213273108986e-11, -9.847157135168924e-13,
    -2.0165192081685377e-12, -2.573637413409225e-14, 7.818695560760744e-14, 7.605993117328865e-15,
    -2.782652784929135e-15, -5.651268953104193e-16, 4.7997690620706526e-17,
)  # fmt: skip
# How many terms make the error less than rounding, and how many steps follow: from within 0.07 of
# the solution (0.03 where 32 bits are drawn) a step leads to within 1e-7, and the next to rounding.
_TERMS = {4: 11, 8: 23}
_STEPS = {4: 1, 8: 2}
# Beyond it a bound plus the drawn distance rounds to the bound, and its square is still finite.
_HUGE = 1e15
# From this distance on the other bound has no effect: exp(-this) is 0.
_WIDEST = 1000.0


def _correction(x: Any) -> Any:
    """The sum of `_SERIES` for x >= 1, by Clenshaw's recurrence."""
    variable = 1.0 - 8.0 / (x + 3.0)
    double = variable * 2.0
    first, *rest = _SERIES[: _TERMS[x.dtype.itemsize]]
    later, last = double * rest[-1] + rest[-2], rest[-1]
    for term in reversed(rest[:-2]):
        later, last = double * later + term - last, later
    return variable * later + first - last


def _hazard(x: Any, correction: Any) -> Any:
    """The density over Q: the derivative of -log Q."""
    return (x + 1.0) * exp(-correction)


def tail_number(low: Any, high: Any, chance: Any) -> Any:
    """The normal number between 1 <= low < high at which `chance` of what lies between is below.

    `chance` is at least 0 and below 1. All have one dtype, of at least 32 bits; the bounds have the
    shape of `chance`, or none.
    """
    of = low.dtype.type
    low = minimum(low, of(_HUGE))
    nearest = _correction(low)

    def drop_to(away: Any, correction: Any) -> Any:
        """The logarithm of Q(low) / Q(low + away)."""
        smooth = log1p(away / (low + 1.0)) - (correction - nearest)
        return away * (low + 0.5 * away) + smooth

    width = minimum(maximum(high - low, of(0)), of(_WIDEST))
    across = drop_to(width, _correction(low + width))
    drop = -log1p(chance * expm1(-across))
    # The parabola with the right slope at the bound, whose second derivative is between those at
    # the bound and far away (1).
    slope = _hazard(low, nearest)
    bend = 0.5 * (1.0 + slope * (slope - low))
    away = 2.0 * drop / (slope + sqrt(square(slope) + 2.0 * bend * drop))
    for _ in range(_STEPS[low.dtype.itemsize]):
        point = low + away
        correction = _correction(point)
        slope = _hazard(point, correction)
        step = (drop_to(away, correction) - drop) / slope
        # The derivative of the slope is slope * (slope - point).
        bend = 1.0 - 0.5 * step * (slope - point)
        away = maximum(away - step / bend, of(0))
    return low + away


def in_upper_tail(lower: Any) -> Any:
    """Whether an interval that begins at `lower` is in the upper tail."""
    return lower > 1.0


def in_lower_tail(upper: Any) -> Any:
    """Whether an interval that ends at `upper` is in the lower tail."""
    return upper < -1.0


def _first_lengths(value: Any, call: Arguments) -> tuple[int, ...]:
    last = joined_shape(None, loc=call["loc"], scale=call["scale"])
    return (*check_shape(value), *last)


_MEANS = "the first lengths of the result; those of the parameters follow"
FirstLengths = Annotated[
    Any, Kind(_first_lengths, _MEANS, ("text", 0.5, -1), plain=NEVER, late=True)
]


@draw_function
def normal(
    key: Key, shape: Shape = (), dtype: Numbers = None, *, out_sharding: Sharding = None
) -> Array:
    """Normally distributed numbers of mean 0 and variance 1.

    Args:
        key (Array): A random key.
        shape: The shape of the result.
        dtype (dtype): A floating-point or complex dtype, by default float32 (float64 with
            `enable_x64`). Of complex numbers, real and imaginary part are independent, of variance
            1/2 each.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> print(weft.random.normal(weft.random.key(0)))
    1.6226422
    """
    return draw_normal(stream_of(key), shape, dtype)


def normal_of(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """Normal numbers of a floating-point dtype from a stream."""
    one = dtype.type(1)
    # The inverse error function is infinite at -1, so the number after it comes first.
    low = np.nextafter(dtype.type(-1), one)
    return erf_inv(stream.uniform(shape, dtype, low, one)) * dtype.type(math.sqrt(2))


def draw_normal(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """Normal numbers of a floating-point or complex dtype from a stream."""
    if dtype not in dtypes.COMPLEX:
        return normal_of(stream, shape, dtype)
    part = dtypes.to_real(dtype)
    real, imaginary = (normal_of(s, shape, part) for s in stream.split())
    return complex(real, imaginary) / dtype.type(math.sqrt(2))


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers that are normally distributed between two bounds, and never outside.

    Args:
        key (Array): A random key.
        lower (number or Array): The lower bound; it broadcasts to `shape`.
        upper (number or Array): The upper bound; it broadcasts to `shape`.
        shape: The shape of the result, by default the one to which the bounds broadcast together.
        dtype (dtype): A floating-point dtype, by default float32 (float64 with `enable_x64`).
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> print(weft.random.truncated_normal(weft.random.key(0), -1, 1))
    0.8618594
    """
    tails = any(not isinstance(x, (int, float)) for x in (lower, upper))
    # Known bounds that leave out no more than one tail need no formula for tails.
    tails = tails or lower > 1 or upper < -1
    return _truncated_normal(key, lower, upper, shape, dtype, tails, out_sharding=out_sharding)


@draw_function
def _truncated_normal(
    key: Key,
    lower: Real,
    upper: Real,
    shape: Joined = None,
    dtype: Reals = None,
    tails: Flag = True,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """`truncated_normal`; `tails`: a bound may be in a tail, where the error function is 1."""
    lower, upper = full_operand(lower, shape, dtype), full_operand(upper, shape, dtype)
    if tails:
        return _tailed_normal(stream_of(key), lower, upper, shape, dtype)
    root_two = dtype.type(math.sqrt(2))
    # The uniform number lies between the values of the error function at the bounds.
    low, high = erf(lower / root_two), erf(upper / root_two)
    drawn = erf_inv(stream_of(key).uniform(shape, dtype, low, high)) * root_two
    return _between(lower, upper, drawn, dtype)


def _between(lower: Any, upper: Any, drawn: Any, dtype: Any) -> Any:
    """Clips numbers that rounding moved out of the bounds.

    The bounds are constant here: derivatives in them are those of `drawn`.
    """
    first = nextafter(stop_gradient(lower), dtype.type(np.inf))
    last = nextafter(stop_gradient(upper), dtype.type(-np.inf))
    return minimum(maximum(drawn, first), last)


def _tailed_normal(stream: Stream, lower: Any, upper: Any, shape: Shape, dtype: Any) -> Any:
    wide = computing_dtype(dtype)
    # Terms of the bounds alone are computed once where both have no dimensions.
    bounds = shape if lower.shape or upper.shape else ()
    lower, upper = (convert(broadcast_to(x, bounds), wide) for x in (lower, upper))
    above, below = in_upper_tail(lower), in_lower_tail(upper)
    tail = above | below
    one, two = (broadcast_number(x, bounds, wide) for x in (1, 2))
    root_two = wide.type(math.sqrt(2))
    low = erf(select(tail, -one, lower) / root_two)
    high = erf(select(tail, one, upper) / root_two)
    chance = convert(stream.unit(shape, dtype), wide)
    drawn = erf_inv(maximum(low, chance * (high - low) + low)) * root_two

    def with_tails(chance: Any, lower: Any, upper: Any, drawn: Any) -> Any:
        # The lower tail mirrors the upper one.
        nearer = select(above, lower, select(below, -upper, one))
        farther = select(above, upper, select(below, -lower, two))
        outer = tail_number(nearer, farther, chance) * select(above, one, -one)
        return select(tail, outer, drawn) if bounds else outer

    # Bounds are seldom in a tail, and the formula for tails costs several times as much.
    some = reduce_or(tail, tuple(range(len(bounds))))
    drawn = cond(some, with_tails, lambda *operands: operands[3], chance, lower, upper, drawn)
    drawn, lower, upper = (convert(x, dtype) for x in (drawn, lower, upper))
    return _between(lower, upper, drawn, dtype)


@draw_function
def lognormal(
    key: Key,
    sigma: Real = 1.0,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Numbers whose logarithm is normally distributed, of mean 0 and standard deviation `sigma`.

    `sigma` broadcasts to `shape`, which is by default its own.

    sigma: the standard deviation of the logarithm; shape: the lengths of the result; None for the
    shape of `sigma`.

    >>> weft.random.lognormal(weft.random.key(0), 1.0, (2,)).round(3)
    Array([5.0660005, 7.5780005], dtype=float32)
    """
    return exp(normal_of(stream_of(key), shape, dtype) * full_operand(sigma, shape, dtype))


@draw_function
def maxwell(
    key: Key, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Maxwell distributed numbers: the length of a vector of three normal numbers.

    >>> weft.random.maxwell(weft.random.key(0), (2,)).round(3)
    Array([2.631     , 0.99100006], dtype=float32)
    """
    return _maxwell_of(stream_of(key), shape, dtype)


def _maxwell_of(stream: Stream, shape: Shape, dtype: Any) -> Any:
    x = normal_of(stream, (*shape, 3), dtype)
    # Narrow dtypes are summed in float32.
    x = convert(x, dtypes.float32) if dtype.itemsize < 4 else x
    return convert(sqrt((x * x).sum(len(shape))), dtype)


@draw_function
def double_sided_maxwell(
    key: Key, loc: Real, scale: Real, shape: FirstLengths = (), dtype: Reals = None
) -> Array:
    """`loc` plus or minus, with equal chance, `scale` times a Maxwell distributed number.

    loc: the centre of the distribution; scale: the factor by which it is stretched; shape: the
    first lengths of the result, which those of the parameters follow.

    >>> weft.random.double_sided_maxwell(weft.random.key(0), 0.0, 1.0, (2,)).round(3)
    Array([1.5460001, 1.5740001], dtype=float32)
    """
    first, second = stream_of(key).split()
    drawn = draw_signs(second, shape, dtype) * _maxwell_of(first, shape, dtype)
    return drawn * full_operand(scale, shape, dtype) + full_operand(loc, shape, dtype)


@draw_function
def wald(
    key: Key,
    mean: Real,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Wald (inverse Gaussian) distributed numbers of a mean, and of shape parameter 1.

    `mean` broadcasts to `shape`, which is by default its own. See J. Michael, W. Schucany and
    R. Haas, "Generating random variates using transformations with multiple roots", The American
    Statistician 30 (1976).

    mean: the mean of the distribution, above 0; shape: the lengths of the result; None for the
    shape of `mean`.

    >>> weft.random.wald(weft.random.key(0), 1.0, (2,)).round(3)
    Array([0.381, 0.416], dtype=float32)
    """
    mean = full_operand(mean, shape, dtype)
    first, second = stream_of(key).split()
    x = normal_of(first, shape, dtype)
    chance = second.unit(shape, dtype)
    # The smaller root of a quadratic equation, or the other one, which is mean**2 over the first.
    # The first is mean over the sum of 1, half of mean * y and the root of their difference's
    # square, in which nothing cancels.
    part = mean * 0.5 * (x * x)
    share = 1 / (1 + part + sqrt(part * (part + 2)))
    return select(chance <= 1 / (1 + share), mean * share, mean / share)
