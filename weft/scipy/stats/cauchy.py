"""The Cauchy distribution.

Density 1 / (pi (1 + y^2)) with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.scipy.stats.distributions import Family, inside, probability

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(-1.3678734, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.2546479, dtype=float32, weak_type=True)
    >>> cdf(np.array([0.0, 1.0]))
    Array([0.5 , 0.75], dtype=float32)
    >>> logcdf(0.5)
    Array(-0.4345075, dtype=float32, weak_type=True)
    >>> sf(0.5)
    Array(0.3524164, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-1.0429418, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-1., dtype=float32, weak_type=True)
    >>> isf(0.25)
    Array(1., dtype=float32, weak_type=True)
    """)


def _log_density(y: Any) -> Any:
    # Where y^2 would overflow, and 1 adds nothing to it.
    far = jnp.abs(y) > 1e9
    square = jnp.log1p(jnp.square(inside(far, y, 0.0)))
    square = jnp.where(far, 2.0 * jnp.log(jnp.abs(inside(~far, y, 1.0))), square)
    return -square - math.log(math.pi)


def _below(y: Any) -> Any:
    """The probability of at most y; the arc tangent of 1 / y keeps both tails precise."""
    return jnp.arctan2(1.0, -y) * (1 / math.pi)


def _quantile(q: Any) -> Any:
    upper = q > 0.5
    tail = 1.0 / jnp.tan(math.pi * jnp.where(upper, 1.0 - q, q))
    return probability(q, jnp.where(upper, tail, -tail))


logpdf, pdf = _family.density(_log_density)
cdf = _family.standard("cdf", _below)
logcdf = _family.standard("logcdf", lambda y: jnp.log(_below(y)))
sf = _family.standard("sf", lambda y: _below(-y))
logsf = _family.standard("logsf", lambda y: jnp.log(_below(-y)))
ppf = _family.quantile("ppf", _quantile)
isf = _family.quantile("isf", lambda q: -_quantile(q))
