"""Probabilities of real counts, and the densities of which they are the values.

The binomial and the Poisson probability, the densities of the beta and of the gamma distribution,
which are the derivatives of the incomplete functions, and the logarithms of all. Values are
formulas of `deviances`. Derivatives in a probability or in x take their limits on the border of the
support, where they are differences of two such functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.ops.elementwise import deviances
from weft.ops.elementwise.arithmetic import add, div, eq, gt, log, lt, mul, scalar, sub
from weft.ops.elementwise.bits import bitwise_and, bitwise_or
from weft.ops.elementwise.families import broadcast_scalar
from weft.ops.elementwise.formulas import Term, kernel, polynomial, where
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import polygamma_p
from weft.runtime import stablehlo


def choose(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Selects elementwise between two values, one of which may be a number; any may be scalar."""
    like = on_false if type(on_true) is float else on_true
    values = [scalar(v, like) if type(v) is float else v for v in (on_true, on_false)]
    shape = max((type_of(v).shape for v in (pred, *values)), key=len)
    return select(*(broadcast_scalar(v, shape) for v in (pred, *values)))


def equals(x: Any, value: float) -> Any:
    return eq(x, scalar(value, x))


def plus(x: Any, value: float) -> Any:
    return add(x, scalar(value, x))


def rest_of(p: Any) -> Any:
    return sub(scalar(1, p), p)


def on_border(p: Any) -> Any:
    return bitwise_or(equals(p, 0), equals(p, 1))


def at_ends(x: Any) -> Any:
    return bitwise_or(equals(x, 0), equals(x, math.inf))


def quotient(x: Any, y: Any) -> Any:
    """x / y; 0 where both are 0."""
    nothing = bitwise_and(equals(x, 0), equals(y, 0))
    return div(x, choose(nothing, 1.0, y))


def one_less(count: Any, border: Any) -> Any:
    """count - 1 on the border of the support; elsewhere 1, for finite derivatives."""
    return choose(border, plus(count, -1.0), 1.0)


def times_inner(ans: Any, border: Any, slope: Callable[[Any], Any], place: Any) -> Any:
    """ans * slope(`place`) inside the support, 0 on its border."""
    return choose(border, 0.0, mul(ans, slope(choose(border, 0.5, place))))


# ---- logarithms less digamma -------------------------------------------------------------------

# B(2k) / (2k), DLMF 5.11.2.
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def log_less_digamma_formula(x: Term) -> Term:
    """log(x) - digamma(x) for x > 0."""
    # From here on the series is precise to the last digit.
    least = 10.0 if x.dtype == dtypes.float64 else 3.0
    large = x >= least
    inverse = 1.0 / where(large, x, least)
    square = inverse * inverse
    series = 0.5 * inverse + square * polynomial(square, _BERNOULLI)
    safe = where(large, 1.0, x)
    return where(large, series, safe.log() - safe.apply(stablehlo.digamma))


log_less_digamma_p = kernel(
    "log_less_digamma",
    log_less_digamma_formula,
    lambda t, ans, x: mul(t, sub(div(scalar(1, x), x), polygamma_p.bind(scalar(1, x), x))),
)


def slope_in_count(expected: Any, x: Any) -> Any:
    """The derivative of log(expected^x / x!) in x."""
    after = plus(x, 1.0)
    return add(log(div(expected, after)), log_less_digamma_p.bind(after))


# ---- the Poisson probability, and the gamma density ----------------------------------------------


def poisson_formula(x: Term, mean: Term) -> Term:
    found = deviances.poisson(where(x < 0.0, 0.0, x), mean)
    # Derivatives on the border need counts below 0: there 1 / x! is 0 or the power infinite.
    found = where(x < 0.0, where(x <= -1.0, 0.0, x.full(math.inf)), found)
    return where(mean < 0.0, math.nan, found)


def log_poisson_formula(x: Term, mean: Term) -> Term:
    return where(mean < 0.0, math.nan, deviances.log_poisson(x, mean))


def poisson_jvp_x(t: Any, ans: Any, x: Any, mean: Any) -> Any:
    return mul(t, times_inner(ans, at_ends(mean), lambda m: slope_in_count(m, x), mean))


def poisson_jvp_mean(t: Any, ans: Any, x: Any, mean: Any) -> Any:
    border = at_ends(mean)
    inner = choose(border, 1.0, mean)
    slope = mul(ans, div(sub(x, inner), inner))
    fewer = poisson_p.bind(one_less(x, border), mean)
    return mul(t, choose(border, sub(fewer, ans), slope))


poisson_p = kernel("poisson_probability", poisson_formula, poisson_jvp_x, poisson_jvp_mean)
log_poisson_p = kernel(
    "log_poisson_probability",
    log_poisson_formula,
    lambda t, ans, x, mean: mul(t, slope_in_count(mean, x)),
    lambda t, ans, x, mean: mul(t, sub(quotient(x, mean), scalar(1, x))),
)


def uses_power_a(a: Term) -> Term:
    """Whether a - 1 is negative or loses digits, so that the density is computed from a."""
    return (a < 1.0) | (a * a.eps > 0.5)


