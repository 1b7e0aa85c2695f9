"""The beta distribution on 0 … 1 with shapes a and b.

Density y^(a - 1) (1 - y)^(b - 1) / B(a, b) for y = (x - loc) / scale, over the scale. NaN where a
parameter is not positive. Probabilities have derivatives in x, loc and scale.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.ops.special import betainc_p
from weft.scipy.elementwise import elementwise
from weft.scipy.stats.families import betaln, density, inside, standard, valid, xlog1py, xlogy

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_density(x: Any, a: Any, b: Any, loc: Any, scale: Any) -> Any:
    y = standard(x, loc, scale)
    out = (y < 0) | (y > 1)
    safe = inside(out, y, 0.5)
    found = xlogy(a - 1.0, safe) + xlog1py(b - 1.0, -safe) - betaln(a, b) - jnp.log(scale)
    return valid((a > 0) & (b > 0) & (scale > 0), jnp.where(out, -jnp.inf, found))


def _below(x: Any, a: Any, b: Any, loc: Any, scale: Any) -> Any:
    """The probability of at most x."""
    y = standard(x, loc, scale)
    safe = jnp.where(y < 0, 0.0, jnp.where(y > 1, 1.0, y))
    found = betainc_p.bind(a, b, safe)
    return valid((a > 0) & (b > 0) & (scale > 0), found)


def _above(x: Any, a: Any, b: Any, loc: Any, scale: Any) -> Any:
    """The probability of more than x, by the symmetry of the distribution."""
    return _below(1.0 - standard(x, loc, scale), b, a, jnp.zeros_like(loc), jnp.sign(scale))


@elementwise
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5, 2.0, 3.0)
    Array(0.40546584, dtype=float32, weak_type=True)
    """
    return _log_density(x, a, b, loc, scale)


@elementwise
def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    >>> pdf(0.5, 2.0, 3.0)
    Array(1.5000011, dtype=float32, weak_type=True)
    """
    return density(_log_density, loc + 0.5 * scale, x, a, b, loc, scale)


@elementwise
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of at most x.

    >>> cdf(0.5, 2.0, 2.0)
    Array(0.5000005, dtype=float32, weak_type=True)
    """
    return _below(x, a, b, loc, scale)


@elementwise
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 2.0, 3.0)
    Array(-0.3746938, dtype=float32, weak_type=True)
    """
    return jnp.log(_below(x, a, b, loc, scale))


@elementwise
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of more than x, precise where that is small.

    >>> sf(0.5, 2.0, 3.0)
    Array(0.3125002, dtype=float32)
    """
    return _above(x, a, b, loc, scale)


@elementwise
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 2.0, 3.0)
    Array(-1.1631502, dtype=float32)
    """
    return jnp.log(_above(x, a, b, loc, scale))
