"""The binomial distribution: the number of successes of probability p in n trials.

Probability comb(n, k) p^k (1 - p)^(n - k) of the integers k = 0 … n. NaN where n is negative or
no integer, or p is not from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.densities import binomial_p, log_binomial_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, not_whole, valid

__all__ = ["logpmf", "pmf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpmf(1, 3, 0.5)
    Array(-0.98082924, dtype=float32, weak_type=True)
    >>> pmf(np.array([0, 1, 3]), 1, 0.25)
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """)


def _probability(form: Any, nothing: float, k: Any, n: Any, p: Any, loc: Any) -> Any:
    """form(k, n - k, p) for counts of the support, `nothing` elsewhere."""
    x = k - loc
    good = (n >= 0) & ~not_whole(n) & (p >= 0) & (p <= 1)
    outside = (x < 0) | (x > n) | not_whole(x) | ~good
    safe, rest = inside(outside, x, 0.0), inside(outside, n - x, 0.0)
    out = form.bind(safe, rest, inside(~good, p, 0.5))
    return valid(good, jnp.where(outside, nothing, out))


@_family.formula
def logpmf(k: Real, n: Real, p: Real, loc: Real = 0) -> Array:
    return _probability(log_binomial_p, -math.inf, k, n, p, loc)


@_family.formula
def pmf(k: Real, n: Real, p: Real, loc: Real = 0) -> Array:
    return _probability(binomial_p, 0.0, k, n, p, loc)
