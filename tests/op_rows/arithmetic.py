"""Rows of `ops.arithmetic`: arithmetic, comparisons, some elementary functions."""

from __future__ import annotations

import numpy as np

from op_table import Op, away, between, by_kind
from weft import dtypes
from weft.ops.elementwise import arithmetic as lax


def nonzero(generator, shape, dtype):
    value = away((0,), 0.1, between(-3, 3))(generator, shape, dtype)
    return np.where(value == 0, np.ones((), dtype), value)


def divided(x, y):
    """Division rounded to zero for integers."""
    if x.dtype.kind in "iu":
        return np.trunc(x.astype(float) / y).astype(x.dtype)
    return x / y


def sign(x):
    return np.sign(x).astype(x.dtype)


ROWS = [
    Op(lax.neg, np.negative, dtypes.NUMERIC, ulps=0),
    Op(lax.round_product, np.positive, dtypes.INEXACT, ulps=0),
    Op(lax.add, np.add, dtypes.NUMERIC, arity=2, ulps=by_kind(0.5, 1)),
    Op(lax.sub, np.subtract, dtypes.NUMERIC, arity=2, ulps=by_kind(0.5, 1)),
    Op(lax.mul, np.multiply, dtypes.NUMERIC, arity=2, ulps=by_kind(0.5, 2)),
    Op(lax.div, divided, dtypes.NUMERIC, arity=2, draw=(between(-3, 3), nonzero),
       ulps=by_kind(1, 4)),
    Op(
        lax.rem, np.fmod, dtypes.REAL, arity=2, draw=(between(-9, 9), nonzero),
        grad_draw=(lambda *a: np.array([[5.3, -4.4, 2.5], [1.2, -7.7, 3.3]]),
                   lambda *a: np.array([[2.0, 1.5, -1.7], [3.1, 2.3, 0.7]])),
        floor=1.0,
    ),
    Op(lax.max, np.maximum, dtypes.ORDERED, arity=2, ulps=0),
    Op(lax.min, np.minimum, dtypes.ORDERED, arity=2, ulps=0),
    Op(lax.sign, sign, dtypes.NUMERIC, ulps=by_kind(0, 4)),
    Op(lax.abs, np.abs, dtypes.SIGNED | dtypes.INEXACT, draw=away((0,), 0.1, between(-3, 3)),
       weak="first", ulps=3),
    Op(lax.square, np.square, dtypes.NUMERIC, ulps=by_kind(0.5, 2)),
    Op(lax.exp, np.exp, dtypes.INEXACT, ulps=by_kind(1, 3)),
    Op(lax.log, np.log, dtypes.INEXACT, draw=between(0.2, 9), ulps=3, floor=1.0),
    Op(lax.sin, np.sin, dtypes.INEXACT, ulps=by_kind(1, 4), floor=1.0),
    Op(lax.cos, np.cos, dtypes.INEXACT, ulps=by_kind(1, 4), floor=1.0),
    Op(lax.tanh, np.tanh, dtypes.INEXACT, ulps=by_kind(4, 16)),
    Op(lax.sqrt, np.sqrt, dtypes.INEXACT, draw=between(0.2, 9), ulps=by_kind(0.5, 2)),
    *(
        Op(function, reference, accepts, arity=2, draw=between(-2, 2))
        for function, reference, accepts in (
            (lax.eq, np.equal, dtypes.ANY),
            (lax.ne, np.not_equal, dtypes.ANY),
            (lax.lt, np.less, dtypes.ORDERED),
            (lax.le, np.less_equal, dtypes.ORDERED),
            (lax.gt, np.greater, dtypes.ORDERED),
            (lax.ge, np.greater_equal, dtypes.ORDERED),
        )
    ),
]  # fmt: skip
