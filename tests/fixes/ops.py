"""Fixes of the operations."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from fixes import Fixed
from weft.errors import ShapeError

A = np.arange(12, dtype=np.float32).reshape(3, 4)

FIXES = [
    Fixed(
        "x @ y.T",
        wrong=lambda: jnp.asarray(A) @ jnp.asarray(A),
        fixed=lambda fix: jnp.asarray(A) @ jnp.asarray(A).T,
        value=A @ A.T,
        error=ShapeError,
    )
]
