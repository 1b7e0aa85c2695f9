"""Numbers and NumPy arrays as NumPy arrays of the dtype that an array of theirs has."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import config, dtypes
from weft.core.rules import LinearOperand, not_linear
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType
from weft.errors import WeftTypeError

_NUMBERS = (bool, int, float, complex, np.generic)


def host_values(value: Any, of: ArrayType) -> np.ndarray[Any, Any]:
    """A number or NumPy array as a NumPy array of the dtype of `type_of`; itself if it has that.
    Raises OverflowError for an integer that does not fit, and WeftTypeError for a type without
    values."""
    if isinstance(value, np.ndarray) and value.dtype == of.dtype:
        return value
    if isinstance(value, LinearOperand):
        raise not_linear(value)
    if isinstance(value, ShapeDtypeStruct):
        wanted = "an array, a NumPy array, or a Python number"
        raise WeftTypeError(
            "a ShapeDtypeStruct has no values", operation=None, got=repr(value), wanted=wanted
        )
    if isinstance(value, _NUMBERS):
        with np.errstate(all="ignore"):  # 1e300 in float32 is infinity
            return np.asarray(value, of.dtype)
    return _narrow(np.asarray(value), of.dtype)


def cast_values(value: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """A NumPy array in another dtype, converted as `convert_element_type` does.

    Complex numbers lose their imaginary part in a real dtype; booleans say what is not zero; a
    number beyond the range of an integer dtype becomes its nearest end, and NaN zero, which NumPy
    leaves to the processor. Integers keep their low bits.
    """
    if value.dtype == dtype:
        return value
    kind = value.dtype.kind
    with np.errstate(all="ignore"):
        if dtype == np.bool_:
            return value != 0
        if kind == "c" and dtype not in dtypes.COMPLEX:
            value, kind = value.real, "f"
        as_numpy = config.settings().dtype_rule == "jax"  # JAX leaves it to NumPy
        if kind not in "fV" or dtype not in dtypes.INTEGER or as_numpy:
            return value.astype(dtype)
        info = np.iinfo(dtype)
        whole = np.trunc(value.astype(np.float64))
        high, low = whole >= float(info.max) + (dtype.itemsize < 8), whole < float(info.min)
        out = np.where(high | low | np.isnan(whole), 0, whole).astype(dtype)
        out[high], out[low] = info.max, info.min
        return out


def _narrow(value: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """A NumPy array in the default width. Raises OverflowError for an integer that does not fit."""
    if dtype.kind in "iu" and value.size and not dtypes.keeps_low_bits():
        low, high = dtypes.limits(dtype)
        for end in (value.min(), value.max()):
            if not low <= end <= high:
                raise dtypes.does_not_fit(end, dtype, "value")
    with np.errstate(over="ignore"):  # 1e300 in float32 is infinity
        return value.astype(dtype)
