"""Bounds of operations on whole arrays: movement, sums, products, order."""

from __future__ import annotations

from math import prod
from typing import Any

import weft.numpy as jnp
from intervals.elementwise import bounds, real
from intervals.rounding import down, up
from intervals.trace import Interval, as_interval, register_interval
from weft.errors import WeftTypeError
from weft.extend.core import Primitive, primitives

__all__: list[str] = []

p = primitives


def moved(primitive: Primitive, certain: slice = slice(0, 0)) -> None:
    """An operation that moves elements or takes extremes: applied to either bound. The operands in
    `certain` are indices."""

    def rule(*operands: Any, **params: Any) -> Any:
        for position in range(len(operands))[certain]:
            if isinstance(operands[position], Interval):
                raise WeftTypeError(
                    f"{primitive.name}: the place of elements depends on an uncertain value",
                    operation=primitive.name,
                    got=f"an interval as operand {position}",
                    wanted="indices that are certain",
                )
        lowers = primitive.bind(*[bounds(x)[0] for x in operands], **params)
        uppers = primitive.bind(*[bounds(x)[1] for x in operands], **params)
        if primitive.multiple_results:
            return [Interval(a, b) for a, b in zip(lowers, uppers, strict=True)]
        return Interval(lowers, uppers)

    register_interval(primitive, rule)


for primitive in (
    p.reshape_p, p.transpose_p, p.rev_p, p.slice_p, p.broadcast_in_dim_p, p.concatenate_p,
    p.split_p, p.pad_p, p.reduce_max_p, p.reduce_min_p, p.cummax_p, p.cummin_p, p.reduce_and_p,
    p.reduce_or_p,
):  # fmt: skip
    moved(primitive)
moved(p.gather_p, slice(1, None))
moved(p.dynamic_slice_p, slice(1, None))
moved(p.dynamic_update_slice_p, slice(2, None))


def sort_interval(*operands: Any, **params: Any) -> list[Interval]:
    """Each place of a sorted array rises with every element."""
    if len(operands) > 1:
        raise WeftTypeError(
            "sort: the order of several arrays depends on an uncertain value",
            operation="sort",
            got=f"{len(operands)} arrays",
            wanted="one array",
        )
    lower, upper = (p.sort_p.bind(end, **params)[0] for end in bounds(operands[0]))
    return [Interval(lower, upper)]


register_interval(p.sort_p, sort_interval)


# ---- sums: the rounding errors of n additions are below n eps times the sum of magnitudes
# (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), in any order --------------


def margin(terms: int, magnitudes: Any) -> Any:
    info = jnp.finfo(magnitudes.dtype)
    return (terms + 4) * info.eps * magnitudes + terms * info.smallest_normal


def summed(primitive: Primitive, terms: Any) -> None:
    """A sum over elements; `terms` says of how many, given the operand's shape and parameters."""

    def rule(x: Interval, **params: Any) -> Interval:
        count = terms(x.lower.shape, **params)
        lower, upper = primitive.bind(x.lower, **params), primitive.bind(x.upper, **params)
        real(primitive.name, lower)
        size = primitive.bind(jnp.maximum(jnp.abs(x.lower), jnp.abs(x.upper)), **params)
        error = margin(count, size)
        return Interval(down(lower - error), up(upper + error))

    register_interval(primitive, rule)


summed(p.reduce_sum_p, lambda shape, axes: prod(shape[a] for a in axes))
summed(p.cumsum_p, lambda shape, axis, reverse: shape[axis])


def centred(x: Any) -> tuple[Any, Any]:
    """Centre and radius of an operand: an interval inside of centre plus or minus radius."""
    x = as_interval(x)
    centre = x.midpoint
    return centre, up(jnp.maximum(x.upper - centre, centre - x.lower))


def dot_interval(x: Any, y: Any, dimension_numbers: Any, **params: Any) -> Interval:
    """The product by centres and radii (Rump, Fast and parallel interval arithmetic, 1999): four
    products of matrices, and bounds at most half as wide again as the best ones."""
    (contract, _), _ = dimension_numbers
    terms = prod(as_interval(x).lower.shape[d] for d in contract)
    real("dot_general", as_interval(x).lower)

    def dot(a: Any, b: Any) -> Any:
        return p.dot_general_p.bind(a, b, dimension_numbers=dimension_numbers, **params)

    (x_centre, x_radius), (y_centre, y_radius) = centred(x), centred(y)
    x_size, y_size = jnp.abs(x_centre), jnp.abs(y_centre) + y_radius
    centre = dot(x_centre, y_centre)
    radius = dot(x_radius, y_size)
    if isinstance(y, Interval):
        radius = radius + dot(x_size, y_radius)
    error = radius + 2 * margin(2 * terms, dot(x_size + x_radius, y_size))
    return Interval(down(centre - error), up(centre + error))


register_interval(p.dot_general_p, dot_interval)
