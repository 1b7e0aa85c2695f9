"""An array stored as 8-bit integers and scales: a quarter of the memory of float32.

`Quantised` stands for the product of its integers and its scales. weft asks for that product only
where an operation is applied, so inside of a compiled program it is computed where it is used and
is not kept. Scaling by a number changes the scales alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import weft
import weft.numpy as jnp
from weft.extend.core import ArrayType, ArrayValue

__all__ = ["Quantised", "quantise"]

LARGEST = 127


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Quantised(ArrayValue):
    """`values * scale`: values of dtype int8, a scale that broadcasts against them.

    The dtype is that of the scale. A tree of two leaves, so that functions of it can be compiled
    and mapped; differentiate with respect to `scale`, since integers have no derivative.
    """

    values: Any
    scale: Any

    def __weft_array__(self) -> Any:
        return jnp.multiply(self.values.astype(self.scale.dtype), self.scale)

    @property
    def type(self) -> ArrayType:  # type: ignore[override]
        return ArrayType(self.values.shape, self.scale.dtype, varying=self.varying())

    def varying(self) -> frozenset[str]:
        """The mesh axes along which the product varies: those of either part."""
        return self.values.type.varying | self.scale.type.varying

    def rescaled(self, factor: Any) -> Quantised:
        """The array times a number, without touching the integers."""
        return Quantised(self.values, self.scale * factor)

    def __repr__(self) -> str:
        return f"Quantised({self.values!r}, scale={self.scale!r})"


weft.tree_util.register_dataclass(Quantised, data_fields=["values", "scale"], meta_fields=[])


def quantise(x: Any, axis: int | tuple[int, ...] | None = None) -> Quantised:
    """The nearest quantised array: one scale for all elements, or one for each slice along `axis`
    (over which the largest magnitude is taken). The error of an element is at most half its scale.

    x: an array of a floating-point dtype. Raises TypeError for another dtype.

    >>> q = quantise(jnp.array([0.5, -1.0, 0.25]))
    >>> q.values
    Array([  64, -127,   32], dtype=int8)
    >>> q * 127 + 1
    Array([  65., -126.,   33.], dtype=float32)
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"quantise takes an array of a floating-point dtype, not {x.dtype}")
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=axis is not None)
    scale = jnp.where(largest > 0, largest, 1) / LARGEST
    return Quantised(jnp.round(x / scale).astype("int8"), scale)
