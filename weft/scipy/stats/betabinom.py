"""The beta-binomial distribution: binomial with a probability from a beta distribution.

Probability comb(n, k) B(k + a, n - k + b) / B(a, b) of the integers k = 0 … n. NaN where n is
negative or no integer, or a or b is not positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.densities import log_binomial_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, not_whole, valid

__all__ = ["logpmf", "pmf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpmf(1, 3, 2.0, 2.0)
    Array(-1.2039728, dtype=float32, weak_type=True)
    >>> pmf(np.array([0, 2]), 1, 1.0, 1.0)
    Array([0.5, 0. ], dtype=float32)
    """)


def _log_quotient(x: Any, rest: Any, a: Any, b: Any) -> Any:
    """log(comb(x + rest, x) B(x + a, rest + b) / B(a, b)).

    Each factor is a binomial probability divided by powers of p. These powers cancel for every p;
    for p the mean, nothing else cancels.
    """
    after_a, after_b = x + a, rest + b
    mean = stop_gradient(after_a / (after_a + after_b))
    out = log_binomial_p.bind(x, rest, mean) + log_binomial_p.bind(a, b, mean)
    out = out - log_binomial_p.bind(after_a, after_b, mean)
    out = out + jnp.log(a / after_a) + jnp.log(b / after_b)
    return out + jnp.log((after_a + after_b) / (a + b))


def _log_probability(k: Real, n: Real, a: Real, b: Real, loc: Real = 0) -> Array:
    x = k - loc
    good = (n >= 0) & ~not_whole(n) & (a > 0) & (b > 0)
    outside = (x < 0) | (x > n) | not_whole(x) | ~good
    safe, rest = inside(outside, x, 0.0), inside(outside, n - x, 0.0)
    out = _log_quotient(safe, rest, inside(a <= 0, a, 1.0), inside(b <= 0, b, 1.0))
    return valid(good, jnp.where(outside, -jnp.inf, out))


logpmf, pmf = _family.pair("logpmf", _log_probability)
