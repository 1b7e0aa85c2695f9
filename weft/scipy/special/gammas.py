"""The gamma function and functions of it: beta, factorial, binomials, polygamma, zeta.

Gamma is Lanczos' approximation; quotients of gamma functions of large numbers use Stirling's
series, whose logarithms do not cancel. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.errors.argument_errors import integer_of, invalid_value, unsupported_argument
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.array_function import python_function
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise import regularized, special
from weft.ops.elementwise.formulas import Term, chebyshev, log1p, polynomial, where
from weft.ops.flags import check_flag
from weft.runtime import stablehlo
from weft.scipy.real_functions import Natural, Real, RealOrComplex, elementwise, kernel
from weft.scipy.special.coefficients import LGAMMA
from weft.scipy.special.complex_gammas import gamma_of_complex, loggamma_of_complex

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip


def floor(x: Term) -> Term:
    return x.apply(stablehlo.floor)


def is_whole(x: Term) -> Term:
    return floor(x).equals(x) & (abs(x) < math.inf)


def lgamma(x: Term) -> Term:
    """log |gamma(x)|: the compiler's, except for 1/2 <= x <= 5/2, where it is inexact near the
    zeros."""
    center = (x >= 0.5) & (x <= 2.5)
    near = where(center, x, 1.5)
    value = (near - 1.0) * (near - 2.0) * chebyshev(near - 1.5, LGAMMA)
    found = where(center, value, x.apply(stablehlo.lgamma))
    return where(x.equals(-math.inf), -math.inf, found)


def sine_pi(x: Term) -> Term:
    """sin(pi x), precise near integers, from the distance to the nearest one."""
    nearest = x.apply(stablehlo.round_nearest_even)
    odd = abs(nearest - 2.0 * floor(nearest * 0.5))
    value = ((x - nearest) * math.pi).apply(stablehlo.sine)
    return where(odd.equals(1.0), -value, value)


# Boost's Lanczos approximation with 13 terms (J. Maddock, lanczos13m53), lowest powers first.
_LANCZOS = 6.024680040776729583740234375
_ABOVE = (
    23531376880.41075968857200767445, 42919803642.64909876895789904700, 35711959237.35566804944018,
    17921034426.03720969991975575445, 6039542586.352028005064291644307, 1439720407.311721673663223,
    248874557.8620541565114603864132, 31426415.58540019438061423162832, 2876370.628935372441225409,
    186056.2653952234950402949897160, 8071.672002365816210638002902272, 210.8242777515793458725097,
    2.506628274631000270164908177134,
)  # fmt: skip
_BELOW = (
    0.0, 39916800.0, 120543840.0, 150917976.0, 105258076.0, 45995730.0, 13339535.0, 2637558.0,
    357423.0, 32670.0, 1925.0, 66.0, 1.0,
)  # fmt: skip


def _gamma_factors(x: Term) -> tuple[Term, Term]:
    """Two factors of gamma(x) for x >= 1/2, which do not overflow where gamma does."""
    limit = 185.0 if x.eps < 1e-10 else 42.0
    z = where(x < limit, x, limit)
    total = polynomial(z, _ABOVE) / polynomial(z, _BELOW)
    base = z + (_LANCZOS - 0.5)
    # The power in two halves: the whole one overflows before the result does.
    half = z.new(stablehlo.power(base.ir, (z * 0.5 - 0.25).ir))
    return half, half * (-base).exp() * total


def gamma_formula(x: Term) -> Term:
    reflected = x < 0.5
    z = where(reflected, 1.0 - x, x)
    first, second = _gamma_factors(z)
    # Of a reflected number gamma may overflow and the result be a small number; beyond, it is 0.
    low = math.pi / (sine_pi(x) * second) / first
    limit = 172.0 if x.eps < 1e-10 else 36.0
    found = where(reflected, low, where(z < limit, first * second, math.inf))
    pole = is_whole(x) & (x < 0.0) | x.equals(-math.inf)
    found = where(x.equals(0.0), 1.0 / x, where(pole, math.nan, found))
    return where(x.is_nan(), x, found)


gamma_p = kernel("gamma", gamma_formula, lambda t, y, x: t * (y * special.digamma_p.bind(x)))


@functools.partial(elementwise, of_complex=gamma_of_complex)
def gamma(x: RealOrComplex) -> Array:
    """The gamma function; NaN at negative integers, an infinity at 0 (DLMF 5.2.1).

    Of complex numbers too, and then NaN at 0.

    >>> gamma(np.array([0.5, 5.0]))
    Array([ 1.7724538, 23.999998 ], dtype=float32)
    """
    return gamma_p.bind(x)


gammaln_p = kernel("gammaln", lgamma, lambda t, y, x: t * special.digamma_p.bind(x))


@elementwise
def gammaln(x: Real) -> Array:
    """The logarithm of the absolute value of the gamma function (DLMF 5.2.1).

    >>> gammaln(np.array([0.5, 100.0]))
    Array([  0.5723649, 359.13422  ], dtype=float32)
    """
    return gammaln_p.bind(x)


@functools.partial(elementwise, of_complex=loggamma_of_complex)
def loggamma(x: RealOrComplex) -> Array:
    """The logarithm of the gamma function; of real numbers NaN below 0, infinite at the poles.

    Of complex numbers it is continuous off the negative real axis, and NaN at the poles.

    >>> loggamma(np.array([0.5, -0.5]))
    Array([0.5723649,       nan], dtype=float32)
    """
    pole = jnp.floor(x) == x
    return jnp.where(pole & (x <= 0), math.inf, jnp.where(x < 0, math.nan, gammaln_p.bind(x)))


def gammasgn_formula(x: Term) -> Term:
    below = floor(x)
    odd = abs(below - 2.0 * floor(below * 0.5)).equals(1.0)
    sign = where((x < 0.0) & odd, -1.0, where(x.equals(0.0) & (1.0 / x < 0.0), -1.0, x.full(1.0)))
    wrong = ((x < 0.0) & below.equals(x)) | x.equals(-math.inf) | x.is_nan()
    return where(wrong, math.nan, sign)


gammasgn_p = kernel("gammasgn", gammasgn_formula, None)


@elementwise
def gammasgn(x: Real) -> Array:
    """The sign of the gamma function; NaN at negative integers. Its derivative is 0.

    >>> gammasgn(np.array([0.5, -0.5]))
    Array([ 1., -1.], dtype=float32)
    """
    return gammasgn_p.bind(x)


def digamma_formula(x: Term) -> Term:
    return where(x.equals(0.0), -1.0 / x, special.digamma_formula(x))


digamma_p = kernel(
    "scipy_digamma",
    digamma_formula,
    lambda t, y, x: t * special.polygamma_p.bind(jnp.ones_like(x), x),
)


@elementwise
def digamma(x: Real) -> Array:
    """The derivative of the logarithm of the gamma function (DLMF 5.2.2).

    >>> digamma(1.0)
    Array(-0.5772154, dtype=float32, weak_type=True)
    """
    return digamma_p.bind(x)


@elementwise
def polygamma(n: Real, x: Real) -> Array:
    """The n-th derivative of `digamma` at x (DLMF 5.15.1); n holds integers from 0.

    It has no derivative in n: taking one raises WeftNotImplementedError.

    n: the order of the derivative.

    >>> polygamma(1, np.array([1.0, 2.0]))
    Array([1.644934  , 0.64493406], dtype=float32)
    """
    pole = (x <= 0) & (jnp.floor(x) == x) & (x > -jnp.inf)
    limit = x == jnp.inf
    found = special.polygamma_p.bind(n, jnp.where(pole | limit, 1.0, x))
    # Even derivatives change their sign at a pole: the limit from the left is taken, except at 0.
    digamma_pole = jnp.where(x == 0, -jnp.copysign(jnp.inf, x), jnp.nan)
    higher = jnp.where(n % 2 == 1, jnp.inf, -jnp.inf)
    found = jnp.where(pole, jnp.where(n == 0, digamma_pole, higher), found)
    return jnp.where(limit, jnp.where(n == 0, jnp.inf, jnp.where(n > 0, 0.0, jnp.nan)), found)


@elementwise
def gammainc(a: Real, x: Real) -> Array:
    """The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4), for a, x >= 0.

    >>> gammainc(1.0, np.array([0.0, 1.0]))
    Array([0.        , 0.63212043], dtype=float32)
    """
    return regularized.igamma_p.bind(a, x)


@elementwise
def gammaincc(a: Real, x: Real) -> Array:
    """The regularised upper incomplete gamma function Q(a, x) (DLMF 8.2.4), for a, x >= 0.

    >>> gammaincc(1.0, np.array([0.0, 1.0]))
    Array([1.        , 0.36787957], dtype=float32)
    """
    return regularized.igammac_p.bind(a, x)


@elementwise
def betainc(a: Real, b: Real, x: Real) -> Array:
    """The regularised incomplete beta function I_x(a, b) (DLMF 8.17.2), for x from 0 to 1.

    Derivatives are available in x; those in a and b raise WeftNotImplementedError.

    >>> betainc(1.0, 2.0, np.array([0.0, 0.5]))
    Array([0.  , 0.75], dtype=float32)
    """
    return regularized.betainc_p.bind(a, b, x)


# B(2k) / (2k (2k - 1)): DLMF 5.11.1.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE = 10.0


def _stirling(x: Term) -> Term:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 10."""
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _STIRLING)


