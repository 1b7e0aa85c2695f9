"""The von Mises distribution with concentration kappa.

Density exp(kappa cos x) / (2 pi I0(kappa)). NaN where kappa is negative.
"""

from __future__ import annotations

import math

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.special import bessel_i0e_p
from weft.scipy.real_functions import Real
from weft.scipy.stats.distributions import Family, valid

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5, 1.0)
    Array(-1.1962088, dtype=float32, weak_type=True)
    >>> pdf(0.0, 0.0)
    Array(0.15915495, dtype=float32, weak_type=True)
    """)


def _log_density(x: Real, kappa: Real) -> Array:
    # cos(x) - 1 as the square of a sine, which loses no digits near 0.
    half = jnp.sin(0.5 * x)
    log_norm = jnp.log(bessel_i0e_p.bind(kappa)) + math.log(2 * math.pi)
    return valid(kappa >= 0, -2.0 * kappa * (half * half) - log_norm)


logpdf, pdf = _family.pair("logpdf", _log_density)
