"""`jax._src.literals`: classes of numbers with a dtype, which weft's values never are."""

from __future__ import annotations

import numpy as np

__all__ = ["TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray"]


class TypedInt(int):
    """An int with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]


class TypedFloat(float):
    """A float with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]


class TypedComplex(complex):
    """A complex number with a dtype: weft's numbers are plain."""

    dtype: np.dtype[np.generic]


class TypedNdArray(np.ndarray):
    """A NumPy array with a dtype of its own: weft's are plain."""
