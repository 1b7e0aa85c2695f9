"""The types of arrays whose shapes have symbolic dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from weft import dtypes
from weft.core.types import ArrayType
from weft.export.symbolic_dimensions import SymbolicDimension, value_of

# The size of each variable.
Values = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class SymbolicType:
    """The type of an array whose shape may have symbolic dimensions."""

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def at(self, values: Values) -> ArrayType:
        """The type for certain sizes."""
        return ArrayType([value_of(n, values) for n in self.shape], self.dtype, self.weak_type)

    def tangent(self) -> SymbolicType:
        """The type of a tangent."""
        return dataclasses.replace(self, dtype=dtypes.tangent_dtype(self.dtype))

    def __str__(self) -> str:
        return f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__


def variables_of(dimensions: Sequence[Any]) -> list[str]:
    """The variables of dimensions, in the order in which they appear."""
    found: dict[str, None] = {}
    for dimension in dimensions:
        if isinstance(dimension, SymbolicDimension):
            for monomial, _ in dimension.terms:
                for factor, _ in monomial:
                    inner = [factor[1], factor[2]] if not isinstance(factor, str) else []
                    names = [factor] if isinstance(factor, str) else variables_of(inner)
                    found.update(dict.fromkeys(names))
    return list(found)
