"""The gamma distribution with shape a.

Density y^(a - 1) exp(-y) / gamma(a) for y = (x - loc) / scale > 0, over the scale. NaN where a
parameter is not positive.
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

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def density_in(form: Any, nothing: float, x: Any, a: Any, loc: Any, scale: Any) -> Any:
    """form(a, y), `nothing` outside of the support; for a scale of 1."""
    y = standard(x, loc, scale)
    found = form.bind(inside(a <= 0, a, 1.0), inside(y < 0, y, 1.0))
    return valid((a > 0) & (scale > 0), jnp.where(y < 0, nothing, found))


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
    return density_in(log_gamma_density_p, -math.inf, x, a, loc, scale) - jnp.log(scale)


@elementwise
def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density at x.

    >>> pdf(1.0, 2.0)
    Array(0.36787942, dtype=float32, weak_type=True)
    """
    return density_in(gamma_density_p, 0.0, x, a, loc, scale) / scale


@elementwise
def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(1.0, 2.0)
    Array(0.26424113, dtype=float32, weak_type=True)
    """
    return _tail(False, x, a, loc, scale)


@elementwise
def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(1.0, 2.0)
    Array(-1.3308933, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(False, x, a, loc, scale))


@elementwise
def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x, precise where that is small.

    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.       , 0.4060058], dtype=float32)
    """
    return _tail(True, x, a, loc, scale)


@elementwise
def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(1.0, 2.0)
    Array(-0.30685282, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail(True, x, a, loc, scale))
