"""The wrapped Cauchy distribution on 0 … 2 pi with shape c between 0 and 1.

Density (1 - c^2) / (2 pi (1 + c^2 - 2 c cos x)). NaN where c is not between 0 and 1.
"""

from __future__ import annotations

import math

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, valid

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, 0.3)
    Array(-1.3585119, dtype=float32, weak_type=True)
    >>> pdf(0.0, 0.5)
    Array(0.47746485, dtype=float32, weak_type=True)
    """)


def _log_density(x: Real, c: Real) -> Array:
    outside = (x < 0) | (x > 2 * math.pi)
    # 1 + c^2 - 2 c cos x as a sum of squares.
    half = jnp.sin(0.5 * x)
    square = (1.0 - c) * (1.0 - c) + 4.0 * c * (half * half)
    out = jnp.log1p(-c) + jnp.log1p(c) - jnp.log(square) - math.log(2 * math.pi)
    return valid((c > 0) & (c < 1), jnp.where(outside, -jnp.inf, out))


logpdf, pdf = _family.pair("logpdf", _log_density)
