"""Rows of `weft.scipy.special`: what is a primitive of its own there.

Integers are promoted and complex numbers refused, which `test_scipy_special.py` and the bad calls
show; here the floating-point dtypes are swept.
"""

from __future__ import annotations

import numpy as np
import scipy.special as reference

import weft.scipy.special as special
from op_table import Op, away, between, integers
from weft import dtypes
from weft.scipy.special.entropies import entr_slope_p
from weft.scipy.special.error_functions import dawsn_slope_p
from weft.scipy.special.integrals import expi_slope_p

R = dtypes.FLOATING
positive = between(0.3, 4)
unit = between(0.1, 0.9)
wide = {"refuses": False, "weak": None, "vmap_limit": 4}


def dawsn_slope(x):
    return 1 - 2 * x * reference.dawsn(x)


def row(name, *, specials=False, **options):
    return Op(
        getattr(special, name), getattr(reference, name), R,
        name=f"special.{name}", specials=specials, **{**wide, **options},
    )  # fmt: skip


ROWS = [
    row("erfinv", draw=between(-0.95, 0.95), ulps=8, specials=True),
    row("erfcx", ulps=12),
    row("dawsn", ulps=8, floor=1e-3),
    Op(dawsn_slope_p.bind, dawsn_slope, R, name="dawsn_slope", specials=False, floor=1e-3,
       ulps={dtypes.float64: 60, None: 8}, **wide),
    row("ndtr", ulps=8, specials=True),
    row("log_ndtr", ulps=8, specials=True),
    row("ndtri", draw=unit, ulps=8, floor=0.1),
    row("owens_t", arity=2, draw=(away((0,), 0.1, between(-3, 3)), between(-3, 3)), ulps=60,
        floor=1e-4),
    row("gamma", draw=away(range(-6, 1), 0.15, between(-5, 6)), ulps=24),
    row("gammaln", draw=away(range(-6, 1), 0.15, between(-5, 9)), ulps=24, floor=1.0),
    row("gammasgn", draw=away(range(-6, 1), 0.15, between(-5, 6)), ulps=0, specials=True),
    row("beta", arity=2, draw=positive, ulps=24),
    row("betaln", arity=2, draw=positive, ulps=24, floor=1.0),
    row("comb", arity=2, draw=(between(5, 9), between(0.3, 4)), ulps=50),
    row("poch", arity=2, draw=(between(0.5, 4), between(0.5, 3)), ulps=40),
    row("zeta", arity=2, draw=(between(1.5, 5), between(0.7, 5)), ulps=8),
    row("xlogy", arity=2, draw=positive, ulps=4, floor=0.1, specials=True),
    row("xlog1py", arity=2, draw=positive, ulps=4, floor=0.1, specials=True),
    row("entr", draw=positive, ulps=4, floor=0.1, specials=True),
    Op(entr_slope_p.bind, lambda x: -np.log(x) - 1, R, name="entr_slope", specials=False,
       draw=positive, ulps=6, floor=0.1, **wide),
    Op(expi_slope_p.bind, lambda x: np.exp(x) / x, R, name="expi_slope", specials=False,
       draw=positive, ulps=6, floor=0.1, **wide),
    row("rel_entr", arity=2, draw=positive, ulps=4, floor=0.1, specials=True),
    row("kl_div", arity=2, draw=positive, ulps=8, floor=1.0, specials=True),
    row("logit", draw=unit, ulps=4, floor=0.1, specials=True),
    row("boxcox", arity=2, draw=(positive, between(-2, 2)), ulps=12, floor=0.1),
    row("boxcox1p", arity=2, draw=(positive, between(-2, 2)), ulps=12, floor=0.1),
    row("exp1", draw=positive, ulps=12, specials=True),
    row("expi", draw=positive, ulps=24, floor=0.5, specials=True),
    row("expn", arity=2, constant=(0,), draw=(integers(0, 4), positive), ulps=64),
    row("sici", draw=away((0,), 0.2, between(-5, 9)), ulps=16, floor=0.5),
    row("fresnel", draw=between(-3, 3), ulps=12, floor=0.05),
    row("spence", draw=positive, ulps=16, floor=0.1),
    row("hyp1f1", arity=3, constant=(0, 1), draw=(positive, positive, between(-2, 2)), ulps=120,
        floor=0.1, elementwise=False),
    row("hyp2f1", arity=4, constant=(0, 1, 2), draw=(positive, positive, positive, unit),
        grad_draw=(positive, positive, positive, between(0.1, 0.6)), ulps=300, floor=1.0, order=1,
        elementwise=False),
]  # fmt: skip
