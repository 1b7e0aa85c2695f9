"""`jax._src.dtypes` and `jax._src.typing`: names for dtypes in annotations, and one error."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from weft import dtypes
from weft.errors import DTypeError as TypePromotionError
from weft.numpy import finfo as finfo
from weft.numpy import iinfo as iinfo
from weft.numpy import issubdtype as issubdtype

__all__ = [
    "DType", "DTypeLike", "ExtendedDType", "Shape", "SupportsDType", "TypePromotionError",
    "finfo", "iinfo", "issubdtype", "supports_inf", "to_complex_dtype",
]  # fmt: skip

DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]
SupportsDType: TypeAlias = Any


class ExtendedDType:
    """The class from which programs derive dtypes of their own; arrays of weft never have one."""


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype whose parts are of a dtype."""
    return dtypes.canonical(np.result_type(dtype, np.complex64))


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype has a number for infinity."""
    found = dtypes.parse(dtype)
    return bool(issubdtype(found, np.inexact) and np.isinf(np.asarray(np.inf).astype(found)))
