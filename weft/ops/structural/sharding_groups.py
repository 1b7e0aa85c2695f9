"""Values that the compiler has to split over devices in one way: groups of shardings."""

from __future__ import annotations

from typing import Any

from weft.arrays.array import to_place
from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType
from weft.ops.declare import primitive
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo


def alike_impl(x: Any, y: Any) -> list[Any]:
    first, second = as_array(x), as_array(y)
    place = first._committed_place() or second._committed_place()
    if place is None:
        return [first, second]
    return [to_place(first, place), to_place(second, place)]


def alike_jvp(primals: Values, tangents: Values) -> tuple[list[Any], Values]:
    outs = shard_alike_p.bind(*primals)
    if any(type(t) is Zero for t in tangents):
        return outs, tangents
    return outs, shard_alike_p.bind(*tangents)


def alike_transpose(cotangents: Values, *operands: Any) -> Values:
    if any(type(t) is Zero for t in cotangents):
        return cotangents
    return list(shard_alike_p.bind(*cotangents))


def alike_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[list[Any], Dims]:
    target = next(dim for dim in dims if dim is not None)
    values = [move_dim(x, dim, target, axis.size) for x, dim in zip(args, dims, strict=True)]
    return list(shard_alike_p.bind(*values)), [target] * 2


def alike_type(x: ArrayType, y: ArrayType) -> list[ArrayType]:
    return [x, y]


def alike_lower(context: Any, x: Any, y: Any) -> list[Any]:
    manual = context.module.manual
    split = manual is not None and manual.has_all_axes
    if len(context.module.devices) > 1 and not split:
        # Any number that no other pair of the module has.
        stablehlo.sharding_group((x, y), context.module.new_channel())
    return [x, y]


shard_alike_p = primitive(
    Primitive("shard_alike", multiple_results=True),
    type_rule=alike_type,
    jvp=alike_jvp,
    transpose=alike_transpose,
    vmap=alike_vmap,
    lower=alike_lower,
    flops="none",
)
rules.impl.register(shard_alike_p, alike_impl)
