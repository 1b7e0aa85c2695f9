"""The beta distribution on 0 … 1 with shapes a and b.

Density y^(a - 1) (1 - y)^(b - 1) / B(a, b) for y = (x - loc) / scale, over the scale. NaN where a
parameter is not positive. Probabilities have derivatives in x, loc and scale.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.densities import beta_density_p, log_beta_density_p
from weft.ops.elementwise.regularized import betainc_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, inside, standard, valid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, 2.0, 3.0)
    Array(0.40546513, dtype=float32, weak_type=True)
    >>> pdf(0.5, 2.0, 3.0)
    Array(1.5, dtype=float32, weak_type=True)
    >>> cdf(0.5, 2.0, 2.0)
    Array(0.49999997, dtype=float32, weak_type=True)
    >>> logcdf(0.5, 2.0, 3.0)
    Array(-0.3746934, dtype=float32, weak_type=True)
    >>> sf(0.5, 2.0, 3.0)
    Array(0.31249997, dtype=float32, weak_type=True)
    >>> logsf(0.5, 2.0, 3.0)
    Array(-1.1631509, dtype=float32, weak_type=True)
    """)


def _density(form: Any, nothing: float, x: Any, a: Any, b: Any, loc: Any, scale: Any) -> Any:
    """form(a, b, y) for a scale of 1; `nothing` outside of the support."""
    y = standard(x, loc, scale)
    outside = (y < 0) | (y > 1)
    good = (a > 0) & (b > 0) & (scale > 0)
    out = form.bind(inside(a <= 0, a, 1.0), inside(b <= 0, b, 1.0), inside(outside, y, 0.5))
    return valid(good, jnp.where(outside, nothing, out))


def _nearer_tail(x: Any, a: Any, b: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    """Whether x is below the mean, and the probability on that side of x.

    The other probability is its complement, which loses little; 1 - y would where y is small.
    """
    y = standard(x, loc, scale)
    safe = jnp.where(y < 0, 0.0, jnp.where(y > 1, 1.0, y))
    low = safe < a / (a + b)
    first, second = jnp.where(low, a, b), jnp.where(low, b, a)
    out = betainc_p.bind(first, second, jnp.where(low, safe, 1.0 - safe))
    return low, valid((a > 0) & (b > 0) & (scale > 0), out)


@_family.formula
def logpdf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return _density(log_beta_density_p, -math.inf, x, a, b, loc, scale) - jnp.log(scale)


@_family.formula
def pdf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return _density(beta_density_p, 0.0, x, a, b, loc, scale) / scale


@_family.formula
def cdf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    y = standard(x, loc, scale)
    safe = jnp.where(y < 0, 0.0, jnp.where(y > 1, 1.0, y))
    out = betainc_p.bind(a, b, safe)
    return valid((a > 0) & (b > 0) & (scale > 0), out)


@_family.formula
def logcdf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    low, side = _nearer_tail(x, a, b, loc, scale)
    logarithm = jnp.log(jnp.where(low, side, 1.0))
    return jnp.where(low, logarithm, jnp.log1p(-jnp.where(low, 0.0, side)))


@_family.formula
def sf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    low, side = _nearer_tail(x, a, b, loc, scale)
    return jnp.where(low, 1.0 - side, side)


@_family.formula
def logsf(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    low, side = _nearer_tail(x, a, b, loc, scale)
    logarithm = jnp.log(jnp.where(low, 1.0, side))
    return jnp.where(low, jnp.log1p(-jnp.where(low, side, 0.0)), logarithm)
