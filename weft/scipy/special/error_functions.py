"""The error function, its scaled, imaginary and complex variants, and the normal distribution.

Real functions are Chebyshev series on parts of the line (`coefficients`); the complex one is
Weideman's rational expansion. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, WeftValueError
from weft.errors.argument_errors import integer_of
from weft.kinds.arguments import NEVER
from weft.kinds.array_function import array_function
from weft.kinds.checks import inexact
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import as_operand
from weft.ops.elementwise import special
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.elementwise.complex import imag, real
from weft.ops.elementwise.formulas import Term, chebyshev, polynomial, where
from weft.ops.elementwise.gaussians import (
    erf_inv_slope_p,
    erfc_formula,
    erfcx_p,
    log_ndtr_p,
    ndtr_formula,
    ndtr_p,
    ndtri_slope_p,
    normal_density_p,
    scaled_tail,
)
from weft.ops.operand_errors import to_dtype
from weft.runtime import stablehlo
from weft.scipy.real_functions import Real, RealOrComplex, elementwise, kernel
from weft.scipy.special.coefficients import (
    DAWSON_FAR,
    DAWSON_NEAR,
    DAWSON_SLOPE_FAR,
    DAWSON_SLOPE_NEAR,
)

__all__ = [
    "dawsn", "erf", "erfc", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri", "owens_t", "wofz",
]  # fmt: skip

_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


@elementwise
def erf(x: Real) -> Array:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x (DLMF 7.2.1).

    >>> erf(0.5)
    Array(0.5204999, dtype=float32, weak_type=True)
    """
    return special.erf_p.bind(x)


@elementwise
def erfc(x: Real) -> Array:
    """1 - erf(x), precise where that is small (DLMF 7.2.2).

    >>> erfc(np.array([0.0, 9.0]))
    Array([1.0000000e+00, 4.1370317e-37], dtype=float32)
    """
    return special.erfc_p.bind(x)


def erfinv_formula(x: Term) -> Term:
    first = x.apply(stablehlo.erf_inv)
    # Near 1 the compiler's rounds 1 - x^2: one step of Newton's method for erfc(y) = 1 - |x|, whose
    # derivative is that of the tail.
    size, rest = abs(first), 1.0 - abs(x)
    outer = (abs(x) > 0.5) & (rest > 0.0)
    size = where(outer, size, 1.0)
    step = scaled_tail(size) * (1.0 - where(outer, rest, 1.0) / erfc_formula(size))
    size = size + step * (1 / _TWO_OVER_ROOT_PI)
    found = where(outer, where(x < 0.0, -size, size), first)
    return where(abs(x).equals(1.0), x * math.inf, found)


erfinv_p = kernel(
    "erfinv", erfinv_formula, lambda t, y, x: t * erf_inv_slope_p.bind(x, y), keeps_zero=True
)


@elementwise
def erfinv(x: Real) -> Array:
    """The inverse of `erf`, between -1 and 1; NaN outside.

    >>> erfinv(np.array([0.0, 1.0]))
    Array([ 0., inf], dtype=float32)
    """
    return erfinv_p.bind(x)


def _complex_erfcx(x: Any) -> Any:
    return _faddeeva(complex_of(-imag(x), real(x)))


@functools.partial(elementwise, of_complex=_complex_erfcx)
def erfcx(x: RealOrComplex) -> Array:
    """exp(x^2) erfc(x), which neither overflows nor vanishes for large x (DLMF 7.2.3).

    Of complex numbers too.

    >>> erfcx(np.array([0.0, 100.0]))
    Array([1.        , 0.00564161], dtype=float32)
    """
    return erfcx_p.bind(x)


def dawsn_formula(x: Term) -> Term:
    size = abs(x)
    inner = where(size < 4.0, x, 0.0)
    outer = where(size < 4.0, 4.0, x)
    near = inner * chebyshev(inner * inner * 0.125 - 1.0, DAWSON_NEAR)
    inverse = 1.0 / outer
    far = inverse * chebyshev(inverse * inverse * 32.0 - 1.0, DAWSON_FAR)
    return where(size < 4.0, near, where(x.is_nan(), x, far))


