"""The Gaussian function and its tails, without the error of a rounded square.

exp(-x^2) of a rounded square misses half a unit in the last place of the square: sixty units of the
result where it is smallest. Here the square has two parts (`exponentials`). The scaled tail
erfcx(x) = exp(x^2) erfc(x) is a Chebyshev series, and so is its derivative, in which the terms of
the formula 2 x erfcx(x) - 2 / sqrt(pi) cancel.
"""

from __future__ import annotations

import math
from typing import Any

from weft.core.primitive import Primitive
from weft.ops.elementwise.arithmetic import add, mul, neg, scalar, sub
from weft.ops.elementwise.exponentials import exp_of_square, rest_of_square
from weft.ops.elementwise.formulas import Term, chebyshev, kernel, log1p, where
from weft.runtime import stablehlo

_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
# By interpolation in arithmetic of fifty digits; terms below 1e-18 of the largest are left out.
# (1 + 2 x) erfcx(x) for x >= 0, in (x - 15/4) / (x + 15/4).
_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17, -2.2370566594359995e-18, -2.187342944303018e-18,
)  # fmt: skip

# -(1 + 2 x)^2 times the derivative of erfcx(x) for x >= 0, in (x - 15/4) / (x + 15/4).
_ERFCX_SLOPE = (
    2.220602224347926, 0.3381491578548434, -0.4780647072401491, 0.22991599476375216,
    -0.058506716560431084, 0.00017975876764081186, 0.0073446428848319605, -0.003827223400331194,
    0.0011722202970178507, -0.00023037555021512273, 2.2114134929734502e-05,
    2.1859658381137526e-06, -1.049150448053633e-06, 9.04530806168121e-08,
    2.2177778414245705e-08, -5.516129335919508e-09, -2.433302233708413e-10,
    2.1693995513380136e-10, -5.366283225603341e-12, -7.954006687162879e-12,
    5.362131784689535e-13, 3.028340588750968e-13, -2.7807253862696932e-14,
    -1.2497160929799849e-14, 1.1897640812263567e-15, 5.617171355125805e-16,
    -4.3130464605649346e-17, -2.6922363729620375e-17,
)  # fmt: skip


# ---- densities -----------------------------------------------------------------------------------


erf_slope_p: Primitive = kernel(
    "erf_slope",
    lambda x: exp_of_square(x, -1, _TWO_OVER_ROOT_PI),
    lambda t, ans, x: mul(t, mul(scalar(-2, x), mul(x, ans))),
)
"""2 / sqrt(pi) exp(-x^2), the derivative of the error function."""

normal_density_p: Primitive = kernel(
    "normal_density",
    lambda x: exp_of_square(x, -1, _ROOT_TWO_OVER_PI / 2, half=True),
    lambda t, ans, x: neg(mul(t, mul(x, ans))),
)
"""exp(-x^2 / 2) / sqrt(2 pi)."""


# ---- tails ---------------------------------------------------------------------------------------


def _series(x: Term) -> Term:
    """(1 + 2 x) exp(x^2) erfc(x) for x >= 0. The expansion of Shepherd and Laframboise, Mathematics
    of Computation 36 (1981)."""
    return chebyshev(1.0 - 7.5 / (x + 3.75), _ERFCX)


def scaled_tail(x: Term) -> Term:
    """exp(x^2) erfc(x) for x >= 0."""
    found = _series(x) / (2.0 * x + 1.0)
    # The function is convex, so above its tangent at 0, where it is exactly 1.
    return x.new(stablehlo.maximum(found.ir, (1.0 - _TWO_OVER_ROOT_PI * x).ir))


def _bounded_tail(x: Term) -> Term:
    """`scaled_tail` for x >= 1/2, bounded where the Gaussian is 0 so that its quotients agree."""
    x = x.new(stablehlo.minimum(x.ir, x.full(1e4).ir))
    first, second = x + 3.75, 2.0 * x + 1.0
    inverse = 1.0 / (first * second)
    return chebyshev(1.0 - 7.5 * (second * inverse), _ERFCX) * (first * inverse)


def erfc_formula(x: Term) -> Term:
    """1 - erf(x): the compiler's, whose square is rounded from 1 on, times exp of that error."""
    found = x.apply(stablehlo.erfc)
    # At least a small number, which changes nothing but that the product is not fused with the sum.
    square = x.new(stablehlo.maximum((x * x).ir, x.full(1e-30).ir))
    missed = rest_of_square(x, square)
    return where((x >= 1.0) & (x < 30.0), found - found * missed, found)


def erfcx_formula(x: Term) -> Term:
    size = abs(x)
    value = scaled_tail(size)
    return where(x < 0.0, exp_of_square(size, 1, 2.0) - value, value)


def erfcx_slope_formula(x: Term) -> Term:
    size = abs(x)
    below = 2.0 * x * erfcx_formula(x) - _TWO_OVER_ROOT_PI
    whole = 2.0 * size + 1.0
    above = -(chebyshev(1.0 - 7.5 / (size + 3.75), _ERFCX_SLOPE) / whole / whole)
    return where(x < 0.0, below, above)


