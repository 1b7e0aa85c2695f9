"""Numbers and NumPy arrays as arrays.

The arrays of numbers are cached: programs pass the same few numbers again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put
from weft.arrays.host_values import host_values
from weft.arrays.rounded_values import mark_rounded
from weft.arrays.transfers import guard
from weft.arrays.uncommitted import default_place
from weft.base.program_caches import BoundedCache
from weft.core.array_value import array_of_value, array_values
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import ArrayType, type_of
from weft.runtime import client

_NUMBERS = (bool, int, float, complex, np.generic)
_scalars = BoundedCache(512)
# The same arrays keyed by what costs a call least: the class of a Python number, and the settings.
_plain_numbers = BoundedCache(512)
_PLAIN = frozenset({bool, int, float})


def scalar_array(value: Any, type: ArrayType) -> Array:
    """A number as an array, cached: the same few numbers are used again and again."""
    # Equal numbers of one type are the same number, but for the sign of a zero: text tells those.
    key: Any = (type, value if value and type.dtype.kind != "c" else str(value))
    if config.operations_vary:
        key = (*key, default_place())
    if config.guarding:  # Also where the array is there already: it depends on what ran before.
        guard("host_to_device", type, None)
    found: Array | None = _scalars.get(key)
    if found is None or found.is_deleted():
        with np.errstate(all="ignore"):  # 1e300 in float32 is infinity
            found = put(np.asarray(value, type.dtype), type)
        if value.__class__ is float or value.__class__ is complex:
            mark_rounded(found)
        if value == value:  # NaN is no key
            _scalars[key] = found
            found._remembered = True
    return found


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
    found: Array | None = _plain_numbers.get(key)
    if found is None or client.backend().is_deleted(found._buffer):
        found = scalar_array(value, type_of(value))
        if value == value:
            _plain_numbers[key] = found
    return found


def own_array(value: Any) -> Array:
    """A number or NumPy array as an unshared array, which its user may delete or donate."""
    of = type_of(value)
    if not isinstance(value, _NUMBERS):
        return array_of(value, of)
    made = put(host_values(value, of), of)
    return mark_rounded(made) if type(value) in (float, complex) else made


def unchanged(operand: Any) -> Any:
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
