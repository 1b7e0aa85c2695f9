"""Packs and spreads lists of tangents, cotangents and operands of which some are symbolic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.base.marked_lists import Flags, spread
from weft.core.rules import LinearOperand, Types, Zero


def nonzero_tangents(tangents: Iterable[Any]) -> tuple[Flags, list[Any]]:
    """Which tangents (or cotangents) are not a `Zero`, and these."""
    flags = tuple([type(t) is not Zero for t in tangents])
    return flags, [t for t in tangents if type(t) is not Zero]


def known_operands(operands: Sequence[Any]) -> tuple[Flags, list[Any]]:
    """Which operands of a transpose rule are linear, and the values of the others."""
    linear = tuple([type(x) is LinearOperand for x in operands])
    return linear, [x for x in operands if type(x) is not LinearOperand]


def merge_zeros(flags: Sequence[bool], values: Iterable[Any], types: Types) -> list[Any]:
    """The next value where a flag is set, a `Zero` of the type's tangent elsewhere."""
    given = iter(values)
    pairs = zip(flags, types, strict=True)
    return [next(given) if flag else Zero(type.tangent()) for flag, type in pairs]


def merge_cotangents(
    linear: Sequence[bool], reached: Sequence[bool], outs: Iterable[Any]
) -> list[Any]:
    """The cotangents of all operands: None unless linear and reached."""
    return spread(linear, spread(reached, outs))
