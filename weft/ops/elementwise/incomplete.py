"""The incomplete gamma and beta functions by series and continued fractions.

P(a, x) is the series of DLMF 8.7.1 below x = a + 1 and one minus the continued fraction 8.9.2
above; its complement has a series of its own for small a, and both an expansion for huge a.
I_x(a, b) is the continued fraction 8.17.22, or an expansion for large a and b. Fractions are
evaluated by Lentz's method as modified by Thompson and Barnett (1986), derivatives by
differentiating each step, as Moore does (Applied Statistics 31, 1982). The powers in front of them
are probabilities of `deviances`, in which no large logarithms cancel. DLMF: https://dlmf.nist.gov.
"""

from __future__ import annotations

import math

from weft import dtypes
from weft.ops.elementwise.deviances import binomial, binomial_deviance, poisson
from weft.ops.elementwise.formulas import Term, polynomial, repeat_while, where
from weft.runtime import stablehlo

# Enough up to _ASYMPTOTIC, where the series needs about the square root of 40 a terms.
_LIMIT = 20_000
# From this a on one term of the uniform expansion (DLMF 8.12.3) has 13 digits.
_ASYMPTOTIC = 1e7
# c0 of that expansion in powers of eta, DLMF 8.12.12.
_TEMME = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835)
# For a below this and x <= a + 1, Q is small, and its own series (from DLMF 8.7.3) is precise.
_SMALL = 0.1
# log gamma(1 + a) / a by powers of a (DLMF 5.7.3): Euler's constant and (-1)^k zeta(k) / k.
_LOG_GAMMA = (
    -0.5772156649015329, 0.8224670334241132, -0.40068563438653143, 0.27058080842778454,
    -0.207385551028674, 0.16955717699740822, -0.14404989676884614, 0.12550966952474304,
    -0.11133426586956469, 0.10009945751278179, -0.09095401714582904, 0.083353840546109,
    -0.0769325164113522, 0.07143294629536134, -0.06666870588242046, 0.06250095514121304,
)  # fmt: skip


def _digamma(x: Term) -> Term:
    return x.apply(stablehlo.digamma)


# ---- the incomplete gamma functions ------------------------------------------------------------


def _series(a: Term, x: Term) -> Term:
    """The sum S of x^n / ((a + 1) … (a + n))."""

    def active(term: Term, total: Term, *rest: Term) -> Term:
        return term > total * a.eps

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        term, total, a, x = state
        term = term * (x / (a + n))
        return term, total + term, a, x

    one = a.full(1.0)
    return repeat_while(active, body, one, one, a, x, limit=_LIMIT, results=(1,))[0]


def _series_in_a(a: Term, x: Term) -> list[Term]:
    """The sum of `_series`, and its derivative in a."""

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
    start = (one, zero, one, zero, a, x)
    return repeat_while(active, body, *start, limit=_LIMIT, results=(2, 3))


def _fraction(a: Term, x: Term) -> Term:
    """h with gamma(a, x) = x^a exp(-x) h."""

    def active(delta: Term, *rest: Term) -> Term:
        return abs(delta - 1.0) > 4 * a.eps

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        _, h, c, d, a, x = state
        numerator, b = n * (a - n), x + 2.0 * n + 1.0 - a
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        return c * d, h * (c * d), c, d, a, x

    d = 1.0 / (x + 1.0 - a)
    start = (a.full(2.0), d, a.full(1e30), d, a, x)
    return repeat_while(active, body, *start, limit=_LIMIT, results=(1,))[0]


def _fraction_in_a(a: Term, x: Term) -> list[Term]:
    """The h of `_fraction`, and its derivative in a."""

    # c and d are the ratios of Lentz's method; the names with an a are derivatives in a.
    def active(*state: Term) -> Term:
        delta, change, h, ha = state[:4]
        bound = 4 * a.eps  # rounding error
        return (abs(delta - 1.0) > bound) | (abs(change) > (abs(h) + abs(ha)) * bound)

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        _, _, h, ha, c, ca, d, da, a, x = state
        numerator, b = n * (a - n), x + 2.0 * n + 1.0 - a
        slope = numerator * da + n * d - 1.0  # derivative of the next denominator; that of b is -1
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
    return repeat_while(active, body, *start, limit=_LIMIT, results=(2, 3))


class _Gamma:
    """The method for each element, and the arguments of each method.

    expansion: whether huge a are left to `_uniform`; both methods need too many terms.
    """

    def __init__(self, a: Term, x: Term, expansion: bool) -> None:
        finite = abs(a) < math.inf
        inside = (a > 0.0) & (x > 0.0) & (x < math.inf) & finite
        self.by_series = x < a + 1.0
        self.huge = inside & (a > (_ASYMPTOTIC if expansion else math.inf))
        inside = inside & ~self.huge
        # Elements of another method, or outside the domain, get arguments that converge at once.
        low, high = inside & self.by_series, inside & ~self.by_series
        self.a = where(inside, a, 1.0)
        self.x = where(inside, x, 1.0)
        self.low = where(low, a, 1.0), where(low, x, 0.5)
        self.high = where(high, a, 1.0), where(high, x, 3.0)
        self.scale = poisson(self.a, self.x)


