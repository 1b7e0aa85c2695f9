"""Normal numbers between two bounds that are both in one tail of the distribution.

There the distribution function is 1 or 0 to within rounding. So the upper tail Q of a sample x is
found from its quotient with that of the nearer bound a: log Q(a) - log Q(x) is the logarithm of a
uniform number. With x = a + d that difference is a d + d^2 / 2 plus that of two logarithms which
change slowly, log(exp(x^2 / 2) Q(x)), and Halley's method finds d.
"""

from __future__ import annotations

import math
from typing import Any

from weft.ops.arithmetic import add, div, exp, gt, log, lt, mul, neg, sqrt, square, sub
from weft.ops.arithmetic import max as maximum
from weft.ops.arithmetic import min as minimum
from weft.ops.elementary import expm1, log1p
from weft.ops.selection import select
from weft.ops.special import erfc

__all__ = ["in_lower_tail", "in_upper_tail", "tail_number"]

# From here on the asymptotic series (DLMF 7.12.1) serves, with a relative error of 1e-10.
_FAR = 10.0
_TERMS = 9
# Halley's method starts at most 0.5 off where it converges slowest, at the bound 1.
_STEPS = 3
# Beyond it a number plus what is drawn is the number itself, and its square is still finite.
_HUGE = 1e15
# The other bound matters no more at this distance: exp(-this) is 0.
_WIDEST = 1000.0


def _log_scaled_tail(x: Any) -> Any:
    """log(exp(x^2 / 2) Q(x)) for x >= 1, where Q is the upper tail of the normal distribution."""
    one, half = x.dtype.type(1), x.dtype.type(0.5)
    far = gt(x, x.dtype.type(_FAR))
    near = select(far, maximum(mul(x, x.dtype.type(0)), one), x)
    inner = add(
        log(mul(half, erfc(mul(near, x.dtype.type(math.sqrt(0.5)))))), mul(half, square(near))
    )
    large = maximum(x, x.dtype.type(_FAR))
    inverse = div(one, square(large))
    series = mul(inverse, x.dtype.type(0))
    for k in range(_TERMS, 0, -1):  # 1 - 1/x^2 + 1 3/x^4 - 1 3 5/x^6 …, without its 1
        series = mul(mul(inverse, x.dtype.type(-(2 * k - 1))), add(series, one))
    outer = sub(log1p(series), add(log(large), x.dtype.type(0.5 * math.log(2 * math.pi))))
    return select(far, outer, inner)


def tail_number(low: Any, high: Any, chance: Any) -> Any:
    """The normal number between 1 <= low < high at which `chance` of what lies between is below.

    `chance` is at least 0 and below 1. All are of one dtype, of at least 32 bits.
    """
    of = low.dtype.type
    half, two = of(0.5), of(2)
    low = minimum(low, of(_HUGE))
    width = minimum(maximum(sub(high, low), of(0)), of(_WIDEST))
    nearest = _log_scaled_tail(low)
    # The logarithm of Q(low) / Q(high), and of Q(low) / Q(x).
    across = sub(
        add(mul(width, low), mul(half, square(width))),
        sub(_log_scaled_tail(add(low, width)), nearest),
    )
    drop = neg(log1p(mul(chance, expm1(neg(across)))))
    away = div(mul(two, drop), add(low, sqrt(add(square(low), mul(two, drop)))))
    for _ in range(_STEPS):
        point = add(low, away)
        scaled = _log_scaled_tail(point)
        error = sub(sub(add(mul(away, low), mul(half, square(away))), sub(scaled, nearest)), drop)
        # The slope of the difference, whose own slope is hazard * (hazard - point).
        hazard = exp(sub(of(-0.5 * math.log(2 * math.pi)), scaled))
        step = div(error, hazard)
        bend = sub(of(1), mul(half, mul(step, sub(hazard, point))))
        away = maximum(sub(away, div(step, bend)), of(0))
    return add(low, away)


def in_upper_tail(lower: Any) -> Any:
    """Where an interval from `lower` on is in the upper tail."""
    return gt(lower, lower.dtype.type(1))


def in_lower_tail(upper: Any) -> Any:
    """Where an interval up to `upper` is in the lower tail."""
    return lt(upper, upper.dtype.type(-1))
