"""Exponentials, logarithms, trigonometric and hyperbolic functions, elementwise.

Integers become real numbers first (int64 becomes float64, the others float32).
"""

from __future__ import annotations

import math
from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.kinds.arguments import Prepared
from weft.kinds.array_function import array_function
from weft.numpy.elementwise import constant_like, together
from weft.numpy.promotion import BinaryUfunc, Unary, UnaryUfunc, binary_ufunc, unary, unary_ufunc
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import complex as parts
from weft.ops.elementwise import distances, elementary, exponentials, powers, stable_sums
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.rounding import RoundingMethod, floor, is_finite, round
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import bessel_i0_p
from weft.ops.structural.narrow import accumulator

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "deg2rad", "degrees", "exp",
    "exp2", "expm1", "hypot", "i0", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "rad2deg", "radians", "sin", "sinc", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip

INEXACT, FLOATING = dtypes.INEXACT, dtypes.FLOATING


def _real_or_complex(name: str, primitive: Any, doc: str) -> UnaryUfunc:
    return unary_ufunc(name, {INEXACT: primitive.bind}, doc, inexact=True)


exp: UnaryUfunc = _real_or_complex(
    "exp",
    lax.exp_p,
    """The elementwise exponential.

    >>> jnp.exp(jnp.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """,
)
exp2: UnaryUfunc = _real_or_complex(
    "exp2",
    elementary.exp2_p,
    """2 to the power x, elementwise.

    >>> jnp.exp2(jnp.array([0.0, 3.0]))
    Array([1., 8.], dtype=float32)
    """,
)
expm1: UnaryUfunc = _real_or_complex(
    "expm1",
    elementary.expm1_p,
    """exp(x) - 1, elementwise, exact for x near 0.

    >>> jnp.expm1(jnp.array([0.0, 1.0]))
    Array([0.       , 1.7182817], dtype=float32)
    """,
)
log: UnaryUfunc = _real_or_complex(
    "log",
    lax.log_p,
    """The elementwise natural logarithm.

    >>> jnp.log(jnp.array([1.0, 10.0]))
    Array([0.       , 2.3025851], dtype=float32)
    """,
)
log1p: UnaryUfunc = _real_or_complex(
    "log1p",
    elementary.log1p_p,
    """log(1 + x), elementwise, exact for x near 0.

    >>> jnp.log1p(jnp.array([0.0, 1.0]))
    Array([0.       , 0.6931472], dtype=float32)
    """,
)


@array_function
def _complex_log2(x: Prepared) -> Any:
    return _scale_parts(lax.log(x), 1 / math.log(2))


@array_function
def _complex_log10(x: Prepared) -> Any:
    return _scale_parts(lax.log(x), 1 / math.log(10))


def _scale_parts(x: Any, number: float) -> Any:
    """Multiplies both parts by a number: a complex product would turn an infinite part into NaN."""
    return parts.complex(*[part * number for part in (x.real, x.imag)])


log2: UnaryUfunc = unary_ufunc(
    "log2",
    {FLOATING: exponentials.log2_p.bind, dtypes.COMPLEX: _complex_log2},
    """The logarithm to base 2, elementwise; exact for whole powers of 2.

    >>> jnp.log2(jnp.array([1.0, 8.0]))
    Array([0., 3.], dtype=float32)
    """,
    inexact=True,
)
log10: UnaryUfunc = unary_ufunc(
    "log10",
    {FLOATING: exponentials.log10_p.bind, dtypes.COMPLEX: _complex_log10},
    """The logarithm to base 10, elementwise; exact for whole powers of 10.

    >>> jnp.log10(jnp.array([1.0, 100.0]))
    Array([0., 2.], dtype=float32)
    """,
    inexact=True,
)
sqrt: UnaryUfunc = _real_or_complex(
    "sqrt",
    lax.sqrt_p,
    """The elementwise square root.

    >>> jnp.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """,
)
cbrt: UnaryUfunc = unary_ufunc(
    "cbrt",
    {FLOATING: powers.cbrt_p.bind},
    """The elementwise real cube root of real numbers.

    >>> jnp.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """,
    inexact=True,
)


def _complex_logaddexp(x: Any, y: Any) -> Any:
    top = lax.max(*together(x.real, y.real))
    top = stop_gradient(select(is_finite(top), top, constant_like(0, top)))
    top = convert_element_type(top, dtypes.to_complex(top.dtype))
    return lax.log(lax.exp(x - top) + lax.exp(y - top)) + top


