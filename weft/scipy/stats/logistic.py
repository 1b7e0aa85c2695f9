"""The logistic distribution.

Distribution function 1 / (1 + exp(-y)) with y = (x - loc) / scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.elementary import logistic_p
from weft.ops.elementwise.formulas import Term, log1p
from weft.scipy.real_functions import Real, kernel
from weft.scipy.special.entropies import logit_p
from weft.scipy.stats.distributions import Family, probability, valid

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(-1.448154, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.23500372, dtype=float32, weak_type=True)
    >>> cdf(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    >>> sf(0.5)
    Array(0.37754068, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-1.0986123, dtype=float32, weak_type=True)
    >>> isf(0.25)
    Array(1.0986123, dtype=float32, weak_type=True)
    """)


def log_density_formula(y: Term) -> Term:
    size = abs(y)
    return -size - 2.0 * log1p((-size).exp())


def density_formula(y: Term) -> Term:
    power = (-abs(y)).exp()
    return power / ((power + 1.0) * (power + 1.0))


log_density_p = kernel(
    "logistic_log_density", log_density_formula, lambda t, ans, y: t * -jnp.tanh(0.5 * y)
)
density_p = kernel(
    "logistic_density", density_formula, lambda t, ans, y: t * (ans * -jnp.tanh(0.5 * y))
)
logpdf, pdf = _family.density(log_density_p.bind, density_p.bind)
cdf = _family.standard("cdf", logistic_p.bind)
sf = _family.standard("sf", lambda y: logistic_p.bind(-y))


@_family.formula
def ppf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(x, logit_p.bind(x) * scale + loc))


@_family.formula
def isf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(x, loc - logit_p.bind(x) * scale))