def log_quotient(a: Term, b: Term) -> Term:
    """log gamma(b) - log gamma(a + b) for b >= 10 and a + b >= 10, without cancellation."""
    total = a + b
    correction = _stirling(b) - _stirling(total)
    return a - (b - 0.5) * log1p(a / b) - a * total.log() + correction


def _regular_betaln(a: Term, b: Term) -> Term:
    """log |beta| where no poles of the gamma functions cancel."""
    low = a.new(stablehlo.minimum(a.ir, b.ir))
    high = a.new(stablehlo.maximum(a.ir, b.ir))
    small = lgamma(low) + (lgamma(high) - lgamma(low + high))
    large = (high >= _LARGE) & (low > 0.0) & (high < math.inf)
    p, q = where(large, low, 1.0), where(large, high, _LARGE)
    mixed = lgamma(p) + log_quotient(p, q)
    both = where(p < _LARGE, _LARGE, p)
    total = both + q
    # DiDonato and Morris, ACM TOMS 18 (1992).
    logs = -(both - 0.5) * log1p(q / both) - q * log1p(both / q)
    stirling = _stirling(both) + _stirling(q) - _stirling(total)
    wide = logs - 0.5 * q.log() + stirling + 0.5 * math.log(2 * math.pi)
    found = where(large, where(p < _LARGE, mixed, wide), small)
    return where(high.equals(math.inf) & (low > 0.0), -math.inf, found)


