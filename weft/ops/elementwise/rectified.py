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
from weft.ops.elementwise.arithmetic import (
    add,
    div,
    ge,
    le,
    lt,
    mul,
    neg,
    scalar,
    sech_squared,
    sqrt,
    sub,
    tanh,
)
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.distances import cosine, hypot, hypot_formula
from weft.ops.elementwise.elementary import logistic, logistic_slope
from weft.ops.elementwise.exponentials import falling_exp
from weft.ops.elementwise.families import broadcast_scalar
from weft.ops.elementwise.formulas import Term, kernel, polynomial, where
from weft.ops.elementwise.selection import clamp, select
from weft.ops.elementwise.stable_sums import logaddexp
from weft.ops.flops import of_each
from weft.runtime import stablehlo

# Beyond these the functions are 0, or the identity, in every dtype; and squares have no overflow.
SILU_END, GELU_END = 1000.0, 100.0
GELU_SCALE, GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


def _at_least(x: Term, low: float) -> Term:
    return x.new(stablehlo.maximum(x.ir, x.full(low).ir))


def _at_most(x: Term, high: float) -> Term:
    return x.new(stablehlo.minimum(x.ir, x.full(high).ir))


def _clamp_to(x: Any, end: float) -> Any:
    return clamp(scalar(-end, x), x, scalar(end, x))


def _constant(value: float, like: Any) -> Any:
    return broadcast_scalar(scalar(value, like), type_of(like).shape)


def relu_jvp(t: Any, ans: Any, x: Any) -> Any:
    # NaN, which compares false, keeps its tangent.
    return select(le(ans, scalar(0, ans)), _constant(0, t), t)


relu_p: Primitive = kernel(
    "relu", lambda x: _at_least(x, 0.0), relu_jvp, keeps_zero=True, flops="addition"
)


def relu6_jvp(t: Any, ans: Any, x: Any) -> Any:
    flat = bitwise_or(le(ans, scalar(0, ans)), ge(ans, scalar(6, ans)))
    return select(flat, _constant(0, t), t)


relu6_p: Primitive = kernel(
    "relu6",
    lambda x: _at_most(_at_least(x, 0.0), 6.0),
    relu6_jvp,
    keeps_zero=True,
    flops=of_each(2),
)


def hard_silu_formula(x: Term) -> Term:
    above = _at_least(x, -3.0)
    return above * (_at_most(above + 3.0, 6.0) / 6.0)


def hard_silu_jvp(t: Any, ans: Any, x: Any) -> Any:
    low, six = scalar(-3, x), scalar(6, x)
    above = larger(x, low)
    part = div(smaller(add(above, scalar(3, x)), six), six)
    ends = bitwise_or(le(x, low), ge(x, scalar(3, x)))
    return mul(t, add(part, select(ends, _constant(0, x), div(above, six))))


hard_silu_p: Primitive = kernel(
    "hard_silu", hard_silu_formula, hard_silu_jvp, keeps_zero=True, flops=of_each(5)
)


# ---- units with a bounded part below 0 -----------------------------------------------------------

# Below 0 they have a least value, at a zero of the derivative. There two terms cancel, by which few
# digits would be left; so up to 1/8 from the zero their sum is its Taylor series about the nearest
# number of float32, with the digits which that misses in the first coefficient.
_SILU_ZERO = -1.2784645557403564, (
    -1.659355263530338e-08, 1.278464539146804, 0.1392322695734019, 0.0464107565244673,
    0.011602689131116825, 0.002320537826223365, 0.00038675630437056085, 5.525090062436584e-05,
    6.90636257804573e-06, 7.673736197828588e-07, 7.673736197828588e-08, 6.976123816207807e-09,
    5.813436513506506e-10,
)  # fmt: skip
_GELU_ZERO = -0.7524614334106445, (
    -2.7902933030611586e-08, 2.4606567668961588, -0.09991153684833813, 0.40044769008865805,
    0.07595898917916455, 0.030485989803644958, 0.011295232075876993, 0.003690377188183726,
    0.001152934566593513, 0.0003565119148319472, 0.00010306811158735743, 2.808335284477786e-05,
    7.610951319182868e-06, 2.006457178165681e-06, 5.003433320696731e-07, 1.2279523027693707e-07,
    2.9947579938708256e-08,
)  # fmt: skip
_MISH_ZERO = -1.1924312114715576, (
    1.9505442791445752e-08, 6.407964093868179, 2.2632074452643893, 1.2861822987692046,
    0.5578184921969319, 0.2085348399200487, 0.0716825358996929, 0.023245295547263838,
    0.007137524753367267, 0.00206703929279822, 0.0005622392885937936, 0.000143290595113897,
    3.419272524147525e-05, 7.643695318904402e-06, 1.6029594690120376e-06, 3.159504503998512e-07,
    5.866201520253968e-08,
)  # fmt: skip


