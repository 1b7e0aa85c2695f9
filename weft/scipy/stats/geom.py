"""The geometric distribution: the number of trials up to the first success.

Probability (1 - p)^(k - 1) p of the integers k = 1, 2, … NaN where p is not between 0 (excluded)
and 1.
"""

from __future__ import annotations

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, not_whole, valid, xlog1py

__all__ = ["logpmf", "pmf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpmf(2, 0.3)
    Array(-1.5606477, dtype=float32, weak_type=True)
    >>> pmf(np.array([0, 1, 2]), 0.5)
    Array([0.  , 0.5 , 0.25], dtype=float32)
    """)


def _log_probability(k: Real, p: Real, loc: Real = 0) -> Array:
    x = k - loc
    outside = (x < 1) | not_whole(x)
    out = xlog1py(inside(outside, x, 1.0) - 1.0, -p) + jnp.log(p)
    return valid((p > 0) & (p <= 1), jnp.where(outside, -jnp.inf, out))


logpmf, pmf = _family.pair("logpmf", _log_probability)
