"""Arithmetic of numbers of 8 bits and fewer: it is done in a wider dtype, and the result rounded.

The processors and kernels that XLA compiles for know few of these dtypes. An integer of 2 or 4 bits
is computed in 8, of which the lowest are kept, so that results wrap as those of wider integers do;
a floating-point number is computed in float32 and rounded once.

Sums of 16-bit floating-point numbers are in float32 too, and rounded once: one by one, they would
stop growing where a term is less than half a unit in the last place of the sum, for equal terms
after 256 of bfloat16, and pass the largest float16, 65,504, on the way to a smaller result.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.core.types import ArrayType
from weft.runtime import stablehlo

Rule = Callable[..., Any]


@functools.cache
def with_narrow(accepts: frozenset[Any]) -> frozenset[Any]:
    """A set of dtypes with the narrow ones of its kinds."""
    return accepts.union(d for d in dtypes.NARROW if wide_dtype(d) in accepts)


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which a narrow dtype is computed; any other unchanged."""
    if dtype not in dtypes.NARROW:
        return dtype
    if dtypes.is_floating(dtype):
        return dtypes.float32
    return dtypes.int8 if dtypes.is_signed(dtype) else dtypes.uint8


# Floats of 16 bits or fewer.
SUMMED_IN_FLOAT32 = frozenset(
    {dtypes.float16, dtypes.bfloat16, *filter(dtypes.is_floating, dtypes.NARROW)}
)


def accumulator(dtype: Any) -> Any:
    """The dtype of sums: float32 for floats of 16 bits or fewer, any other unchanged."""
    return dtypes.float32 if dtype in SUMMED_IN_FLOAT32 else dtype


def in_wide(lower: Rule) -> Rule:
    """A lowering rule that computes narrow numbers in a wider dtype."""
    return _widen(lower, dtypes.NARROW, wide_dtype)


def in_accumulator(lower: Rule) -> Rule:
    """A lowering rule of a sum, in float32 where floats have 16 bits or fewer."""
    return _widen(
        lower, dtypes.NARROW | SUMMED_IN_FLOAT32, lambda dtype: accumulator(wide_dtype(dtype))
    )


def _widen(lower: Rule, narrow: frozenset[Any], wide: Callable[[Any], Any]) -> Rule:
    """A lowering rule that computes numbers of `narrow` dtypes in their `wide` dtype."""

    def of(types: Any) -> list[ArrayType]:
        return [t.update(dtype=wide(t.dtype)) if t.dtype in narrow else t for t in types]

    def widened(context: Any, *values: Any, **params: Any) -> Any:
        if not any(type.dtype in narrow for type in (*context.in_types, *context.out_types)):
            return lower(context, *values, **params)
        inner = dataclasses.replace(
            context, in_types=of(context.in_types), out_types=of(context.out_types)
        )
        found = lower(inner, *_convert_values(values, context.in_types, inner.in_types), **params)
        several = isinstance(found, (list, tuple))
        results = _convert_values(found if several else [found], inner.out_types, context.out_types)
        return results if several else results[0]

    return widened


def _convert_values(values: Any, types: Any, wanted: Any) -> list[Any]:
    return [
        value if old.dtype == new.dtype else stablehlo.convert(value, new.dtype)
        for value, old, new in zip(values, types, wanted, strict=True)
    ]
