"""Rows of `ops.special` and `ops.regularized`: the error, gamma and Bessel functions."""

from __future__ import annotations

import numpy as np
import scipy.special

from op_table import Op, away, between, integers
from weft import dtypes
from weft.ops.elementwise import gaussians
from weft.ops.elementwise import special as lax
from weft.ops.elementwise.regularized import (
    betainc,
    igamma,
    igamma_grad_a,
    igammac,
    random_gamma_grad,
)

R = dtypes.FLOATING
POLES = tuple(range(-6, 1))
gamma_domain = away(POLES, 0.15, between(-5, 9))
positive = between(0.3, 6)
unit = between(0.1, 0.9)


def polygamma(m, x):
    return scipy.special.polygamma(m.astype(int), x)


def in_a(a, x):
    """The derivative of P(a, x) in a by finite differences, good to about 1e-11."""
    h = 2e-3
    p = [scipy.special.gammainc(a + k * h, x) for k in (1, -1, 2, -2)]
    return (8 * (p[0] - p[1]) - (p[2] - p[3])) / (12 * h)


def sample_in_a(a, x):
    density = np.exp((a - 1) * np.log(x) - x - scipy.special.gammaln(a))
    return -in_a(a, x) / density


def bessel_difference(x):
    size = np.abs(x)
    return scipy.special.i0e(size) - scipy.special.i1e(size)


def erfcx_slope(x):
    return 2 * x * scipy.special.erfcx(x) - 2 / np.sqrt(np.pi)


def log_ndtr_slope(x):
    return np.exp(-x * x / 2 - scipy.special.log_ndtr(x)) / np.sqrt(2 * np.pi)


def erf_inv_slope(x, y):
    return np.sqrt(np.pi) / 2 * scipy.special.erfcx(np.abs(y)) / (1 - np.abs(x))


def ndtri_slope(p, y):
    tail = scipy.special.erfcx(np.abs(y) / np.sqrt(2))
    return np.sqrt(np.pi / 2) * tail / np.minimum(p, 1 - p)


# The reference itself is good to no more than that in float64.
BY_DIFFERENCES = {dtypes.float64: 1e6, None: 100}


ROWS = [
    Op(lax.erf, scipy.special.erf, R, ulps=4),
    Op(lax.erfc, scipy.special.erfc, R, ulps=8),
    Op(lax.erf_inv, scipy.special.erfinv, R, draw=between(-0.95, 0.95),
       ulps={dtypes.float64: 30, None: 6}),
    Op(lax.lgamma, scipy.special.gammaln, R, draw=gamma_domain, ulps=24, floor=1.0,
       specials=False),
    Op(lax.digamma, scipy.special.digamma, R, draw=gamma_domain, ulps=24, floor=1.0,
       specials=False),
    Op(lax.polygamma, polygamma, R, arity=2, constant=(0,), specials=False,
       draw=(integers(1, 4), between(0.7, 5)), ulps=32),
    Op(lax.zeta, scipy.special.zeta, R, arity=2, constant=(0,), specials=False,
       draw=(between(1.5, 5), between(0.7, 5)), ulps=8),
    Op(igamma, scipy.special.gammainc, R, arity=2, constant=(0,), draw=positive, ulps=300),
    Op(igamma, scipy.special.gammainc, R, arity=2, draw=positive, ulps=300, order=1,
       name="igamma in both operands"),
    Op(igamma, scipy.special.gammainc, R - {dtypes.float16}, arity=2, constant=(0,),
       draw=between(900, 1100), grad_draw=between(12, 15), ulps=300, floor=1e-2, refuses=False,
       name="igamma of large operands"),
    Op(igammac, scipy.special.gammaincc, R, arity=2, constant=(0,), draw=positive, ulps=300,
       floor=0.1),
    Op(igammac, scipy.special.gammaincc, R, arity=2, draw=positive, ulps=300, order=1,
       floor=0.1, name="igammac in both operands"),
    Op(igamma_grad_a, in_a, R, arity=2, constant=(0,), draw=positive, floor=0.01,
       ulps=BY_DIFFERENCES, specials=False),
    Op(random_gamma_grad, sample_in_a, R, arity=2, order=0, draw=positive, floor=0.1,
       ulps=BY_DIFFERENCES, specials=False),
    Op(betainc, scipy.special.betainc, R, arity=3, constant=(0, 1), ulps=300, floor=0.01,
       draw=(positive, positive, unit)),
    Op(betainc, scipy.special.betainc, R - {dtypes.float16}, arity=3, order=0, floor=0.01,
       draw=(between(300, 400), between(500, 700), between(0.3, 0.5)), ulps=300, refuses=False,
       name="betainc of large operands"),
    Op(lax.bessel_i0e, scipy.special.i0e, R, draw=away((0,), 0.1, between(-20, 20)), ulps=8),
    Op(lax.bessel_i1e, scipy.special.i1e, R, draw=away((0,), 0.1, between(-20, 20)), ulps=8),
    Op(lax.bessel_difference_p.bind, bessel_difference, R, name="bessel_difference", order=1,
       draw=away((0,), 0.1, between(-20, 20)), ulps={dtypes.float64: 1000, None: 8}),
    Op(gaussians.erf_slope_p.bind, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), R,
       name="erf_slope", ulps={dtypes.float64: 16, None: 3}),
    Op(gaussians.normal_density_p.bind, lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), R,
       name="normal_density", ulps={dtypes.float64: 16, None: 3}),
    Op(gaussians.erfcx_slope_p.bind, erfcx_slope, R, name="erfcx_slope", specials=False,
       ulps={dtypes.float64: 200, None: 12}),
    Op(gaussians.log_ndtr_slope_p.bind, log_ndtr_slope, R, name="log_ndtr_slope", specials=False,
       ulps={dtypes.float64: 60, None: 8}),
    Op(gaussians.log_ndtr_excess_p.bind, lambda x: x + log_ndtr_slope(x), R, specials=False,
       name="log_ndtr_excess", ulps={dtypes.float64: 1000, None: 12}),
    # Their operands belong together: a derivative is not that by each on its own.
    Op(gaussians.erf_inv_slope_p.bind, erf_inv_slope, R, arity=2, name="erf_inv_slope", order=0,
       draw=unit, ulps=8, specials=False),
    Op(gaussians.ndtri_slope_p.bind, ndtri_slope, R, arity=2, name="ndtri_slope", order=0,
       draw=unit, ulps=8, specials=False),
]  # fmt: skip
