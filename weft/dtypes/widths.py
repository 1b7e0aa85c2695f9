"""The widths that values without a dtype take, and the numbers that fit in a dtype."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import ml_dtypes
import numpy as np

from weft import config
from weft.dtypes.dtype_kinds import (
    DType,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    is_boolean,
    is_inexact,
    is_integer,
    uint32,
    uint64,
)
from weft.errors import Fix, WeftOverflowError, with_operation


def default_int() -> np.dtype[Any]:
    """The dtype of an integer that asks for no width: int32, or int64 with `enable_x64`."""
    return int64 if config.settings().enable_x64 else int32


def default_uint() -> np.dtype[Any]:
    """The dtype of an unsigned integer that asks for no width."""
    return uint64 if config.settings().enable_x64 else uint32


def default_float() -> np.dtype[Any]:
    """The dtype of a real number that asks for no width: float32, or float64 with `enable_x64`."""
    return float64 if config.settings().enable_x64 else float32


def default_complex() -> np.dtype[Any]:
    """The dtype of a complex number that asks for no width."""
    return complex128 if config.settings().enable_x64 else complex64


HALVED: dict[Any, np.dtype[Any]] = {
    int64: int32,
    uint64: uint32,
    float64: float32,
    complex128: complex64,
}


def canonical(dtype: DType) -> DType:
    """The dtype of a value without an explicit one, such as a NumPy array passed in.

    Narrows 64-bit types to 32 bits unless `enable_x64` is set, and keeps all others. A NumPy dtype
    of the other byte order becomes the machine's.
    """
    if not getattr(dtype, "isnative", True):
        dtype = dtype.newbyteorder("=")
    return dtype if config.settings().enable_x64 else HALVED.get(dtype, dtype)


@functools.cache
def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    info = ml_dtypes.iinfo(dtype)  # making one takes longer than all the rest of `fits`
    return int(info.min), int(info.max)


def fits(value: int, dtype: DType) -> bool:
    """Whether a Python integer has a value in `dtype` (for inexact dtypes: a finite one).

    >>> fits(127, np.dtype("int8")), fits(128, np.dtype("int8")), fits(-1, uint64)
    (True, False, False)
    """
    if is_integer(dtype):
        low, high = limits(dtype)
        return low <= value <= high
    if is_boolean(dtype):
        return value in (0, 1)
    if not is_inexact(dtype):
        return False
    try:
        with np.errstate(over="ignore"):
            # Rounding decides at the edge, and only the dtype itself knows how it rounds.
            return math.isfinite(abs(complex(np.asarray(float(value)).astype(dtype))))
    except OverflowError:
        return False


def keeps_low_bits(*values: int) -> bool:
    """Whether integers that do not fit in a dtype lose their high bits there; else they are errors.

    They do with the setting `dtype_rule="jax"`. Python integers, which `values` are, have to fit in
    the default width nevertheless.
    """
    if config.settings().dtype_rule == "weft":
        return False
    width = default_int()
    return all(fits(value, width) for value in values)


def low_bits(value: int, dtype: DType) -> Any:
    """An integer as a NumPy scalar of an integer dtype, which keeps its lowest bits.

    >>> int(low_bits(300, np.dtype("uint8"))), int(low_bits(200, np.dtype("int8")))
    (44, -56)
    """
    low, high = limits(dtype)
    return dtype.type((value - low) % (high - low + 1) + low)


# Whose dtype a number does not fit in: that of an operand beside it, one that the user asked for,
# or the one that it has as a value of its own.
Width = Literal["operand", "dtype", "value"]
_FIXES = {
    "operand": "convert what it meets to a dtype that holds it, for example x.astype({dtype!r})",
    "dtype": "ask for a dtype that holds it, for example dtype={dtype!r}",
    "value": "give it a wider dtype, jnp.asarray({value}, {dtype!r}), or set enable_x64",
}


def number(value: Any, dtype: DType, width_of: Width = "operand", operation: str = "") -> Any:
    """A Python number or NumPy scalar as a NumPy scalar of `dtype`.

    Raises WeftOverflowError for an integer that does not fit, unless integers keep their low bits.
    A real number beyond the dtype is infinity there.

    operation: what the error names, where no boundary does.
    """
    if is_integer(dtype) and not fits(value, dtype):
        if keeps_low_bits(*(() if isinstance(value, np.generic) else (value,))):
            return low_bits(int(value), dtype)
        raise does_not_fit(value, dtype, width_of, operation)
    try:
        with np.errstate(all="ignore"):
            return dtype.type(value)
    except OverflowError:  # An integer beyond every float64.
        raise does_not_fit(value, dtype, width_of, operation) from None


def does_not_fit(
    value: Any, dtype: DType, width_of: Width = "operand", operation: str = ""
) -> WeftOverflowError:
    """The error for a number that does not fit in a dtype."""
    whole = isinstance(value, (int, np.integer))
    owner = value.dtype.name if isinstance(value, np.generic) else "Python"
    bits = int(value).bit_length() if whole else 0
    # Python refuses to show an integer of more than some thousand digits.
    shown = str(value) if bits <= 256 else f"of {bits} bits"
    candidates = (int32, int64, uint64, float32, float64)
    wide = next((other.name for other in candidates if fits(value, other)), None)
    data = {"value": shown, "dtype": wide}
    fix = None if wide is None else Fix("wider_dtype", _FIXES[width_of].format(**data), data)
    message = f"the {owner} {'integer' if whole else 'number'} {shown} does not fit in {dtype.name}"
    return WeftOverflowError(
        with_operation(operation, message),
        operation=operation,
        got=shown,
        wanted="{} to {}".format(*limits(dtype)) if is_integer(dtype) else "a finite number",
        fix=fix,
    )
