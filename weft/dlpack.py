"""Sharing the memory of arrays with other libraries, by DLPack (https://dmlc.github.io/dlpack)."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.base.facades import public_names
from weft.numpy.creation import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]

__dir__ = public_names(globals())

_NAMES = """
bool bfloat16 float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16
uint32 uint64
""".split()


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be shared: one of 8 bits or more that NumPy or others have.

    Args:
        dtype: A dtype, or its name.

    >>> import weft.dlpack
    >>> weft.dlpack.is_supported_dtype("bfloat16"), weft.dlpack.is_supported_dtype("int4")
    (True, False)
    """
    found = dtypes.parse(dtype)
    return getattr(found, "name", None) in _NAMES
