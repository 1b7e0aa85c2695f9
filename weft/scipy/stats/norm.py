"""The normal distribution.

Density exp(-y^2 / 2) / sqrt(2 pi) with y = (x - loc) / scale, over the scale. NaN where the scale
is not positive.
"""

from __future__ import annotations

import math

from weft.base.facades import public_names
from weft.scipy.special.error_functions import log_ndtr_p, ndtr_p, ndtri_p
from weft.scipy.stats.distributions import Family

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
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
    """)

logpdf, pdf = _family.density(lambda y: -0.5 * (y * y) - 0.5 * math.log(2 * math.pi))
cdf = _family.standard("cdf", ndtr_p.bind)
logcdf = _family.standard("logcdf", log_ndtr_p.bind)
sf = _family.standard("sf", lambda y: ndtr_p.bind(-y))
logsf = _family.standard("logsf", lambda y: log_ndtr_p.bind(-y))
ppf = _family.quantile("ppf", ndtri_p.bind)
isf = _family.quantile("isf", lambda q: -ndtri_p.bind(q))
