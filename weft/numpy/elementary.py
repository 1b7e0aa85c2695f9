"""Exponentials, logarithms, trigonometric and hyperbolic functions, elementwise.

Integers become real numbers first (int64 becomes float64, the others float32).
"""

from __future__ import annotations

import math
from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.numpy.compiled import compiled
from weft.numpy.elementwise import constant, filled
from weft.numpy.promotion import Binary, Unary, binary, unary
from weft.ops import arithmetic as lax
from weft.ops import elementary, powers, stable_sums
from weft.ops.selection import select
from weft.ops.special import bessel_i0e

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "i0",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rad2deg",
    "radians",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

INEXACT, FLOATING = dtypes.INEXACT, dtypes.FLOATING


def _real_or_complex(name: str, primitive: Any, doc: str) -> Unary:
    return unary(name, {INEXACT: primitive.bind}, doc, inexact=True)


# ---- exponentials and logarithms ---------------------------------------------------------------

exp: Unary = _real_or_complex("exp", lax.exp_p, """The elementwise exponential.""")
exp2: Unary = _real_or_complex("exp2", elementary.exp2_p, """2 to the power x, elementwise.""")
expm1: Unary = _real_or_complex(
    "expm1", elementary.expm1_p, """exp(x) - 1, elementwise, exact for x near 0."""
)
log: Unary = _real_or_complex("log", lax.log_p, """The elementwise natural logarithm.""")
log1p: Unary = _real_or_complex(
    "log1p", elementary.log1p_p, """log(1 + x), elementwise, exact for x near 0."""
)


def _logarithm_to_base(base: int) -> Any:
    def logarithm(x: Any) -> Any:
        return lax.mul(lax.log(x), constant(1 / math.log(base), x))

    logarithm.__name__ = f"log{base}"
    return compiled(logarithm)


log2: Unary = unary(
    "log2",
    {INEXACT: _logarithm_to_base(2)},
    """The logarithm to base 2, elementwise.""",
    inexact=True,
)
log10: Unary = unary(
    "log10",
    {INEXACT: _logarithm_to_base(10)},
    """The logarithm to base 10, elementwise.""",
    inexact=True,
)
sqrt: Unary = _real_or_complex("sqrt", lax.sqrt_p, """The elementwise square root.""")
cbrt: Unary = unary(
    "cbrt",
    {FLOATING: powers.cbrt_p.bind},
    """The elementwise real cube root of real numbers.""",
    inexact=True,
)


logaddexp: Binary = binary(
    "logaddexp",
    {FLOATING: stable_sums.logaddexp_p.bind},
    """log(exp(x1) + exp(x2)), elementwise, of real numbers, without overflow.""",
    inexact=True,
)
logaddexp2: Binary = binary(
    "logaddexp2",
    {FLOATING: stable_sums.logaddexp2_p.bind},
    """log2(2**x1 + 2**x2), elementwise, of real numbers, without overflow.""",
    inexact=True,
)


# ---- angles and triangles ----------------------------------------------------------------------

sin: Unary = _real_or_complex("sin", lax.sin_p, """The elementwise sine of an angle in radians.""")
cos: Unary = _real_or_complex(
    "cos", lax.cos_p, """The elementwise cosine of an angle in radians."""
)
tan: Unary = _real_or_complex(
    "tan", elementary.tan_p, """The elementwise tangent of an angle in radians."""
)
arcsin: Unary = _real_or_complex(
    "arcsin", elementary.asin_p, """The angle, in radians, whose sine is x, elementwise."""
)
arccos: Unary = _real_or_complex(
    "arccos", elementary.acos_p, """The angle, in radians, whose cosine is x, elementwise."""
)
arctan: Unary = _real_or_complex(
    "arctan", elementary.atan_p, """The angle, in radians, whose tangent is x, elementwise."""
)
arctan2: Binary = binary(
    "arctan2",
    {FLOATING: elementary.atan2_p.bind},
    """The angle, in radians, of the point (x2, x1) seen from the origin, elementwise.""",
    inexact=True,
)
asin: Unary = arcsin
acos: Unary = arccos
atan: Unary = arctan
atan2: Binary = arctan2


hypot: Binary = binary(
    "hypot",
    {FLOATING: stable_sums.hypot_p.bind},
    """sqrt(x1**2 + x2**2), elementwise, of real numbers, without overflow.""",
    inexact=True,
)


@compiled
def _degrees(x: Any) -> Any:
    return lax.mul(x, constant(180 / math.pi, x))


@compiled
def _radians(x: Any) -> Any:
    return lax.mul(x, constant(math.pi / 180, x))


rad2deg: Unary = unary(
    "rad2deg", {FLOATING: _degrees}, """Radians as degrees, elementwise.""", inexact=True
)
deg2rad: Unary = unary(
    "deg2rad", {FLOATING: _radians}, """Degrees as radians, elementwise.""", inexact=True
)
degrees: Unary = rad2deg
radians: Unary = deg2rad


# ---- hyperbolic functions ----------------------------------------------------------------------

sinh: Unary = _real_or_complex("sinh", elementary.sinh_p, """The elementwise hyperbolic sine.""")
cosh: Unary = _real_or_complex("cosh", elementary.cosh_p, """The elementwise hyperbolic cosine.""")
tanh: Unary = _real_or_complex("tanh", lax.tanh_p, """The elementwise hyperbolic tangent.""")
arcsinh: Unary = _real_or_complex(
    "arcsinh", elementary.asinh_p, """The inverse of the hyperbolic sine, elementwise."""
)
arccosh: Unary = _real_or_complex(
    "arccosh", elementary.acosh_p, """The inverse of the hyperbolic cosine, elementwise."""
)
arctanh: Unary = _real_or_complex(
    "arctanh", elementary.atanh_p, """The inverse of the hyperbolic tangent, elementwise."""
)
asinh: Unary = arcsinh
acosh: Unary = arccosh
atanh: Unary = arctanh


# ---- other functions ---------------------------------------------------------------------------

# Up to this distance from 0 the series of sin(y) / y to y**8 is exact to double precision.
_SERIES_BELOW = 0.05


@compiled
def _sinc(x: Any) -> Any:
    y = lax.mul(x, constant(math.pi, x))
    size = lax.abs(y)
    near = lax.lt(size, type_of(size).dtype.type(_SERIES_BELOW))
    # Near 0 the quotient loses its derivatives; at 0 it has none at all.
    squared = lax.mul(y, y)
    series = filled(1 / math.factorial(9), y)
    for k in (7, 5, 3, 1):
        term = constant(1 / math.factorial(k), y)
        series = lax.sub(term, lax.mul(series, squared))
    away = select(near, filled(1, y), y)
    return select(near, series, lax.div(lax.sin(away), away))


sinc: Unary = unary(
    "sinc",
    {INEXACT: _sinc},
    """sin(pi x) / (pi x), elementwise, which is 1 at 0.""",
    inexact=True,
)


@compiled
def _i0(x: Any) -> Any:
    size = lax.abs(x)
    return lax.mul(lax.exp(size), bessel_i0e(size))


i0: Unary = unary(
    "i0",
    {FLOATING: _i0},
    """The modified Bessel function of the first kind, order 0, elementwise, of real numbers.""",
    inexact=True,
)
