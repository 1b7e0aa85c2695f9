"""The negative binomial distribution: failures before the n-th success.

Probability comb(k + n - 1, k) p^n (1 - p)^k of the integers k = 0, 1, … NaN where n is not
positive or p is not between 0 (excluded) and 1.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.array import Array
from weft.scipy.elementwise import elementwise
from weft.scipy.stats.families import (
    betaln,
    from_large,
    inside,
    large_binomial,
    not_whole,
    valid,
    xlog1py,
)

__all__ = ["logpmf", "pmf"]


def _few(n: Any, x: Any, p: Any) -> Any:
    log_comb = -betaln(n, x + 1.0) - jnp.log(n + x)
    return log_comb + n * jnp.log(p) + xlog1py(x, -p)


def _many(n: Any, x: Any, p: Any) -> Any:
    return large_binomial(n, x, p) + jnp.log(n / (n + x))


def _log_probability(k: Any, n: Any, p: Any, loc: Any) -> Any:
    x = k - loc
    good = (n > 0) & (p > 0) & (p <= 1)
    out = (x < 0) | not_whole(x)
    safe, count = inside(out, x, 0.0), inside(n <= 0, n, 1.0)
    found = from_large(_many, _few, (count, safe), p)
    return valid(good, jnp.where(out, -jnp.inf, found))


@elementwise
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k; minus infinity where that is 0.

    >>> logpmf(2, 3.0, 0.4)
    Array(-1.9787636, dtype=float32, weak_type=True)
    """
    return _log_probability(k, n, p, loc)


@elementwise
def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(np.array([-1, 0]), 1, 0.5)
    Array([0. , 0.5], dtype=float32)
    """
    return jnp.exp(_log_probability(k, n, p, loc))
