"""Normal numbers between two bounds that are both in one tail of the distribution.

There the distribution function is 1 or 0 to within rounding. So the upper tail Q of a sample x is
found from its quotient with that of the nearer bound a: log Q(a) - log Q(x) is the logarithm of a
uniform number. With x = a + d that difference is a d + d^2 / 2, plus log((x + 1) / (a + 1)), minus
the difference of a function that changes by less than 0.3 over the whole tail; one step of Halley's
method finds d in single precision, two in double.
"""

from __future__ import annotations

from typing import Any

from weft.ops.elementwise.arithmetic import add, div, exp, gt, lt, mul, neg, sqrt, square, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.elementary import expm1, log1p

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
    of = x.dtype.type
    variable = sub(of(1), div(of(8), add(x, of(3))))
    double = mul(variable, of(2))
    first, *rest = (of(c) for c in _SERIES[: _TERMS[x.dtype.itemsize]])
    later, last = mul(double, rest[-1]), rest[-1]
    later = add(later, rest[-2])
    for term in reversed(rest[:-2]):
        later, last = sub(add(mul(double, later), term), last), later
    return sub(add(mul(variable, later), first), last)


def _hazard(x: Any, correction: Any) -> Any:
    """The density over Q: the derivative of -log Q."""
    return mul(add(x, x.dtype.type(1)), exp(neg(correction)))


def tail_number(low: Any, high: Any, chance: Any) -> Any:
    """The normal number between 1 <= low < high at which `chance` of what lies between is below.

    `chance` is at least 0 and below 1. All have one dtype, of at least 32 bits; the bounds have the
    shape of `chance`, or none.
    """
    of = low.dtype.type
    half, one, two = of(0.5), of(1), of(2)
    low = minimum(low, of(_HUGE))
    nearest = _correction(low)

    def drop_to(away: Any, correction: Any) -> Any:
        """The logarithm of Q(low) / Q(low + away)."""
        smooth = sub(log1p(div(away, add(low, one))), sub(correction, nearest))
        return add(mul(away, add(low, mul(half, away))), smooth)

    width = minimum(maximum(sub(high, low), of(0)), of(_WIDEST))
    across = drop_to(width, _correction(add(low, width)))
    drop = neg(log1p(mul(chance, expm1(neg(across)))))
    # The parabola with the right slope at the bound, whose second derivative is between those at
    # the bound and far away (1).
    slope = _hazard(low, nearest)
    bend = mul(half, add(one, mul(slope, sub(slope, low))))
    root = sqrt(add(square(slope), mul(mul(two, bend), drop)))
    away = div(mul(two, drop), add(slope, root))
    for _ in range(_STEPS[low.dtype.itemsize]):
        point = add(low, away)
        correction = _correction(point)
        slope = _hazard(point, correction)
        step = div(sub(drop_to(away, correction), drop), slope)
        # The derivative of the slope is slope * (slope - point).
        bend = sub(one, mul(half, mul(step, sub(slope, point))))
        away = maximum(sub(away, div(step, bend)), of(0))
    return add(low, away)


def in_upper_tail(lower: Any) -> Any:
    """Whether an interval that begins at `lower` is in the upper tail."""
    return gt(lower, lower.dtype.type(1))


def in_lower_tail(upper: Any) -> Any:
    """Whether an interval that ends at `upper` is in the lower tail."""
    return lt(upper, upper.dtype.type(-1))