def _poles(a: Term, b: Term) -> tuple[Term, Term, Term, Term]:
    """Poles: whether an operand is an integer -n <= 0; whether the other is in 1 … n, so that the
    function is finite; and positive operands of the same magnitude of the function."""
    whole_a, whole_b = is_whole(a) & (a <= 0.0), is_whole(b) & (b <= 0.0)
    n, m = where(whole_a, a, b), where(whole_a, b, a)
    pole = whole_a | whole_b
    finite = pole & is_whole(m) & (m > 0.0) & (m + n <= 0.0)
    return pole, finite, where(finite, 1.0 - m - n, 1.0), where(finite, m, 1.0)


def betaln_formula(a: Term, b: Term) -> Term:
    pole, finite, p, q = _poles(a, b)
    first = where(finite, p, where(pole, 1.0, a))
    second = where(finite, q, where(pole, 1.0, b))
    found = where(pole & ~finite, math.inf, _regular_betaln(first, second))
    return where(a.is_nan() | b.is_nan(), math.nan, found)


def betaln_jvp_a(t: Any, y: Any, a: Any, b: Any) -> Any:
    return t * (special.digamma_p.bind(a) - special.digamma_p.bind(a + b))


betaln_p = kernel(
    "betaln", betaln_formula, betaln_jvp_a, lambda t, y, a, b: betaln_jvp_a(t, y, b, a)
)


