"""Rectified linear units and their smooth relatives, each as one operation.

A maximum, or a clamp, reads its operand once: XLA computes it again in each loop that reads it,
where it would keep the result of a comparison and a choice. The derivative of a unit that is
piecewise linear reads the result, which the layer after it keeps anyway; that of a smooth one is
one slope, of bounded operands, so that infinities need no choices in either direction.
"""

from __future__ import annotations

import math
from typing import Any

from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import add, div, ge, le, mul, scalar, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.elementary import logistic
from weft.ops.elementwise.families import repeated
from weft.ops.elementwise.formulas import Term, kernel
from weft.ops.elementwise.selection import clamp, select
from weft.runtime import stablehlo

__all__ = ["gelu_p", "hard_silu_p", "relu6_p", "relu_p", "silu_p"]

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


def silu_jvp(t: Any, ans: Any, x: Any) -> Any:
    part = logistic(x)
    bent = mul(_bounded(x, SILU_END), mul(part, sub(scalar(1, x), part)))
    return mul(t, add(part, bent))


silu_p: Primitive = kernel("silu", silu_formula, silu_jvp)


def gelu_formula(x: Term) -> Term:
    # (1 + tanh(a)) / 2 is the logistic function of 2 a, which keeps its digits for negative a.
    size = _at_most(_at_least(x, -GELU_END), GELU_END)
    twice = size * (size * size * (GELU_SCALE * GELU_CUBE) + GELU_SCALE)
    return _at_least(x, -GELU_END) * twice.apply(stablehlo.logistic)


def gelu_jvp(t: Any, ans: Any, x: Any) -> Any:
    size, scale = _bounded(x, GELU_END), scalar(GELU_SCALE, x)
    square = mul(size, size)
    twice = mul(size, add(mul(square, scalar(GELU_SCALE * GELU_CUBE, x)), scale))
    part = logistic(twice)
    rise = add(mul(square, scalar(3 * GELU_SCALE * GELU_CUBE, x)), scale)
    bent = mul(mul(size, mul(part, sub(scalar(1, x), part))), rise)
    return mul(t, add(part, bent))


gelu_p: Primitive = kernel("gelu", gelu_formula, gelu_jvp)
