"""The gamma distribution with shape a.

Density y^(a - 1) exp(-y) / gamma(a) for y = (x - loc) / scale > 0, over the scale. NaN where a
parameter is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.densities import gamma_density_p, log_gamma_density_p
from weft.ops.elementwise.regularized import igamma_p, igammac_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, standard, valid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(1.0, 2.0)
    Array(-1., dtype=float32, weak_type=True)
    >>> pdf(1.0, 2.0)
    Array(0.36787942, dtype=float32, weak_type=True)
    >>> cdf(1.0, 2.0)
    Array(0.26424..., dtype=float32, weak_type=True)
    >>> logcdf(1.0, 2.0)
    Array(-1.3308933, dtype=float32, weak_type=True)
    >>> sf(np.array([0.0, 2.0]), 2.0)
    Array([1.       , 0.40600...], dtype=float32)
    >>> logsf(1.0, 2.0)
    Array(-0.30685282, dtype=float32, weak_type=True)
    """)


def density_in(form: Any, nothing: float, x: Any, a: Any, loc: Any, scale: Any) -> Any:
    """form(a, y) for a scale of 1; `nothing` outside of the support."""
    y = standard(x, loc, scale)
    out = form.bind(inside(a <= 0, a, 1.0), inside(y < 0, y, 1.0))
    return valid((a > 0) & (scale > 0), jnp.where(y < 0, nothing, out))


def tail_in(form: Any, outside: float, x: Any, a: Any, loc: Any, scale: Any) -> Any:
    """form(a, y), the probability on one side of x; `outside` below the support."""
    y = standard(x, loc, scale)
    unsafe = (y < 0) | (a <= 0) | (scale <= 0)
    out = form.bind(inside(unsafe, a, 1.0), inside(unsafe, y, 1.0))
    return valid((a > 0) & (scale > 0), jnp.where(y < 0, outside, out))


def _below(x: Real, a: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return tail_in(igamma_p, 0.0, x, a, loc, scale)


def _above(x: Real, a: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return tail_in(igammac_p, 1.0, x, a, loc, scale)


@_family.formula
def logpdf(x: Real, a: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return density_in(log_gamma_density_p, -math.inf, x, a, loc, scale) - jnp.log(scale)


@_family.formula
def pdf(x: Real, a: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return density_in(gamma_density_p, 0.0, x, a, loc, scale) / scale


cdf = _family.function("cdf", _below)
logcdf = _family.function("logcdf", _below, jnp.log)
sf = _family.function("sf", _above)
logsf = _family.function("logsf", _above, jnp.log)
