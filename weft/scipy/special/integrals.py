"""Exponential, sine, cosine and Fresnel integrals, and the dilogarithm.

Chebyshev series on parts of the line (`coefficients`); beyond a few, sines and cosines times two
auxiliary functions (DLMF 6.2.17, 7.2.10) that do not oscillate. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.ops.elementwise.formulas import Term, chebyshev, log1p, polynomial, repeat_while, where
from weft.ops.elementwise.special import no_derivative
from weft.runtime import stablehlo
from weft.scipy.real_functions import Real, elementwise, kernel
from weft.scipy.special import coefficients as table

__all__ = ["exp1", "expi", "expn", "fresnel", "sici", "spence"]

_EULER = 0.57721566490153286061


def sine(x: Term) -> Term:
    return x.apply(stablehlo.sine)


def cosine(x: Term) -> Term:
    return x.apply(stablehlo.cosine)


def scaled_exp1(x: Term) -> Term:
    """x exp(x) E1(x) for x >= 1."""
    return chebyshev(1.0 - 6.0 / (x + 2.0), table.E1)


def exp1_formula(x: Term) -> Term:
    small = where((x > 0.0) & (x < 1.0), x, 0.5)
    near = small * chebyshev(small + small - 1.0, table.EIN) - small.log() - _EULER
    large = where((x >= 1.0) & (x < 1e4), x, 1e4)
    far = scaled_exp1(large) * (-large).exp() / large
    found = where(x < 1.0, near, where(x.is_nan(), x, far))
    return where(x.equals(0.0), math.inf, where(x < 0.0, math.nan, found))


exp1_p = kernel("exp1", exp1_formula, lambda t, y, x: -(t * (jnp.exp(-x) / x)))


@elementwise
def exp1(x: Real) -> Array:
    """The integral of exp(-t) / t from x on (DLMF 6.2.1), for x > 0; NaN below, infinite at 0.

    >>> exp1(np.array([1.0, 0.0]))
    Array([0.21938393,        inf], dtype=float32)
    """
    return exp1_p.bind(x)


# The zero of Ei: a number of float64 and a rest, and the same of float32.
_ROOT, _ROOT_REST = 0.3725074107813666, 1.3140183414386028e-17
_NARROW_ROOT = 0.3725074231624603
# Ei(r + t) = log(1 + t / r) + the sum of c[j] t^(j + 1), from the series of DLMF 6.6.1 around r.
_AROUND_ROOT = [
    sum(math.comb(k, j) * _ROOT ** (k - j) / (k * math.factorial(k)) for k in range(j, 30))
    for j in range(1, 16)
]


def _expi_around_root(x: Term) -> Term:
    """Ei from the distance to its zero, near which the terms of other formulas cancel."""
    root, rest = _ROOT, _ROOT_REST
    if x.dtype != dtypes.float64:
        root, rest = _NARROW_ROOT, _ROOT - _NARROW_ROOT
    # Divided first: the compiler would join the two subtractions.
    ratio = (x - root) * (1 / _ROOT) - rest / _ROOT
    return log1p(ratio) + ratio * polynomial(ratio * _ROOT, [_ROOT * c for c in _AROUND_ROOT])


def expi_formula(x: Term) -> Term:
    small = where((x > 0.0) & (x < 6.0), x, 1.0)
    near = small * small.exp() * chebyshev(small * (1 / 3) - 1.0, table.EI_NEAR)
    near = near + small.log() + _EULER
    around = abs(x - _ROOT) < 0.25
    near = where(around, _expi_around_root(where(around, x, _ROOT)), near)
    limit = 720.0 if x.eps < 1e-10 else 95.0
    large = where((x >= 6.0) & (x < limit), x, limit)
    middle = chebyshev(where(large < 24.0, large - 15.0, 0.0) * (1 / 9), table.EI_MID)
    far = chebyshev(48.0 / where(large < 24.0, 24.0, large) - 1.0, table.EI_FAR)
    # The exponential in two halves: the whole one overflows before the result does.
    half = (large * 0.5).exp()
    above = half * (half * where(large < 24.0, middle, far) / large)
    found = where(x < 6.0, near, where(x < limit, above, math.inf))
    found = where(x < 0.0, -exp1_formula(where(x < 0.0, -x, 1.0)), found)
    return where(x.equals(0.0), -math.inf, where(x.is_nan(), x, found))


def expi_slope_formula(x: Term) -> Term:
    """exp(x) / x, also where the exponential overflows and the quotient does not."""
    half = (x * 0.5).exp()
    return where(x > 80.0, half * (half / x), x.exp() / x)


expi_slope_p = kernel("expi_slope", expi_slope_formula, lambda t, y, x: t * (y * (1.0 - 1.0 / x)))
expi_p = kernel("expi", expi_formula, lambda t, y, x: t * expi_slope_p.bind(x))


@elementwise
def expi(x: Real) -> Array:
    """Ei(x), the principal value of the integral of exp(t) / t up to x (DLMF 6.2.5).

    >>> expi(np.array([1.0, -1.0]))
    Array([ 1.8951176 , -0.21938393], dtype=float32)
    """
    return expi_p.bind(x)


_ROUNDS = 200


def _expn_series(n: Term, x: Term) -> Term:
    """DLMF 8.19.8, for 0 < x <= 1 and n >= 1."""

    def active(*state: Term) -> Term:
        term, total, part, n = state[:4]
        return (abs(part) > abs(total) * (n.eps / 8)) | (abs(term) > 1e-3)

    def body(m: Term, *state: Term) -> tuple[Term, ...]:
        term, total, part, n, x, logarithm, harmonic = state
        k = m - 1.0
        # The sum to n - 1 of 1/k - gamma is digamma(n), known when its term is reached.
        special = k.equals(n - 1.0)
        part = where(
            special, term * (harmonic - logarithm), -term / where(special, 1.0, k - (n - 1.0))
        )
        return -term * x / m, total + part, part, n, x, logarithm, harmonic + 1.0 / m

    one = x.full(1.0)
    state = (one, x.full(0.0), one, n, x, x.log(), x.full(-_EULER))
    return repeat_while(active, body, *state, limit=_ROUNDS, results=(1,))[0]


def _expn_fraction(n: Term, x: Term) -> Term:
    """exp(x) E_n(x) by the continued fraction of DLMF 8.19.17, by Lentz's method."""

    def active(change: Term, *rest: Term) -> Term:
        return abs(change - 1.0) > 2 * n.eps

    def body(i: Term, *state: Term) -> tuple[Term, ...]:
        _, h, b, c, d, n = state
        numerator = -i * (n - 1.0 + i)
        b = b + 2.0
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        change = c * d
        return change, h * change, b, c, d, n

    b = x + n
    start = (x.full(2.0), 1.0 / b, b, x.full(1e30), 1.0 / b, n)
    return repeat_while(active, body, *start, limit=_ROUNDS, results=(1,))[0]


