"""`jax._src.numpy.util`: promoting arguments of functions of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp

__all__ = ["promote_dtypes", "promote_dtypes_complex", "promote_dtypes_inexact"]


def _converted(args: Any, *floor: Any) -> list[Any]:
    dtype = jnp.result_type(*args, *floor)
    return [jnp.asarray(x, dtype) for x in args]


def promote_dtypes(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype."""
    return _converted(args)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype, floating where that is an integer."""
    common = jnp.result_type(*args)
    inexact = jnp.issubdtype(common, np.inexact)
    return _converted(args) if inexact else _converted(args, 1.0)


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """The arguments as arrays of their common dtype, made complex."""
    return _converted(args, 1j)
