"""The geometric distribution: the number of trials up to the first success.

Probability (1 - p)^(k - 1) p of the integers k = 1, 2, … NaN where p is not between 0 (excluded)
and 1.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import inside, not_whole, valid, xlog1py

__all__ = ["logpmf", "pmf"]


def _log_probability(k: Any, p: Any, loc: Any) -> Any:
    x = k - loc
    out = (x < 1) | not_whole(x)
    found = xlog1py(inside(out, x, 1.0) - 1.0, -p) + jnp.log(p)
    return valid((p > 0) & (p <= 1), jnp.where(out, -jnp.inf, found))


@elementwise
def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k; minus infinity where that is 0.

    >>> logpmf(2, 0.3)
    Array(-1.5606477, dtype=float32, weak_type=True)
    """
    return _log_probability(k, p, loc)


@elementwise
def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(np.array([0, 1, 2]), 0.5)
    Array([0.  , 0.5 , 0.25], dtype=float32)
    """
    return jnp.exp(_log_probability(k, p, loc))