def expn_formula(n: Term, x: Term) -> Term:
    inside = (x > 0.0) & (n >= 1.0) & n.apply(stablehlo.floor).equals(n)
    by_series = inside & (x <= 1.0) & (n < 50.0)
    by_fraction = inside & ~by_series & (x < 1e4)
    series = _expn_series(where(by_series, n, 1.0), where(by_series, x, 0.5))
    order, point = where(by_fraction, n, 1.0), where(by_fraction, x, 5.0)
    fraction = _expn_fraction(order, point) * (-point).exp()
    found = where(by_series, series, where(by_fraction, fraction, 0.0))
    found = where(n.equals(0.0) & (x > 0.0), (-x).exp() / x, found)
    at_zero = where(n > 1.0, 1.0 / (n - 1.0), math.inf)
    found = where(x.equals(0.0), at_zero, found)
    wrong = (x < 0.0) | (n < 0.0) | ~n.apply(stablehlo.floor).equals(n)
    return where(wrong | x.is_nan() | n.is_nan(), math.nan, found)


def expn_jvp_x(t: Any, y: Any, n: Any, x: Any) -> Any:
    lowest = n == 0
    below = expn_p.bind(jnp.where(lowest, 1.0, n) - 1.0, x)
    return -(t * jnp.where(lowest, y * (1.0 + 1.0 / x), below))


