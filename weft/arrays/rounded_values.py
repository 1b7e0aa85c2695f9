"""Which arrays hold values that a user gave in 64 bits and that were rounded to 32, unasked.

What asks for no dtype gets the default width. That is what a program wants that computes in 32 bits
throughout; one that computes in float64 loses half of the digits where such a value enters. So an
array that was made of 64-bit values, or computed from numbers alone, is marked; and where it is
promoted to float64, one warning a line says so, if it has indeed lost something. Arrays that are
computed from it remember nothing: they have 32 bits because an operation of 32 bits made them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.base import source as sources

WIDE = frozenset({dtypes.float64, dtypes.complex128})
HALVED = frozenset({dtypes.float32, dtypes.complex64})
_nothing: Any = lambda: None  # noqa: E731 - stands for the reference to an array that is gone
# The lines that were warned of.
_warned: set[Any] = set()
# Python numbers and short results of arithmetic rarely have zeros in the lowest bits of float32.
_LOWEST = np.uint32(0xFF)


def mark_rounded(made: Any, given: Any = None) -> Any:
    """Marks and returns an array of 32-bit floats that was made of the NumPy array `given`."""
    if type(made) is Array and made.type.dtype in HALVED:
        made._rounding = _nothing if given is None else weakref.ref(given)
    return made


def unmark_rounded(x: Any) -> Any:
    """Unmarks an array, whose dtype its user has now requested; returns it."""
    if type(x) is Array and getattr(x, "_rounding", None) is not None:
        x._rounding = None
    return x


def lost_digits(value: Any) -> Any:
    """An element of a value that was rounded to 32 bits; None if no digits were lost.

    value: An operand of 32 bits, or a tracer around one.
    """
    while (inner := getattr(value, "value", getattr(value, "primal", None))) is not None:
        value = inner  # What `vmap` and `jvp` know of a tracer.
    if isinstance(value, (np.ndarray, np.generic, float, complex)):
        given = np.asarray(value)
        if given.dtype not in WIDE:
            return None
        return _first(given.astype(np.complex64 if given.dtype.kind == "c" else np.float32), given)
    found = getattr(value, "_rounding", None)
    if type(value) is not Array or found is None or value.is_deleted():
        return None
    values = np.asarray(value._value())
    given = found()
    return _first(values, given if given is not None and given.shape == values.shape else None)


def _first(values: np.ndarray[Any, Any], given: Any) -> Any:
    """The first of the values that is not as given; if that is gone, the first with bits to the
    end."""
    if given is not None and given.dtype in WIDE:
        with np.errstate(all="ignore"):
            differs = (values.astype(given.dtype) != given) & (given == given)
    else:
        parts = np.atleast_1d(values).view(np.float32)
        bits = (parts.view(np.uint32) & _LOWEST) != 0
        differs = (bits & np.isfinite(parts)).reshape((*np.shape(values), -1)).any(-1)
    return values[differs].flat[0] if differs.any() else None


def warn_once(text: str, source: sources.Source | None) -> None:
    """Warns at a line, if it has not been warned of yet."""
    place = sources.locate(source)
    line = None if place is None else (place.file, place.line)
    if line not in _warned:
        sources.warn_at(text, source)  # which may raise, as a filter says
        _warned.add(line)
