"""The gamma function of complex numbers, by way of its logarithm; NaN at the poles.

Lanczos' approximation right of 1/2 and reflection left of it (DLMF 5.5.3), both in complex128: near
the zeros of the logarithm at 1 and 2 an absolute error counts. The branch of each logarithm is that
which is continuous off the negative real axis.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.kinds.checks import convert

# P. Godfrey's coefficients for g = 7, in double precision.
_G = 7.0
_LANCZOS = (
    0.99999999999980993227684700473478, 676.520368121885098567009190444019,
    -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853,
    -0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def _right(z: Any) -> Any:
    """log gamma(z) where the real part is 1/2 or more."""
    series = sum(c / (z + (k - 1.0)) for k, c in enumerate(_LANCZOS[1:], 1)) + _LANCZOS[0]
    t = z + (_G - 0.5)
    return (z - 0.5) * jnp.log(t) - t + jnp.log(series) + 0.5 * math.log(2.0 * math.pi)


def _loggamma(z: Any) -> Any:
    z = convert(z, dtypes.complex128)
    left = z.real < 0.5
    found = _right(jnp.where(left, 1.0 - z, z))
    # In the upper half plane, whose mirror image the lower one is, i / 2 exp(-i pi z)
    # (1 - exp(2 i pi z)) is sin(pi z), and its logarithm is continuous factor by factor.
    lower = jnp.signbit(z.imag)
    upper = jnp.where(left, jnp.where(lower, jnp.conj(z), z), 0.5)
    turned = (2j * math.pi) * (upper - jnp.round(upper.real))
    log_sine = jnp.log(-jnp.expm1(turned)) - 1j * math.pi * (upper - 0.5) - math.log(2.0)
    log_sine = jnp.where(lower, jnp.conj(log_sine), log_sine)
    found = jnp.where(left, math.log(math.pi) - log_sine - found, found)
    return jnp.where(left & (turned == 0), math.nan, found)


def loggamma_of_complex(x: Any) -> Any:
    return convert(_loggamma(x), x.dtype)


def gamma_of_complex(x: Any) -> Any:
    return convert(jnp.exp(_loggamma(x)), x.dtype)
