"""The exponential distribution.

Density exp(-y) for y = (x - loc) / scale >= 0, over the scale. NaN where the scale is not
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
    >>> logpdf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    >>> cdf(np.array([-1.0, 0.0, 1.0]))
    Array([0.        , 0.        , 0.63212055], dtype=float32)
    >>> logcdf(0.5)
    Array(-0.93275213, dtype=float32, weak_type=True)
    >>> sf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(0.28768206, dtype=float32, weak_type=True)
    """)


def _log_density(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
    y = standard(x, loc, scale)
    return valid(scale > 0, jnp.where(y < 0, -jnp.inf, -y - jnp.log(scale)))


def _from_zero(y: Any) -> Any:
    """The standard variable, 0 outside of the support."""
    return inside(y < 0, y, 0.0)


def _log_below(y: Any) -> Any:
    return jnp.where(y <= 0, -jnp.inf, log1mexp(-inside(y <= 0, y, 1.0)))


logpdf, pdf = _family.pair("logpdf", _log_density)
cdf = _family.standard("cdf", lambda y: -jnp.expm1(-_from_zero(y)))
logcdf = _family.standard("logcdf", _log_below)
sf = _family.standard("sf", lambda y: jnp.exp(-_from_zero(y)))
logsf = _family.standard("logsf", lambda y: -_from_zero(y))


@_family.formula
def ppf(q: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(q, -jnp.log1p(-q) * scale + loc))
