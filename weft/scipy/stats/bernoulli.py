"""The Bernoulli distribution: 1 with probability p, else 0.

NaN where p is not from 0 to 1.
"""

from __future__ import annotations

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, is_probability, valid

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpmf(1, 0.3)
    Array(-1.2039728, dtype=float32, weak_type=True)
    >>> pmf(np.array([0, 1, 2]), 0.25)
    Array([0.75, 0.25, 0.  ], dtype=float32)
    >>> cdf(1, 0.3)
    Array(1., dtype=float32, weak_type=True)
    >>> ppf(0.25, 0.3)
    Array(0., dtype=float32, weak_type=True)
    """)


def _log_probability(k: Real, p: Real, loc: Real = 0) -> Array:
    x = k - loc
    nothing = jnp.where(jnp.isnan(x), x, -jnp.inf)
    out = jnp.where(x == 0, jnp.log1p(-p), jnp.where(x == 1, jnp.log(p), nothing))
    return valid(is_probability(p), out)


logpmf, pmf = _family.pair("logpmf", _log_probability)


@_family.formula
def cdf(k: Real, p: Real) -> Array:
    whole = jnp.where(jnp.isnan(k), k, 1.0)
    return valid(is_probability(p), jnp.where(k < 0, 0.0, jnp.where(k < 1, 1.0 - p, whole)))


@_family.formula
def ppf(q: Real, p: Real) -> Array:
    out = valid(is_probability(p), jnp.where(q <= 1.0 - p, 0.0, 1.0))
    return valid(is_probability(q), out)
