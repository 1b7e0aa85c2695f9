"""The Laplace distribution.

Density exp(-|y|) / 2 with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.stats.distributions import Family, in_standard, inside, standard, valid

__all__ = ["cdf", "logpdf", "pdf"]

_family = Family(
    __name__,
    """
    >>> logpdf(0.5)
    Array(-1.1931472, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.30326533, dtype=float32, weak_type=True)
    >>> cdf(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """,
)


def _log_density(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    y = standard(x, loc, scale)
    return valid(scale > 0, -jnp.abs(y) - math.log(2) - jnp.log(scale))


def _below(y: Any) -> Any:
    below = 0.5 * jnp.exp(inside(y > 0, y, 0.0))
    above = 1.0 - 0.5 * jnp.exp(-inside(y <= 0, y, 0.0))
    return jnp.where(y > 0, above, below)


logpdf = _family.function("logpdf", _log_density)
pdf = _family.function("pdf", _log_density, jnp.exp)
cdf = _family.function("cdf", in_standard(_below))
