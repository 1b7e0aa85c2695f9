"""The chi-square distribution with df degrees of freedom.

The gamma distribution with shape df / 2 of half the variable. NaN where a parameter is not
positive.
"""

from __future__ import annotations

import math

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.densities import gamma_density_p, log_gamma_density_p
from weft.ops.elementwise.regularized import igamma_p, igammac_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family
from weft.scipy.stats.gamma import density_in, tail_in

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(2.0, 3.0)
    Array(-1.5723649, dtype=float32, weak_type=True)
    >>> pdf(2.0, 3.0)
    Array(0.20755374, dtype=float32, weak_type=True)
    >>> cdf(2.0, 3.0)
    Array(0.42759..., dtype=float32, weak_type=True)
    >>> logcdf(2.0, 3.0)
    Array(-0.84958285, dtype=float32, weak_type=True)
    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.        , 0.36787957], dtype=float32)
    >>> logsf(2.0, 3.0)
    Array(-0.55790544, dtype=float32, weak_type=True)
    """)


def _below(x: Real, df: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return tail_in(igamma_p, 0.0, x, 0.5 * df, loc, 2.0 * scale)


def _above(x: Real, df: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return tail_in(igammac_p, 1.0, x, 0.5 * df, loc, 2.0 * scale)


@_family.formula
def logpdf(x: Real, df: Real, loc: Real = 0, scale: Real = 1) -> Array:
    out = density_in(log_gamma_density_p, -math.inf, x, 0.5 * df, loc, 2.0 * scale)
    return out - jnp.log(scale) - math.log(2)


@_family.formula
def pdf(x: Real, df: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return density_in(gamma_density_p, 0.0, x, 0.5 * df, loc, 2.0 * scale) * (0.5 / scale)


cdf = _family.function("cdf", _below)
logcdf = _family.function("logcdf", _below, jnp.log)
sf = _family.function("sf", _above)
logsf = _family.function("logsf", _above, jnp.log)
