"""The logistic distribution.

Distribution function 1 / (1 + exp(-y)) with y = (x - loc) / scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.ops.elementwise.elementary import logistic_p
from weft.scipy.real_functions import elementwise
from weft.scipy.special.entropies import logit_p
from weft.scipy.stats.distributions import probability, standard, valid

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    return valid(scale > 0, -jnp.logaddexp(0.0, y) - jnp.logaddexp(0.0, -y) - jnp.log(scale))


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(-1.448154, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.23500371, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    return valid(scale > 0, logistic_p.bind(standard(x, loc, scale)))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5)
    Array(0.37754068, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, logistic_p.bind(-standard(x, loc, scale)))


@elementwise
def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is x. NaN for x outside of 0 to 1.

    >>> ppf(0.25)
    Array(-1.0986123, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, probability(x, logit_p.bind(x) * scale + loc))


@elementwise
def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The upper quantile: where the probability of more is x. NaN for x outside of 0 to 1.

    >>> isf(0.25)
    Array(1.0986123, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, probability(x, loc - logit_p.bind(x) * scale))
