"""The right-skewed Gumbel distribution, of largest values.

Distribution function exp(-exp(-y)) with y = (x - loc) / scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, complement, in_standard, probability, valid
from weft.scipy.stats.gumbel_l import density_p, log_density_p, log_rest

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
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
    """)

logpdf, pdf = _family.density(lambda y: log_density_p.bind(-y), lambda y: density_p.bind(-y))
logcdf, cdf = _family.pair("logcdf", in_standard(lambda y: -jnp.exp(-y)))
logsf = _family.standard("logsf", lambda y: log_rest(-y))
sf = _family.standard("sf", lambda y: complement(-jnp.exp(-y)))


@_family.formula
def ppf(p: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(p, loc - jnp.log(-jnp.log(p)) * scale))