def _with_zero(x: Term, found: Term, zero: tuple[float, tuple[float, ...]]) -> Term:
    """The sum, but the series near its zero."""
    center, coefficients = zero
    distance = x - center
    least = x.eps * abs(coefficients[1]) / 64
    kept = [c for n, c in enumerate(coefficients) if n < 3 or abs(c) * 0.125**n > least]
    return where(abs(distance) < 0.125, polynomial(distance, kept), found)


class _Decay:
    """exp(-|u|) as `term`, which may underflow; `times` multiplies by a number without that.
    `positive` says whether u >= 0."""

    def __init__(self, u: Term) -> None:
        self.large, self.scale = falling_exp(u)
        self.positive = u >= 0.0
        self.term = self.large * self.scale

    def times(self, value: Term) -> Term:
        return (value * self.large) * self.scale

    def square(self) -> Term:
        """(1 + exp(-|u|))^2, where only the small terms are rounded twice."""
        return self.term * (self.term + 2.0) + 1.0


def _times_logistic(x: Term, u: Term) -> Term:
    """x / (1 + exp(-u))."""
    part = _Decay(u)
    return where(part.positive, x, part.times(x)) / (part.term + 1.0)


def silu_formula(x: Term) -> Term:
    return _times_logistic(_at_least(x, -SILU_END), x)


def silu_slope_formula(x: Term) -> Term:
    # Of the logistic function s(x): s(x) (1 + x s(-x)), a sum over (1 + exp(-|x|))^2.
    x = _at_most(_at_least(x, -SILU_END), SILU_END)
    part = _Decay(x)
    below = _with_zero(x, x + 1.0 + part.term, _SILU_ZERO)
    above = 1.0 + part.term * (x + 1.0)
    return where(part.positive, above, part.times(below)) / part.square()


def silu_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    size = _clamp_to(x, SILU_END)
    bent = sub(scalar(2, x), mul(size, tanh(mul(size, scalar(0.5, x)))))
    return mul(t, mul(logistic_slope(size), bent))


silu_slope_p: Primitive = kernel("silu_slope", silu_slope_formula, silu_slope_jvp)
silu_p: Primitive = kernel(
    "silu",
    silu_formula,
    lambda t, ans, x: mul(t, silu_slope_p.bind(x)),
    keeps_zero=True,
    flops=of_each(2, 1),
)


def _gelu_argument(size: Term) -> Term:
    return size * (size * size * (GELU_SCALE * GELU_CUBE) + GELU_SCALE)


def gelu_formula(x: Term) -> Term:
    # (1 + tanh(a)) / 2 is the logistic function of 2 a, which keeps its digits for negative a.
    size = _at_most(_at_least(x, -GELU_END), GELU_END)
    return _times_logistic(_at_least(x, -GELU_END), _gelu_argument(size))


def gelu_slope_formula(x: Term) -> Term:
    x = _at_most(_at_least(x, -GELU_END), GELU_END)
    part = _Decay(_gelu_argument(x))
    bent = x * (x * x * (3 * GELU_SCALE * GELU_CUBE) + GELU_SCALE)
    below = _with_zero(x, bent + (part.term + 1.0), _GELU_ZERO)
    above = 1.0 + part.term * (bent + 1.0)
    return where(part.positive, above, part.times(below)) / part.square()


def gelu_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    # With the logistic function s(u): 2 u' s' + x (u'' s' + u'^2 s''). Of float16 the square of u'
    # is infinite from 35 on; all is 0 much nearer.
    size = _clamp_to(x, GELU_END if type_of(x).dtype.itemsize > 2 else 12.0)
    square, scale = mul(size, size), scalar(GELU_SCALE, x)
    argument = mul(size, add(mul(square, scalar(GELU_SCALE * GELU_CUBE, x)), scale))
    rise = add(mul(square, scalar(3 * GELU_SCALE * GELU_CUBE, x)), scale)
    bend = mul(size, scalar(6 * GELU_SCALE * GELU_CUBE, x))
    falling = mul(mul(rise, rise), tanh(mul(argument, scalar(0.5, x))))
    total = add(mul(scalar(2, x), rise), mul(size, sub(bend, falling)))
    return mul(t, mul(logistic_slope(argument), total))


