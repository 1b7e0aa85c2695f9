"""Logarithms to base 2 and 10 of real numbers, exact for whole powers of the base.

A natural logarithm times a constant misses whole numbers by a unit in the last place, by which
`floor(log10(x))` is off by one. Where the operand is a power of the base, the result is rounded to
the nearest whole number: that test costs less than splitting the operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.primitive import Primitive
from weft.ops.elementwise.arithmetic import div, mul, scalar
from weft.ops.elementwise.formulas import Term, kernel, where
from weft.runtime import stablehlo


def is_power_of_two(x: Term, exponent: Term) -> Term:
    """Whether the stored fraction is zero."""
    whole = dtypes.int32 if x.dtype == dtypes.float32 else dtypes.int64
    ones = stablehlo.full((1 << dtypes.finfo(x.dtype).nmant) - 1, x.shape, whole)
    fraction = stablehlo.and_(stablehlo.bitcast_convert(x.ir, whole), ones)
    none = stablehlo.full(0, x.shape, whole)
    return Term(stablehlo.compare(fraction, none, "EQ"), x.shape, dtypes.bool_)


def is_power_of_ten(x: Term, exponent: Term) -> Term:
    """Whether x is the number nearest to 10**exponent."""
    limits = dtypes.finfo(x.dtype)
    low, high = (math.trunc(math.log10(float(end))) for end in (limits.tiny, limits.max))
    powers = np.array([float(f"1e{k}") for k in range(low, high + 1)]).astype(x.dtype)
    table = stablehlo.constant(powers, powers.shape, x.dtype)
    # Exponents outside of the table take its nearest end.
    place = stablehlo.convert((exponent - low).ir, dtypes.int32)
    place = stablehlo.reshape(place, (*x.shape, 1))
    dimensions = stablehlo.GatherDimensions(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(x.shape),
    )
    return x.equals(x.new(stablehlo.gather(table, place, dimensions, (1,))))


def _logarithm(base: int, is_power: Callable[[Term, Term], Term]) -> Primitive:
    def formula(x: Term) -> Term:
        value = x.log() * (1 / math.log(base))
        whole = value.apply(stablehlo.round_nearest_even)
        return where(is_power(x, whole), whole, value)

    def jvp(t: Any, ans: Any, x: Any) -> Any:
        # Not over the product with x, which may be too small.
        return div(mul(t, scalar(1 / math.log(base), x)), x)

    return kernel(f"log{base}", formula, jvp)


def log2(x: Any) -> Any:
    """Elementwise logarithm to base 2 of real numbers."""
    return log2_p.bind(x)


log2_p = _logarithm(2, is_power_of_two)


def log10(x: Any) -> Any:
    """Elementwise logarithm to base 10 of real numbers."""
    return log10_p.bind(x)


log10_p = _logarithm(10, is_power_of_ten)
