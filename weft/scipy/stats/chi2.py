"""The chi-square distribution with df degrees of freedom.

The gamma distribution with shape df / 2 of half the variable. NaN where a parameter is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.ops.elementwise.densities import gamma_density_p, log_gamma_density_p
from weft.ops.elementwise.regularized import igamma_p, igammac_p
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import inside, standard, valid
from weft.scipy.stats.gamma import density_in

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


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
    found = density_in(log_gamma_density_p, -math.inf, x, 0.5 * df, loc, 2.0 * scale)
    return found - jnp.log(scale) - math.log(2)


@elementwise
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(2.0, 3.0)
    Array(0.20755374, dtype=float32, weak_type=True)
    """
    return density_in(gamma_density_p, 0.0, x, 0.5 * df, loc, 2.0 * scale) * (0.5 / scale)


@elementwise
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(2.0, 3.0)
    Array(0.42759326, dtype=float32, weak_type=True)
    """
    return _tail(False, x, df, loc, scale)


@elementwise
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(2.0, 3.0)
    Array(-0.84958285, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(False, x, df, loc, scale))


@elementwise
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.        , 0.36787957], dtype=float32)
    """
    return _tail(True, x, df, loc, scale)


@elementwise
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(2.0, 3.0)
    Array(-0.55790544, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(True, x, df, loc, scale))
