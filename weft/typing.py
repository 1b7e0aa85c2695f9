"""Types for annotations of programs that use weft: arrays, and values that serve as arrays.

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
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias, runtime_checkable

import numpy as np

from weft.arrays.array import Array
from weft.base.facades import public_names

__all__ = ["Array", "ArrayLike", "DTypeLike"]

__dir__ = public_names(globals())


@runtime_checkable
class SupportsWeftArray(Protocol):
    """A value that stands for the array that the method returns."""

    def __weft_array__(self) -> Any:
        """The array."""


class SupportsDType(Protocol):
    """A value with a dtype, as arrays and the scalar types of `weft.numpy`."""

    @property
    def dtype(self) -> Any:
        """The dtype."""


if TYPE_CHECKING:
    _NumPyArray: TypeAlias = np.ndarray[Any, Any]
    _NumPyNumber: TypeAlias = np.number[Any]
else:  # Plain classes: programs that check annotations at run time understand no others.
    _NumPyArray, _NumPyNumber = np.ndarray, np.number

# Without lists: functions of arrays refuse them, and `weft.numpy.asarray` takes them.
ArrayLike: TypeAlias = (
    Array | SupportsWeftArray | _NumPyArray | np.bool_ | _NumPyNumber | bool | int | float | complex
)

DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any] | SupportsDType

# The trees of arrays that a checker knows: lists, tuples (named ones too) and dicts of arrays.
# Dataclasses are trees only where a program registers them, which no checker sees.
TreeOfArrays: TypeAlias = "Array | None | Sequence[TreeOfArrays] | Mapping[Any, TreeOfArrays]"

# A tree with leaves of any type: `Never` in the place of the leaf, which only `Any` fits.
TreeOfAny: TypeAlias = "Never | Sequence[TreeOfAny] | Mapping[Any, TreeOfAny]"