@array_function
def _logaddexp(x: Prepared, y: Prepared) -> Any:
    return _complex_logaddexp(x, y)


@array_function
def _logaddexp2(x: Prepared, y: Prepared) -> Any:
    ln2 = math.log(2.0)
    return _scale_parts(_complex_logaddexp(_scale_parts(x, ln2), _scale_parts(y, ln2)), 1.0 / ln2)


logaddexp: BinaryUfunc = binary_ufunc(
    "logaddexp",
    {FLOATING: stable_sums.logaddexp_p.bind, dtypes.COMPLEX: _logaddexp},
    """log(exp(x1) + exp(x2)), elementwise, without overflow.

    >>> jnp.logaddexp(jnp.array([0.0]), jnp.array([0.0]))
    Array([0.6931472], dtype=float32)
    """,
    inexact=True,
    identity=-math.inf,
    reorderable=True,
)
logaddexp2: BinaryUfunc = binary_ufunc(
    "logaddexp2",
    {FLOATING: stable_sums.logaddexp2_p.bind, dtypes.COMPLEX: _logaddexp2},
    """log2(2**x1 + 2**x2), elementwise, without overflow.

    >>> jnp.logaddexp2(jnp.array([1.0]), jnp.array([1.0]))
    Array([2.], dtype=float32)
    """,
    inexact=True,
    identity=-math.inf,
    reorderable=True,
)


sin: UnaryUfunc = _real_or_complex(
    "sin",
    lax.sin_p,
    """The elementwise sine of an angle in radians.

    >>> jnp.sin(jnp.array([0.0, 1.0]))
    Array([0.        , 0.84147096], dtype=float32)
    """,
)
cos: UnaryUfunc = _real_or_complex(
    "cos",
    lax.cos_p,
    """The elementwise cosine of an angle in radians.

    >>> jnp.cos(jnp.array([0.0, 1.0]))
    Array([1.       , 0.5403023], dtype=float32)
    """,
)
tan: UnaryUfunc = _real_or_complex(
    "tan",
    elementary.tan_p,
    """The elementwise tangent of an angle in radians.

    >>> jnp.tan(jnp.array([0.0, 1.0]))
    Array([0.       , 1.5574077], dtype=float32)
    """,
)
arcsin: UnaryUfunc = _real_or_complex(
    "arcsin",
    elementary.asin_p,
    """The angle, in radians, whose sine is x, elementwise.

    >>> jnp.arcsin(jnp.array([0.0, 1.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """,
)
arccos: UnaryUfunc = _real_or_complex(
    "arccos",
    elementary.acos_p,
    """The angle, in radians, whose cosine is x, elementwise.

    >>> jnp.arccos(jnp.array([0.0, 1.0]))
    Array([1.5707964, 0.       ], dtype=float32)
    """,
)
arctan: UnaryUfunc = _real_or_complex(
    "arctan",
    elementary.atan_p,
    """The angle, in radians, whose tangent is x, elementwise.

    >>> jnp.arctan(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7853982], dtype=float32)
    """,
)
arctan2: BinaryUfunc = binary_ufunc(
    "arctan2",
    {FLOATING: elementary.atan2_p.bind},
    """The angle, in radians, of the point (x2, x1) seen from the origin, elementwise.

    >>> jnp.arctan2(jnp.array([1.0, -1.0]), jnp.array([1.0, 1.0]))
    Array([ 0.7853982, -0.7853982], dtype=float32)
    """,
    inexact=True,
)
asin: UnaryUfunc = arcsin
acos: UnaryUfunc = arccos
atan: UnaryUfunc = arctan
atan2: BinaryUfunc = arctan2


hypot: BinaryUfunc = binary_ufunc(
    "hypot",
    {FLOATING: distances.hypot_p.bind},
    """sqrt(x1**2 + x2**2), elementwise, of real numbers, without overflow.

    >>> jnp.hypot(jnp.array([3.0]), jnp.array([4.0]))
    Array([5.], dtype=float32)
    """,
    inexact=True,
    identity=0,
    reorderable=True,
)


@array_function
def _degrees(x: Prepared) -> Any:
    return x * (180 / math.pi)


@array_function
def _radians(x: Prepared) -> Any:
    return x * (math.pi / 180)


