"""The Pareto distribution with shape b.

Density b / y^(b + 1) for y = (x - loc) / scale >= 1, over the scale. NaN where a parameter is not
positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, log1mexp, probability, standard, valid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(2.0, 3.0)
    Array(-1.6739764, dtype=float32, weak_type=True)
    >>> pdf(2.0, 3.0)
    Array(0.1875, dtype=float32, weak_type=True)
    >>> cdf(2.0, 3.0)
    Array(0.875, dtype=float32, weak_type=True)
    >>> logcdf(2.0, 3.0)
    Array(-0.13353139, dtype=float32, weak_type=True)
    >>> sf(np.array([0.0, 2.0]), 1.0)
    Array([1. , 0.5], dtype=float32)
    >>> logsf(2.0, 3.0)
    Array(-2.0794415, dtype=float32, weak_type=True)
    >>> ppf(0.25, 3.0)
    Array(1.1006424, dtype=float32, weak_type=True)
    """)


def _log_distance(x: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    """log y, 0 outside of the support, and the mask of y outside."""
    y = standard(x, loc, scale)
    return jnp.log(inside(y < 1, y, 1.0)), y < 1


def _log_density(x: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    log_y, outside = _log_distance(x, loc, scale)
    out = jnp.log(b) - (b + 1.0) * log_y - jnp.log(scale)
    return valid((b > 0) & (scale > 0), jnp.where(outside, -jnp.inf, out))


def _log_above(x: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    """The logarithm of the probability of more than x."""
    log_y, outside = _log_distance(x, loc, scale)
    return valid((b > 0) & (scale > 0), jnp.where(outside, 0.0, -b * log_y))


def _log_complement(above: Any) -> Any:
    nothing = above >= 0
    return jnp.where(nothing, -jnp.inf, log1mexp(inside(nothing, above, -1.0)))


logpdf, pdf = _family.pair("logpdf", _log_density)
logsf, sf, logcdf, cdf = _family.sides("logsf", _log_above, _log_complement)


@_family.formula
def ppf(q: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid((b > 0) & (scale > 0), probability(q, jnp.exp(-jnp.log1p(-q) / b) * scale + loc))
