"""Products of powers and factorials as formulas in which no large logarithms cancel.

log(n!) is n log(n) - n plus a small remainder; n log(n) - n and the logarithms of the powers add up
to a sum of deviances, none larger than the result: C. Loader, "Fast and accurate computation of
binomial probabilities" (2000). A deviance is as precise as the distance of a count from its
expectation, so that distance is computed with the digits that a product rounds off (T. J. Dekker,
"A floating-point technique for extending the available precision", 1971).
"""

from __future__ import annotations

import math

import numpy as np

from weft import dtypes
from weft.ops.elementwise.formulas import Term, chebyshev, log1p, polynomial, where
from weft.runtime import stablehlo

# Chebyshev coefficients in 2/x - 1, for x >= 1, of x times the remainder of log gamma(x) after
# Stirling's formula (DLMF 5.11.1), from values in fifty-digit arithmetic.
_STIRLING = (
    0.0824391166213758, -0.0011586014333953318, -0.00024206338649436505, 2.3096481805266553e-05,
    2.8126538306420857e-07, -4.271982369179674e-07, 6.753795989800755e-08,
    -1.6742216909283222e-09, -1.9048823183699344e-09, 5.616082398566717e-10,
    -7.497881765282662e-11, -4.8626969754289166e-12, 5.722878454768195e-12,
    -1.7224915130168883e-12, 2.713055272632209e-13, 1.2848926024838206e-14,
    -2.5096960115971088e-14, 9.641545602098504e-15, -2.1911895633949408e-15,
    1.7110333231962383e-16, 1.1580737676955859e-16, -7.186798295952592e-17,
    2.4415184032977972e-17, -5.191233070685366e-18,
)  # fmt: skip
# The terms of the series of a deviance fall by the square of this.
_CLOSE = 0.25


# ---- factorials --------------------------------------------------------------------------------


def _remainder(x: Term) -> tuple[Term, Term, Term]:
    """Stirling's remainder at x, or at x + 1 below 1; whether x < 1; the place."""
    small = x < 1.0
    z = where(small, x + 1.0, x)
    inverse = 1.0 / z
    return inverse * chebyshev(inverse + inverse - 1.0, _STIRLING), small, z


def stirling(x: Term) -> Term:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2), for x > 0."""
    found, small, _ = _remainder(x)
    safe = where(small, x, 1.0)
    return where(small, found + (safe + 0.5) * (log1p(safe) - safe.log()) - 1.0, found)


def _factorial(x: Term) -> tuple[Term, Term]:
    """log(x!) - x log(x) + x for x >= 0, as a small number and half the logarithm of a factor."""
    rest, small, z = _remainder(x)
    # For x < 1 from the factorial of x + 1; 0 log(0) is 0.
    y = where(small, x, 0.0)
    logarithm = where(y > 0.0, y, 1.0).log()
    low = rest + (y + 0.5) * log1p(y) - y * logarithm + (0.5 * math.log(2 * math.pi) - 1.0)
    low = where(x.equals(0.0), 0.0, low)
    return where(small, low, rest), where(small, 1.0, (2 * math.pi) * z)


# ---- deviances ---------------------------------------------------------------------------------


def _halves(x: Term) -> tuple[Term, Term]:
    """x as a sum of two numbers of half the digits, whose products are exact.

    The digits are cut off the bits: the compiler could fuse Veltkamp's product and difference.
    """
    double = x.dtype == dtypes.float64
    dtype, mask = (np.uint64, 2**64 - 2**27) if double else (np.uint32, 2**32 - 2**12)
    bits = stablehlo.bitcast_convert(x.ir, dtype)
    kept = stablehlo.and_(bits, stablehlo.full(mask, x.shape, dtype))
    high = x.new(stablehlo.bitcast_convert(kept, x.dtype))
    return high, x - high


def exact_sum(x: Term, y: Term) -> tuple[Term, Term]:
    """x + y and its rounding error (D. E. Knuth, The Art of Computer Programming 2, 4.2.2)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _distance(p: Term, n: Term, low: Term, x: Term) -> Term:
    """p (n + low) - x to the last digits, where p n may be close to x."""
    p_high, p_low = _halves(p)
    n_high, n_low = _halves(n)
    total, first = exact_sum(p_high * n_high, -x)
    total, second = exact_sum(total, p_high * n_low)
    total, third = exact_sum(total, p_low * n_high)
    return total + (first + second + third + (p_low * n_low + p * low))


