"""Arithmetic and comparison of two numbers, and the elementary functions whose derivatives need
nothing else.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.ops.families import comparison, nary, operands, unary
from weft.runtime import stablehlo

__all__ = [
    "abs",
    "add",
    "cos",
    "div",
    "eq",
    "exp",
    "ge",
    "gt",
    "le",
    "log",
    "lt",
    "mul",
    "ne",
    "neg",
    "sign",
    "sin",
    "sqrt",
    "sub",
    "tanh",
]


def scalar(value: float, like: Any) -> Any:
    """A number of the dtype of another value."""
    return type_of(like).dtype.type(value)


def neg(x: Any) -> Any:
    """Elementwise negation of numbers."""
    return neg_p.bind(x)


neg_p = unary(
    "neg",
    accepts=dtypes.NUMERIC,
    jvp=lambda t, ans, x: neg(t),
    transpose=lambda ct, x: neg(ct),
    lower="stablehlo.negate",
)


def add(x: Any, y: Any) -> Any:
    """Elementwise sum of two arrays of one shape and dtype; either may have no dimensions."""
    return add_p.bind(*operands("add", x, y))


add_p = nary(
    "add",
    arity=2,
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: t),
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct),
    lower="stablehlo.add",
)


def sub(x: Any, y: Any) -> Any:
    """Elementwise difference of two arrays of one shape and dtype."""
    return sub_p.bind(*operands("sub", x, y))


sub_p = nary(
    "sub",
    arity=2,
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: neg(t)),
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
    lower="stablehlo.subtract",
)


def mul(x: Any, y: Any) -> Any:
    """Elementwise product of two arrays of one shape and dtype (booleans: and)."""
    return mul_p.bind(*operands("mul", x, y))


mul_p = nary(
    "mul",
    arity=2,
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: mul(t, y), lambda t, ans, x, y: mul(x, t)),
    transpose=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    lower="stablehlo.multiply",
)


def div(x: Any, y: Any) -> Any:
    """Elementwise quotient of two arrays of one shape and dtype; of integers, rounded to zero."""
    return div_p.bind(*operands("div", x, y))


div_p = nary(
    "div",
    arity=2,
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: div(t, y), lambda t, ans, x, y: neg(mul(t, div(ans, y)))),
    transpose=(lambda ct, x, y: div(ct, y), None),
    lower="stablehlo.divide",
)


def sign(x: Any) -> Any:
    """Elementwise sign: -1, 0 or 1 (NaN stays NaN; for complex numbers x / |x|)."""
    return sign_p.bind(x)


def sign_lower(context: Any, x: Any) -> Any:
    type = context.in_types[0]
    if type.dtype not in dtypes.UNSIGNED:
        return stablehlo.op1("stablehlo.sign", [x], stablehlo.array_type_to_ir(type))
    zero, one = (stablehlo.full(v, type.shape, type.dtype) for v in (0, 1))
    return stablehlo.select(stablehlo.compare(x, zero, "EQ"), zero, one)


sign_p = unary("sign", accepts=dtypes.NUMERIC - dtypes.COMPLEX, lower=sign_lower)


def abs(x: Any) -> Any:
    """Elementwise absolute value of real numbers."""
    return abs_p.bind(x)


abs_p = unary(
    "abs",
    accepts=dtypes.SIGNED | dtypes.FLOATING,
    jvp=lambda t, ans, x: mul(t, sign(x)),
    lower="stablehlo.abs",
)


def exp(x: Any) -> Any:
    """Elementwise exponential."""
    return exp_p.bind(x)


exp_p = unary(
    "exp",
    accepts=dtypes.INEXACT,
    jvp=lambda t, ans, x: mul(t, ans),
    lower="stablehlo.exponential",
)


def log(x: Any) -> Any:
    """Elementwise natural logarithm."""
    return log_p.bind(x)


log_p = unary(
    "log", accepts=dtypes.INEXACT, jvp=lambda t, ans, x: div(t, x), lower="stablehlo.log"
)


def sin(x: Any) -> Any:
    """Elementwise sine of an angle in radians."""
    return sin_p.bind(x)


sin_p = unary(
    "sin", accepts=dtypes.INEXACT, jvp=lambda t, ans, x: mul(t, cos(x)), lower="stablehlo.sine"
)


def cos(x: Any) -> Any:
    """Elementwise cosine of an angle in radians."""
    return cos_p.bind(x)


cos_p = unary(
    "cos",
    accepts=dtypes.INEXACT,
    jvp=lambda t, ans, x: neg(mul(t, sin(x))),
    lower="stablehlo.cosine",
)


def tanh(x: Any) -> Any:
    """Elementwise hyperbolic tangent."""
    return tanh_p.bind(x)


tanh_p = unary(
    "tanh",
    accepts=dtypes.INEXACT,
    jvp=lambda t, ans, x: mul(t, sub(scalar(1, ans), mul(ans, ans))),
    lower="stablehlo.tanh",
)


def sqrt(x: Any) -> Any:
    """Elementwise square root."""
    return sqrt_p.bind(x)


sqrt_p = unary(
    "sqrt",
    accepts=dtypes.INEXACT,
    jvp=lambda t, ans, x: div(mul(t, scalar(0.5, x)), ans),
    lower="stablehlo.sqrt",
)


def eq(x: Any, y: Any) -> Any:
    """Elementwise x == y."""
    return eq_p.bind(*operands("eq", x, y))


def ne(x: Any, y: Any) -> Any:
    """Elementwise x != y."""
    return ne_p.bind(*operands("ne", x, y))


def lt(x: Any, y: Any) -> Any:
    """Elementwise x < y of ordered values."""
    return lt_p.bind(*operands("lt", x, y))


def le(x: Any, y: Any) -> Any:
    """Elementwise x <= y of ordered values."""
    return le_p.bind(*operands("le", x, y))


def gt(x: Any, y: Any) -> Any:
    """Elementwise x > y of ordered values."""
    return gt_p.bind(*operands("gt", x, y))


def ge(x: Any, y: Any) -> Any:
    """Elementwise x >= y of ordered values."""
    return ge_p.bind(*operands("ge", x, y))


eq_p = comparison("eq", accepts=dtypes.ANY, direction="EQ")
ne_p = comparison("ne", accepts=dtypes.ANY, direction="NE")
lt_p = comparison("lt", accepts=dtypes.ORDERED, direction="LT")
le_p = comparison("le", accepts=dtypes.ORDERED, direction="LE")
gt_p = comparison("gt", accepts=dtypes.ORDERED, direction="GT")
ge_p = comparison("ge", accepts=dtypes.ORDERED, direction="GE")

