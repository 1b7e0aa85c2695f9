"""The negative binomial distribution: failures before the n-th success.

Probability comb(k + n - 1, k) p^n (1 - p)^k of the integers k = 0, 1, … NaN where n is not
positive or p is not between 0 (excluded) and 1. It is n / (n + k) times the binomial probability of
n in n + k times.
"""

from __future__ import annotations

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
    >>> logpmf(2, 3.0, 0.4)
    Array(-1.978764, dtype=float32, weak_type=True)
    >>> pmf(np.array([-1, 0]), 1, 0.5)
    Array([0. , 0.5], dtype=float32)
    """)


def _operands(k: Any, n: Any, p: Any, loc: Any) -> tuple[Any, ...]:
    """The masks of valid parameters and of k outside of the support, and operands inside it."""
    x = k - loc
    good = (n > 0) & (p > 0) & (p <= 1)
    outside = (x < 0) | (x == jnp.inf) | not_whole(x)
    return good, outside, inside(n <= 0, n, 1.0), inside(outside, x, 0.0), inside(~good, p, 0.5)


@_family.formula
def logpmf(k: Real, n: Real, p: Real, loc: Real = 0) -> Array:
    good, outside, count, x, p = _operands(k, n, p, loc)
    out = log_binomial_p.bind(count, x, p) + jnp.log(count / (count + x))
    return valid(good, jnp.where(outside, -jnp.inf, out))


@_family.formula
def pmf(k: Real, n: Real, p: Real, loc: Real = 0) -> Array:
    good, outside, count, x, p = _operands(k, n, p, loc)
    return valid(
        good, jnp.where(outside, 0.0, binomial_p.bind(count, x, p) * (count / (count + x)))
    )
