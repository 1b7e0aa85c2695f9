"""`clip`: elements held between two bounds."""

from __future__ import annotations

from typing import Any

from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.arrays.conversion import scalar_array
from weft.core.types import ArrayType
from weft.dtypes import COMPLEX, FLOATING
from weft.errors import DTypeError, Fix
from weft.kinds.checks import check_arrays
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import as_operand, canonical_type
from weft.kinds.repeated import repeated
from weft.numpy.elementwise import maximum, minimum, same
from weft.ops.elementwise import arithmetic as lax
from weft.typing import ArrayLike

__all__ = ["clip"]


@compiled
def _between(x: Any, low: Any, high: Any) -> Any:
    return lax.min(high, lax.max(low, x))


@repeated
def clip(arr: ArrayLike, /, min: Any = None, max: Any = None) -> Array:
    """The elements held between two bounds, either of which may be None.

    arr: an array of real numbers; min, max: the bounds, numbers or arrays that broadcast with it.

    Where the bounds cross, the upper one holds. Raises DTypeError for complex numbers.

    >>> clip(np.array([1, 5, 9]), 2, 6)
    Array([2, 5, 6], dtype=int32)
    """
    if type(arr) is Array and arr.dtype in FLOATING and type(min) is type(max) is float:
        return _between(
            arr, *[scalar_array(bound, ArrayType((), arr.dtype)) for bound in (min, max)]
        )
    for value in (arr, min, max):
        if value is None:
            continue
        check_arrays("clip", value)
        of = canonical_type(value)
        if of.dtype in COMPLEX:
            message = "clip takes no complex numbers, which have no order"
            fix = Fix("real", "clip the real and the imaginary part on their own", {})
            raise refusal(DTypeError, message, "clip", str(of), "real numbers", fix)
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return same(as_operand("clip", arr))
