"""`jax._src.numpy.util`: promoting arguments of functions of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp

__all__ = ["promote_dtypes", "promote_dtypes_complex", "promote_dtypes_inexact"]


def _convert(args: Any, *floor: Any) -> list[Any]:
    dtype = jnp.result_type(*args, *floor)
    return [jnp.asarray(x, dtype) for x in args]


def promote_dtypes(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype."""
    return _convert(args)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype, floating where that is an integer."""
    inexact = jnp.issubdtype(jnp.result_type(*args), np.inexact)
    return _convert(args) if inexact else _convert(args, 1.0)


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype, made complex."""
    return _convert(args, 1j)
