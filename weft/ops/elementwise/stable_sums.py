"""Logarithms and roots of sums: logaddexp without overflow, and sums that may be empty.

`logaddexp` and `logaddexp2` are the larger operand plus a correction that depends on their
difference only. They are primitives rather than such a formula because the formula has kinks where
the operands are equal and the functions do not: differentiated twice, it would lose the curvature
there, and with it that of softplus and of a logistic loss at 0.

A norm has no slope at 0, and 0 is the least subgradient; the logarithm of a sum of which nothing
counts stays minus infinity. As one operation each: a choice of a harmless operand and a choice of
the result would stand in the program, and twice as many in its derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import div, eq, log, mul, neg, scalar, sub, tanh
from weft.ops.elementwise.deviances import exact_sum
from weft.ops.elementwise.families import broadcast_scalar
from weft.ops.elementwise.formulas import Term, kernel, log1p, where
from weft.ops.elementwise.selection import select
from weft.runtime import stablehlo


def share_of(scale: float) -> Callable[[Term, Term], Term]:
    """The share of exp(scale x) in the sum of it and exp(scale y), the derivative of the sum's
    logarithm. Two infinities of one sign share equally."""

    def formula(x: Term, y: Term) -> Term:
        difference, low = exact_sum(x, -y)
        difference = where(x.equals(y), 0.0, difference)
        share = (difference if scale == 1 else difference * scale).apply(stablehlo.logistic)
        # What the difference has lost in rounding; NaN at infinities.
        low = where(abs(low) < 1.0, low if scale == 1 else low * scale, 0.0)
        return share * (1.0 + (1.0 - share) * low)

    return formula


def log_of_sum(scale: float) -> Callable[[Term, Term], Term]:
    """log(exp(scale x) + exp(scale y)) / scale, from the larger operand and the difference."""

    def formula(x: Term, y: Term) -> Term:
        larger = x.new(stablehlo.maximum(x.ir, y.ir))
        # Two infinities of one sign have no difference.
        distance = where(x.equals(y), 0.0, abs(x - y))
        tail = log1p((-distance if scale == 1 else distance * -scale).exp())
        return larger + (tail if scale == 1 else tail * (1 / scale))

    return formula


def _share(name: str, scale: float) -> tuple[Primitive, Primitive]:
    """The primitives of a share, and of the product of both shares."""
    share = share_of(scale)

    def scaled(x: Any, factor: float) -> Any:
        return x if factor == 1 else mul(x, scalar(factor, x))

    def bend(t: Any, ans: Any, x: Any, y: Any) -> Any:
        # The shares differ by a hyperbolic tangent: of their difference little would be left.
        distance = sub(x, y)
        # Two infinities of one sign have none.
        distance = select(eq(distance, distance), distance, mul(ans, scalar(0, ans)))
        return neg(mul(t, mul(ans, scaled(tanh(mul(distance, scalar(scale / 2, x))), scale))))

    slope_p = kernel(
        f"{name}_slope",
        lambda x, y: share(x, y) * share(y, x),
        bend,
        lambda t, ans, x, y: neg(bend(t, ans, x, y)),
    )

    def slope(t: Any, ans: Any, x: Any, y: Any) -> Any:
        return mul(t, scaled(slope_p.bind(x, y), scale))

    share_p = kernel(name, share, slope, lambda t, ans, x, y: neg(slope(t, ans, x, y)))
    return share_p, slope_p


def _log_of_sum(name: str, scale: float, share_p: Primitive) -> Primitive:
    return kernel(
        name,
        log_of_sum(scale),
        lambda t, ans, x, y: mul(t, share_p.bind(x, y)),
        lambda t, ans, x, y: mul(t, share_p.bind(y, x)),
    )


def logaddexp(x: Any, y: Any) -> Any:
    """Elementwise log(exp(x) + exp(y)) of real numbers."""
    return logaddexp_p.bind(x, y)


logaddexp_share_p, logaddexp_share_slope_p = _share("logaddexp_share", 1.0)
logaddexp_p = _log_of_sum("logaddexp", 1.0, logaddexp_share_p)


def logaddexp2(x: Any, y: Any) -> Any:
    """Elementwise log2(2**x + 2**y) of real numbers."""
    return logaddexp2_p.bind(x, y)


logaddexp2_share_p, logaddexp2_share_slope_p = _share("logaddexp2_share", math.log(2))
logaddexp2_p = _log_of_sum("logaddexp2", math.log(2), logaddexp2_share_p)


def _or_infinity(x: Any) -> Any:
    """x, or infinity where it is 0, so that a quotient and its derivatives are 0."""
    return _select(eq(x, scalar(0, x)), math.inf, x)


def _select(pred: Any, value: float, other: Any) -> Any:
    return select(pred, broadcast_scalar(scalar(value, other), type_of(other).shape), other)


def flat_sqrt_jvp(t: Any, ans: Any, x: Any) -> Any:
    return div(mul(t, scalar(0.5, t)), _or_infinity(ans))


flat_sqrt_p: Primitive = kernel("flat_sqrt", Term.sqrt, flat_sqrt_jvp, keeps_zero=True)


def flat_log_jvp(t: Any, ans: Any, x: Any) -> Any:
    return div(t, _or_infinity(x))


flat_log_p: Primitive = kernel("flat_log", Term.log, flat_log_jvp)


def flat_log(x: Any) -> Any:
    """The logarithm, with derivative 0 at 0."""
    if type_of(x).dtype not in dtypes.COMPLEX:
        return flat_log_p.bind(x)
    nothing = eq(x, scalar(0, x))
    return _select(nothing, -math.inf, log(_select(nothing, 1.0, x)))
