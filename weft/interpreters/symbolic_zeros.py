"""Lists of tangents and cotangents of which some are zero: packed, and spread out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.rules import Zero
from weft.core.types import ArrayType

__all__ = ["place_cotangents", "scatter"]


def scatter(flags: Sequence[bool], values: Sequence[Any], types: Sequence[ArrayType]) -> list[Any]:
    """The values in the places that are marked, zeros of the tangent types in the others."""
    given = iter(values)
    return [
        next(given) if flag else Zero(type.tangent())
        for flag, type in zip(flags, types, strict=True)
    ]


def place_cotangents(
    linear: Sequence[bool], reached: Sequence[bool], outs: Sequence[Any]
) -> list[Any]:
    """What a transposed program gave, one entry per operand: None for operands that are not linear
    and, among those that are, for the ones that no cotangent reaches."""
    values = iter(outs)
    found = iter([next(values) if flag else None for flag in reached])
    return [next(found) if flag else None for flag in linear]