def _uniform(a: Term, x: Term, upper: bool) -> Term:
    """P(a, x) or Q(a, x) for huge a, by the uniform expansion of DLMF 8.12."""
    excess = (x - a) / a
    # Further away everything is 0 or 1.
    excess = where(excess < -0.05, -0.05, where(excess > 0.05, 0.05, excess))
    # eta^2 / 2 = excess - log(1 + excess), as a power series.
    half = polynomial(excess, [(-1) ** k / (k + 2) for k in range(14)])
    eta = excess * (half + half).sqrt()
    rest = (-a * half * excess * excess).exp() / (2 * math.pi * a).sqrt()
    rest = rest * polynomial(eta, _TEMME)
    argument = eta * (0.5 * a).sqrt()
    if upper:
        return 0.5 * argument.apply(stablehlo.erfc) + rest
    return 0.5 * (-argument).apply(stablehlo.erfc) - rest


def _upper_of_small(a: Term, x: Term) -> Term:
    """Q(a, x) for small a and x <= a + 1, where 1 - P(a, x) would cancel. P is x^a / gamma(1 + a)
    times 1 + a sum (-x)^n / ((a + n) n!); 1 less that power is an expm1. Both series have as many
    terms as the dtype shows for the greatest a and x."""
    enough = a.eps / 64
    shown = [c for k, c in enumerate(_LOG_GAMMA) if abs(c) * _SMALL**k > enough]
    logarithm = a * (x.log() - polynomial(a, shown))
    total, power, n = a.full(0.0), a.full(1.0), 1
    while (1 + _SMALL) ** n / math.factorial(n) > enough:
        power = power * x * (-1.0 / n)
        total = total + power / (a + float(n))
        n += 1
    return -logarithm.apply(stablehlo.exponential_minus_one) - logarithm.exp() * a * total


def _edges(a: Term, x: Term, inside: Term, at_zero: float, at_infinity: float) -> Term:
    """A function's values on the border of its domain: x = 0 or a infinite, and the reverse."""
    zero_a, infinite_a, infinite_x = a.equals(0.0), a.equals(math.inf), x.equals(math.inf)
    small = x.equals(0.0) | infinite_a
    large = infinite_x | zero_a
    value = where(large, at_infinity, where(small, at_zero, inside))
    wrong = (a < 0.0) | (x < 0.0) | a.is_nan() | x.is_nan() | (small & large)
    return where(wrong, math.nan, value)


def _regularized_gamma(a: Term, x: Term, upper: bool) -> Term:
    """P(a, x) or Q(a, x)."""
    parts = _Gamma(a, x, expansion=True)
    below = parts.scale * _series(*parts.low)
    above = parts.scale * parts.a * _fraction(*parts.high)
    if upper:
        found = where(parts.by_series, 1.0 - below, above)
        small = parts.by_series & (parts.a < _SMALL)
        of_small = _upper_of_small(where(small, parts.a, _SMALL), where(small, parts.x, 1.0))
        found = where(small, of_small, found)
    else:
        found = where(parts.by_series, below, 1.0 - above)
    huge = _uniform(where(parts.huge, a, _ASYMPTOTIC), where(parts.huge, x, _ASYMPTOTIC), upper)
    return _edges(a, x, where(parts.huge, huge, found), int(upper), int(not upper))


def gamma_lower(a: Term, x: Term) -> Term:
    """P(a, x), the regularised lower incomplete gamma function."""
    return _regularized_gamma(a, x, upper=False)


def gamma_upper(a: Term, x: Term) -> Term:
    """Q(a, x) = 1 - P(a, x)."""
    return _regularized_gamma(a, x, upper=True)


def _slopes_in_a(a: Term, x: Term) -> tuple[_Gamma, Term, Term]:
    """The derivatives in a of P(a, x) over `scale`, and of Q(a, x) over `scale` a, by method."""
    parts = _Gamma(a, x, expansion=False)
    (s, s_a), (h, h_a) = _series_in_a(*parts.low), _fraction_in_a(*parts.high)
    log_x = parts.x.log()
    below = s * (log_x - _digamma(parts.a + 1.0)) + s_a
    return parts, below, h * (log_x - _digamma(parts.a)) + h_a


def gamma_lower_in_a(a: Term, x: Term) -> Term:
    """The derivative of P(a, x) in a."""
    parts, below, above = _slopes_in_a(a, x)
    found = where(parts.by_series, parts.scale * below, -(parts.scale * parts.a * above))
    return _edges(a, x, found, 0, 0)


def gamma_sample_in_a(a: Term, x: Term) -> Term:
    """The derivative in a of a gamma sample x of fixed quantile: -(dP/da) / (dP/dx)."""
    parts, below, above = _slopes_in_a(a, x)
    found = where(parts.by_series, -(parts.x / parts.a) * below, parts.x * above)
    return where(x.equals(0.0) & (a > 0.0), 0.0, _edges(a, x, found, math.nan, math.nan))


