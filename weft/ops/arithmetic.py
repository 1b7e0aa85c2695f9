"""Arithmetic and comparison of two numbers, and the elementary functions whose derivatives need
nothing else.

Where a function has a kink (`abs` at 0, `max` and `min` at a tie) its derivative is the mean of
those to both sides.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.core.rules import Zero
from weft.core.types import type_of
from weft.ops.complex import conj, real
from weft.ops.convert import convert_element_type
from weft.ops.families import comparison, nary, operands, unary
from weft.ops.rounding import floor
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
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "rem",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "tanh",
]


def scalar(value: float, like: Any) -> Any:
    """A number of the dtype of another value, weak where that is."""
    of = type_of(like)
    if of.weak_type:
        number = of.dtype.type(value).item()
        if type_of(number).dtype == of.dtype:
            return number
    return of.dtype.type(value)


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
    """Elementwise product of two arrays of one shape and dtype."""
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


def rem(x: Any, y: Any) -> Any:
    """Elementwise remainder of the division rounded to zero: of the sign of x, as C's fmod."""
    return rem_p.bind(*operands("rem", x, y))


def rem_jvp_y(t: Any, ans: Any, x: Any, y: Any) -> Any:
    # x - rem(x, y) is a multiple of y up to rounding, so the sign times the floor is the quotient.
    quotient = div(sub(x, ans), y)
    whole = floor(add(abs(quotient), scalar(0.5, quotient)))
    return neg(mul(t, mul(sign(quotient), whole)))


rem_p = nary(
    "rem",
    arity=2,
    accepts=dtypes.REAL,
    jvp=(lambda t, ans, x, y: t, rem_jvp_y),
    lower="stablehlo.remainder",
)


def share(x: Any, ans: Any, y: Any) -> Any:
    """1 where x is the answer and y is not, 1/2 where both are, 0 elsewhere."""
    dtype = type_of(ans).dtype
    mine, other = (convert_element_type(eq(value, ans), dtype) for value in (x, y))
    return mul(mine, sub(scalar(1, ans), mul(other, scalar(0.5, ans))))


def max(x: Any, y: Any) -> Any:
    """Elementwise larger of two ordered values; NaN where either is."""
    return max_p.bind(*operands("max", x, y))


def min(x: Any, y: Any) -> Any:
    """Elementwise smaller of two ordered values; NaN where either is."""
    return min_p.bind(*operands("min", x, y))


max_p, min_p = (
    nary(
        name,
        arity=2,
        accepts=dtypes.ORDERED,
        jvp=(
            lambda t, ans, x, y: mul(t, share(x, ans, y)),
            lambda t, ans, x, y: mul(t, share(y, ans, x)),
        ),
        lower=f"stablehlo.{name}imum",
    )
    for name in ("max", "min")
)


def sign(x: Any) -> Any:
    """Elementwise sign: -1, 0 or 1 (NaN stays NaN); of a complex number x / |x|, or 0."""
    return sign_p.bind(x)


def sign_jvp(t: Any, ans: Any, x: Any) -> Any:
    dtype = type_of(x).dtype
    if dtype not in dtypes.COMPLEX:
        return Zero(type_of(ans).tangent())
    # What of t points along x changes the size of x only.
    along = mul(ans, convert_element_type(real(mul(t, conj(ans))), dtype))
    size = abs(x)
    size = add(size, convert_element_type(eq(size, scalar(0, size)), type_of(size).dtype))
    return div(sub(t, along), convert_element_type(size, dtype))


def sign_lower(context: Any, x: Any) -> Any:
    type = context.in_types[0]
    if type.dtype not in dtypes.UNSIGNED:
        return stablehlo.op1("stablehlo.sign", [x], stablehlo.array_type_to_ir(type))
    zero, one = (stablehlo.full(v, type.shape, type.dtype) for v in (0, 1))
    return stablehlo.select(stablehlo.compare(x, zero, "EQ"), zero, one)


sign_p = unary("sign", accepts=dtypes.NUMERIC, jvp=sign_jvp, lower=sign_lower)


def abs(x: Any) -> Any:
    """Elementwise absolute value of signed numbers; of complex ones, a real number."""
    return abs_p.bind(x)


def abs_jvp(t: Any, ans: Any, x: Any) -> Any:
    if type_of(x).dtype in dtypes.COMPLEX:
        return real(mul(t, conj(sign(x))))
    return mul(t, sign(x))


abs_p = unary(
    "abs",
    accepts=dtypes.SIGNED | dtypes.INEXACT,
    jvp=abs_jvp,
    lower="stablehlo.abs",
    result_dtype=dtypes.to_real,
)


def square(x: Any) -> Any:
    """Elementwise x * x."""
    return square_p.bind(x)


def square_lower(context: Any, x: Any) -> Any:
    return stablehlo.multiply(x, x)


square_p = unary(
    "square",
    accepts=dtypes.NUMERIC,
    jvp=lambda t, ans, x: mul(t, mul(scalar(2, x), x)),
    lower=square_lower,
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


log_p = unary("log", accepts=dtypes.INEXACT, jvp=lambda t, ans, x: div(t, x), lower="stablehlo.log")


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
