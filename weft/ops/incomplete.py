"""How the incomplete gamma and beta functions are computed: series and continued fractions.

P(a, x) is the series of DLMF 8.7.1 below x = a + 1 and one minus the continued fraction 8.9.2
above; I_x(a, b) is the continued fraction 8.17.22. Fractions are evaluated by Lentz's method as
modified by Thompson and Barnett (1986), derivatives by differentiating each step, as Moore does
(Applied Statistics 31, 1982). Powers are scaled by Stirling's series for large parameters, so that
large logarithms do not cancel (DiDonato and Morris, ACM TOMS 18, 1992). DLMF: https://dlmf.nist.gov.
"""

from __future__ import annotations

import math

from weft.ops.formulas import Term, log1p, polynomial, repeat_while, where
from weft.runtime import stablehlo

__all__ = ["beta", "gamma_lower", "gamma_lower_in_a", "gamma_sample_in_a", "gamma_upper"]

# Enough for a around 1e6, where the series needs about the square root of 40 a terms.
_LIMIT = 20_000
# B(2k) / (2k (2k - 1)): Stirling's series of log gamma is the sum of these over a^(2k - 1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_LARGE = 10.0


def _lgamma(x: Term) -> Term:
    return x.apply(stablehlo.lgamma)


def _digamma(x: Term) -> Term:
    return x.apply(stablehlo.digamma)


def _stirling(a: Term) -> Term:
    """log gamma(a) beyond (a - 1/2) log a - a + log(2 pi)/2, for large a."""
    inverse = 1.0 / a
    return inverse * polynomial(inverse * inverse, _STIRLING)


def _log_ratio(excess: Term, ratio: Term) -> Term:
    """log(ratio), where ratio = 1 + excess and both are known precisely."""
    return where(excess < -0.5, ratio.log(), log1p(excess))


# ---- the incomplete gamma functions ------------------------------------------------------------


def _gamma_scale(a: Term, x: Term) -> Term:
    """x^a exp(-x) / gamma(a + 1)."""
    small = (a * x.log() - x - _lgamma(a + 1.0)).exp()
    safe = where(a < _LARGE, _LARGE, a)
    excess = (x - safe) / safe
    power = safe * (_log_ratio(excess, x / safe) - excess) - _stirling(safe)
    return where(a < _LARGE, small, power.exp() / (2 * math.pi * safe).sqrt())


def _series(a: Term, x: Term) -> tuple[Term, Term]:
    """The sum S of x^n / ((a + 1) … (a + n)), and its derivative in a."""

    def active(*state: Term) -> Term:
        term, slope, total, change = state[:4]
        return (term > total * a.eps) | (abs(slope) > abs(change) * a.eps)

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        term, slope, total, change, a, x = state
        factor = x / (a + n)
        slope = factor * (slope - term / (a + n))
        term = factor * term
        return term, slope, total + term, change + slope, a, x

    one, zero = a.full(1.0), a.full(0.0)
    state = repeat_while(active, body, one, zero, one, zero, a, x, limit=_LIMIT)
    return state[2], state[3]


def _fraction(a: Term, x: Term) -> tuple[Term, Term]:
    """h with gamma(a, x) = x^a exp(-x) h, and its derivative in a."""

    # c and d are the ratios of Lentz's method; the names with an a are derivatives in a.
    def active(*state: Term) -> Term:
        delta, change, h, ha = state[:4]
        bound = 4 * a.eps  # what rounding leaves
        return (abs(delta - 1.0) > bound) | (abs(change) > (abs(h) + abs(ha)) * bound)

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        _, _, h, ha, c, ca, d, da, a, x = state
        numerator, b = n * (a - n), x + 2.0 * n + 1.0 - a
        slope = numerator * da + n * d - 1.0  # of the next denominator; b has slope -1
        d = 1.0 / (numerator * d + b)
        da = -(d * d * slope)
        ca = n / c - numerator * ca / (c * c) - 1.0
        c = b + numerator / c
        delta, delta_a = c * d, ca * d + c * da
        change = h * delta_a + ha * (delta - 1.0)
        return delta, change, h * delta, ha + change, c, ca, d, da, a, x

    b = x + 1.0 - a
    d = 1.0 / b
    huge = a.full(1e30)
    zero = a.full(0.0)
    start = (a.full(2.0), a.full(1.0), d, d * d, huge, zero, d, d * d, a, x)
    state = repeat_while(active, body, *start, limit=_LIMIT)
    return state[2], state[3]


class _Gamma:
    """What the functions share: where the series serves, and both methods' sums."""

    def __init__(self, a: Term, x: Term) -> None:
        finite = abs(a) < math.inf
        inside = (a > 0.0) & (x > 0.0) & (x < math.inf) & finite
        self.by_series = x < a + 1.0
        # Elements of the other method, or outside the domain, take values that converge at once.
        low = inside & self.by_series
        high = inside & ~self.by_series
        self.a = where(inside, a, 1.0)
        self.x = where(inside, x, 1.0)
        self.series = _series(where(low, a, 1.0), where(low, x, 0.5))
        self.fraction = _fraction(where(high, a, 1.0), where(high, x, 3.0))
        self.scale = _gamma_scale(self.a, self.x)


