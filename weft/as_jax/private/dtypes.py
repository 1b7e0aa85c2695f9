"""`jax._src.dtypes` and `jax._src.typing`: names for dtypes in annotations, and one error."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from weft import dtypes
from weft.errors import DTypeError as TypePromotionError

__all__ = [
    "DType", "DTypeLike", "ExtendedDType", "Shape", "SupportsDType", "TypePromotionError",
    "to_complex_dtype",
]  # fmt: skip

DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]
SupportsDType: TypeAlias = Any


class ExtendedDType:
    """A base class for dtypes of a library's own; weft makes no arrays of them."""


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype whose parts are of a dtype."""
    return dtypes.canonical(np.result_type(dtype, np.complex64))
