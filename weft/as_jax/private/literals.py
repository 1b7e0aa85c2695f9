"""`jax._src.literals`: classes of numbers with a dtype, which weft's values never are."""

from __future__ import annotations

from typing import Self

import numpy as np

__all__ = ["TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray"]


class TypedInt(int):
    """An int with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]

    def __new__(cls, value: int, dtype: np.dtype[np.generic]) -> Self:
        out = super().__new__(cls, value)
        out.dtype = np.dtype(dtype)
        return out


class TypedFloat(float):
    """A float with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]

    def __new__(cls, value: float, dtype: np.dtype[np.generic]) -> Self:
        out = super().__new__(cls, value)
        out.dtype = np.dtype(dtype)
        return out


class TypedComplex(complex):
    """A complex number with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]

    def __new__(cls, value: complex, dtype: np.dtype[np.generic]) -> Self:
        out = super().__new__(cls, value)
        out.dtype = np.dtype(dtype)
        return out


class TypedNdArray(np.ndarray):
    """A NumPy array with a dtype of its own: weft's are plain."""
