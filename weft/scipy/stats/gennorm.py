"""The generalised normal distribution with shape beta.

Density beta exp(-|x|^beta) / (2 gamma(1 / beta)). NaN where beta is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.ops.elementwise.regularized import igammac_p
from weft.scipy.real_functions import elementwise
from weft.scipy.stats.distributions import gammaln, inside, valid

__all__ = ["cdf", "logpdf", "pdf"]


def _power(x: Any, beta: Any) -> Any:
    """|x|^beta, and 0 at 0, where a logarithm would make a NaN of the derivative in beta."""
    size = jnp.abs(x)
    return jnp.where(x == 0, 0.0, jnp.power(inside(x == 0, size, 1.0), beta))


def _log_density(x: Any, beta: Any) -> Any:
    return valid(beta > 0, jnp.log(beta) - math.log(2) - gammaln(1.0 / beta) - _power(x, beta))


@elementwise
def logpdf(x: Any, beta: Any) -> Array:
    """The logarithm of the density at x; minus infinity outside of the support.

    >>> logpdf(0.5, 2.0)
    Array(-0.8223649, dtype=float32, weak_type=True)
    """
    return _log_density(x, beta)


@elementwise
def pdf(x: Any, beta: Any) -> Array:
    """The density at x.

    >>> pdf(0.5, 2.0)
    Array(0.4393913, dtype=float32, weak_type=True)
    """
    return jnp.exp(_log_density(x, beta))


@elementwise
def cdf(x: Any, beta: Any) -> Array:
    """The probability of at most x.

    >>> cdf(0.0, 2.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    tail = 0.5 * igammac_p.bind(1.0 / inside(beta <= 0, beta, 1.0), _power(x, beta))
    return valid(beta > 0, jnp.where(x > 0, 1.0 - tail, tail))