def at_pole(a: Term, x: Term, infinite: float, otherwise: float, value: Term) -> Term:
    """The value, or the limit of x^(a - 1) at x = 0 where the power a was used."""
    limit = where(a < 1.0, x.full(infinite), otherwise)
    return where(x.equals(0.0) & uses_power_a(a), limit, value)


def gamma_density_formula(a: Term, x: Term) -> Term:
    """x^(a - 1) exp(-x) / gamma(a), of x >= 0 and positive a."""
    whole = uses_power_a(a)
    found = poisson_formula(where(whole, a, a - 1.0), x)
    return at_pole(a, x, math.inf, 0.0, where(whole, found * (a / x), found))


def log_gamma_density_formula(a: Term, x: Term) -> Term:
    whole = uses_power_a(a)
    found = log_poisson_formula(where(whole, a, a - 1.0), x)
    found = where(whole, found + (a.log() - x.log()), found)
    return at_pole(a, x, math.inf, -math.inf, found)


def gamma_slope_in_a(a: Any, x: Any) -> Any:
    return add(log(div(x, a)), log_less_digamma_p.bind(a))


def gamma_density_jvp_a(t: Any, ans: Any, a: Any, x: Any) -> Any:
    return mul(t, times_inner(ans, at_ends(x), lambda y: gamma_slope_in_a(a, y), x))


def gamma_density_jvp_x(t: Any, ans: Any, a: Any, x: Any) -> Any:
    border, power = at_ends(x), plus(a, -1.0)
    inner = choose(border, 1.0, x)
    slope = mul(ans, div(sub(power, inner), inner))
    falls = lt(power, scalar(0, a))
    before = gamma_density_p.bind(choose(gt(power, scalar(0, a)), power, 1.0), x)
    before = choose(equals(power, 0), 0.0, before)
    before = choose(bitwise_and(falls, equals(x, 0)), -math.inf, before)
    limit = sub(before, choose(falls, 0.0, ans))
    return mul(t, choose(border, limit, slope))


gamma_density_p = kernel(
    "gamma_density", gamma_density_formula, gamma_density_jvp_a, gamma_density_jvp_x
)
log_gamma_density_p = kernel(
    "log_gamma_density",
    log_gamma_density_formula,
    lambda t, ans, a, x: mul(t, gamma_slope_in_a(a, x)),
    lambda t, ans, a, x: mul(t, sub(quotient(plus(a, -1.0), x), scalar(1, x))),
)


# ---- the binomial probability, and the beta density ----------------------------------------------


# p (x + rest) - x, to the last digits.
distance_from_mean_p = kernel(
    "distance_from_mean",
    deviances.distance_from_mean,
    lambda t, ans, x, rest, p: mul(t, plus(p, -1.0)),
    lambda t, ans, x, rest, p: mul(t, p),
    lambda t, ans, x, rest, p: mul(t, add(x, rest)),
)


def outside_unit(p: Term, value: Term) -> Term:
    return where((p < 0.0) | (p > 1.0), math.nan, value)


def binomial_formula(x: Term, rest: Term, p: Term) -> Term:
    found = deviances.binomial(where(x < 0.0, 0.0, x), where(rest < 0.0, 0.0, rest), p)
    least = x.new(stablehlo.minimum(x.ir, rest.ir))
    # As in `poisson_formula`.
    found = where(least < 0.0, where(least <= -1.0, 0.0, x.full(math.inf)), found)
    return outside_unit(p, found)


def log_binomial_formula(x: Term, rest: Term, p: Term) -> Term:
    return outside_unit(p, deviances.log_binomial(x, rest, p))


def binomial_slope(x: Any, rest: Any, p: Any) -> Any:
    """The derivative of log(comb(n, x) p^x (1 - p)^rest) in x (in `rest`: with 1 - p)."""
    after = plus(add(x, rest), 1.0)
    return sub(slope_in_count(mul(after, p), x), log_less_digamma_p.bind(after))


def power_slope(x: Any, rest: Any, p: Any) -> Any:
    """The derivative of log(p^x (1 - p)^rest) in p, for 0 < p < 1."""
    distance = distance_from_mean_p.bind(x, rest, p)
    return div(sub(scalar(0, p), distance), mul(p, rest_of(p)))


def log_power_slope(x: Any, rest: Any, p: Any) -> Any:
    """`power_slope`, with its limits at 0 and 1."""
    border = on_border(p)
    limit = sub(quotient(x, p), quotient(rest, rest_of(p)))
    return choose(border, limit, power_slope(x, rest, choose(border, 0.5, p)))


def binomial_jvp_x(t: Any, ans: Any, x: Any, rest: Any, p: Any) -> Any:
    return mul(t, times_inner(ans, on_border(p), lambda q: binomial_slope(x, rest, q), p))


def binomial_jvp_rest(t: Any, ans: Any, x: Any, rest: Any, p: Any) -> Any:
    return mul(t, times_inner(ans, on_border(p), lambda q: binomial_slope(rest, x, rest_of(q)), p))


