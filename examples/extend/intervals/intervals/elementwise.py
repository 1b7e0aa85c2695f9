"""Bounds of the elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from intervals.rounding import down, down_loosely, up, up_loosely
from intervals.trace import Interval, as_interval, missing, register_interval
from weft.errors import WeftTypeError
from weft.extend.core import Primitive, primitives

__all__ = ["bounds", "divided", "hull", "multiplied"]

p = primitives
Bounds = tuple[Any, Any]
INFINITY = np.inf


def bounds(x: Any) -> Bounds:
    """Lower and upper bound of an operand; both are the value where it is certain."""
    return (x.lower, x.upper) if isinstance(x, Interval) else (x, x)


def hull(*items: Any) -> Interval:
    """The smallest interval around several."""
    lowers, uppers = zip(*map(bounds, items), strict=True)
    lower, upper = lowers[0], uppers[0]
    for low, high in zip(lowers[1:], uppers[1:], strict=True):
        lower, upper = jnp.minimum(lower, low), jnp.maximum(upper, high)
    return Interval(lower, upper)


def real(name: str, x: Any) -> None:
    """Raises WeftTypeError for integers, whose sums and products wrap around."""
    if jnp.issubdtype(x.dtype, jnp.integer):
        raise WeftTypeError(
            f"{name} of an uncertain integer has no bounds: integers wrap around",
            operation=name,
            got=f"an interval of dtype {x.dtype}",
            wanted="a floating-point dtype",
        )


def cut(interval: Interval, lowest: float | None, highest: float | None) -> Interval:
    """The bounds held to the range of a function."""
    lower, upper = interval.lower, interval.upper
    if lowest is not None:
        lower = jnp.maximum(lower, jnp.asarray(lowest, lower.dtype))
    if highest is not None:
        upper = jnp.minimum(upper, jnp.asarray(highest, upper.dtype))
    return Interval(lower, upper)


# ---- functions that go up or down everywhere -----------------------------------------------------


def exact(x: Any) -> Any:
    return x


def monotone(
    primitive: Primitive,
    low: Callable[[Any], Any] = exact,
    high: Callable[[Any], Any] = exact,
    *,
    falls: bool = False,
    even: bool = False,
    domain: tuple[float | None, float | None] = (None, None),
    range: tuple[float | None, float | None] = (None, None),  # noqa: A002
) -> None:
    """A function that rises (or falls) in every operand, with what rounds its bounds outward. An
    even one does so in the absolute values."""

    def rule(*operands: Any, **params: Any) -> Interval:
        intervals = [cut_domain(as_interval(x), domain) for x in operands]
        if even:
            intervals = [abs_interval(x) for x in intervals]
        first = primitive.bind(*[x.lower for x in intervals], **params)
        last = primitive.bind(*[x.upper for x in intervals], **params)
        if falls:
            first, last = last, first
        if low is not exact:
            real(primitive.name, first)
        return cut(Interval(low(first), high(last)), *range)

    register_interval(primitive, rule)


def cut_domain(x: Interval, domain: tuple[float | None, float | None]) -> Interval:
    lowest, highest = domain
    if lowest is None and highest is None:
        return x
    return Interval(jnp.clip(x.lower, lowest, None), jnp.clip(x.upper, None, highest))


def abs_interval(x: Interval) -> Interval:
    ends = jnp.abs(x.lower), jnp.abs(x.upper)
    least = jnp.where((x.lower <= 0) & (x.upper >= 0), jnp.zeros_like(ends[0]), jnp.minimum(*ends))
    return Interval(least, jnp.maximum(*ends))


for primitive in (p.max_p, p.min_p, p.relu_p, p.floor_p, p.ceil_p, p.round_p, p.sign_p, p.clamp_p,
                  p.stop_gradient_p, p.and_p, p.or_p):  # fmt: skip
    monotone(primitive)
monotone(p.neg_p, falls=True)
monotone(p.not_p, falls=True)
for primitive in (p.add_p, p.add_tangents_p):
    monotone(primitive, down, up)
monotone(p.sqrt_p, down, up, domain=(0, None), range=(0, None))
LOOSE = (down_loosely, up_loosely)
monotone(p.exp_p, *LOOSE, range=(0, None))
monotone(p.exp2_p, *LOOSE, range=(0, None))
monotone(p.expm1_p, *LOOSE, range=(-1, None))
monotone(p.log_p, *LOOSE, domain=(0, None))
monotone(p.log1p_p, *LOOSE, domain=(-1, None))
monotone(p.tanh_p, *LOOSE, range=(-1, 1))
monotone(p.sinh_p, *LOOSE)
monotone(p.asinh_p, *LOOSE)
monotone(p.atan_p, *LOOSE)
monotone(p.asin_p, *LOOSE, domain=(-1, 1))
monotone(p.acos_p, *LOOSE, domain=(-1, 1), falls=True, range=(0, None))
monotone(p.atanh_p, *LOOSE, domain=(-1, 1))
monotone(p.acosh_p, *LOOSE, domain=(1, None), range=(0, None))
monotone(p.cbrt_p, *LOOSE)
monotone(p.rsqrt_p, *LOOSE, domain=(0, None), falls=True, range=(0, None))
monotone(p.logistic_p, *LOOSE, range=(0, 1))
monotone(p.erf_p, *LOOSE, range=(-1, 1))
monotone(p.erfc_p, *LOOSE, falls=True, range=(0, 2))
monotone(p.logaddexp_p, *LOOSE)
monotone(p.cosh_p, *LOOSE, even=True, range=(1, None))
monotone(p.hypot_p, *LOOSE, even=True, range=(0, None))
monotone(p.sech_squared_p, *LOOSE, falls=True, even=True, range=(0, 1))
monotone(p.logistic_slope_p, *LOOSE, falls=True, even=True, range=(0, 0.25))
monotone(p.atan_slope_p, *LOOSE, falls=True, even=True, range=(0, 1))
monotone(p.erf_slope_p, *LOOSE, falls=True, even=True, range=(0, 1.13))
monotone(p.one_minus_square_p, *LOOSE, falls=True, even=True, range=(None, 1))


def convert_interval(x: Interval, new_dtype: Any, weak_type: bool = False) -> Interval:
    """Conversion keeps order; to fewer digits it rounds."""
    lower, upper = x.lower.astype(new_dtype), x.upper.astype(new_dtype)
    if jnp.issubdtype(new_dtype, jnp.floating) and x.lower.dtype != np.bool_:
        lower, upper = down(lower), up(upper)
    return Interval(lower, upper)


register_interval(p.convert_element_type_p, convert_interval)


# ---- arithmetic ----------------------------------------------------------------------------------


def sub_interval(x: Any, y: Any) -> Interval:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    first = p.sub_p.bind(x_low, y_high)
    real("sub", first)
    return Interval(down(first), up(p.sub_p.bind(x_high, y_low)))


register_interval(p.sub_p, sub_interval)


def share_interval(x: Any, y: Any) -> Interval:
    """The share of one operand in a sum of exponentials: it rises with it, and falls with the
    other."""
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    lower = p.logaddexp_share_p.bind(x_low, y_high)
    real("logaddexp_share", lower)
    upper = p.logaddexp_share_p.bind(x_high, y_low)
    return cut(Interval(down_loosely(lower), up_loosely(upper)), 0, 1)


register_interval(p.logaddexp_share_p, share_interval)


def corners(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Bounds:
    """The least and the largest of a function at the corners of a box, without rounding."""
    values = [function(a, b) for a in bounds(x) for b in bounds(y)]
    lower, upper = values[0], values[0]
    for value in values[1:]:
        lower, upper = jnp.minimum(lower, value), jnp.maximum(upper, value)
    return lower, upper


def multiplied(x: Any, y: Any) -> Interval:
    """The product. Zero times an infinite bound is zero: bounds are not values."""

    def product(a: Any, b: Any) -> Any:
        return jnp.where((a == 0) | (b == 0), jnp.zeros_like(a * b), a * b)

    lower, upper = corners(product, x, y)
    real("mul", lower)
    return Interval(down(lower), up(upper))


register_interval(p.mul_p, multiplied)


def divided(x: Any, y: Any) -> Interval:
    """The quotient: everything where the divisor may be zero."""
    lower, upper = corners(lambda a, b: a / b, x, y)
    real("div", lower)
    y_low, y_high = bounds(y)
    around_zero = (y_low <= 0) & (y_high >= 0)
    everything = jnp.asarray(INFINITY, lower.dtype)
    return Interval(
        jnp.where(around_zero, -everything, down(lower)),
        jnp.where(around_zero, everything, up(upper)),
    )


register_interval(p.div_p, divided)


register_interval(p.abs_p, abs_interval)


def power_interval(x: Interval, y: int) -> Interval:
    if y < 0:
        return divided(jnp.ones_like(x.lower), power_interval(x, -y))
    if y == 0:
        return as_interval(jnp.ones_like(x.lower))
    base = x if y % 2 else abs_interval(x)
    real("integer_pow", base.lower)
    power = lambda a: p.integer_pow_p.bind(a, y=y)  # noqa: E731
    # As many products as the exponent has digits, twice at most, each of them rounded.
    found = Interval(down_loosely(power(base.lower)), up_loosely(power(base.upper)))
    for _ in range(y // 4):
        found = Interval(down_loosely(found.lower), up_loosely(found.upper))
    return found if y % 2 else cut(found, 0, None)


register_interval(p.integer_pow_p, power_interval)
register_interval(p.square_p, lambda x: power_interval(x, 2))


def pow_interval(x: Any, y: Any) -> Interval:
    """Powers of what is positive have their extremes at the corners; others may be anything."""
    lower, upper = corners(p.pow_p.bind, x, y)
    real("pow", lower)
    unknown = bounds(x)[0] < 0
    everything = jnp.asarray(INFINITY, lower.dtype)
    return Interval(
        jnp.where(unknown, -everything, jnp.maximum(down_loosely(lower), 0)),
        jnp.where(unknown, everything, up_loosely(upper)),
    )


register_interval(p.pow_p, pow_interval)


# ---- periodic functions --------------------------------------------------------------------------


def passes(x: Interval, offset: float, period: float) -> Any:
    """Whether `offset` plus a multiple of `period` may lie in the interval."""
    first, last = (x.lower - offset) / period, (x.upper - offset) / period
    slack = 8 * jnp.finfo(first.dtype).eps * (1 + jnp.abs(first) + jnp.abs(last))
    found = jnp.floor(last + slack) >= jnp.ceil(first - slack)
    return found | ~jnp.isfinite(first) | ~jnp.isfinite(last)


def wave(primitive: Primitive, top: float) -> None:
    """Sine or cosine, which is largest at `top` and least half a period after."""

    def rule(x: Interval) -> Interval:
        ends = hull(primitive.bind(x.lower), primitive.bind(x.upper))
        lower, upper = down_loosely(ends.lower), up_loosely(ends.upper)
        one = jnp.ones_like(lower)
        upper = jnp.where(passes(x, top, 2 * np.pi), one, upper)
        lower = jnp.where(passes(x, top + np.pi, 2 * np.pi), -one, lower)
        return cut(Interval(lower, upper), -1, 1)

    register_interval(primitive, rule)


wave(p.sin_p, np.pi / 2)
wave(p.cos_p, 0.0)


def tan_interval(x: Interval) -> Interval:
    pole = passes(x, np.pi / 2, np.pi)
    everything = jnp.asarray(INFINITY, x.lower.dtype)
    lower, upper = down_loosely(p.tan_p.bind(x.lower)), up_loosely(p.tan_p.bind(x.upper))
    return Interval(jnp.where(pole, -everything, lower), jnp.where(pole, everything, upper))


register_interval(p.tan_p, tan_interval)


# ---- comparison and choice: booleans are intervals from False to True ----------------------------


def less(primitive: Primitive, opposite: bool) -> None:
    def rule(x: Any, y: Any) -> Interval:
        (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
        if opposite:
            x_low, x_high, y_low, y_high = x_high, x_low, y_high, y_low
        return Interval(primitive.bind(x_high, y_low), primitive.bind(x_low, y_high))

    register_interval(primitive, rule)


for primitive in (p.lt_p, p.le_p):
    less(primitive, opposite=False)
for primitive in (p.gt_p, p.ge_p):
    less(primitive, opposite=True)


def eq_interval(x: Any, y: Any) -> Interval:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    certain = (x_low == x_high) & (y_low == y_high) & (x_low == y_low)
    return Interval(certain, (x_low <= y_high) & (y_low <= x_high))


def ne_interval(x: Any, y: Any) -> Interval:
    equal = eq_interval(x, y)
    return Interval(~equal.upper, ~equal.lower)


register_interval(p.eq_p, eq_interval)
register_interval(p.ne_p, ne_interval)


def is_finite_interval(x: Interval) -> Interval:
    finite = jnp.isfinite(x.lower) & jnp.isfinite(x.upper)
    return Interval(finite, jnp.ones_like(finite))


register_interval(p.is_finite_p, is_finite_interval)


def select_interval(condition: Any, *cases: Any) -> Interval:
    """The second case where the condition holds, else the first; both where it is uncertain."""
    if len(cases) != 2 or jnp.result_type(bounds(condition)[0]) != jnp.bool_:
        raise missing(p.select_n_p, (condition, *cases))  # a choice among more by a number
    on_false, on_true = cases
    always, possibly = bounds(condition)
    (true_low, true_high), (false_low, false_high) = bounds(on_true), bounds(on_false)
    lower, upper = jnp.minimum(true_low, false_low), jnp.maximum(true_high, false_high)
    lower = jnp.where(always, true_low, jnp.where(possibly, lower, false_low))
    upper = jnp.where(always, true_high, jnp.where(possibly, upper, false_high))
    return Interval(lower, upper)


register_interval(p.select_n_p, select_interval)
