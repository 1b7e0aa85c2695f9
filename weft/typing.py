"""Names for annotations of programs that use weft: what is an array, and what serves as one.

`Array` is also the class that `isinstance` knows: arrays and the traced values that stand for them
in a transformed function are instances of it.

>>> from weft.typing import Array, ArrayLike
>>> def scaled(x: ArrayLike, factor: float = 2.0) -> Array:
...     return jnp.asarray(x) * factor
>>> weft.jit(scaled)(3.0)
Array(6., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Never, Protocol, TypeAlias

import numpy as np

from weft.arrays.array import Array

__all__ = ["Array", "ArrayLike", "DTypeLike"]


class SupportsWeftArray(Protocol):
    """A value that stands for an array: what it stands for is what the method answers with."""

    def __weft_array__(self) -> Any:
        """The array."""


class SupportsDType(Protocol):
    """A value that says its dtype, as arrays do and the scalar types of `weft.numpy`."""

    @property
    def dtype(self) -> Any:
        """The dtype."""


# Lists are no arrays: functions of arrays refuse them, and `weft.numpy.asarray` takes them.
ArrayLike: TypeAlias = (
    Array
    | SupportsWeftArray
    | np.ndarray[Any, Any]
    | np.bool_
    | np.number[Any]
    | bool
    | int
    | float
    | complex
)

DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any] | SupportsDType

# What a checker knows to be a tree of arrays: lists, tuples (named ones too) and dicts of arrays.
# Dataclasses are trees only where a program registers them, which no checker sees.
TreeOfArrays: TypeAlias = "Array | None | Sequence[TreeOfArrays] | Mapping[Any, TreeOfArrays]"

# A tree with leaves of which nothing is known: only `Any` serves as what no value is.
TreeOfAny: TypeAlias = "Never | Sequence[TreeOfAny] | Mapping[Any, TreeOfAny]"
