"""Student's t distribution with df degrees of freedom.

Density (1 + y^2 / df)^(-(df + 1) / 2) / (sqrt(df) B(df / 2, 1 / 2)) with y = (x - loc) / scale,
over the scale; with infinitely many degrees, the normal distribution. NaN where a parameter is
not positive.
"""

from __future__ import annotations

import math

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, betaln, inside, standard, valid

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, 3.0)
    Array(-1.1609743, dtype=float32, weak_type=True)
    >>> pdf(0.0, 1.0)
    Array(0.3183099, dtype=float32, weak_type=True)
    """)


def _log_density(x: Real, df: Real, loc: Real = 0, scale: Real = 1) -> Array:
    y = standard(x, loc, scale)
    normal = df == jnp.inf
    finite = inside(normal, df, 1.0)
    power = -0.5 * (finite + 1.0) * jnp.log1p(y / finite * y)
    constant = betaln(0.5 * finite, jnp.full_like(df, 0.5)) + 0.5 * jnp.log(finite)
    limit = -0.5 * (y * y) - 0.5 * math.log(2 * math.pi)
    out = jnp.where(normal, limit, power - constant) - jnp.log(scale)
    return valid((df > 0) & (scale > 0), out)


logpdf, pdf = _family.pair("logpdf", _log_density)