# The zero of its derivative, as a number of float32 and a rest.
_DAWSON_TOP, _DAWSON_TOP_REST = 0.9241388440132141, 2.8991377655680315e-08


def dawsn_slope_formula(x: Term) -> Term:
    """1 - 2 x F(x) by its own series: for large x and near its zero the terms cancel."""
    size = abs(x)
    inner = where(size < 4.0, size, 0.0)
    other = inner + (_DAWSON_TOP + _DAWSON_TOP_REST)
    factors = (_DAWSON_TOP - inner) * other + _DAWSON_TOP_REST * other
    weight = inner * inner * 0.5 + 1.0
    near = factors / (weight * weight)
    near = near * chebyshev(inner * inner * 0.125 - 1.0, DAWSON_SLOPE_NEAR)
    inverse = 1.0 / where(size < 4.0, 4.0, size)
    square = inverse * inverse
    far = -0.5 * (square * chebyshev(square * 32.0 - 1.0, DAWSON_SLOPE_FAR))
    return where(size < 4.0, near, where(x.is_nan(), x, far))


dawsn_slope_p = kernel(
    "dawsn_slope", dawsn_slope_formula, lambda t, y, x: t * (-2.0 * (dawsn_p.bind(x) + x * y))
)
dawsn_p: Primitive = kernel(
    "dawsn", dawsn_formula, lambda t, y, x: t * dawsn_slope_p.bind(x), keeps_zero=True
)


