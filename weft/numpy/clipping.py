"""`clip`: elements held between two bounds."""

from __future__ import annotations

from typing import Any

from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.dtypes import BOOLEAN, COMPLEX, REAL
from weft.errors import DTypeError, Fix
from weft.kinds.array_function import array_function
from weft.numpy.elementwise import same
from weft.numpy.promotion import Prepared, several
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.typing import ArrayLike

__all__ = ["clip"]


def _no_order(*values: Any) -> Any:
    message = "clip takes no complex numbers, which have no order"
    fix = Fix("real", "clip the real and the imaginary part on their own", {})
    raise refusal(DTypeError, message, "clip", str(type_of(values[0])), "real numbers", fix)


def _held(hold: Any) -> Any:
    return several("clip", {REAL | BOOLEAN: hold, COMPLEX: _no_order})


@array_function
def _between(x: Prepared, low: Prepared, high: Prepared) -> Any:
    return smaller(high, larger(low, x))


_within_both = _held(_between)
_above = _held(lambda x, low: larger(low, x))
_below = _held(lambda x, high: smaller(high, x))
_anywhere = _held(same)


def clip(arr: ArrayLike, /, min: Any = None, max: Any = None) -> Array:
    """The elements held between two bounds, either of which may be None.

    arr: an array of real numbers; min, max: the bounds, numbers or arrays that broadcast with it.

    Where the bounds cross, the upper one holds. Raises DTypeError for complex numbers.

    >>> clip(np.array([1, 5, 9]), 2, 6)
    Array([2, 5, 6], dtype=int32)
    """
    if min is None:
        return _anywhere(arr) if max is None else _below(arr, max)
    return _above(arr, min) if max is None else _within_both(arr, min, max)