def _odd_series(v: Term) -> Term:
    """1/3 + v^2/5 + v^4/7 + …, for v below `_CLOSE`: v + v^3 times it is atanh(v)."""
    terms = math.ceil(math.log(v.eps / 4) / math.log(_CLOSE**2))
    return polynomial(v * v, [1.0 / (2 * j + 3) for j in range(terms)])


def _share(x: Term, off: Term, y: Term) -> tuple[Term, Term]:
    """off / (x + y), and whether x and y are close."""
    total = x + y
    share = off / total
    return share, (abs(share) < _CLOSE) & (total < math.inf)


def _far_log_ratio(x: Term, y: Term) -> Term:
    """log(x / y) of numbers that are not close; infinite where one is 0."""
    # The quotient may overflow, or be below the smallest normal number, where its logarithm is
    # neither: there both numbers are multiplied by powers of 2, so that it is near 1.
    most = dtypes.finfo(x.dtype).maxexp
    power = most * 25 // 32
    above, below = x > y * 2.0 ** (most - 3), y > x * 2.0 ** (most - 3)
    up = where(below, 2.0**power, where(above, 2.0**-power, x.full(1.0)))
    logarithm = (x * up / (y / up)).log()
    sign = where(below, 1.0, where(above, -1.0, x.full(0.0)))
    rest = 2 * power * math.log(2)
    digits = math.floor(rest * 8) / 8  # exact in each dtype
    return (logarithm - sign * (rest - digits)) - sign * digits


def log_ratio(x: Term, y: Term) -> Term:
    """log(x / y) of positive numbers, precise where they are close; infinite where one is 0."""
    v, close = _share(x, y - x, y)  # as in a deviance
    near = 0.0 - 2.0 * (v + v * (v * v) * _odd_series(v))
    return where(close, near, _far_log_ratio(x, y))


def deviance(x: Term, off: Term, y: Term) -> Term:
    """x log(x / y) - x + y for x, y >= 0, where off = y - x is known more precisely than y is."""
    v, close = _share(x, off, y)
    near = v * off - 2.0 * x * v * (v * v) * _odd_series(v)
    far = where(x > 0.0, off + x * _far_log_ratio(x, y), off)
    far = where(abs(off).equals(math.inf), math.inf, far)
    return where(close, near, far)


def distance_from_mean(x: Term, rest: Term, p: Term) -> Term:
    """n p - x, where n = x + rest."""
    n, low = exact_sum(x, rest)
    return _distance(p, n, low, x)


def binomial_deviance(x: Term, rest: Term, p: Term) -> tuple[Term, Term]:
    """n p - x with n = x + rest, and the distance of log(p^x (1 - p)^rest) below its maximum."""
    n, off = x + rest, distance_from_mean(x, rest, p)
    return off, deviance(x, off, n * p) + deviance(rest, -off, n * (1.0 - p))


def _factors(x: Term, rest: Term) -> tuple[Term, Term, Term]:
    """comb(n, x) (x / n)^x (rest / n)^rest with n = x + rest, as sqrt(f / g) exp(h)."""
    (small_x, factor_x), (small_rest, factor_rest) = _factorial(x), _factorial(rest)
    small_n, factor_n = _factorial(x + rest)
    larger = factor_x.new(stablehlo.maximum(factor_x.ir, factor_rest.ir))
    smaller = factor_x.new(stablehlo.minimum(factor_x.ir, factor_rest.ir))
    # The compiler would make one quotient of two, with a product below that overflows.
    return factor_n / larger, smaller, small_n - small_x - small_rest


def log_binomial(x: Term, rest: Term, p: Term) -> Term:
    """The logarithm of comb(x + rest, x) p^x (1 - p)^rest, of real x, rest >= 0."""
    above, below, small = _factors(x, rest)
    return 0.5 * (above.log() - below.log()) + (small - binomial_deviance(x, rest, p)[1])


def binomial(x: Term, rest: Term, p: Term) -> Term:
    """comb(x + rest, x) p^x (1 - p)^rest, of real x, rest >= 0."""
    above, below, small = _factors(x, rest)
    return above.sqrt() / below.sqrt() * (small - binomial_deviance(x, rest, p)[1]).exp()


def log_poisson(x: Term, mean: Term) -> Term:
    """The logarithm of mean^x exp(-mean) / x!, of real x >= 0."""
    small, factor = _factorial(x)
    return -0.5 * factor.log() - (small + deviance(x, mean - x, mean))


def poisson(x: Term, mean: Term) -> Term:
    """mean^x exp(-mean) / x!, of real x >= 0."""
    small, factor = _factorial(x)
    return (-small - deviance(x, mean - x, mean)).exp() / factor.sqrt()
