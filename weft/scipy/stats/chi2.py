"""The chi-square distribution with df degrees of freedom.

The gamma distribution with shape df / 2 of half the variable. NaN where a parameter is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.array import Array
from weft.ops.special import igamma_p, igammac_p
from weft.scipy.elementwise import elementwise
from weft.scipy.stats.families import density, inside, standard, valid
from weft.scipy.stats.gamma import standard_log_density

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_density(x: Any, df: Any, loc: Any, scale: Any) -> Any:
    y = 0.5 * standard(x, loc, scale)
    shape = 0.5 * df
    safe = inside(y < 0, y, 1.0)
    found = standard_log_density(safe, shape) - jnp.log(scale) - math.log(2)
    return valid((df > 0) & (scale > 0), jnp.where(y < 0, -jnp.inf, found))


def _tail(upper: bool, x: Any, df: Any, loc: Any, scale: Any) -> Any:
    """The probability of at most x, or of more."""
    y = 0.5 * standard(x, loc, scale)
    out = (y < 0) | (df <= 0) | (scale <= 0)
    shape, safe = inside(out, 0.5 * df, 1.0), inside(out, y, 1.0)
    found = (igammac_p if upper else igamma_p).bind(shape, safe)
    return valid((df > 0) & (scale > 0), jnp.where(y < 0, float(upper), found))


@elementwise
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(2.0, 3.0)
    Array(-1.5723649, dtype=float32, weak_type=True)
    """
    return _log_density(x, df, loc, scale)


@elementwise
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(2.0, 3.0)
    Array(0.20755374, dtype=float32, weak_type=True)
    """
    return density(_log_density, loc + scale, x, df, loc, scale)


@elementwise
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(2.0, 3.0)
    Array(0.4275932, dtype=float32, weak_type=True)
    """
    return _tail(False, x, df, loc, scale)


@elementwise
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(2.0, 3.0)
    Array(-0.849583, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(False, x, df, loc, scale))


@elementwise
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.       , 0.3678795], dtype=float32)
    """
    return _tail(True, x, df, loc, scale)


@elementwise
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(2.0, 3.0)
    Array(-0.5579053, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(True, x, df, loc, scale))