@elementwise
def betaln(a: Real, b: Real) -> Array:
    """The logarithm of the absolute value of the beta function.

    >>> betaln(1.0, np.array([1.0, 2.0]))
    Array([-0.       , -0.6931474], dtype=float32)
    """
    return betaln_p.bind(a, b)


def beta_formula(a: Term, b: Term) -> Term:
    pole, finite, _, q = _poles(a, b)
    sign = gammasgn_formula(a) * gammasgn_formula(b) * gammasgn_formula(a + b)
    odd = abs(q - 2.0 * floor(q * 0.5)).equals(1.0)
    sign = where(pole, where(finite & odd, -1.0, a.full(1.0)), where(sign.is_nan(), 1.0, sign))
    found = sign * betaln_formula(a, b).exp()
    # A quotient of moderate gamma functions loses less than the exponential of logarithms does.
    low = a.new(stablehlo.minimum(a.ir, b.ir))
    high = a.new(stablehlo.maximum(a.ir, b.ir))
    moderate = (low > 0.0) & (high < (60.0 if a.eps < 1e-10 else 15.0))
    p, q = where(moderate, low, 1.0), where(moderate, high, 1.0)
    return where(moderate, gamma_formula(p) * (gamma_formula(q) / gamma_formula(p + q)), found)


beta_p = kernel(
    "beta",
    beta_formula,
    lambda t, y, a, b: betaln_jvp_a(t * y, y, a, b),
    lambda t, y, a, b: betaln_jvp_a(t * y, y, b, a),
)


@elementwise
def beta(a: Real, b: Real) -> Array:
    """The beta function, gamma(a) gamma(b) / gamma(a + b) (DLMF 5.12.1).

    >>> beta(2.0, np.array([1.0, 3.0]))
    Array([0.5       , 0.08333334], dtype=float32)
    """
    return beta_p.bind(a, b)


_STEPS = 20


def _inexact(value: Any, call: Arguments) -> bool:
    check_flag(value, call.name)
    if value:
        why = "arrays hold no integers of any size"
        raise unsupported_argument(
            call.operation, call.name, value, why, "use math.factorial(n)", False
        )
    return False


NotExact = Annotated[bool, Kind(_inexact, "False", ("no", True, None), plain=NEVER)]


@elementwise
def factorial(n: Real, exact: NotExact = False) -> Array:
    """gamma(n + 1); 0 for negative numbers.

    n: the numbers, which need not be whole; exact: must be False.

    Raises NotImplementedError for exact=True: arrays hold no integers of arbitrary size.

    >>> factorial(np.array([0, 5, -1]))
    Array([  0.9999998, 120.       ,   0.       ], dtype=float32)
    """
    return jnp.where(n < 0, 0.0, gamma_p.bind(jnp.where(n < 0, 0.0, n) + 1.0))