gelu_slope_p: Primitive = kernel("gelu_slope", gelu_slope_formula, gelu_slope_jvp)
gelu_p: Primitive = kernel(
    "gelu",
    gelu_formula,
    lambda t, ans, x: mul(t, gelu_slope_p.bind(x)),
    keeps_zero=True,
    flops=of_each(8, 1),
)


def mish_formula(x: Term) -> Term:
    # tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2) with e = exp(x).
    x = _at_least(x, -SILU_END)
    part = _Decay(x)
    twice, both = 2.0 * part.term, part.term * (part.term + 2.0)
    above = x * (1.0 + twice)
    below = part.times(x * (part.term + 2.0))
    whole = where(part.positive, 1.0 + twice * (part.term + 1.0), both + 2.0)
    return where(part.positive, above, below) / whole


def mish_slope_formula(x: Term) -> Term:
    # e w / d^2 with d = e (e + 2) + 2 and w = 4 (x + 1) + e (4 x + 6) + 4 e^2 + e^3; above 0 both
    # over the highest power of e.
    x = _at_most(_at_least(x, -SILU_END), SILU_END)
    part = _Decay(x)
    e, once, twice = part.term, 4.0 * x + 4.0, 4.0 * x + 6.0
    below = _with_zero(x, once + e * (twice + e * (e + 4.0)), _MISH_ZERO)
    above = 1.0 + e * (4.0 + e * (twice + e * once))
    whole = where(part.positive, 1.0 + 2.0 * e * (e + 1.0), e * (e + 2.0) + 2.0)
    return where(part.positive, above, part.times(below)) / (whole * whole)


def mish_slope_jvp(t: Any, ans: Any, x: Any) -> Any:
    # T is tanh(log(1 + e)), T' its derivative: T' (2 + x (1 - s - 2 T s)) with the logistic s.
    size = _clamp_to(x, SILU_END)
    part, plus = logistic(size), logaddexp(size, scalar(0, x))
    bent = sub(logistic(neg(size)), mul(scalar(2, x), mul(tanh(plus), part)))
    slope = mul(sech_squared(plus), part)
    return mul(t, mul(slope, add(mul(size, bent), scalar(2, x))))


mish_slope_p: Primitive = kernel("mish_slope", mish_slope_formula, mish_slope_jvp)
mish_p: Primitive = kernel(
    "mish", mish_formula, lambda t, ans, x: mul(t, mish_slope_p.bind(x)), keeps_zero=True
)


# ---- units of quotients and roots ----------------------------------------------------------------


def soft_sign_formula(x: Term) -> Term:
    # Infinity over infinity would be NaN.
    limit = float(dtypes.finfo(x.dtype).max)
    x = _at_most(_at_least(x, -limit), limit)
    return x / (abs(x) + 1.0)


def soft_sign_jvp(t: Any, ans: Any, x: Any) -> Any:
    part = div(scalar(1, x), add(abs_(x), scalar(1, x)))
    return mul(mul(t, part), part)


soft_sign_p: Primitive = kernel("soft_sign", soft_sign_formula, soft_sign_jvp, keeps_zero=True)


def squareplus_formula(x: Term, b: Term) -> Term:
    # (r - |x|) / 2 as b / (r + |x|) / 2, in which nothing cancels, and x more for positive x.
    below = 0.5 * (b / (hypot_formula(x, b.sqrt()) + abs(x)))
    below = where(b.equals(math.inf), b, where(b.equals(0.0), 0.0, below))
    below = where(abs(x).equals(math.inf), 0.0, below)
    return where(x.is_nan() | ~(b >= 0.0), math.nan, _at_least(x, 0.0) + below)


def squareplus_jvp_x(t: Any, ans: Any, x: Any, b: Any) -> Any:
    # (1 + x / r) / 2, which is ans / r.
    root = sqrt(b)
    part, distance = cosine(x, root), hypot(x, root)
    above = mul(add(part, scalar(1, x)), scalar(0.5, x))
    negative = broadcast_scalar(lt(x, scalar(0, x)), type_of(ans).shape)
    # Where it is not chosen, infinity over infinity would reach the second derivative.
    below = div(*(select(negative, value, _constant(1, ans)) for value in (ans, distance)))
    return mul(t, select(negative, below, above))


def squareplus_jvp_b(t: Any, ans: Any, x: Any, b: Any) -> Any:
    return div(mul(t, scalar(0.25, b)), hypot(x, sqrt(b)))


squareplus_p: Primitive = kernel(
    "squareplus", squareplus_formula, squareplus_jvp_x, squareplus_jvp_b
)
