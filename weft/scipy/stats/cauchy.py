"""The Cauchy distribution.

Density 1 / (pi (1 + y^2)) with y = (x - loc) / scale, over the scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.base.facades import public_names
from weft.ops.elementwise.formulas import Term, log1p, where
from weft.runtime import stablehlo
from weft.scipy.real_functions import kernel
from weft.scipy.stats.distributions import Family, probability

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(-1.3678734, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.2546479, dtype=float32, weak_type=True)
    >>> cdf(np.array([0.0, 1.0]))
    Array([0.5 , 0.75], dtype=float32)
    >>> logcdf(0.5)
    Array(-0.43450737, dtype=float32, weak_type=True)
    >>> sf(0.5)
    Array(0.3524164, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-1.0429418, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-1., dtype=float32, weak_type=True)
    >>> isf(0.25)
    Array(1., dtype=float32, weak_type=True)
    """)


def log_square_formula(y: Term) -> Term:
    """log(1 + y^2), from y over a power of 2 where y^2 may overflow."""
    scale = 2.0 ** (dtypes.finfo(y.dtype).maxexp // 2 - 1)
    far = abs(y) > scale
    reduced = where(far, y * (1 / scale), y)
    square = reduced * reduced
    out = log1p(where(far, square - 1.0, square))
    return where(far, out + 2 * math.log(scale), out)


def _slope(y: Any) -> Any:
    """The derivative 2 y / (1 + y^2), without a square."""
    return 2.0 / (y + 1.0 / y)


log_square_p = kernel("log_square", log_square_formula, lambda t, ans, y: t * _slope(y))
density_p = kernel(
    "cauchy_density",
    lambda y: (1 / math.pi) / (y * y + 1.0),
    lambda t, ans, y: t * (-ans * _slope(y)),
)


def _log_density(y: Any) -> Any:
    return -log_square_p.bind(y) - math.log(math.pi)


def below_formula(y: Term) -> Term:
    """The probability of at most y; the arc tangent of 1 / y keeps the lower tail precise."""
    low = y < -1.0
    tangent = where(low, -1.0 / y, y)
    angle = tangent.new(stablehlo.atan2(tangent.ir, tangent.full(1.0).ir)) * (1 / math.pi)
    return where(low, angle, angle + 0.5)


below_p = kernel("cauchy_below", below_formula, lambda t, ans, y: t * density_p.bind(y))


def _quantile(q: Any) -> Any:
    upper = q > 0.5
    tail = 1.0 / jnp.tan(math.pi * jnp.where(upper, 1.0 - q, q))
    return probability(q, jnp.where(upper, tail, -tail))


logpdf, pdf = _family.density(_log_density, density_p.bind)
cdf = _family.standard("cdf", below_p.bind)


def _log_below(y: Any) -> Any:
    """The logarithm of the probability of at most y, from the smaller of both sides."""
    upper = y > 0
    part = below_p.bind(jnp.where(upper, -y, y))
    return jnp.where(upper, jnp.log1p(-part), jnp.log(part))


logcdf = _family.standard("logcdf", _log_below)
sf = _family.standard("sf", lambda y: below_p.bind(-y))
logsf = _family.standard("logsf", lambda y: _log_below(-y))
ppf = _family.quantile("ppf", _quantile)
isf = _family.quantile("isf", lambda q: -_quantile(q))
