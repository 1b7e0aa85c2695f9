"""The left-skewed Gumbel distribution, of smallest values.

Distribution function 1 - exp(-exp(y)) with y = (x - loc) / scale. NaN where the scale is not
positive.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.ops.elementwise.formulas import Term
from weft.ops.flops import of_each
from weft.runtime import stablehlo
from weft.scipy.real_functions import Real, kernel
from weft.scipy.stats.distributions import (
    Family,
    complement,
    in_standard,
    log1mexp,
    probability,
    valid,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

__dir__ = public_names(globals())

_family = Family(__name__).examples("""
    >>> logpdf(0.5)
    Array(-1.1487212, dtype=float32, weak_type=True)
    >>> pdf(0.5)
    Array(0.31704193, dtype=float32, weak_type=True)
    >>> cdf(0.5)
    Array(0.8077043, dtype=float32, weak_type=True)
    >>> logcdf(0.5)
    Array(-0.2135592, dtype=float32, weak_type=True)
    >>> sf(0.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    >>> logsf(0.5)
    Array(-1.6487212, dtype=float32, weak_type=True)
    >>> ppf(0.25)
    Array(-1.2458994, dtype=float32, weak_type=True)
    """)


def log_density_formula(y: Term) -> Term:
    """y - exp(y); where both are infinite only the second counts."""
    return y.new(stablehlo.minimum(y.ir, y.full(1000.0).ir)) - y.exp()


log_density_p = kernel(
    "gumbel_log_density",
    log_density_formula,
    lambda t, ans, y: t * (1.0 - jnp.exp(y)),
    flops=of_each(2, 1),
)


# From here on the density is 0, and its derivative has to stay finite.
_END = 20.0


def density_formula(y: Term) -> Term:
    y = y.new(stablehlo.minimum(y.ir, y.full(_END).ir))
    return (y - y.exp()).exp()


density_p = kernel(
    "gumbel_density",
    density_formula,
    lambda t, ans, y: t * (ans * (1.0 - jnp.exp(jnp.minimum(y, _END)))),
)
logpdf, pdf = _family.density(log_density_p.bind, density_p.bind)


def log_rest(y: Any) -> Any:
    """log(1 - exp(-exp(y))), which goes on where exp(y) is 0."""
    y = jnp.minimum(y, 20.0)  # from there on it is 0
    far, power = y < -15.0, jnp.exp(y)
    return jnp.where(far, y - 0.5 * power, log1mexp(-jnp.where(far, 1.0, power)))


logsf, sf = _family.pair("logsf", in_standard(lambda y: -jnp.exp(y)))
logcdf = _family.standard("logcdf", log_rest)
cdf = _family.standard("cdf", lambda y: complement(-jnp.exp(y)))


@_family.formula
def ppf(p: Real, loc: Real = 0, scale: Real = 1) -> Array:
    return valid(scale > 0, probability(p, loc + jnp.log(-jnp.log1p(-p)) * scale))