expn_p = kernel("expn", expn_formula, no_derivative("expn", "n"), expn_jvp_x)


@elementwise
def expn(n: Real, x: Real) -> Array:
    """The integral of exp(-x t) / t^n from 1 on (DLMF 8.19.3), for integers n >= 0 and x >= 0.

    NaN elsewhere. Derivatives are available in x; in n they raise WeftNotImplementedError.

    n: the power of t, an integer from 0.

    >>> expn(2, np.array([0.0, 1.0]))
    Array([1.        , 0.14849551], dtype=float32)
    """
    return expn_p.bind(n, x)


def _parts(x: Term) -> tuple[Term, Term, Term, Term, Term]:
    """|x| for the first method, and the terms of the second, with f and g of DLMF 6.2.17."""
    size = abs(x)
    small = where(size < 4.0, size, 0.0)
    large = where((size >= 4.0) & (size < math.inf), size, 4.0)
    y = 1.0 - 16.0 / (large + 4.0)
    inverse = 1.0 / large
    f = chebyshev(y, table.SICI_F) * inverse
    g = chebyshev(y, table.SICI_G) * inverse * inverse
    return small, sine(large), cosine(large), f, g


def si_formula(x: Term) -> Term:
    size = abs(x)
    small, sin, cos, f, g = _parts(x)
    near = small * chebyshev(small * small * 0.125 - 1.0, table.SI_NEAR)
    far = where(size < math.inf, math.pi / 2 - f * cos - g * sin, math.pi / 2)
    found = where(size < 4.0, near, where(x.is_nan(), x, far))
    return where(x < 0.0, -found, found)


def ci_formula(x: Term) -> Term:
    small, sin, cos, f, g = _parts(x)
    safe = where(small > 0.0, small, 1.0)
    near = safe * safe * chebyshev(safe * safe * 0.125 - 1.0, table.CI_NEAR) + safe.log() + _EULER
    far = where(x < math.inf, f * sin - g * cos, 0.0)
    found = where(x < 4.0, near, where(x.is_nan(), x, far))
    return where(x.equals(0.0), -math.inf, found)


si_p = kernel(
    "sine_integral", si_formula, lambda t, y, x: t * jnp.sinc(x * (1 / math.pi)), keeps_zero=True
)
ci_p = kernel("cosine_integral", ci_formula, lambda t, y, x: t * (jnp.cos(x) / x))


@elementwise
def sici(x: Real) -> tuple[Array, Array]:
    """The sine and the cosine integral, Si(x) and Ci(x) (DLMF 6.2.9, 6.2.13), a pair of arrays.

    For negative x the second is the real part, that of |x|; at minus infinity it is NaN.

    >>> sici(np.array([0.0, 1.0]))
    (Array([0.        , 0.94608307], dtype=float32), Array([      -inf, 0.33740395], dtype=float32))
    """
    cosine_integral = ci_p.bind(jnp.abs(x))
    return si_p.bind(x), jnp.where(x == -math.inf, math.nan, cosine_integral)


_NEAR = 1.75


def _squares(x: Term) -> tuple[Term, Term]:
    """sin and cos of pi x^2 / 2, with x^2 taken modulo 4 without rounding.

    x is split into a part of few digits, whose square is exact, and the rest.
    """
    digits = 26 if x.eps < 1e-10 else 12
    scale = x * float(2**digits + 1)
    high = scale - (scale - x)
    low = x - high
    square = high * high
    square = square - 4.0 * (square * 0.25).apply(stablehlo.floor)
    cross = 2.0 * high * low + low * low
    cross = cross - 4.0 * (cross * 0.25).apply(stablehlo.floor)
    angle = (square + cross) * (math.pi / 2)
    return sine(angle), cosine(angle)


