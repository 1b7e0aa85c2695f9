"""The exponential distribution.

Density exp(-y) for y = (x - loc) / scale >= 0, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import inside, log1mexp, probability, standard, valid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    return valid(scale > 0, jnp.where(y < 0, -jnp.inf, -inside(y < 0, y, 1.0) - jnp.log(scale)))


def _from_zero(x: Any, loc: Any, scale: Any) -> Any:
    """The standard variable, 0 outside of the support."""
    y = standard(x, loc, scale)
    return inside(y < 0, y, 0.0)


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(np.array([-1.0, 0.0, 1.0]))
    Array([0.        , 0.        , 0.63212055], dtype=float32)
    """
    return valid(scale > 0, -jnp.expm1(-_from_zero(x, loc, scale)))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.93275213, dtype=float32, weak_type=True)
    """
    y = standard(x, loc, scale)
    return valid(scale > 0, jnp.where(y <= 0, -jnp.inf, log1mexp(-inside(y <= 0, y, 1.0))))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, jnp.exp(-_from_zero(x, loc, scale)))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, -_from_zero(x, loc, scale))


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is q. NaN for q outside of 0 to 1.

    >>> ppf(0.25)
    Array(0.28768206, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, probability(q, -jnp.log1p(-q) * scale + loc))
