"""Blocks at computed positions, as modules read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.runtime import stablehlo


def moving(shape: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """The dimensions in which a block has room to move."""
    return tuple(d for d, (n, s) in enumerate(zip(shape, sizes, strict=True)) if s < n)


def clamp_positions(
    starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int], dtype: Any
) -> list[Any]:
    """The positions, clamped so that the block is inside the array."""
    first = stablehlo.constant(0, (), dtype)
    return [
        stablehlo.clamp(first, start, stablehlo.constant(length - size, (), dtype))
        for start, length, size in zip(starts, shape, sizes, strict=True)
    ]


def write_block(
    context: Any,
    operand: Any,
    update: Any,
    starts: Sequence[Any],
    shape: Sequence[int],
    sizes: Sequence[int],
) -> Any:
    """The operand with a block of the given sizes written at positions inside it."""
    devices = context.module.devices_to_split_over()
    # XLA's partitioner does not compile an update of more than a device has of the array. Where the
    # update is whole as well, it takes the shape of the one for that of the other.
    whole = [d for d in moving(shape, sizes) if sizes[d] * devices > shape[d]]
    if devices > 1 and whole:
        operand = context.module.with_whole(operand, whole)
    return stablehlo.dynamic_update_slice(operand, update, starts)
