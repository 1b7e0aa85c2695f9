"""The normal distribution.

Density exp(-y^2 / 2) / sqrt(2 pi) with y = (x - loc) / scale, over the scale. NaN where the scale
is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.special.error_functions import log_ndtr_p, ndtr_p, ndtri_p
from weft.scipy.stats.distributions import Family, in_standard, standard, valid

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_family = Family(
    __name__,
    """
    >>> logpdf(0.0)
    Array(-0.9189385, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.35206532, dtype=float32, weak_type=True)
    >>> cdf(0.5)
    Array(0.69146246, dtype=float32, weak_type=True)
    >>> logcdf(0.5)
    Array(-0.36894637, dtype=float32, weak_type=True)
    >>> sf(0.5)
    Array(0.30853754, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-1.1759118, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-0.6744898, dtype=float32, weak_type=True)
    >>> isf(0.25)
    Array(0.6744898, dtype=float32, weak_type=True)
    """,
)


def _log_density(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    y = standard(x, loc, scale)
    return valid(scale > 0, -0.5 * (y * y) - 0.5 * math.log(2 * math.pi) - jnp.log(scale))


logpdf = _family.function("logpdf", _log_density)
pdf = _family.function("pdf", _log_density, jnp.exp)
cdf = _family.function("cdf", in_standard(ndtr_p.bind))
logcdf = _family.function("logcdf", in_standard(log_ndtr_p.bind))
sf = _family.function("sf", in_standard(lambda y: ndtr_p.bind(-y)))
logsf = _family.function("logsf", in_standard(lambda y: log_ndtr_p.bind(-y)))


@_family.formula
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    return valid(scale > 0, ndtri_p.bind(q) * scale + loc)


@_family.formula
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    return valid(scale > 0, loc - ndtri_p.bind(q) * scale)
