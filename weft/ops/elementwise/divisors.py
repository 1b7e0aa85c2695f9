"""The greatest common divisor of integers, by Euclid's algorithm as a loop over whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import dtypes
from weft.core.types import ArrayType
from weft.ops.declare import emit_reduction
from weft.ops.elementwise.families import apply, binary, repeat_scalars
from weft.runtime import stablehlo


def gcd(x: Any, y: Any) -> Any:
    """Elementwise greatest common divisor of two arrays of integers, 0 where both are 0.

    >>> gcd(12, 18)
    Array(6, dtype=int32, weak_type=True)
    """
    return apply(gcd_p, x, y)


def gcd_lower(context: Any, *values: Any) -> Any:
    out: ArrayType = context.out_types[0]
    x, y = repeat_scalars(context, values, out.shape)
    # Below, all numbers are negative: the least integer of a dtype has no positive counterpart.
    if out.dtype in dtypes.SIGNED:
        x, y = (stablehlo.negate(stablehlo.abs_(z)) for z in (x, y))

    def constants() -> tuple[Any, Any]:
        return stablehlo.full(0, out.shape, out.dtype), stablehlo.full(1, out.shape, out.dtype)

    def condition(state: Sequence[Any]) -> Any:
        zero, _ = constants()
        unfinished = stablehlo.compare(state[1], zero, "NE")
        init = stablehlo.constant(False, (), dtypes.bool_)
        axes = tuple(range(out.ndim))
        return emit_reduction(unfinished, init, axes, stablehlo.or_)

    def step(state: Sequence[Any]) -> list[Any]:
        large, small = state
        zero, one = constants()
        done = stablehlo.compare(small, zero, "EQ")
        # A finished element divides by 1 and stays as it is while the others go on.
        rest = stablehlo.remainder(large, stablehlo.select(done, one, small))
        return [stablehlo.select(done, large, small), stablehlo.select(done, zero, rest)]

    found = stablehlo.while_([x, y], condition, step)[0]
    return stablehlo.negate(found) if out.dtype in dtypes.SIGNED else found


gcd_p = binary("gcd", accepts=dtypes.INTEGER, lower=gcd_lower)
