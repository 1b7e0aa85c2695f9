"""The Laplace distribution.

Density exp(-|y|) / 2 with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.base.facades import public_names
from weft.scipy.stats.distributions import Family, inside

__all__ = ["cdf", "logpdf", "pdf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(-1.1931472, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.30326533, dtype=float32, weak_type=True)
    >>> cdf(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """)


def _below(y: Any) -> Any:
    below = 0.5 * jnp.exp(inside(y > 0, y, 0.0))
    above = 1.0 - 0.5 * jnp.exp(-inside(y <= 0, y, 0.0))
    return jnp.where(y > 0, above, below)


logpdf, pdf = _family.density(lambda y: -jnp.abs(y) - math.log(2))
cdf = _family.standard("cdf", _below)
