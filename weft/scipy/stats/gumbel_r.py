"""The right-skewed Gumbel distribution, of largest values.

Distribution function exp(-exp(-y)) with y = (x - loc) / scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.stats.distributions import (
    Family,
    complement,
    in_standard,
    inside,
    log1mexp,
    probability,
    standard,
    valid,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_family = Family(
    __name__,
    """
    >>> logpdf(0.5)
    Array(-1.1065307, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.3307043, dtype=float32, weak_type=True)
    >>> cdf(0.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    >>> logcdf(0.5)
    Array(-0.60653067, dtype=float32, weak_type=True)
    >>> sf(0.5)
    Array(0.4547608, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-0.7879837, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-0.32663426, dtype=float32, weak_type=True)
    """,
)


def _log_density(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    y = standard(x, loc, scale)
    lost = y == -jnp.inf  # where both terms are infinite
    y = inside(lost, y, 0.0)
    found = jnp.where(lost, -jnp.inf, -(y + jnp.exp(-y)))
    return valid(scale > 0, found - jnp.log(scale))


@in_standard
def _log_below(y: Any) -> Any:
    """The logarithm of the probability of at most y."""
    return -jnp.exp(-y)


logpdf = _family.function("logpdf", _log_density)
pdf = _family.function("pdf", _log_density, jnp.exp)
cdf = _family.function("cdf", _log_below, jnp.exp)
logcdf = _family.function("logcdf", _log_below)
sf = _family.function("sf", _log_below, complement)
logsf = _family.function("logsf", _log_below, log1mexp)


@_family.formula
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    return valid(scale > 0, probability(p, loc - jnp.log(-jnp.log(p)) * scale))
