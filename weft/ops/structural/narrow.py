"""Arithmetic of numbers of 8 bits and fewer: it is done in a wider dtype, and the result rounded.

The processors and kernels that XLA compiles for know few of these dtypes. An integer of 2 or 4 bits
is computed in 8, of which the lowest are kept, so that results wrap as those of wider integers do;
a floating-point number is computed in float32 and rounded once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.core.types import ArrayType
from weft.runtime import stablehlo

__all__ = ["in_wide", "wide_dtype", "with_narrow"]

Rule = Callable[..., Any]


@functools.cache
def with_narrow(accepts: frozenset[Any]) -> frozenset[Any]:
    """A set of dtypes, with the narrow ones of the kinds that it has."""
    return accepts.union(d for d in dtypes.NARROW if wide_dtype(d) in accepts)


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which numbers of a narrow dtype are computed; any other as it is."""
    if dtype not in dtypes.NARROW:
        return dtype
    if dtypes.is_floating(dtype):
        return dtypes.float32
    return dtypes.int8 if dtypes.is_signed(dtype) else dtypes.uint8


def in_wide(lower: Rule) -> Rule:
    """A lowering rule that computes narrow numbers in a wider dtype."""

    def widened(context: Any, *values: Any, **params: Any) -> Any:
        types = (*context.in_types, *context.out_types)
        if not any(type.dtype in dtypes.NARROW for type in types):
            return lower(context, *values, **params)
        inner = dataclasses.replace(
            context, in_types=_wide(context.in_types), out_types=_wide(context.out_types)
        )
        found = lower(inner, *_converted(values, context.in_types, inner.in_types), **params)
        several = isinstance(found, (list, tuple))
        results = _converted(found if several else [found], inner.out_types, context.out_types)
        return results if several else results[0]

    return widened


def _wide(types: Any) -> list[ArrayType]:
    return [
        type.update(dtype=wide_dtype(type.dtype)) if type.dtype in dtypes.NARROW else type
        for type in types
    ]


def _converted(values: Any, types: Any, wanted: Any) -> list[Any]:
    return [
        value if old.dtype == new.dtype else stablehlo.convert(value, new.dtype)
        for value, old, new in zip(values, types, wanted, strict=True)
    ]
