"""Numbers and NumPy arrays as arrays, and checks of their values.

The arrays of numbers are cached: programs pass the same few numbers again and again.

What asks for no dtype gets the default width. That is what a program wants that computes in 32 bits
throughout; one that computes in float64 loses half of the digits where such a value enters. So an
array that was made of 64-bit values, or computed from numbers alone, is marked; and where it is
promoted to float64, one warning a line says so, if it has indeed lost something. Arrays that are
computed from it remember nothing: they have 32 bits because an operation of 32 bits made them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put
from weft.arrays.host_values import host_values
from weft.arrays.transfers import default_place, guard
from weft.base import source as sources
from weft.base.program_caches import BoundedCache
from weft.core.array_value import array_of_value, array_values
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import ArrayType, type_of
from weft.runtime import client
from weft.sharding import Sharding

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


_NUMBERS = (bool, int, float, complex, np.generic)
_scalars = BoundedCache(512)
# The same arrays keyed by what costs a call least: the class of a Python number, and the settings.
_plain_numbers = BoundedCache(512)
_PLAIN = frozenset({bool, int, float})


def scalar_array(value: Any, type: ArrayType) -> Array:
    """A number as an array, cached: the same few numbers are used again and again."""
    # Equal numbers of one type are the same number, but for the sign of a zero: text tells those.
    key: Any = (type, value if value and type.dtype.kind != "c" else str(value))
    if config.settings_in_keys:
        key = (*key, default_place())
    if config.guarding:  # Also where the array is there already: it depends on what ran before.
        guard("host_to_device", type, None)
    out: Array | None = _scalars.get(key)
    if out is None or out.is_deleted():
        out = put(np.asarray(dtypes.number(value, type.dtype)), type)
        if value.__class__ is float or value.__class__ is complex:
            mark_rounded(out)
        if value == value:  # NaN is no key
            _scalars[key] = out
            out._remembered = True
    return out


def donatable(value: Any, type: ArrayType) -> Array:
    """An array whose buffer an executable may take: a copy of one that is cached for a number.

    value: The value that is passed for a donated argument.
    """
    array = array_of(value, type) if not isinstance(value, Array) else value
    if not array.type.shape and getattr(array, "_remembered", False):
        return put(np.array(array._value()), array.type)
    return array


def as_array(value: Any) -> Array:
    """Any number or NumPy array as an array on the default device; arrays are returned as they are.

    Raises WeftTypeError for anything that is not an array.

    value: A number, a NumPy array or an array of weft.
    """
    if type(value) is Array:
        return value
    if type(value) not in _PLAIN or config.guarding:
        return array_of(value, type_of(value))
    key = (type(value), value if value else str(value), config.settings())
    out: Array | None = _plain_numbers.get(key)
    if out is None or client.backend().is_deleted(out._buffer):
        out = scalar_array(value, type_of(value))
        if value == value:
            _plain_numbers[key] = out
    return out


def own_array(value: Any) -> Array:
    """A number or NumPy array as an unshared array, which its user may delete or donate."""
    of = type_of(value)
    if not isinstance(value, _NUMBERS):
        return array_of(value, of)
    made = put(host_values(value, of), of)
    return mark_rounded(made) if type(value) in (float, complex) else made


def pass_through(operand: Any) -> Any:
    """The result of an operation with nothing to do: the operand, of NumPy's an array. A traced
    number stays one, so that programs hold it and not an array of it."""
    if isinstance(operand, _NUMBERS):
        return operand if current_trace() is not bottom_trace() else as_array(operand)
    plain = isinstance(operand, np.ndarray) and operand.dtype != dtypes.float0
    return as_array(operand) if plain else operand


def array_of(value: Any, of: ArrayType) -> Array:
    """A number or NumPy array as an array of the type that `type_of` says it has.

    value: A number or a NumPy array. of: Its type.
    """
    if isinstance(value, _NUMBERS):
        return scalar_array(value, of)
    if type(value) in array_values:
        return as_array(array_of_value(value))
    array = host_values(value, of)
    made = put(array, of, copy=array is value)
    wide = array is not value and isinstance(value, np.ndarray) and value.dtype.itemsize > 4
    return mark_rounded(made, value) if wide else made


def check_same(stored: Callable[[], np.ndarray[Any, Any]], name: str, place: Any) -> None:
    """Waits for the other processes with devices of `place` to put values there; `stored` returns
    this one's.

    Raises DistributedError if the values differ: the array would differ between processes. It reads
    the values once, and takes one answer of the coordinator.
    """
    group = client.group()
    if group is None or not isinstance(place, Sharding) or place.is_fully_addressable:
        return
    values = stored()
    digest = hashlib.blake2b(np.ascontiguousarray(values).view(np.uint8).data, digest_size=16)
    digest.update(f"{values.dtype} {values.shape} {place}".encode())
    processes = sorted({device.process_index for device in place.device_list})
    group.watcher.agree_values(digest.hexdigest(), name, processes)
