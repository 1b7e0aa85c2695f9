"""The generalised normal distribution with shape beta.

Density beta exp(-|x|^beta) / (2 gamma(1 / beta)). NaN where beta is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.regularized import igammac_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, gammaln, inside, valid

__all__ = ["cdf", "logpdf", "pdf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, 2.0)
    Array(-0.8223649, dtype=float32, weak_type=True)
    >>> pdf(0.5, 2.0)
    Array(0.4393913, dtype=float32, weak_type=True)
    >>> cdf(0.0, 2.0)
    Array(0.5, dtype=float32, weak_type=True)
    """)


def _power(x: Any, beta: Any) -> Any:
    """|x|^beta; 0 at 0, where a logarithm would make the derivative in beta NaN."""
    size = jnp.abs(x)
    return jnp.where(x == 0, 0.0, jnp.power(inside(x == 0, size, 1.0), beta))


def _log_density(x: Real, beta: Real) -> Array:
    return valid(beta > 0, jnp.log(beta) - math.log(2) - gammaln(1.0 / beta) - _power(x, beta))


logpdf, pdf = _family.pair("logpdf", _log_density)


@_family.formula
def cdf(x: Real, beta: Real) -> Array:
    tail = 0.5 * igammac_p.bind(1.0 / inside(beta <= 0, beta, 1.0), _power(x, beta))
    return valid(beta > 0, jnp.where(x > 0, 1.0 - tail, tail))