rad2deg: UnaryUfunc = unary_ufunc(
    "rad2deg",
    {FLOATING: _degrees},
    """Radians as degrees, elementwise.

    >>> jnp.degrees(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """,
    inexact=True,
)
deg2rad: UnaryUfunc = unary_ufunc(
    "deg2rad",
    {FLOATING: _radians},
    """Degrees as radians, elementwise.

    >>> jnp.deg2rad(jnp.array([90.0, 180.0]))
    Array([1.5707964, 3.1415927], dtype=float32)
    """,
    inexact=True,
)
degrees: UnaryUfunc = rad2deg
radians: UnaryUfunc = deg2rad


sinh: UnaryUfunc = _real_or_complex(
    "sinh",
    elementary.sinh_p,
    """The elementwise hyperbolic sine.

    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """,
)
cosh: UnaryUfunc = _real_or_complex(
    "cosh",
    elementary.cosh_p,
    """The elementwise hyperbolic cosine.

    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430806], dtype=float32)
    """,
)
tanh: UnaryUfunc = _real_or_complex(
    "tanh",
    lax.tanh_p,
    """The elementwise hyperbolic tangent.

    >>> jnp.tanh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7615942], dtype=float32)
    """,
)
arcsinh: UnaryUfunc = _real_or_complex(
    "arcsinh",
    elementary.asinh_p,
    """The inverse of the hyperbolic sine, elementwise.

    >>> jnp.arcsinh(jnp.array([0.0, 1.0]))
    Array([0.        , 0.88137364], dtype=float32)
    """,
)
arccosh: UnaryUfunc = _real_or_complex(
    "arccosh",
    elementary.acosh_p,
    """The inverse of the hyperbolic cosine, elementwise.

    >>> jnp.arccosh(jnp.array([1.0, 2.0]))
    Array([0.      , 1.316958], dtype=float32)
    """,
)
arctanh: UnaryUfunc = _real_or_complex(
    "arctanh",
    elementary.atanh_p,
    """The inverse of the hyperbolic tangent, elementwise.

    >>> jnp.arctanh(jnp.array([0.0, 0.5]))
    Array([0.        , 0.54930615], dtype=float32)
    """,
)
asinh: UnaryUfunc = arcsinh
acosh: UnaryUfunc = arccosh
atanh: UnaryUfunc = arctanh


# Up to this distance from 0 the series of sin(y) / y to y**24, and those of its first derivatives,
# are exact to double precision; beyond, the k-th derivative of the quotient loses k digits of 2.
_SERIES_BELOW = 2.0


@array_function
def _sinc(x: Prepared) -> Any:
    of = type_of(x)
    if accumulator(of.dtype) != of.dtype:  # the derivative has powers in it that overflow
        wide = _sinc(convert_element_type(x, accumulator(of.dtype)))
        return convert_element_type(wide, of.dtype, of.weak_type)
    y = x * math.pi
    near = abs(y) < _SERIES_BELOW
    # Near 0 the derivatives of the quotient lose digits; at 0 it has none.
    inside = select(near, y, constant_like(0, y))  # beyond, the powers may be infinite
    squared = inside * inside
    series = constant_like(1 / math.factorial(25), y)
    for k in range(23, 0, -2):
        series = 1 / math.factorial(k) - series * squared
    away = select(near, constant_like(1, x), x)
    # By the reciprocal: the derivative reads a quotient twice, which XLA would keep, and compute
    # the sine and the cosine in two loops. By that of x: that of pi x may be too small.
    sine = select(near, lax.sin(away), _sine_of_pi(x))
    return select(near, series, sine * (1 / math.pi) * (1 / away))


def _sine_of_pi(x: Any) -> Any:
    """sin(pi x), from the distance to the nearest integer, which is exact where pi x is not."""
    nearest = stop_gradient(round(x.real, RoundingMethod.TO_NEAREST_EVEN))
    half = nearest * 0.5
    odd = half != floor(half)
    of = type_of(x)
    distance = x - convert_element_type(nearest, of.dtype, of.weak_type)
    sine = lax.sin(distance * math.pi)
    return select(odd, -sine, sine)


sinc: Unary = unary(
    "sinc",
    {INEXACT: _sinc},
    """sin(pi x) / (pi x), elementwise, which is 1 at 0.

    >>> jnp.sinc(np.array([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """,
    inexact=True,
)


i0: Unary = unary(
    "i0",
    {FLOATING: bessel_i0_p.bind},
    """The modified Bessel function of the first kind, order 0, elementwise, of real numbers.

    >>> jnp.i0(np.array([0.0, 1.0]))
    Array([1.       , 1.2660658], dtype=float32)
    """,
    inexact=True,
)
