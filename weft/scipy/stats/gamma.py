"""The gamma distribution with shape a.

Density y^(a - 1) exp(-y) / gamma(a) for y = (x - loc) / scale > 0, over the scale. NaN where a
parameter is not positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.array import Array
from weft.ops.special import igamma_p, igammac_p
from weft.scipy.elementwise import elementwise
from weft.scipy.stats.families import (
    density,
    from_large,
    gammaln,
    inside,
    large_poisson,
    standard,
    valid,
    xlogy,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _few(power: Any, a: Any, y: Any) -> Any:
    return xlogy(power, y) - y - gammaln(a)


def _many(power: Any, a: Any, y: Any) -> Any:
    return large_poisson(power, y)


def standard_log_density(y: Any, a: Any) -> Any:
    """The logarithm of y^(a - 1) exp(-y) / gamma(a) for y >= 0 and positive a."""
    return from_large(_many, _few, (a - 1.0,), a, y)


def _log_density(x: Any, a: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    safe = inside(y < 0, y, 1.0)
    found = standard_log_density(safe, a) - jnp.log(scale)
    return valid((a > 0) & (scale > 0), jnp.where(y < 0, -jnp.inf, found))


def _tail(upper: bool, x: Any, a: Any, loc: Any, scale: Any) -> Any:
    """The probability of at most x, or of more."""
    y = standard(x, loc, scale)
    out = (y < 0) | (a <= 0) | (scale <= 0)
    shape, safe = inside(out, a, 1.0), inside(out, y, 1.0)
    found = (igammac_p if upper else igamma_p).bind(shape, safe)
    return valid((a > 0) & (scale > 0), jnp.where(y < 0, float(upper), found))


@elementwise
def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(1.0, 2.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _log_density(x, a, loc, scale)


@elementwise
def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(1.0, 2.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    """
    return density(_log_density, loc + scale, x, a, loc, scale)


@elementwise
def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(1.0, 2.0)
    Array(0.26424107, dtype=float32, weak_type=True)
    """
    return _tail(False, x, a, loc, scale)


@elementwise
def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(1.0, 2.0)
    Array(-1.3308934, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(False, x, a, loc, scale))


@elementwise
def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.        , 0.40600592], dtype=float32)
    """
    return _tail(True, x, a, loc, scale)


@elementwise
def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(1.0, 2.0)
    Array(-0.30685282, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(True, x, a, loc, scale))