def comb_formula(n: Term, k: Term) -> Term:
    other = n - k
    least = where((other < k) & is_whole(other), other, k)
    product = n.full(1.0)
    # A few factors are multiplied, smallest first, so that small coefficients are whole numbers.
    for i in range(1, _STEPS + 1):
        factor = product * (n - least + float(i))
        product = where(least >= float(i), factor / float(i), product)
    whole = is_whole(least) & (least <= float(_STEPS))
    general = beta_formula(1.0 + where(whole, 1.0, other), 1.0 + where(whole, 1.0, k))
    found = where(whole, product, 1.0 / ((n + 1.0) * general))
    outside = (k < 0.0) | (n < 0.0) | (k > n)
    return where(n.is_nan() | k.is_nan(), math.nan, where(outside, 0.0, found))


def _comb_jvp(t: Any, y: Any, above: Any, below: Any) -> Any:
    slope = special.digamma_p.bind(above + 1.0) - special.digamma_p.bind(below + 1.0)
    return t * jnp.where(y == 0, 0.0, y * slope)


comb_p = kernel(
    "comb",
    comb_formula,
    lambda t, y, n, k: _comb_jvp(t, y, n, n - k),
    lambda t, y, n, k: _comb_jvp(t, y, n - k, k),
)


@elementwise
def comb(N: Real, k: Real, *, repetition: Flag = False) -> Array:
    """The number of ways to take k of N things; 0 where k < 0, N < 0 or k > N.

    repetition: whether a thing may be taken again.

    N: the number of things; k: the number of things that are taken.

    >>> comb(5, np.array([0, 2, 6]))
    Array([ 1., 10.,  0.], dtype=float32)
    """
    if not repetition:
        return comb_p.bind(N, k)
    found = comb_p.bind(N + k - 1.0, k)
    return jnp.where((N == 0) & (k == 0), 1.0, jnp.where((N < 0) | (k < 0), 0.0, found))


def poch_formula(z: Term, m: Term) -> Term:
    rising = z.full(1.0)
    falling = z.full(1.0)
    for i in range(_STEPS):
        rising = where(m > float(i), rising * (z + float(i)), rising)
        falling = where(m < -float(i), falling / (z - float(i + 1)), falling)
    few = is_whole(m) & (abs(m) <= float(_STEPS))
    total = z + m
    pole, zero = is_whole(total) & (total <= 0.0), is_whole(z) & (z <= 0.0)
    safe_z, safe_m = where(few, 1.0, z), where(few, 1.0, m)
    safe = safe_z + safe_m
    large = (safe_z >= _LARGE) & (safe >= _LARGE)
    stirling = -log_quotient(where(large, safe_m, 1.0), where(large, safe_z, _LARGE))
    size = where(large, stirling, lgamma(safe) - lgamma(safe_z)).exp()
    general = size * gammasgn_formula(safe) * gammasgn_formula(safe_z)
    general = where(zero, where(pole, z.full(math.nan), 0.0), where(pole, math.inf, general))
    # Both gamma functions at poles: their quotient is a quotient of factorials.
    p, q = where(zero & pole, 1.0 - total, 1.0), where(zero & pole, 1.0 - z, 1.0)
    odd = abs(m - 2.0 * floor(m * 0.5)).equals(1.0)
    quotient = (lgamma(q) - lgamma(p)).exp()
    general = where(zero & pole, where(odd, -quotient, quotient), general)
    found = where(few, where(pole & ~zero, math.inf, rising * falling), general)
    return where(z.is_nan() | m.is_nan(), math.nan, found)


poch_p = kernel(
    "poch",
    poch_formula,
    lambda t, y, z, m: t * (y * (special.digamma_p.bind(z + m) - special.digamma_p.bind(z))),
    lambda t, y, z, m: t * (y * special.digamma_p.bind(z + m)),
)


@elementwise
def poch(z: Real, m: Real) -> Array:
    """Pochhammer's symbol gamma(z + m) / gamma(z), the rising factorial (DLMF 5.2.5).

    z: the number at which the product begins; m: the number of factors, which need not be whole.

    >>> poch(np.array([1.0, 2.0]), 3)
    Array([ 6., 24.], dtype=float32)
    """
    return poch_p.bind(z, m)