@elementwise
def dawsn(x: Real) -> Array:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) from 0 to x (DLMF 7.2.5).

    >>> dawsn(np.array([0.0, 1.0]))
    Array([0.       , 0.5380795], dtype=float32)
    """
    return dawsn_p.bind(x)


@elementwise
def ndtr(x: Real) -> Array:
    """The distribution function of the standard normal distribution.

    >>> ndtr(np.array([0.0, -10.0]))
    Array([5.000000e-01, 7.619853e-24], dtype=float32)
    """
    return ndtr_p.bind(x)


def _order(value: Any, call: Arguments) -> int:
    order = integer_of(value, call.name)
    if not 1 <= order <= 30:
        message = "takes a series_order from 1 to 30"
        wanted = "an integer from 1 to 30"
        fix = Fix("argument", "leave series_order out", {"series_order": 3})
        raise WeftValueError(message, got=f"{call.name}={value!r:.80}", wanted=wanted, fix=fix)
    return order


SeriesOrder = Annotated[int, Kind(_order, "an integer from 1 to 30", (0, 31, None), plain=NEVER)]


@elementwise
def log_ndtr(x: Real, series_order: SeriesOrder = 3) -> Array:
    """The logarithm of `ndtr`, precise in both tails.

    series_order: a positive integer, for callers that choose a length of the asymptotic series;
    weft uses an expansion that is precise everywhere and needs none. Raises WeftValueError if it
    is not from 1 to 30.

    >>> log_ndtr(np.array([0.0, -100.0]))
    Array([-6.9314718e-01, -5.0055244e+03], dtype=float32)
    """
    return log_ndtr_p.bind(x)


# Cephes, ndtri.c (S. L. Moshier): between exp(-2) and 1 - exp(-2), and in 1/z with
# z = sqrt(-2 log p) below 8 and above. Highest powers first.
_CENTER = (
    (-59.9633501014107895267, 98.0010754185999661536, -56.6762857469070293439,
     13.9312609387279679503, -1.23916583867381258016),
    (1.0, 1.95448858338141759834, 4.67627912898881538453, 86.3602421390890590575,
     -225.462687854119370527, 200.260212380060660359, -82.0372256168333339912,
     15.9056225126211695515, -1.18331621121330003142),
)  # fmt: skip
_TAIL = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162,
     44.0805073893200834700, 14.6849561928858024014, 2.18663306850790267539,
     -0.140256079171354495875, -3.50424626827848203418e-2, -8.57456785154685413611e-4),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440,
     15.0425385692907503408, 2.50464946208309415979, -0.142182922854787788574,
     -3.80806407691578277194e-2, -9.33259480895457427372e-4),
)  # fmt: skip
_FAR_TAIL = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415,
     1.33303460815807542389, 0.201485389549179081538, 1.23716634817820021358e-2,
     3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271,
     0.216236993594496635890, 1.34204006088543189037e-2, 3.28014464682127739104e-4,
     2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip


def _ratio(x: Term, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> Term:
    return polynomial(x, parts[0][::-1]) / polynomial(x, parts[1][::-1])


def ndtri_formula(p: Term) -> Term:
    upper = p > 1.0 - math.exp(-2)
    q = where(upper, 1.0 - p, p)
    central = q > math.exp(-2)
    y = where(central, q, 0.5) - 0.5
    square = y * y
    center = _ROOT_TWO_PI * (y + y * (square * _ratio(square, _CENTER)))
    inside = (q > 0.0) & ~central
    z = (-2.0 * where(inside, q, 0.1).log()).sqrt()
    inverse = 1.0 / z
    correction = where(z < 8.0, _ratio(inverse, _TAIL), _ratio(inverse, _FAR_TAIL))
    tail = z - z.log() / z - inverse * correction
    found = where(central, center, where(upper, tail, -tail))
    found = where(p.equals(0.0), -math.inf, where(p.equals(1.0), math.inf, found))
    return where((p >= 0.0) & (p <= 1.0), found, math.nan)


ndtri_p = kernel("ndtri", ndtri_formula, lambda t, y, p: t * ndtri_slope_p.bind(p, y))


@elementwise
def ndtri(p: Real) -> Array:
    """The inverse of `ndtr`, between 0 and 1; NaN outside.

    S. L. Moshier's rational approximations (Cephes).

    p: the probabilities at which the inverse is taken.

    >>> ndtri(np.array([0.5, 0.975]))
    Array([0.       , 1.9599643], dtype=float32)
    """
    return ndtri_p.bind(p)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def owens_t_formula(h: Term, a: Term) -> Term:
    height, slope = abs(h), abs(a)
    # For a > 1 by the reflection of D. B. Owen, Annals of Mathematical Statistics 27 (1956); there
    # h and a h are exchanged.
    steep = slope > 1.0
    product = where(height.equals(0.0), 0.0, height * slope)
    first = where(steep, product, height)
    ratio = where(steep, 1.0 / slope, slope)
    # Beyond nine standard deviations the integrand is negligible.
    reach = 9.0 / where(first > 1e-300 if h.eps < 1e-10 else first > 1e-30, first, 1e-30)
    end = where(ratio < reach, ratio, reach)
    half = where(first < 1e15, first, 1e15)
    exponent = -0.5 * half * half
    total = h.full(0.0)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        x = end * (0.5 + 0.5 * node)
        square = x * x + 1.0
        total = total + weight * (exponent * square).exp() / square
    inner = end * total * (0.25 / math.pi)
    p, q = ndtr_formula(-height), ndtr_formula(-product)
    found = where(steep, 0.5 * (p + q) - p * q - inner, inner)
    found = where(a < 0.0, -found, found)
    return where(h.is_nan() | a.is_nan(), math.nan, found)


def owens_t_jvp_h(t: Any, y: Any, h: Any, a: Any) -> Any:
    return t * (normal_density_p.bind(h) * special.erf_p.bind(a * h * _ROOT_HALF) * -0.5)


def owens_t_jvp_a(t: Any, y: Any, h: Any, a: Any) -> Any:
    square = 1.0 + a * a
    return t * (jnp.exp(-0.5 * (h * h) * square) / (2 * math.pi * square))


owens_t_p = kernel("owens_t", owens_t_formula, owens_t_jvp_h, owens_t_jvp_a)


@elementwise
def owens_t(h: Real, a: Real) -> Array:
    """Owen's T: 1/(2 pi) times the integral of exp(-h^2 (1 + x^2)/2) / (1 + x^2) from 0 to a.

    That is the probability that X > h and 0 < Y < a X for independent standard normal X and Y.
    By Gauss-Legendre quadrature.

    h: the real number that X exceeds.

    >>> owens_t(np.array([0.0, 1.0]), 1.0)
    Array([0.12500001, 0.06674188], dtype=float32)
    """
    return owens_t_p.bind(h, a)


_ORDER = 48
_LENGTH = math.sqrt(_ORDER / math.sqrt(2))


def _weideman() -> tuple[float, ...]:
    """Coefficients of the expansion in powers of (L + i z) / (L - i z), lowest first."""
    count = 4 * _ORDER
    angles = np.arange(-count + 1, count) * (math.pi / (2 * count))
    t = _LENGTH * np.tan(angles)
    values = np.concatenate([[0.0], np.exp(-t * t) * (_LENGTH**2 + t * t)])
    found = np.real(np.fft.fft(np.fft.fftshift(values))) / len(values)
    return tuple(found[1 : _ORDER + 1].tolist())


_EXPANSION = _weideman()


def _upper(z: Any) -> Any:
    """w(z) in the upper half-plane: Weideman, SIAM Journal on Numerical Analysis 31 (1994)."""
    iz = z * 1j
    below = 1.0 / (_LENGTH - iz)
    ratio = (_LENGTH + iz) * below
    total = jnp.zeros_like(z)
    for coefficient in reversed(_EXPANSION):
        total = total * ratio + coefficient
    return (2.0 * total * below + 1 / math.sqrt(math.pi)) * below


@custom_jvp
def _faddeeva(z: Any) -> Any:
    x, y = real(z), imag(z)
    lower = y < 0
    up = _upper(jnp.where(lower, -z, z))
    # On the real axis both parts are known precisely (DLMF 7.5.1).
    on_axis = complex_of(jnp.exp(-(x * x)), dawsn_p.bind(x) * _TWO_OVER_ROOT_PI)
    up = jnp.where(y == 0, on_axis, up)
    square = jnp.where(lower, z, 0)
    # By parts: a complex product would turn infinity into NaN.
    exponent = -(square * square)
    size, angle = 2.0 * jnp.exp(real(exponent)), imag(exponent)
    twice = complex_of(size * jnp.cos(angle), size * jnp.sin(angle))
    return jnp.where(lower, twice - up, up)


@_faddeeva.defjvp
def faddeeva_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    w = _faddeeva(z)
    return w, t * (-2.0 * z * w + _TWO_OVER_ROOT_PI * 1j)


def _numeric(value: Any, call: Arguments) -> Any:
    value = as_operand(call.operation, value, call.name)
    of = type_of(value)
    if of.dtype not in dtypes.NUMERIC and of.dtype not in dtypes.BOOLEAN:
        got = f"{call.name} of type {of}"
        message = f"takes real or complex numbers as {call.name}"
        fix = to_dtype(call.name, of.dtype, dtypes.complex64)
        raise DTypeError(message, got=got, wanted="a numeric dtype", fix=fix)
    return value


Numeric = Annotated[Any, Kind(_numeric, "numbers", ([1.0], "text"), 0.5, static=False, plain=NEVER)]


@array_function
def wofz(z: Numeric) -> Array:
    """The Faddeeva function exp(-z^2) erfc(-i z) of complex (or real) numbers, a complex array.

    By Weideman's expansion (1994) above the real axis and reflection below it (DLMF 7.4.3). Raises
    DTypeError for other dtypes; half precision gives complex64.

    z: the numbers, complex or real, at which the function is evaluated.

    >>> wofz(0.0)
    Array(1.+0.j, dtype=complex64)
    """
    wide = inexact(z.dtype) in (dtypes.float64, dtypes.complex128)
    return _faddeeva(z.astype(dtypes.complex128 if wide else dtypes.complex64))
