"""What distributions have in common: the standard variable, limits of the support, parameters.

A formula never sees a number outside of the support, where it could make a NaN of a derivative:
there `inside` gives it another one, and the caller replaces the result. NaN counts as inside, so
that it shows in the result.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.scipy.special.entropies import xlog1py_p, xlogy_p
from weft.scipy.special.gammas import betaln_p, gammaln_p

__all__ = [
    "betaln",
    "gammaln",
    "inside",
    "log1mexp",
    "not_whole",
    "probability",
    "standard",
    "valid",
    "xlog1py",
    "xlogy",
]

betaln = betaln_p.bind
gammaln = gammaln_p.bind
xlogy = xlogy_p.bind
xlog1py = xlog1py_p.bind


def standard(x: Any, loc: Any, scale: Any) -> Any:
    """The distance from the location in units of the scale."""
    return (x - loc) / scale


def inside(outside: Any, x: Any, replacement: float) -> Any:
    """x, and a number of the support where it is outside."""
    return jnp.where(outside, replacement, x)


def valid(condition: Any, value: Any) -> Any:
    """A value where the parameters are valid, NaN elsewhere."""
    return jnp.where(condition, value, jnp.nan)


def probability(q: Any, value: Any) -> Any:
    """A quantile of a probability; NaN where that is not from 0 to 1."""
    return jnp.where((q >= 0) & (q <= 1), value, jnp.nan)


def not_whole(k: Any) -> Any:
    """Where a number is no integer; NaN is let through."""
    return jnp.floor(k) < k


def log1mexp(x: Any) -> Any:
    """log(1 - exp(x)) for x <= 0 (M. Mächler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    near = x > -0.6931471805599453
    close = jnp.log(-jnp.expm1(jnp.where(near, x, -0.1)))
    return jnp.where(near, close, jnp.log1p(-jnp.exp(jnp.where(near, -1.0, x))))
