"""The Cauchy distribution.

Density 1 / (pi (1 + y^2)) with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import inside, probability, standard, valid

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    # Where y^2 would overflow, and 1 adds nothing to it.
    far = jnp.abs(y) > 1e9
    square = jnp.log1p(jnp.square(inside(far, y, 0.0)))
    square = jnp.where(far, 2.0 * jnp.log(jnp.abs(inside(~far, y, 1.0))), square)
    return valid(scale > 0, -square - math.log(math.pi) - jnp.log(scale))


def _below(y: Any) -> Any:
    """The probability of at most y, which an arc tangent of 1 / y keeps precise in both tails."""
    return jnp.arctan2(1.0, -y) * (1 / math.pi)


def _quantile(q: Any) -> Any:
    upper = q > 0.5
    tail = 1.0 / jnp.tan(math.pi * jnp.where(upper, 1.0 - q, q))
    return probability(q, jnp.where(upper, tail, -tail))


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(-1.3678734, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.2546479, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(np.array([0.0, 1.0]))
    Array([0.5 , 0.75], dtype=float32)
    """
    return valid(scale > 0, _below(standard(x, loc, scale)))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.4345075, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, jnp.log(_below(standard(x, loc, scale))))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5)
    Array(0.3524164, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, _below(-standard(x, loc, scale)))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.0429418, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, jnp.log(_below(-standard(x, loc, scale))))


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is q. NaN for q outside of 0 to 1.

    >>> ppf(0.25)
    Array(-1., dtype=float32, weak_type=True)
    """
    return valid(scale > 0, _quantile(q) * scale + loc)


@elementwise
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The upper quantile: where the probability of more is q. NaN for q outside of 0 to 1.

    >>> isf(0.25)
    Array(1., dtype=float32, weak_type=True)
    """
    return valid(scale > 0, loc - _quantile(q) * scale)
