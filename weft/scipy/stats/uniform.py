"""The uniform distribution on loc … loc + scale.

Density 1 / scale there. NaN where the scale is not positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import probability, standard, valid

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    found = jnp.where((y < 0) | (y > 1), -jnp.inf, -jnp.log(scale) + 0.0 * y)
    return valid(scale > 0, found)


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(np.array([-0.5, 0.5]))
    Array([0., 1.], dtype=float32)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, jnp.clip(standard(x, loc, scale), 0.0, 1.0))


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is q. NaN for q outside of 0 to 1.

    >>> ppf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, probability(q, q * scale + loc))
