"""The Laplace distribution.

Density exp(-|y|) / 2 with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import inside, standard, valid

__all__ = ["cdf", "logpdf", "pdf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    return valid(scale > 0, -jnp.abs(y) - math.log(2) - jnp.log(scale))


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(-1.1931472, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.30326533, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    y = standard(x, loc, scale)
    below = 0.5 * jnp.exp(inside(y > 0, y, 0.0))
    above = 1.0 - 0.5 * jnp.exp(-inside(y <= 0, y, 0.0))
    return valid(scale > 0, jnp.where(y > 0, above, below))