def binomial_jvp_p(t: Any, ans: Any, x: Any, rest: Any, p: Any) -> Any:
    border = on_border(p)
    slope = mul(ans, power_slope(x, rest, choose(border, 0.5, p)))
    fewer = (
        binomial_p.bind(one_less(x, border), rest, p),
        binomial_p.bind(x, one_less(rest, border), p),
    )
    return mul(t, choose(border, mul(add(x, rest), sub(*fewer)), slope))


binomial_p = kernel(
    "binomial_probability", binomial_formula, binomial_jvp_x, binomial_jvp_rest, binomial_jvp_p
)
log_binomial_p = kernel(
    "log_binomial_probability",
    log_binomial_formula,
    lambda t, ans, x, rest, p: mul(t, binomial_slope(x, rest, p)),
    lambda t, ans, x, rest, p: mul(t, binomial_slope(rest, x, rest_of(p))),
    lambda t, ans, x, rest, p: mul(t, log_power_slope(x, rest, p)),
)


def beta_density_formula(a: Term, b: Term, x: Term) -> Term:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b), of positive a and b."""
    whole_a, whole_b = uses_power_a(a), uses_power_a(b)
    p, q = where(whole_a, a, a - 1.0), where(whole_b, b, b - 1.0)
    found = binomial_formula(p, q, x)
    found = where(whole_a, found * (a / x), found)
    found = where(whole_b, found * (b / (1.0 - x)), found)
    share = where(whole_a | whole_b, found, found * (p + b))
    found = where(whole_a & whole_b, found / (a + b), share)
    return at_pole(a, x, math.inf, 0.0, at_pole(b, 1.0 - x, math.inf, 0.0, found))


def log_beta_density_formula(a: Term, b: Term, x: Term) -> Term:
    whole_a, whole_b = uses_power_a(a), uses_power_a(b)
    p, q = where(whole_a, a, a - 1.0), where(whole_b, b, b - 1.0)
    found = log_binomial_formula(p, q, x)
    found = where(whole_a, found + (a.log() - x.log()), found)
    found = where(whole_b, found + (b.log() - (1.0 - x).log()), found)
    total = where(whole_a & whole_b, a + b, where(whole_a | whole_b, 1.0, p + b)).log()
    found = where(whole_a & whole_b, found - total, found + total)
    return at_pole(a, x, math.inf, -math.inf, at_pole(b, 1.0 - x, math.inf, -math.inf, found))


def beta_slope(a: Any, b: Any, x: Any) -> Any:
    """The derivative of the logarithm of the beta density in a (in b: with 1 - x)."""
    total = add(a, b)
    ratio = log(mul(x, div(total, a)))
    return add(ratio, sub(log_less_digamma_p.bind(a), log_less_digamma_p.bind(total)))


def beta_density_jvp_a(t: Any, ans: Any, a: Any, b: Any, x: Any) -> Any:
    return mul(t, times_inner(ans, on_border(x), lambda y: beta_slope(a, b, y), x))


def beta_density_jvp_b(t: Any, ans: Any, a: Any, b: Any, x: Any) -> Any:
    return mul(t, times_inner(ans, on_border(x), lambda y: beta_slope(b, a, rest_of(y)), x))


def beta_limit(ans: Any, a: Any, b: Any, x: Any, at: float) -> Any:
    """The derivative in x at 0 or 1 (`at`), where the distance to it has the exponent a - 1."""
    power, end = plus(a, -1.0), scalar(math.inf if at else -math.inf, a)
    falls = lt(power, scalar(0, a))
    lower = choose(gt(power, scalar(0, a)), power, 1.0)
    before = beta_density_p.bind(*((b, lower) if at else (lower, b)), x)
    before = choose(equals(power, 0), 0.0, mul(add(lower, b), before))
    # The distance to the other end is 1, and its derivative counts in the second derivative.
    distance = choose(equals(x, at), x if at else rest_of(x), 1.0)
    other = mul(plus(b, -1.0), div(ans, distance))
    slope = sub(other, before) if at else sub(before, other)
    return choose(falls, end, slope)


def beta_density_jvp_x(t: Any, ans: Any, a: Any, b: Any, x: Any) -> Any:
    border, at_zero = on_border(x), equals(x, 0)
    inner = choose(border, 0.5, x)
    slope = mul(ans, power_slope(plus(a, -1.0), plus(b, -1.0), inner))
    limit = choose(at_zero, beta_limit(ans, a, b, x, 0), beta_limit(ans, b, a, x, 1))
    return mul(t, choose(border, limit, slope))


beta_density_p = kernel(
    "beta_density", beta_density_formula, beta_density_jvp_a, beta_density_jvp_b, beta_density_jvp_x
)
log_beta_density_p = kernel(
    "log_beta_density",
    log_beta_density_formula,
    lambda t, ans, a, b, x: mul(t, beta_slope(a, b, x)),
    lambda t, ans, a, b, x: mul(t, beta_slope(b, a, rest_of(x))),
    lambda t, ans, a, b, x: mul(t, log_power_slope(plus(a, -1.0), plus(b, -1.0), x)),
)