def _dimension(value: Any, call: Arguments) -> int:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    count = integer_of(whole, call.name)
    if count < 1:
        message = f"{call.operation} takes a positive dimension"
        wanted = "an integer from 1 on"
        raise invalid_value(message, call.operation, call.name, whole, wanted, 1)
    return count


Dimension = Annotated[int, Kind(_dimension, "a positive integer", (0, 1.5, None), 2, plain=NEVER)]


@elementwise
def multigammaln(a: Real, d: Dimension) -> Array:
    """The logarithm of the multivariate gamma function of dimension d (DLMF 35.3.4).

    d: a positive integer, known while tracing; NaN where a <= (d - 1) / 2. Raises WeftTypeError and
    WeftValueError for other d.

    >>> multigammaln(np.array([3.0]), 2)
    Array([1.5501952], dtype=float32)
    """
    halves = jnp.arange(d, dtype=a.dtype) / 2
    total = jnp.sum(gammaln_p.bind(jnp.expand_dims(a, -1) - halves), -1)
    total = total + d * (d - 1) / 4 * math.log(math.pi)
    return jnp.where(a <= (d - 1) / 2, math.nan, total)


def tangent_numbers(count: int) -> list[int]:
    """The first tangent numbers, by the algorithm of Brent and Harvey (2011), section 6.2."""
    out = [math.factorial(i) for i in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            out[j] = (j - k) * out[j - 1] + (j - k + 2) * out[j]
    return out


def even_bernoulli_numbers(count: int) -> list[Fraction]:
    """B(2), B(4), … exactly (DLMF 24.15.4)."""
    return [
        Fraction((-1) ** (n - 1) * 2 * n * tangent, 4**n * (4**n - 1))
        for n, tangent in enumerate(tangent_numbers(count), 1)
    ]


@python_function
def bernoulli(n: Natural) -> Array:
    """The Bernoulli numbers B(0) … B(n), in the default float dtype; B(1) is -1/2 (DLMF 24.2.1).

    n: an integer from 0, known while tracing. Raises WeftTypeError and WeftValueError for others.
    Computed from exact tangent numbers (Brent and Harvey, 2011).

    >>> bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333334], dtype=float32)
    """
    values = np.zeros(n + 1)
    values[:2] = [1.0, -0.5][: n + 1]
    # From B(260) on they overflow float64.
    for i, number in enumerate(even_bernoulli_numbers(min(n, 258) // 2), 1):
        values[2 * i] = float(number)
    for i in range(260, n + 1, 2):
        values[i] = math.inf if i % 4 == 2 else -math.inf
    with np.errstate(over="ignore"):
        return jnp.asarray(values.astype(dtypes.default_float()))


_TERMS = 10
# B(2j) / (2j)!
_MACLAURIN = tuple(
    float(b / math.factorial(2 * j)) for j, b in enumerate(even_bernoulli_numbers(9), 1)
)


def _zeta_between(s: Term) -> Term:
    """The Riemann zeta function from -1/2 to 1 by the Euler-Maclaurin formula (DLMF 25.2.9)."""
    total = s.full(1.0)
    for k in range(2, _TERMS):
        total = total + (s * -math.log(k)).exp()
    power = (s * -math.log(_TERMS)).exp()
    total = total + power * (_TERMS / (s - 1.0) + 0.5)
    factor = s * power / _TERMS
    for j, coefficient in enumerate(_MACLAURIN, 1):
        total = total + coefficient * factor
        factor = factor * (s + (2.0 * j - 1)) * (s + 2.0 * j) / _TERMS**2
    return total


def riemann_formula(x: Term) -> Term:
    above = where(x > 1.0, x, 2.0)
    # The reflection would round numbers close to 0 away.
    negative = x < -0.5
    between = where(~negative & (x < 1.0), x, 0.5)
    s = where(negative, x, -0.75)
    # The reflection of DLMF 25.4.1, halved so that nothing overflows early.
    sine = sine_pi(s * 0.5)
    size = (lgamma(1.0 - s) + s * math.log(2 * math.pi)).exp() / math.pi
    gammas = gamma_formula(1.0 - s) * (s * math.log(2 * math.pi)).exp() / math.pi
    limit = -150.0 if x.eps < 1e-10 else -25.0
    size = where(s > limit, gammas, size)
    reflected = where(
        sine.equals(0.0), 0.0, sine * size * special.zeta_formula(1.0 - s, x.full(1.0))
    )
    found = where(x > 1.0, special.zeta_formula(above, x.full(1.0)), _zeta_between(between))
    found = where(negative, reflected, found)
    found = where(x.equals(1.0), math.inf, where(x > 1100.0, 1.0, found))
    return where(x.is_nan() | x.equals(-math.inf), math.nan, found)


riemann_p = kernel("riemann_zeta", riemann_formula, special.no_derivative("zeta", "x"))


def hurwitz_formula(x: Term, q: Term) -> Term:
    pole = (q <= 0.0) & floor(q).equals(q)
    unknown = (x < 1.0) | x.is_nan() | q.is_nan() | ((q < 0.0) & ~pole & ~floor(x).equals(x))
    found = special.zeta_formula(where(x > 1.0, x, 2.0), where(pole, 1.0, q))
    # The terms of the sum vanish, except where k + q <= 1.
    limit = where(q > 1.0, 0.0, where(q.equals(1.0), q, math.inf))
    found = where(x.equals(math.inf), limit, where(q.equals(math.inf), 0.0, found))
    return where(unknown, math.nan, where(pole | x.equals(1.0), math.inf, found))


def _slope_in_x(x: Any, q: Any) -> Any:
    """The derivative of Hurwitz' zeta function in x > 1, for q > 0; NaN elsewhere.

    By the Euler-Maclaurin formula (DLMF 25.11.28).
    """
    valid = (x > 1.0) & (q > 0.0)
    x, q = jnp.where(valid, x, 2.0), jnp.where(valid, q, 1.0)
    terms = [q + float(k) for k in range(_TERMS)]
    found = -sum(jnp.log(term) * jnp.exp(-x * jnp.log(term)) for term in terms)
    end = q + float(_TERMS)
    log = jnp.log(end)
    power = jnp.exp(-x * log)
    found -= end * power * (log + 1.0 / (x - 1.0)) / (x - 1.0) + 0.5 * log * power
    factor, slope = x * power / end, 1.0 / x - log
    for j, coefficient in enumerate(_MACLAURIN, 1):
        found += coefficient * factor * slope
        for shift in (2.0 * j - 1, 2.0 * j):
            factor, slope = factor * (x + shift) / end, slope + 1.0 / (x + shift)
    return jnp.where(valid, found, math.nan)


hurwitz_p: Primitive = kernel(
    "hurwitz_zeta",
    hurwitz_formula,
    lambda t, y, x, q: t * _slope_in_x(x, q),
    lambda t, y, x, q: t * (-x * hurwitz_p.bind(x + 1.0, q)),
)


@elementwise
def zeta(x: Real, q: Real | None = None) -> Array:
    """The sum of (k + q)^(-x) over k = 0, 1, …: Hurwitz' zeta function (DLMF 25.11.1), for x > 1.

    Without q: Riemann's zeta function of all real numbers (DLMF 25.2.1), whose derivatives raise
    WeftNotImplementedError: those in x are available for zeta(x, 1.0), and NaN for q below 0.

    q: the number at which the sum starts; None for Riemann's function.

    >>> zeta(np.array([2.0, -1.0]))
    Array([ 1.644934  , -0.08333334], dtype=float32)
    """
    return riemann_p.bind(x) if q is None else hurwitz_p.bind(x, q)
