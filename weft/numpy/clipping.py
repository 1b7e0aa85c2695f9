"""`clip`: elements held between two bounds."""

from __future__ import annotations

from typing import Any

from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.dtypes import COMPLEX
from weft.errors import DTypeError, Fix
from weft.kinds.arguments import Promoted
from weft.kinds.array_function import array_function
from weft.numpy.elementwise import maximum, minimum

__all__ = ["clip"]


@array_function
def clip(arr: Promoted, /, min: Promoted | None = None, max: Promoted | None = None) -> Array:
    """The elements held between two bounds, either of which may be None.

    arr: an array of real numbers; min, max: the bounds, numbers or arrays that broadcast with it.

    Where the bounds cross, the upper one holds. Raises DTypeError for complex numbers.

    >>> clip(np.array([1, 5, 9]), 2, 6)
    Array([2, 5, 6], dtype=int32)
    """
    if arr.dtype in COMPLEX:
        message = "clip takes no complex numbers, which have no order"
        fix = Fix("real", "clip the real and the imaginary part on their own", {})
        raise refusal(DTypeError, message, "clip", str(arr.type), "real numbers", fix)
    held: Any = arr if min is None else maximum(min, arr)
    return held if max is None else minimum(max, held)
