"""The elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions and
their inverses, of real and complex numbers.

Inverse functions take their principal branch (Kahan, "Branch cuts for complex elementary
functions", 1987); derivatives are written so that they stay on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise import complex_elementary, exponentials, formulas
from weft.ops.elementwise.arithmetic import add, div, exp, mul, neg, scalar, sqrt, sub, tanh
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.elementwise.complex import imag, real
from weft.ops.elementwise.complex_elementary import from_parts, lower_fixed, lower_signed
from weft.ops.elementwise.distances import cosine, hypot
from weft.ops.elementwise.families import (
    Accuracy,
    apply,
    binary,
    check_accuracy,
    emit_with,
    inexact,
)
from weft.ops.elementwise.formulas import Term, kernel, lower_formula, where
from weft.ops.elementwise.powers import rsqrt
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "exp2", "expm1", "log1p",
    "logistic", "sinh", "tan",
]  # fmt: skip


def by_kind(real: Callable[..., Any], complex: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering by one rule for real results and another for complex ones."""

    def lower(context: Any, x: Any) -> Any:
        is_complex = context.out_types[0].dtype in dtypes.COMPLEX
        return (complex if is_complex else real)(context, x)

    return lower


def one(x: Any) -> Any:
    return scalar(1, x)


# ---- exponentials and logarithms ---------------------------------------------------------------


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise 2 to the power x.

    >>> lax.exp2(np.array([0.0, 3.0]))
    Array([1., 8.], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("exp2", accuracy)
    return exp2_p.bind(x)


def two_to_the(x: Any) -> Any:
    two = stablehlo.full(2, x.type.shape, stablehlo.dtype_of(x.type.element_type))
    return stablehlo.power(two, x)


exp2_p = inexact(
    "exp2",
    jvp=lambda t, ans, x: mul(t, mul(scalar(math.log(2), ans), ans)),
    # Not as a product of complex numbers, which is NaN where a part is infinite.
    lower=from_parts(
        two_to_the, lambda x, y: complex_elementary.exp(x * math.log(2), y * math.log(2))
    ),
)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise exp(x) - 1, accurate near 0.

    >>> lax.expm1(np.array([0.0, 1.0]))
    Array([0.       , 1.7182817], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("expm1", accuracy)
    return expm1_p.bind(x)


expm1_p = inexact(
    "expm1",
    # Not ans + 1, which is 0 where ans has been rounded to -1.
    jvp=lambda t, ans, x: mul(t, exp(x)),
    lower=by_kind(
        lower_formula(exponentials.expm1),
        from_parts(stablehlo.exponential_minus_one, complex_elementary.expm1),
    ),
    keeps_zero=True,
)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise log(1 + x), accurate near 0.

    >>> lax.log1p(np.array([0.0, 1.0]))
    Array([0.       , 0.6931472], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("log1p", accuracy)
    return log1p_p.bind(x)


log1p_p = inexact(
    "log1p",
    jvp=lambda t, ans, x: div(t, add(x, one(x))),
    lower=by_kind(
        lower_formula(formulas.log1p),
        lower_fixed(stablehlo.log_plus_one, complex_elementary.fix_log),
    ),
    keeps_zero=True,
)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise 1 / (1 + exp(-x)).

    >>> lax.logistic(np.array([0.0, 2.0]))
    Array([0.5     , 0.880797], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("logistic", accuracy)
    return logistic_p.bind(x)


def logistic_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, mul(ans, logistic(neg(x))) if is_complex(x) else logistic_slope(x))


logistic_p = inexact(
    "logistic", jvp=logistic_jvp, lower=emit_with(stablehlo.logistic), again_from_operand=True
)


def logistic_slope(x: Any) -> Any:
    """The derivative of the logistic function of real numbers: f(x) f(-x)."""
    return logistic_slope_p.bind(x)


def logistic_slope_formula(x: Term) -> Term:
    part = (-abs(x)).exp()
    # (1 + part)^2, of which only the small terms are rounded twice.
    return part / (part * (part + 2.0) + 1.0)


def logistic_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    return neg(mul(t, mul(ans, tanh(mul(x, scalar(0.5, x))))))


logistic_slope_p: Primitive = kernel(
    "logistic_slope", logistic_slope_formula, logistic_slope_jvp, again_from_operand=True
)


# ---- trigonometric functions -------------------------------------------------------------------


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise tangent of an angle in radians.

    >>> lax.tan(np.array([0.0, 1.0]))
    Array([0.       , 1.5574077], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("tan", accuracy)
    return tan_p.bind(x)


tan_p = inexact(
    "tan",
    jvp=lambda t, ans, x: mul(t, add(one(ans), mul(ans, ans))),
    lower=from_parts(stablehlo.tan, complex_elementary.tan),
    keeps_zero=True,
)


def is_complex(x: Any) -> bool:
    return type_of(x).dtype in dtypes.COMPLEX


def shift_real(x: Any, by: int) -> Any:
    """x + 1 or x - 1, where an imaginary part of -0 keeps its sign, the side of a cut."""
    return add(x, scalar(complex(by, -0.0) if is_complex(x) else by, x))


def one_minus_square(x: Any) -> Any:
    """1 - x x of real numbers, by factors: exact near -1 and 1. Its derivative does not cancel near
    0."""
    return one_minus_square_p.bind(x)


one_minus_square_p: Primitive = kernel(
    "one_minus_square",
    lambda x: (1.0 - x) * (1.0 + x),
    lambda t, ans, x: mul(t, mul(scalar(-2, x), x)),
)


def root_of_one_minus_square(x: Any) -> Any:
    """1 / sqrt(1 - x x)."""
    if not is_complex(x):  # not by rsqrt, which is less precise
        return div(one(x), sqrt(one_minus_square(x)))
    return mul(rsqrt(neg(shift_real(x, -1))), rsqrt(shift_real(x, 1)))


def root_of_one_plus_square(x: Any) -> Any:
    """1 / sqrt(1 + x x)."""
    if is_complex(x):  # the root above at ix, in parts because a product loses the sign of a zero
        return root_of_one_minus_square(complex_of(neg(imag(x)), real(x)))
    return div(one(x), hypot(x, one(x)))


def asin(x: ArrayLike) -> Array:
    """Elementwise inverse sine, in radians.

    >>> lax.asin(np.array([0.0, 1.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """
    return asin_p.bind(x)


def asin_formula(x: Term) -> Term:
    # The compiler takes half of x, which is 0 next to the smallest numbers.
    return where(abs(x) < x.eps, x, x.apply(stablehlo.asin))


asin_p = inexact(
    "asin",
    jvp=lambda t, ans, x: mul(t, root_of_one_minus_square(x)),
    lower=by_kind(
        lower_formula(asin_formula),
        lower_signed(stablehlo.asin, "imag", complex_elementary.fix_asin),
    ),
    keeps_zero=True,
)


def acos(x: ArrayLike) -> Array:
    """Elementwise inverse cosine, in radians.

    >>> lax.acos(np.array([1.0, 0.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """
    return acos_p.bind(x)


acos_p = inexact(
    "acos",
    jvp=lambda t, ans, x: neg(mul(t, root_of_one_minus_square(x))),
    lower=lower_signed(stablehlo.acos, "imag", complex_elementary.fix_acos),
)


def atan(x: ArrayLike) -> Array:
    """Elementwise inverse tangent, in radians.

    >>> lax.atan(np.array([0.0, 1.0]))
    Array([0.       , 0.7853982], dtype=float32)
    """
    return atan_p.bind(x)


def atan_jvp(t: Any, ans: Any, x: Any) -> Any:
    if is_complex(x):
        return div(t, add(one(x), mul(x, x)))
    return mul(t, atan_slope(x))


atan_p = inexact(
    "atan",
    jvp=atan_jvp,
    lower=lower_signed(stablehlo.atan, "both", complex_elementary.fix_atan),
    keeps_zero=True,
)


def atan_slope(x: Any) -> Any:
    """1 / (1 + x x) of real numbers, the derivative of the arc tangent. An overflowing square gives
    0; in the second derivative it would cancel a number that overflows too."""
    return atan_slope_p.bind(x)


def atan_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, mul(scalar(-2, x), mul(ans, over_squared_distance(x, one(x)))))


atan_slope_p: Primitive = kernel("atan_slope", lambda x: 1.0 / (x * x + 1.0), atan_slope_jvp)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise angle of the point with ordinate x and abscissa y, in radians.

    >>> lax.atan2(np.array([1.0, -1.0]), np.array([1.0, 1.0]))
    Array([ 0.7853982, -0.7853982], dtype=float32)
    """
    return apply(atan2_p, x, y)


def over_squared_distance(x: Any, y: Any) -> Any:
    """x / (x x + y y)."""
    if is_complex(x):
        return div(x, add(mul(x, x), mul(y, y)))
    return div(cosine(x, y), hypot(x, y))


atan2_p = binary(
    "atan2",
    accepts=dtypes.INEXACT,
    jvp=(
        lambda t, ans, x, y: mul(t, over_squared_distance(y, x)),
        lambda t, ans, x, y: mul(t, over_squared_distance(neg(x), y)),
    ),
    lower="stablehlo.atan2",
)


# ---- hyperbolic functions ----------------------------------------------------------------------


def sinh(x: ArrayLike) -> Array:
    """Elementwise hyperbolic sine.

    >>> lax.sinh(np.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return sinh_p.bind(x)


sinh_p = inexact(
    "sinh",
    jvp=lambda t, ans, x: mul(t, cosh(x)),
    lower=by_kind(
        lower_formula(exponentials.sinh), from_parts(stablehlo.sinh, complex_elementary.sinh)
    ),
    keeps_zero=True,
)


def cosh(x: ArrayLike) -> Array:
    """Elementwise hyperbolic cosine.

    >>> lax.cosh(np.array([0.0, 1.0]))
    Array([1.       , 1.5430806], dtype=float32)
    """
    return cosh_p.bind(x)


cosh_p = inexact(
    "cosh",
    jvp=lambda t, ans, x: mul(t, sinh(x)),
    lower=by_kind(
        lower_formula(exponentials.cosh), from_parts(stablehlo.cosh, complex_elementary.cosh)
    ),
)


def asinh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic sine.

    >>> lax.asinh(np.array([0.0, 1.0]))
    Array([0.        , 0.88137364], dtype=float32)
    """
    return asinh_p.bind(x)


asinh_p = inexact(
    "asinh",
    jvp=lambda t, ans, x: mul(t, root_of_one_plus_square(x)),
    lower=lower_signed(stablehlo.asinh, "real", complex_elementary.fix_asinh),
    keeps_zero=True,
)


def acosh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic cosine.

    >>> lax.acosh(np.array([1.0, 2.0]))
    Array([0.      , 1.316958], dtype=float32)
    """
    return acosh_p.bind(x)


def acosh_jvp(t: Any, ans: Any, x: Any) -> Any:
    below, above = shift_real(x, -1), shift_real(x, 1)
    if is_complex(x):
        return mul(t, mul(rsqrt(below), rsqrt(above)))
    return div(t, mul(sqrt(below), sqrt(above)))


acosh_p = inexact(
    "acosh",
    jvp=acosh_jvp,
    lower=lower_signed(stablehlo.acosh, "imag", complex_elementary.fix_acosh),
)


def atanh(x: ArrayLike) -> Array:
    """Elementwise inverse hyperbolic tangent.

    >>> lax.atanh(np.array([0.0, 0.5]))
    Array([0.        , 0.54930615], dtype=float32)
    """
    return atanh_p.bind(x)


def atanh_formula(x: Term) -> Term:
    size = abs(x)
    value = 0.5 * formulas.log1p(2.0 * size / (1.0 - size))
    return where(size < x.eps, x, where(x < 0.0, -value, value))


_real_atanh = lower_formula(atanh_formula)


def atanh_lower(context: Any, x: Any) -> Any:
    # In float64 the compiler's expansion inherits the error of its log1p.
    if context.out_types[0].dtype == dtypes.float64:
        return _real_atanh(context, x)
    return _signed_atanh(context, x)


_signed_atanh = lower_signed(stablehlo.atanh, "both", complex_elementary.fix_atanh)


def atanh_jvp(t: Any, ans: Any, x: Any) -> Any:
    return div(t, mul(sub(one(x), x), add(one(x), x)) if is_complex(x) else one_minus_square(x))


atanh_p = inexact("atanh", jvp=atanh_jvp, lower=atanh_lower, keeps_zero=True)
