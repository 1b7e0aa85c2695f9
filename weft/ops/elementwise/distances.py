"""hypot, and the cosine of a right triangle: x / hypot(x, y), by which derivatives stay in range;
the height at a part of the way between two heights.

The squares of two sides overflow and underflow where the angle between them, its derivatives and
the distance do not. Written with cosines and distances alone, no derivative of `hypot`, `atan2`,
`atan` and `asinh` has a larger or a smaller number in it than its own factors, and none cancels.
"""

from __future__ import annotations

import math
from typing import Any

from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import div, eq, mul, neg, scalar, sub
from weft.ops.elementwise.families import broadcast_scalar
from weft.ops.elementwise.formulas import Term, kernel, where
from weft.ops.elementwise.selection import select
from weft.runtime import stablehlo


def hypot(x: Any, y: Any) -> Any:
    """Elementwise sqrt(x^2 + y^2) of real numbers."""
    return hypot_p.bind(x, y)


def _sides(x: Term, y: Term) -> tuple[Term, Term]:
    """The longer side, and the square root of 1 + ratio^2."""
    x, y = abs(x), abs(y)
    long = x.new(stablehlo.maximum(x.ir, y.ir))
    short = x.new(stablehlo.minimum(x.ir, y.ir))
    ratio = short / where(long.equals(0.0), 1.0, long)
    return long, (ratio * ratio + 1.0).sqrt()


def hypot_formula(x: Term, y: Term) -> Term:
    """The longer side times the square root of 1 + ratio^2; an infinite side decides."""
    long, factor = _sides(x, y)
    infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
    return where(infinite, math.inf, long * factor)


hypot_p: Primitive = kernel(
    "hypot",
    hypot_formula,
    lambda t, ans, x, y: mul(t, cosine(x, y)),
    lambda t, ans, x, y: mul(t, cosine(y, x)),
)


def cosine(x: Any, y: Any) -> Any:
    """Elementwise x / hypot(x, y); 0 where the triangle is a point."""
    return cosine_p.bind(x, y)


def cosine_formula(x: Term, y: Term) -> Term:
    long, factor = _sides(x, y)
    endless = abs(x).equals(math.inf) & (abs(y) < math.inf)
    sign = x.apply(stablehlo.sign)
    return where(endless, sign, x / where(long.equals(0.0), 1.0, long) / factor)


def cosine_jvp_x(t: Any, ans: Any, x: Any, y: Any) -> Any:
    other = cosine(y, x)
    return mul(t, mul(other, _over_distance(other, x, y)))


def cosine_jvp_y(t: Any, ans: Any, x: Any, y: Any) -> Any:
    return neg(mul(t, mul(ans, _over_distance(cosine(y, x), x, y))))


def _over_distance(side: Any, x: Any, y: Any) -> Any:
    distance = hypot(x, y)
    shape = type_of(distance).shape
    point = eq(distance, scalar(0, distance))
    return div(
        broadcast_scalar(side, shape),
        select(point, broadcast_scalar(scalar(1, x), shape), distance),
    )


cosine_p: Primitive = kernel("cosine", cosine_formula, cosine_jvp_x, cosine_jvp_y)


def height_formula(part: Term, first: Term, last: Term) -> Term:
    """first + part (last - first), from the nearer of both, so that each keeps its digits."""
    rise, before, late = last - first, part - 1.0, part > 0.5
    near, step = where(late, last, first), where(late, before, part)
    # The rise may be infinite where neither height is, and one does not count at the other.
    blend = where(step.equals(0.0), near, part * last - before * first)
    return where(abs(rise) < math.inf, near + step * rise, blend)


height_p: Primitive = kernel(
    "height_between",
    height_formula,
    lambda t, ans, part, first, last: mul(t, sub(last, first)),
    lambda t, ans, part, first, last: mul(t, sub(scalar(1, part), part)),
    lambda t, ans, part, first, last: mul(t, part),
)