def erfcx_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, mul(scalar(2, x), add(erfcx_p.bind(x), mul(x, ans))))


erfcx_slope_p: Primitive = kernel("erfcx_slope", erfcx_slope_formula, erfcx_slope_jvp)
erfcx_p: Primitive = kernel("erfcx", erfcx_formula, lambda t, ans, x: mul(t, erfcx_slope_p.bind(x)))


# ---- the normal distribution ---------------------------------------------------------------------


def _normal_tail(size: Term) -> Term:
    """The probability of a normal number above a size >= 0."""
    tail = _bounded_tail(size * _ROOT_HALF)
    return exp_of_square(size, -1, 0.5 * tail, half=True)


def ndtr_formula(x: Term) -> Term:
    size = abs(x)
    tail = _normal_tail(size)
    # Near 0 by the compiler's erf.
    inner = 0.5 + 0.5 * (x * _ROOT_HALF).apply(stablehlo.erf)
    outer = where(x < 0.0, tail, 1.0 - tail)
    return where(x.is_nan(), x, where(size < 0.7, inner, outer))


ndtr_p: Primitive = kernel("ndtr", ndtr_formula, lambda t, ans, x: mul(t, normal_density_p.bind(x)))


def log_ndtr_formula(x: Term) -> Term:
    size = abs(x)
    low = where(x < 0.0, size, 0.0) * _ROOT_HALF
    below = (0.5 * scaled_tail(low)).log() - low * low
    above = log1p(-_normal_tail(size))
    near = (0.5 + 0.5 * (where(size < 0.5, x, 0.0) * _ROOT_HALF).apply(stablehlo.erf)).log()
    return where(size < 0.5, near, where(x < 0.0, below, above))


def log_ndtr_slope_formula(x: Term) -> Term:
    """The density over the distribution function: below 0 the inverse of a scaled tail."""
    low = where(x < 0.0, -x, 0.0) * _ROOT_HALF
    below = (low + 0.5) * (2 * _ROOT_TWO_OVER_PI / _series(low))
    above = exp_of_square(x, -1, _ROOT_TWO_OVER_PI / 2, half=True) / ndtr_formula(x)
    return where(x < 0.0, below, above)


def log_ndtr_excess_formula(x: Term) -> Term:
    """`log_ndtr_slope` + x, from the derivative of the scaled tail: the sum cancels below 0."""
    low = where(x < 0.0, -x, 0.0) * _ROOT_HALF
    slope = chebyshev(1.0 - 7.5 / (low + 3.75), _ERFCX_SLOPE)
    below = slope / (low + 0.5) * (0.5 * _ROOT_HALF) / _series(low)
    return where(x < 0.0, below, x + log_ndtr_slope_formula(x))


def log_ndtr_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    return neg(mul(t, mul(ans, log_ndtr_excess_p.bind(x))))


def log_ndtr_excess_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, sub(scalar(1, x), mul(ans, log_ndtr_slope_p.bind(x))))


log_ndtr_excess_p: Primitive = kernel(
    "log_ndtr_excess", log_ndtr_excess_formula, log_ndtr_excess_jvp
)
log_ndtr_slope_p: Primitive = kernel("log_ndtr_slope", log_ndtr_slope_formula, log_ndtr_slope_jvp)
log_ndtr_p: Primitive = kernel(
    "log_ndtr", log_ndtr_formula, lambda t, ans, x: mul(t, log_ndtr_slope_p.bind(x))
)


# ---- derivatives of inverse functions ------------------------------------------------------------

# They are exponentials of squares of the result y, by which its rounding would count many times. As
# the operand says what the tail of y is, they are scaled tails over that. In their derivatives the
# operand stands still: as exponentials they depend on y alone.


def erf_inv_slope_formula(x: Term, y: Term) -> Term:
    rest = 1.0 - abs(x)
    found = scaled_tail(abs(y)) * (1 / _TWO_OVER_ROOT_PI) / rest
    return where(rest.equals(0.0), math.inf, found)


erf_inv_slope_p: Primitive = kernel(
    "erf_inv_slope",
    erf_inv_slope_formula,
    None,
    lambda t, ans, x, y: mul(t, mul(scalar(2, y), mul(y, ans))),
)
"""The derivative of y = erf_inv(x), from x and y."""


def ndtri_slope_formula(p: Term, y: Term) -> Term:
    rest = where(p > 0.5, 1.0 - p, p)
    found = scaled_tail(abs(y) * _ROOT_HALF) * (1 / _ROOT_TWO_OVER_PI) / rest
    return where(rest.equals(0.0), math.inf, found)


ndtri_slope_p: Primitive = kernel(
    "ndtri_slope", ndtri_slope_formula, None, lambda t, ans, p, y: mul(t, mul(y, ans))
)
"""The derivative of y = ndtri(p), from p and y."""
