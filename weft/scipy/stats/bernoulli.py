"""The Bernoulli distribution: 1 with probability p, else 0.

NaN where p is not from 0 to 1.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import valid

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


def _log_probability(k: Any, p: Any, loc: Any) -> Any:
    x = k - loc
    nothing = jnp.where(jnp.isnan(x), x, -jnp.inf)
    found = jnp.where(x == 0, jnp.log1p(-p), jnp.where(x == 1, jnp.log(p), nothing))
    return _checked(p, found)


def _checked(p: Any, value: Any) -> Any:
    return valid((p >= 0) & (p <= 1), value)


@elementwise
def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k; minus infinity where that is 0.

    >>> logpmf(1, 0.3)
    Array(-1.2039728, dtype=float32, weak_type=True)
    """
    return _log_probability(k, p, loc)


@elementwise
def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(np.array([0, 1, 2]), 0.25)
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """
    return jnp.exp(_log_probability(k, p, loc))


@elementwise
def cdf(k: Any, p: Any) -> Array:
    """The probability of at most k.

    >>> cdf(1, 0.3)
    Array(1., dtype=float32, weak_type=True)
    """
    whole = jnp.where(jnp.isnan(k), k, 1.0)
    return _checked(p, jnp.where(k < 0, 0.0, jnp.where(k < 1, 1.0 - p, whole)))


@elementwise
def ppf(q: Any, p: Any) -> Array:
    """The quantile: where the distribution function is q. NaN for q outside of 0 to 1.

    >>> ppf(0.25, 0.3)
    Array(0., dtype=float32, weak_type=True)
    """
    return valid((q >= 0) & (q <= 1), _checked(p, jnp.where(q <= 1.0 - p, 0.0, 1.0)))
