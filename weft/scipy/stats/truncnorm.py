"""The normal distribution cut off at a and b.

The density of the normal distribution for a <= y <= b, with y = (x - loc) / scale, divided by the
probability of that interval. NaN where the scale is not positive or a < b does not hold.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.special.error_functions import log_ndtr_p, ndtr_p
from weft.scipy.stats.distributions import Family, inside, log1mexp, standard, valid

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, -1.0, 2.0)
    Array(-0.84377223, dtype=float32, weak_type=True)
    >>> pdf(0.5, -1.0, 2.0)
    Array(0.43008506, dtype=float32, weak_type=True)
    >>> cdf(np.array([-3.0, 3.0]), -2.0, 2.0)
    Array([0., 1.], dtype=float32)
    >>> logcdf(0.5, -1.0, 2.0)
    Array(-0.4294293, dtype=float32, weak_type=True)
    >>> sf(0.5, -1.0, 2.0)
    Array(0.3491196, dtype=float32, weak_type=True)
    >>> logsf(0.5, -1.0, 2.0)
    Array(-1.0523407, dtype=float32, weak_type=True)
    """)


def _log_mass(low: Any, high: Any) -> Any:
    """The logarithm of the probability of a standard normal variable between two numbers.

    For bounds in one tail logarithms are subtracted, in the left tail by symmetry.
    """
    low, high = jnp.broadcast_arrays(low, high)
    right, left = low > 0, high <= 0
    tail = right | left
    p = jnp.where(right, -high, jnp.where(left, low, -2.0))
    q = jnp.where(right, -low, jnp.where(left, high, -1.0))
    below, above = log_ndtr_p.bind(p), log_ndtr_p.bind(q)
    empty = below >= above
    difference = jnp.where(empty, -1.0, below - jnp.where(empty, 0.0, above))
    same_side = jnp.where(empty, -jnp.inf, above + log1mexp(difference))
    around = jnp.log1p(
        -ndtr_p.bind(inside(tail, low, -1.0)) - ndtr_p.bind(-inside(tail, high, 1.0))
    )
    return jnp.where(tail, same_side, around)


def _log_density(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    y = standard(x, loc, scale)
    outside = (y < a) | (y > b)
    safe = inside(outside, y, 0.0)
    out = -0.5 * (safe * safe) - 0.5 * math.log(2 * math.pi) - jnp.log(scale) - _log_mass(a, b)
    return valid((a < b) & (scale > 0), jnp.where(outside, -jnp.inf, out))


def _log_below(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    """The logarithm of the probability of at most x."""
    y = standard(x, loc, scale)
    low, high = y <= a, y >= b
    middle = 0.5 * jnp.clip(a, -1e3, 1e3) + 0.5 * jnp.clip(b, -1e3, 1e3)
    point = jnp.where(low | high, middle, y)
    total = _log_mass(a, b)
    out, rest = _log_mass(a, point) - total, _log_mass(point, b) - total
    # Close to 1 the complement is more precise.
    close = out > -0.1
    out = jnp.where(close, log1mexp(jnp.where(close, rest, -1.0)), out)
    out = jnp.where(low, -jnp.inf, jnp.where(high, 0.0, out))
    return valid((a < b) & (scale > 0), out)


def _log_above(x: Real, a: Real, b: Real, loc: Real = 0, scale: Real = 1) -> Array:
    """The logarithm of the probability of more than x."""
    return _log_below(-standard(x, loc, scale), -b, -a, jnp.zeros_like(loc), jnp.sign(scale))


logpdf, pdf = _family.pair("logpdf", _log_density)
cdf = _family.function("cdf", _log_below, jnp.exp)
logcdf = _family.function("logcdf", _log_below)
sf = _family.function("sf", _log_above, jnp.exp)
logsf = _family.function("logsf", _log_above)