def _edges(a: Term, x: Term, inside: Term, at_zero: float, at_infinity: float) -> Term:
    """A function's values on the border of its domain: x = 0 or a infinite, and the reverse."""
    zero_a, infinite_a, infinite_x = a.equals(0.0), a.equals(math.inf), x.equals(math.inf)
    small = x.equals(0.0) | infinite_a
    large = infinite_x | zero_a
    value = where(large, at_infinity, where(small, at_zero, inside))
    wrong = (a < 0.0) | (x < 0.0) | a.is_nan() | x.is_nan() | (small & large)
    return where(wrong, math.nan, value)


def gamma_lower(a: Term, x: Term) -> Term:
    """P(a, x), the regularised lower incomplete gamma function."""
    parts = _Gamma(a, x)
    upper = parts.scale * parts.a * parts.fraction[0]
    return _edges(a, x, where(parts.by_series, parts.scale * parts.series[0], 1.0 - upper), 0, 1)


def gamma_upper(a: Term, x: Term) -> Term:
    """Q(a, x) = 1 - P(a, x)."""
    parts = _Gamma(a, x)
    upper = parts.scale * parts.a * parts.fraction[0]
    return _edges(a, x, where(parts.by_series, 1.0 - parts.scale * parts.series[0], upper), 1, 0)


def gamma_lower_in_a(a: Term, x: Term) -> Term:
    """The derivative of P(a, x) in a."""
    parts = _Gamma(a, x)
    (s, s_a), (h, h_a), log_x = parts.series, parts.fraction, parts.x.log()
    below = parts.scale * (s * (log_x - _digamma(parts.a + 1.0)) + s_a)
    above = -(parts.scale * parts.a * (h * (log_x - _digamma(parts.a)) + h_a))
    return _edges(a, x, where(parts.by_series, below, above), 0, 0)


def gamma_sample_in_a(a: Term, x: Term) -> Term:
    """The derivative in a of a sample x of the gamma distribution whose quantile is kept.

    That is -(dP/da) / (dP/dx), in which the scale cancels.
    """
    parts = _Gamma(a, x)
    (s, s_a), (h, h_a), log_x = parts.series, parts.fraction, parts.x.log()
    below = -(parts.x / parts.a) * (s * (log_x - _digamma(parts.a + 1.0)) + s_a)
    above = parts.x * (h * (log_x - _digamma(parts.a)) + h_a)
    found = where(parts.by_series, below, above)
    return where(x.equals(0.0) & (a > 0.0), 0.0, _edges(a, x, found, math.nan, math.nan))


# ---- the incomplete beta function --------------------------------------------------------------


def _beta_scale(a: Term, b: Term, x: Term) -> Term:
    """x^a (1 - x)^b / B(a, b)."""
    log_beta = _lgamma(a) + _lgamma(b) - _lgamma(a + b)
    small = (a * x.log() + b * log1p(-x) - log_beta).exp()
    both = (a > _LARGE) & (b > _LARGE)
    p, q = where(both, a, _LARGE), where(both, b, _LARGE)
    total = p + q
    off = x * q - (1.0 - x) * p  # how far x is from the mean, times the sum of the parameters
    power = p * _log_ratio(off / p, x * total / p) + q * _log_ratio(-off / q, (1.0 - x) * total / q)
    correction = _stirling(p) + _stirling(q) - _stirling(total)
    large = (p * q / (2 * math.pi * total)).sqrt() * (power - correction).exp()
    return where(both, large, small)


def _beta_fraction(a: Term, b: Term, x: Term) -> Term:
    def active(delta: Term, *rest: Term) -> Term:
        return abs(delta - 1.0) > 4 * a.eps

    def body(m: Term, *state: Term) -> tuple[Term, ...]:
        _, h, c, d, a, b, x = state
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        h = h * (c * d)
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        return c * d, h * (c * d), c, d, a, b, x

    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    state = repeat_while(active, body, a.full(2.0), d, a.full(1.0), d, a, b, x, limit=_LIMIT)
    return state[1]


def beta(a: Term, b: Term, x: Term) -> Term:
    """I_x(a, b), the regularised incomplete beta function."""
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0)
    p, q, z = (where(inside, v, w) for v, w in ((a, 1.0), (b, 1.0), (x, 0.25)))
    # On the other side of the mean the fraction of 1 - I converges faster.
    swap = z > (p + 1.0) / (p + q + 2.0)
    first, second = where(swap, q, p), where(swap, p, q)
    fraction = _beta_fraction(first, second, where(swap, 1.0 - z, z))
    found = _beta_scale(p, q, z) * fraction / first
    found = where(swap, 1.0 - found, found)
    found = where(x <= 0.0, 0.0, where(x >= 1.0, 1.0, found))
    # The limits of small and large parameters put all weight at one end.
    at_zero, at_one = a.equals(0.0) | b.equals(math.inf), b.equals(0.0) | a.equals(math.inf)
    found = where(at_zero & (x > 0.0), 1.0, where(at_one & (x < 1.0), 0.0, found))
    valid = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0)
    return where(valid & ~(at_zero & at_one), found, math.nan)
