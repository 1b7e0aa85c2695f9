"""The right-skewed Gumbel distribution, of largest values.

Distribution function exp(-exp(-y)) with y = (x - loc) / scale. NaN where the scale is not
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
    lost = y == -jnp.inf  # where both terms are infinite
    y = inside(lost, y, 0.0)
    found = jnp.where(lost, -jnp.inf, -(y + jnp.exp(-y)))
    return valid(scale > 0, found - jnp.log(scale))


def _log_below(x: Any, loc: Any, scale: Any) -> Any:
    """The logarithm of the probability of at most x."""
    return valid(scale > 0, -jnp.exp(-standard(x, loc, scale)))


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5)
    Array(-1.1065307, dtype=float32, weak_type=True)
    """
    return _log_density(x, loc, scale)


@elementwise
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(0.5)
    Array(0.3307043, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_below(x, loc, scale))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.60653067, dtype=float32, weak_type=True)
    """
    return _log_below(x, loc, scale)


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5)
    Array(0.4547608, dtype=float32, weak_type=True)
    """
    return -jnp.expm1(_log_below(x, loc, scale))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-0.7879837, dtype=float32, weak_type=True)
    """
    return log1mexp(_log_below(x, loc, scale))


@elementwise
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The quantile: where the distribution function is p. NaN for p outside of 0 to 1.

    >>> ppf(0.25)
    Array(-0.32663426, dtype=float32, weak_type=True)
    """
    return valid(scale > 0, probability(p, loc - jnp.log(-jnp.log(p)) * scale))
