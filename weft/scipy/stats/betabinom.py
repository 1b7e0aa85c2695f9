"""The beta-binomial distribution: binomial with a probability from a beta distribution.

Probability comb(n, k) B(k + a, n - k + b) / B(a, b) of the integers k = 0 … n. NaN where n is
negative or no integer, or a or b is not positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.array import Array
from weft.scipy.elementwise import elementwise
from weft.scipy.stats.families import betaln, inside, not_whole, valid

__all__ = ["logpmf", "pmf"]


def _log_probability(k: Any, n: Any, a: Any, b: Any, loc: Any) -> Any:
    x = k - loc
    good = (n >= 0) & ~not_whole(n) & (a > 0) & (b > 0)
    out = (x < 0) | (x > n) | not_whole(x) | ~good
    safe, rest = inside(out, x, 0.0), inside(out, n - x, 0.0)
    log_comb = -betaln(1.0 + rest, 1.0 + safe) - jnp.log1p(safe + rest)
    found = log_comb + betaln(safe + a, rest + b) - betaln(a, b)
    return valid(good, jnp.where(out, -jnp.inf, found))


@elementwise
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k; minus infinity where that is 0.

    >>> logpmf(1, 3, 2.0, 2.0)
    Array(-1.2039717, dtype=float32, weak_type=True)
    """
    return _log_probability(k, n, a, b, loc)


@elementwise
def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(np.array([0, 2]), 1, 1.0, 1.0)
    Array([0.5, 0. ], dtype=float32)
    """
    return jnp.exp(_log_probability(k, n, a, b, loc))
