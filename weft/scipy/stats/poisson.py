"""The Poisson distribution with mean mu.

Probability exp(-mu) mu^k / k! of the integers k = 0, 1, … NaN where mu is negative.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.ops.elementwise.densities import log_poisson_p, poisson_p
from weft.ops.elementwise.regularized import igammac_p
from weft.ops.indexing.creation import broadcasted_iota
from weft.scipy.real_functions import Real, elementwise
from weft.scipy.stats.distributions import Family, gammaln, inside, not_whole, valid, xlogy

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpmf(2, 3.0)
    Array(-1.4959226, dtype=float32, weak_type=True)
    >>> pmf(np.array([-1, 0]), 1.0)
    Array([0.        , 0.36787945], dtype=float32)
    >>> cdf(2, 3.0)
    Array(0.42319012, dtype=float32, weak_type=True)
    """)

# From this mean on the asymptotic series of the entropy is precise; up to it so many terms count.
_LARGE, _TERMS = 150.0, 340


def _probability(form: Any, nothing: float, k: Any, mu: Any, loc: Any) -> Any:
    """form(k, mu) for counts of the support, `nothing` elsewhere."""
    x = k - loc
    outside = (x < 0) | not_whole(x)
    out = form.bind(inside(outside, x, 0.0), inside(mu < 0, mu, 1.0))
    return valid(mu >= 0, jnp.where(outside, nothing, out))


def _summed_entropy(mu: Any) -> Any:
    """The entropy by its definition, for a small mean."""
    aval = type_of(mu)
    shape = (*aval.shape, _TERMS)
    k = broadcasted_iota(aval.dtype, shape, aval.ndim)
    mean = jnp.broadcast_to(jnp.expand_dims(mu, -1), shape)
    log_p = xlogy(k, mean) - gammaln(k + 1.0) - mean
    counts = log_p > -1e4
    return -jnp.sum(jnp.where(counts, jnp.exp(log_p) * jnp.where(counts, log_p, 0.0), 0.0), -1)


def _asymptotic_entropy(mu: Any) -> Any:
    """R. J. Evans, J. Boersma, N. M. Blachman and A. A. Jagers, SIAM Review 30 (1988)."""
    inverse = 1.0 / mu
    series = inverse * (863 / 2520)
    for coefficient in (9 / 80, 19 / 360, 1 / 24, 1 / 12):
        series = inverse * (coefficient + series)
    return 0.5 * jnp.log(2 * math.pi * math.e * mu) - series


@_family.formula
def logpmf(k: Real, mu: Real, loc: Real = 0) -> Array:
    return _probability(log_poisson_p, -math.inf, k, mu, loc)


@_family.formula
def pmf(k: Real, mu: Real, loc: Real = 0) -> Array:
    return _probability(poisson_p, 0.0, k, mu, loc)


@_family.formula
def cdf(k: Real, mu: Real, loc: Real = 0) -> Array:
    x = jnp.floor(k - loc)
    out = igammac_p.bind(inside(x < 0, x, 0.0) + 1.0, inside(mu < 0, mu, 1.0))
    return valid(mu >= 0, jnp.where(x < 0, 0.0, out))


@functools.partial(elementwise, chapter="poisson")
def entropy(mu: Real, loc: Real = 0) -> Array:
    """The entropy, which the location does not change.

    mu: the mean of the distribution, not negative.

    >>> entropy(3.0)
    Array(1.9314696, dtype=float32)
    """
    large = mu > _LARGE
    near = _summed_entropy(jnp.where(large | (mu < 0), 1.0, mu))
    out = jnp.where(large, _asymptotic_entropy(jnp.where(large, mu, _LARGE)), near)
    return valid((mu >= 0) & (loc == loc), out)
