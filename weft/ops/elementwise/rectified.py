"""Rectified linear units and their smooth relatives, each as one operation.

A maximum, or a clamp, reads its operand once: XLA computes it again in each loop that reads it,
where it would keep the result of a comparison and a choice. The derivative of a unit that is
piecewise linear reads the result, which the layer after it keeps anyway; that of a smooth one is
one slope, of bounded operands, so that infinities need no choices in either direction.
"""

from __future__ import annotations

import math
from typing import Any

from weft import dtypes
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, ge, le, lt, mul, neg, scalar, sqrt, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.distances import cosine, hypot, hypot_formula
from weft.ops.elementwise.elementary import logistic
from weft.ops.elementwise.families import repeated
from weft.ops.elementwise.formulas import Term, kernel, where
from weft.ops.elementwise.selection import clamp, select
from weft.runtime import stablehlo

__all__ = [
    "gelu_p", "hard_silu_p", "relu6_p", "relu_p", "silu_p", "soft_sign_p", "squareplus_p",
]  # fmt: skip

# Beyond these the functions are 0, or the identity, in every dtype; and squares have no overflow.
SILU_END, GELU_END = 1000.0, 100.0
GELU_SCALE, GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


def _at_least(x: Term, low: float) -> Term:
    return x.made(stablehlo.maximum(x.ir, x.full(low).ir))


def _at_most(x: Term, high: float) -> Term:
    return x.made(stablehlo.minimum(x.ir, x.full(high).ir))


def _bounded(x: Any, end: float) -> Any:
    return clamp(scalar(-end, x), x, scalar(end, x))


def _constant(value: float, like: Any) -> Any:
    return repeated(scalar(value, like), type_of(like).shape)


def relu_jvp(t: Any, ans: Any, x: Any) -> Any:
    # NaN, which compares false, keeps its tangent.
    return select(le(ans, scalar(0, ans)), _constant(0, t), t)


relu_p: Primitive = kernel("relu", lambda x: _at_least(x, 0.0), relu_jvp)


def relu6_jvp(t: Any, ans: Any, x: Any) -> Any:
    flat = bitwise_or(le(ans, scalar(0, ans)), ge(ans, scalar(6, ans)))
    return select(flat, _constant(0, t), t)


relu6_p: Primitive = kernel("relu6", lambda x: _at_most(_at_least(x, 0.0), 6.0), relu6_jvp)


def hard_silu_formula(x: Term) -> Term:
    above = _at_least(x, -3.0)
    return above * (_at_most(above + 3.0, 6.0) / 6.0)


def hard_silu_jvp(t: Any, ans: Any, x: Any) -> Any:
    low, six = scalar(-3, x), scalar(6, x)
    above = larger(x, low)
    part = div(smaller(add(above, scalar(3, x)), six), six)
    ends = bitwise_or(le(x, low), ge(x, scalar(3, x)))
    return mul(t, add(part, select(ends, _constant(0, x), div(above, six))))


hard_silu_p: Primitive = kernel("hard_silu", hard_silu_formula, hard_silu_jvp)


def silu_formula(x: Term) -> Term:
    return _at_least(x, -SILU_END) * x.apply(stablehlo.logistic)


def _logistic_and_slope(x: Any) -> tuple[Any, Any]:
    """The logistic function and its derivative, of one exponential: that of minus the size is at
    most 1/2, so that nothing cancels. By selections, whose derivatives are right at 0."""
    positive = ge(x, scalar(0, x))
    least = logistic(select(positive, neg(x), x))
    most = sub(scalar(1, x), least)
    return select(positive, most, least), mul(least, most)


def silu_jvp(t: Any, ans: Any, x: Any) -> Any:
    part, slope = _logistic_and_slope(x)
    bent = mul(_bounded(x, SILU_END), slope)
    return mul(t, add(part, bent))


silu_p: Primitive = kernel("silu", silu_formula, silu_jvp)


def gelu_formula(x: Term) -> Term:
    # (1 + tanh(a)) / 2 is the logistic function of 2 a, which keeps its digits for negative a.
    size = _at_most(_at_least(x, -GELU_END), GELU_END)
    twice = size * (size * size * (GELU_SCALE * GELU_CUBE) + GELU_SCALE)
    return _at_least(x, -GELU_END) * twice.apply(stablehlo.logistic)


def gelu_jvp(t: Any, ans: Any, x: Any) -> Any:
    # Of float16 the cube of 100 is infinite; there the end is much nearer.
    end = GELU_END if type_of(x).dtype.itemsize > 2 else 30.0
    size, scale = _bounded(x, end), scalar(GELU_SCALE, x)
    square = mul(size, size)
    twice = mul(size, add(mul(square, scalar(GELU_SCALE * GELU_CUBE, x)), scale))
    part, slope = _logistic_and_slope(twice)
    rise = add(mul(square, scalar(3 * GELU_SCALE * GELU_CUBE, x)), scale)
    bent = mul(mul(size, slope), rise)
    return mul(t, add(part, bent))


gelu_p: Primitive = kernel("gelu", gelu_formula, gelu_jvp)


def soft_sign_formula(x: Term) -> Term:
    # Infinity over infinity would be NaN.
    limit = float(dtypes.finfo(x.dtype).max)
    x = _at_most(_at_least(x, -limit), limit)
    return x / (abs(x) + 1.0)


def soft_sign_jvp(t: Any, ans: Any, x: Any) -> Any:
    part = div(scalar(1, x), add(abs_(x), scalar(1, x)))
    return mul(mul(t, part), part)


soft_sign_p: Primitive = kernel("soft_sign", soft_sign_formula, soft_sign_jvp)


def squareplus_formula(x: Term, b: Term) -> Term:
    # (x + r) / 2 or, for negative x, b / (r - x) / 2, in which nothing cancels.
    root = hypot_formula(x, b.sqrt())
    positive = x >= 0.0
    below = b / where(positive, 1.0, root - x)
    below = where(b.equals(math.inf), b, below)
    found = 0.5 * where(positive, x + root, where(x.equals(-math.inf), 0.0, below))
    return where(x.is_nan() | ~(b >= 0.0), math.nan, found)


def squareplus_jvp_x(t: Any, ans: Any, x: Any, b: Any) -> Any:
    # (1 + x / r) / 2, which is ans / r.
    root = sqrt(b)
    part, distance = cosine(x, root), hypot(x, root)
    above = mul(add(part, scalar(1, x)), scalar(0.5, x))
    negative = repeated(lt(x, scalar(0, x)), type_of(ans).shape)
    # Where it is not chosen, infinity over infinity would reach the second derivative.
    below = div(*(select(negative, value, _constant(1, ans)) for value in (ans, distance)))
    return mul(t, select(negative, below, above))


def squareplus_jvp_b(t: Any, ans: Any, x: Any, b: Any) -> Any:
    return div(mul(t, scalar(0.25, b)), hypot(x, sqrt(b)))


squareplus_p: Primitive = kernel(
    "squareplus", squareplus_formula, squareplus_jvp_x, squareplus_jvp_b
)