def _fresnel(x: Term) -> tuple[Term, ...]:
    size = abs(x)
    limit = 1e8 if x.eps < 1e-10 else 1e4
    small = where(size < _NEAR, size, 0.0)
    large = where((size >= _NEAR) & (size < limit), size, limit)
    y = 1.0 - 8.0 / (large + 2.25)
    f = chebyshev(y, table.FRESNEL_F) / (math.pi * large)
    g = chebyshev(y, table.FRESNEL_G) / (math.pi**2 * large * large * large)
    sin, cos = _squares(large)
    ratio = small * (1 / _NEAR)
    square = ratio * ratio
    return size, small, 2.0 * square * square - 1.0, f, g, sin, cos


def _odd(x: Term, size: Term, near: Term, far: Term) -> Term:
    far = where(size < (1e8 if x.eps < 1e-10 else 1e4), far, 0.5)
    found = where(size < _NEAR, near, where(x.is_nan(), x, far))
    return where(x < 0.0, -found, found)


def fresnel_s_formula(x: Term) -> Term:
    size, small, y, f, g, sin, cos = _fresnel(x)
    near = small * small * small * chebyshev(y, table.S_NEAR)
    return _odd(x, size, near, 0.5 - f * cos - g * sin)


def fresnel_c_formula(x: Term) -> Term:
    size, small, y, f, g, sin, cos = _fresnel(x)
    return _odd(x, size, small * chebyshev(y, table.C_NEAR), 0.5 + f * sin - g * cos)


fresnel_s_p = kernel(
    "fresnel_s",
    fresnel_s_formula,
    lambda t, y, x: t * jnp.sin(x * x * (math.pi / 2)),
    keeps_zero=True,
)
fresnel_c_p = kernel(
    "fresnel_c",
    fresnel_c_formula,
    lambda t, y, x: t * jnp.cos(x * x * (math.pi / 2)),
    keeps_zero=True,
)


@elementwise
def fresnel(x: Real) -> tuple[Array, Array]:
    """The Fresnel integrals S(x) and C(x) (DLMF 7.2.8, 7.2.7), a pair of arrays.

    They integrate the sine and the cosine of pi t^2 / 2 from 0 to x.

    >>> fresnel(np.array([0.0, 1.0]))
    (Array([0.        , 0.43825912], dtype=float32), Array([0.        , 0.77989334], dtype=float32))
    """
    return fresnel_s_p.bind(x), fresnel_c_p.bind(x)


def spence_formula(x: Term) -> Term:
    # DLMF 25.12.4 takes numbers above 3/2 to below 1, and 25.12.6 those below 1/2 to above it.
    above = x > 1.5
    w = where(above, 1.0 / x, x)
    below = w < 0.5
    positive = where(w > 0.0, w, 1.0)
    z = where(below, w, 1.0 - where(below, 1.0, w))
    near = z * chebyshev(z + z, table.DILOG)  # Li2(z), |z| <= 1/2
    logs = where(below, positive, 1.0).log() * (1.0 - where(below, w, 0.0)).log()
    found = where(below, math.pi**2 / 6 - logs - near, near)
    logarithm = where(above, x, 1.0).log()
    found = where(above, -0.5 * logarithm * logarithm - found, found)
    return where(x < 0.0, math.nan, where(x.is_nan() | x.equals(math.inf), math.nan, found))


def spence_jvp(t: Any, y: Any, x: Any) -> Any:
    # log(x) / (1 - x): near 1 the series of the logarithm, divided.
    near = jnp.abs(x - 1.0) < 0.05
    z = jnp.where(near, 1.0 - x, 0.0)
    total = jnp.zeros_like(z)
    for k in reversed(range(14)):
        total = total * z - 1.0 / (k + 1)
    away = jnp.where(near, 2.0, x)
    return t * jnp.where(near, total, jnp.log(away) / (1.0 - away))


spence_p = kernel("spence", spence_formula, spence_jvp)


@elementwise
def spence(x: Real) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x, for x >= 0: Li2(1 - x) (DLMF 25.12.2).

    NaN for negative numbers.

    >>> spence(np.array([0.0, 1.0]))
    Array([1.644934, 0.      ], dtype=float32)
    """
    return spence_p.bind(x)
