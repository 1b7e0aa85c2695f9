"""Slots for the residuals of a conditional's branches, of which only one runs.

Branches that are split into a first and a second part leave different residuals. They share
slots: as many of each type as the branch with the most of that type needs, so that the second
part knows where to find its own whichever branch ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from weft.core.types import ArrayType
from weft.ops.structural.extended_dtypes import KeyDType, physical_type, wrap_key_bits
from weft.ops.structural.tangents import zeros


def any_zeros(type: ArrayType) -> Any:
    """Zeros of any type, random keys included."""
    if isinstance(type.dtype, KeyDType):
        return wrap_key_bits(zeros(physical_type(type)), type.dtype)
    return zeros(type)


class ResidualSlots:
    """Common slots for the residuals of several branches, given the residual types of each."""

    __slots__ = ("index", "types")

    def __init__(self, branches: Sequence[Sequence[ArrayType]]) -> None:
        most: Counter[ArrayType] = Counter()
        for types in branches:
            most |= Counter(types)
        self.types: list[ArrayType] = [type for type, n in most.items() for _ in range(n)]
        first = {type: self.types.index(type) for type in most}
        self.index: list[list[int]] = []
        for types in branches:
            taken: Counter[ArrayType] = Counter()
            slots = []
            for type in types:
                slots.append(first[type] + taken[type])
                taken[type] += 1
            self.index.append(slots)

    def fill(self, branch: int, residuals: Sequence[Any]) -> list[Any]:
        """The residuals of one branch in their slots, zeros in the others."""
        values = dict(zip(self.index[branch], residuals, strict=True))
        return [values[i] if i in values else any_zeros(t) for i, t in enumerate(self.types)]

    def pick(self, branch: int, values: Sequence[Any]) -> list[Any]:
        """The residuals of one branch from all slots."""
        return [values[i] for i in self.index[branch]]
