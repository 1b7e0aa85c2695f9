"""Rows of `ops.densities`: probabilities of real counts, and densities, by SciPy's logarithms.

The references cancel themselves for large parameters, which tests/ops/test_deviances.py has.
"""

from __future__ import annotations

import numpy as np
import scipy.special
import scipy.stats

from op_table import Op, between
from weft import dtypes
from weft.ops.elementwise import densities

R = dtypes.FLOATING
count = between(0.3, 9)
mean = between(0.4, 8)
parameter = between(0.4, 6)
unit = between(0.1, 0.9)


def log_poisson(x, mean):
    return x * np.log(mean) - mean - scipy.special.gammaln(x + 1)


def binomial(x, rest, p):
    return scipy.special.binom(x + rest, x) * p**x * (1 - p) ** rest


def log_binomial(x, rest, p):
    ways = scipy.special.gammaln(x + rest + 1)
    ways -= scipy.special.gammaln(x + 1) + scipy.special.gammaln(rest + 1)
    return ways + x * np.log(p) + rest * np.log1p(-p)


def op(primitive, reference, arity, draw, **options):
    options = {"ulps": 40, "specials": False} | options

    def function(*args):
        return primitive.bind(*args)

    return Op(function, reference, R, arity=arity, draw=draw, name=primitive.name, **options)


ROWS = [
    op(densities.log_less_digamma_p, lambda x: np.log(x) - scipy.special.digamma(x), 1,
       between(0.2, 30), floor=1.0),  # it is added to a logarithm
    op(densities.poisson_p, lambda x, m: np.exp(log_poisson(x, m)), 2, (count, mean), floor=1e-3),
    op(densities.log_poisson_p, log_poisson, 2, (count, mean), floor=1.0),
    op(densities.gamma_density_p, lambda a, x: scipy.stats.gamma.pdf(x, a), 2, (parameter, mean),
       floor=1e-3),
    op(densities.log_gamma_density_p, lambda a, x: scipy.stats.gamma.logpdf(x, a), 2,
       (parameter, mean), floor=1.0),
    op(densities.distance_from_mean_p, lambda x, rest, p: p * (x + rest) - x, 3,
       (count, count, unit), floor=1.0),
    op(densities.binomial_p, binomial, 3,
       (count, count, unit), floor=1e-3),
    op(densities.log_binomial_p, log_binomial, 3, (count, count, unit), floor=1.0),
    op(densities.beta_density_p, lambda a, b, x: scipy.stats.beta.pdf(x, a, b), 3,
       (parameter, parameter, unit), floor=1e-3),
    op(densities.log_beta_density_p, lambda a, b, x: scipy.stats.beta.logpdf(x, a, b), 3,
       (parameter, parameter, unit), floor=1.0),
]  # fmt: skip
