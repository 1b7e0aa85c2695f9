"""The uniform distribution on loc … loc + scale.

Density 1 / scale there. NaN where the scale is not positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.convert import stop_gradient
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, probability, standard, valid

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(0., dtype=float32, weak_type=True)
    >>> pdf(np.array([-0.5, 0.5]))
    Array([0., 1.], dtype=float32)
    >>> cdf(0.5)
    Array(0.5, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """)


def _density(outside: float, value: Any, x: Any, loc: Any, scale: Any) -> Array:
    """The value inside, NaN for NaN; its derivative in x is 0."""
    y = standard(x, loc, scale)
    out = jnp.where((y < 0) | (y > 1), outside, value + stop_gradient(0.0 * y))
    return valid(scale > 0, out)


@_family.formula
def logpdf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return _density(-jnp.inf, -jnp.log(scale), x, loc, scale)


@_family.formula
def pdf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return _density(0.0, 1.0 / scale, x, loc, scale)


cdf = _family.standard("cdf", lambda y: jnp.clip(y, 0.0, 1.0))


@_family.formula
def ppf(q: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(q, q * scale + loc))