# ---- the incomplete beta function --------------------------------------------------------------


def _beta_scale(a: Term, b: Term, x: Term) -> Term:
    """x^a (1 - x)^b / B(a, b)."""
    larger = a.new(stablehlo.maximum(a.ir, b.ir))
    smaller = a.new(stablehlo.minimum(a.ir, b.ir))
    return binomial(a, b, x) * smaller * (1.0 / (1.0 + smaller / larger))


def _beta_uniform(a: Term, b: Term, x: Term) -> Term:
    """I_x(a, b) for large a and b: the first term of the uniform expansion, DLMF 8.18.9."""
    off, away = binomial_deviance(a, b, x)
    # eta and the distance from the mean, both in standard deviations.
    size = (away + away).sqrt()
    eta = where(off < 0.0, -size, size)
    width = (a * (b / (a + b))).sqrt()
    distance = off / width
    # c0 is 1 / eta - 1 / distance. Next to the mean they are alike: there eta^2 / distance^2 - 1
    # from the power series of a deviance.
    near = size < 0.5
    u, v, d = width / a, width / b, where(near, distance, 0.0)
    powers = (
        (v - u) * (2 / 3),
        (u * u - u * v + v * v) * (1 / 2),
        (v - u) * (u * u + v * v) * (2 / 5),
        (u * u * u * (u - v) + u * u * v * v + v * v * v * (v - u)) * (1 / 3),
    )
    excess = ((powers[3] * d + powers[2]) * d + powers[1]) * d + powers[0]
    root = (1.0 + excess * d).sqrt()
    close = -excess / (root * (1.0 + root))
    away_from = 1.0 / where(near, 1.0, eta) - 1.0 / where(near, 1.0, distance)
    density = (-away).exp() * (1.0 / math.sqrt(2 * math.pi))
    lower = 0.5 * (eta * -math.sqrt(0.5)).apply(stablehlo.erfc)
    return lower + density * where(near, close, away_from)


def _beta_fraction(a: Term, b: Term, x: Term, below: Term) -> Term:
    """h with I_x(a, b) = x^a (1 - x)^b / B(a, b) h; x is `below` / (a + b) below a / (a + b). The
    even part of DLMF 8.17.22 as DiDonato and Morris write it (ACM TOMS 18, 1992, equation 9): near
    the mean nothing in it cancels."""

    def active(delta: Term, *rest: Term) -> Term:
        return abs(delta - 1.0) > 4 * a.eps

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        _, h, c, d, a, b, x, below = state
        past = a + 2.0 * n - 1.0
        share = n * ((b - n) * x) / past
        numerator = (a + n - 1.0) * ((a + b + n - 1.0) * x / past) * share
        denominator = n + share + (a + n) / (a + 2.0 * n + 1.0) * (below + 1.0 + n * (2.0 - x))
        d = 1.0 / (numerator * d + denominator)
        c = denominator + numerator / c
        return c * d, h * (c * d), c, d, a, b, x, below

    first = a / (a + 1.0) * (below + 1.0)
    d = 1.0 / first
    start = (a.full(2.0), d, a.full(math.inf), d, a, b, x, below)
    return repeat_while(active, body, *start, limit=_LIMIT, results=(1,))[0]


def beta(a: Term, b: Term, x: Term) -> Term:
    """I_x(a, b), the regularised incomplete beta function."""
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0)
    # The next term of the expansion is about 1e-3 of the smaller parameter to the power of -3/2.
    least = 1e7 if a.dtype == dtypes.float64 else 1e3
    large = inside & (a > least) & (b > least)
    uniform = _beta_uniform(where(large, a, least), where(large, b, least), where(large, x, 0.5))
    inside = inside & ~large
    p, q, z = (where(inside, v, w) for v, w in ((a, 1.0), (b, 1.0), (x, 0.25)))
    # Above the mean the fraction of 1 - I converges faster.
    above, _ = binomial_deviance(p, q, z)
    swap = above > 1.0 - 2.0 * z
    first, second = where(swap, q, p), where(swap, p, q)
    side = where(swap, 1.0 - z, z)
    fraction = _beta_fraction(first, second, side, where(swap, above, -above))
    found = _beta_scale(p, q, z) * fraction
    found = where(large, uniform, where(swap, 1.0 - found, found))
    found = where(found < 0.0, 0.0, where(found > 1.0, 1.0, found))
    found = where(x <= 0.0, 0.0, where(x >= 1.0, 1.0, found))
    # The limits of small and large parameters put all weight at one end.
    at_zero, at_one = a.equals(0.0) | b.equals(math.inf), b.equals(0.0) | a.equals(math.inf)
    found = where(at_zero & (x > 0.0), 1.0, where(at_one & (x < 1.0), 0.0, found))
    valid = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0)
    return where(valid & ~(at_zero & at_one), found, math.nan)
