"""Rows of the elementwise functions of `weft.numpy`, against NumPy's of the same names.

What NumPy promotes is promoted, so that nothing is refused here; the bad calls show what is. The
functions that count or step through bits, `nextafter` and `spacing`, are compared in
`test_numpy_elementwise.py`, as their reference has to have the dtype itself.
"""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from op_table import Op, any_bits, away, between, by_kind, integers
from weft import dtypes

R, INEXACT = dtypes.FLOATING, dtypes.INEXACT
REAL, NUMERIC, ANY = dtypes.REAL, dtypes.NUMERIC, dtypes.ANY
WIDE = frozenset({dtypes.float32, dtypes.float64})
SMALL = integers(0, 6)
INSIDE = between(-0.9, 0.9)
POSITIVE = between(0.2, 4)
APART = away((0,), 0.2, between(-3, 3))


def nonzero(generator, shape, dtype):
    value = APART(generator, shape, dtype)
    return np.where(value == 0, np.ones((), dtype), value)


def row(name, accepts, *, reference=None, **options):
    options = {"refuses": False, "weak": None, "vmap_limit": 4, "ulps": 8, "order": 0, **options}
    reference = reference or getattr(np, name)
    return Op(getattr(jnp, name), reference, accepts, name=f"numpy.{name}", **options)


def smooth(name, accepts, **options):
    return row(name, accepts, **{"order": 2, **options})


def pair(name, accepts, **options):
    return row(name, accepts, arity=2, **options)


def smooth_pair(name, accepts, **options):
    return smooth(name, accepts, arity=2, **options)


ROWS = [
    smooth_pair("add", ANY),
    smooth_pair("subtract", NUMERIC),
    smooth_pair("multiply", ANY),
    smooth_pair("true_divide", NUMERIC, draw=(between(-3, 3), nonzero)),
    *(pair(name, REAL, draw=(between(-9, 9), nonzero), floor=1.0)
      for name in ("floor_divide", "remainder", "fmod")),
    *(smooth_pair(name, R, draw=(POSITIVE, between(-2, 2))) for name in ("power", "float_power")),
    *(smooth_pair(name, ANY) for name in ("maximum", "minimum")),
    *(pair(name, dtypes.ORDERED) for name in ("fmax", "fmin")),
    *(pair(name, ANY) for name in (
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
        "logical_or", "logical_xor",
    )),
    *(pair(name, dtypes.BITS, draw=any_bits)
      for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(pair(name, dtypes.INTEGER, draw=(any_bits, SMALL))
      for name in ("left_shift", "right_shift")),
    *(smooth_pair(name, R) for name in ("arctan2", "hypot")),
    *(smooth_pair(name, R, floor=0.1) for name in ("logaddexp", "logaddexp2")),
    *(pair(name, R) for name in ("copysign", "heaviside")),
    *(pair(name, dtypes.INTEGER, draw=between(-9, 9)) for name in ("gcd", "lcm")),
    row("logical_not", ANY),
    row("invert", dtypes.BITS, draw=any_bits),
    row("bitwise_count", dtypes.INTEGER, draw=any_bits),
    *(smooth(name, NUMERIC) for name in ("negative", "positive", "square", "real", "conj")),
    smooth("reciprocal", INEXACT, draw=APART),
    smooth("abs", ANY, draw=APART),
    row("fabs", R),
    row("sign", NUMERIC),
    *(smooth(name, INEXACT) for name in ("exp", "exp2", "expm1")),
    *(smooth(name, INEXACT, draw=POSITIVE, floor=0.1) for name in ("log", "log2", "log10")),
    smooth("log1p", INEXACT, draw=between(-0.5, 3), floor=0.1, ulps=by_kind(8, 24)),
    smooth("sqrt", INEXACT, draw=POSITIVE),
    smooth("cbrt", R, draw=APART),
    *(smooth(name, INEXACT, floor=1.0) for name in ("sin", "cos")),
    smooth("tan", INEXACT, draw=between(-1, 1)),
    *(smooth(name, INEXACT, draw=INSIDE) for name in ("arcsin", "arccos", "arctan", "arctanh")),
    *(smooth(name, INEXACT, ulps=by_kind(8, 24))
      for name in ("sinh", "cosh", "tanh", "arcsinh")),
    smooth("arccosh", INEXACT, draw=between(1.1, 5)),
    *(smooth(name, R) for name in ("deg2rad", "rad2deg")),
    smooth("sinc", WIDE, floor=1.0),
    smooth("i0", WIDE),
    *(row(name, REAL) for name in ("floor", "ceil", "trunc", "signbit")),
    row("fix", REAL, reference=np.trunc),
    row("rint", INEXACT),
    *(row(name, ANY) for name in ("isnan", "isinf", "isfinite", "iscomplex", "isreal")),
    *(row(name, R) for name in ("isposinf", "isneginf")),
    row("imag", NUMERIC),
    row("angle", WIDE | dtypes.COMPLEX),
    row("nan_to_num", NUMERIC, specials=False),
]  # fmt: skip
