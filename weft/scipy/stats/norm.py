"""The normal distribution.

Density exp(-y^2 / 2) / sqrt(2 pi) with y = (x - loc) / scale, over the scale. NaN where the scale
is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import elementwise
from weft.scipy.special.error_functions import log_ndtr_p, ndtr_p, ndtri_p
from weft.scipy.stats.distributions import standard, valid

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _log_density(x: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    return valid(scale > 0, -0.5 * (y * y) - 0.5 * math.log(2 * math.pi) - jnp.log(scale))


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.0)
    Array(-0.9189385, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.35206532, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.69146246, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, ndtr_p.bind(standard(x, loc, scale)))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.36894637, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, log_ndtr_p.bind(standard(x, loc, scale)))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5)
    Array(0.30853754, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, ndtr_p.bind(-standard(x, loc, scale)))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.1759118, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, log_ndtr_p.bind(-standard(x, loc, scale)))


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is q. NaN for q outside of 0 to 1.

    >>> ppf(0.25)
    Array(-0.6744898, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, ndtri_p.bind(q) * scale + loc)


@elementwise
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The upper quantile: where the probability of more is q. NaN for q outside of 0 to 1.

    >>> isf(0.25)
    Array(0.6744898, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, loc - ndtri_p.bind(q) * scale)
