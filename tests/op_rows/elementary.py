"""Rows of `ops.elementary` and `ops.powers`: powers, roots and the elementary functions."""

from __future__ import annotations

import numpy as np
import scipy.special

from op_table import Arg, Op, away, between, by_kind, integers
from weft import dtypes
from weft.ops.elementwise import (
    arithmetic,
    distances,
    elementary,
    exponentials,
    powers,
    rectified,
    stable_sums,
)  # fmt: skip

INEXACT, R = dtypes.INEXACT, dtypes.FLOATING
inside = between(-0.9, 0.9)
positive = between(0.2, 4)


def cosine(x, y):
    found = np.where((x == 0) & (y == 0), x, x / np.hypot(x, y))
    return np.where(np.isinf(x) & np.isfinite(y), np.sign(x), found)


def soft_sign(x):
    return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))


def squareplus(x, b):
    found = (x + np.hypot(x, np.sqrt(b))) / 2
    found = np.where(x == -np.inf, 0, found)
    return np.where(np.isnan(x) | ~(b >= 0), np.nan, found)


def silu_slope(x):
    size = np.clip(x, -1000, 1000)
    s = scipy.special.expit(size)
    return s * (1 + size * scipy.special.expit(-size))


def gelu_slope(x):
    size = np.clip(x, -100, 100)
    scale = 2 * np.sqrt(2 / np.pi)
    u, rise = scale * (size + 0.044715 * size**3), scale * (1 + 3 * 0.044715 * size**2)
    return scipy.special.expit(u) * (1 + size * rise * scipy.special.expit(-u))


def share(difference, equal):
    return np.where(equal, 0.5, scipy.special.expit(difference))


def mish(x):
    size = np.maximum(x, -1000)
    return size * np.tanh(np.logaddexp(size, 0))


def mish_slope(x):
    size = np.clip(x, -300, 300)
    plus = np.logaddexp(size, 0)
    return np.tanh(plus) + size * scipy.special.expit(size) / np.cosh(plus) ** 2


def atan2(x, y):
    if not np.iscomplexobj(x):
        return np.arctan2(x, y)
    return -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


def logistic(x):
    return 1 / (1 + np.exp(-x)) if np.iscomplexobj(x) else scipy.special.expit(x)


def above_one(generator, shape, dtype):
    return between(1.1, 5)(generator, shape, dtype)


ROWS = [
    Op(powers.cbrt, np.cbrt, R, draw=away((0,), 0.2, between(-9, 9)), ulps=3),
    Op(powers.rsqrt, lambda x: 1 / np.sqrt(x), INEXACT, draw=positive, ulps=by_kind(2, 4)),
    Op(powers.reciprocal, lambda x: 1 / x, INEXACT, draw=away((0,), 0.2, between(-3, 3)), ulps=3),
    Op(powers.pow, np.power, INEXACT, arity=2, draw=(positive, between(-2, 2)),
       ulps=by_kind(1, 16)),
    Op(
        powers.pow, lambda x, y: np.power(x, y.astype(float)), INEXACT, name="pow to integers",
        args=(Arg(draw=away((0,), 0.2, between(-2, 2))), Arg(dtype=np.int32, draw=integers(-3, 3))),
        ulps=by_kind(1, 16), weak="first",
    ),
    *(
        Op(
            powers.integer_pow, lambda x, y: np.power(x, x.dtype.type(y)) if y >= 0 else x ** y,
            dtypes.NUMERIC if y >= 0 else INEXACT, name=f"integer_pow {y}", params={"y": y},
            draw=away((0,), 0.5, between(-2, 2)), ulps=8,
        )
        for y in (0, 1, 2, 3, 7, -1, -3)
    ),
    Op(elementary.exp2, np.exp2, INEXACT, ulps=by_kind(1, 4)),
    Op(elementary.expm1, np.expm1, INEXACT, ulps=by_kind(2, 6)),
    Op(elementary.log1p, np.log1p, INEXACT, draw=between(-0.7, 5), ulps=by_kind(3, 60)),
    Op(exponentials.log2, np.log2, R, draw=positive, ulps=4, floor=0.1),
    Op(exponentials.log10, np.log10, R, draw=positive, ulps=4, floor=0.1),
    Op(elementary.logistic, logistic, INEXACT, ulps=6),
    Op(elementary.tan, np.tan, INEXACT, draw=between(-1.3, 1.3), ulps=6),
    Op(elementary.asin, np.arcsin, INEXACT, draw=inside, ulps=6),
    Op(elementary.acos, np.arccos, INEXACT, draw=inside, ulps=6),
    Op(elementary.atan, np.arctan, INEXACT, draw=inside, ulps=by_kind(1, 6)),
    Op(elementary.atan2, atan2, INEXACT, arity=2, draw=away((0,), 0.3, between(-3, 3)),
       ulps=by_kind(2, 60)),
    Op(elementary.sinh, np.sinh, INEXACT, ulps=by_kind(2, 24)),
    Op(elementary.cosh, np.cosh, INEXACT, ulps=by_kind(2, 12)),
    Op(elementary.asinh, np.arcsinh, INEXACT, ulps=6),
    Op(elementary.acosh, np.arccosh, INEXACT, draw=above_one, ulps=6),
    Op(elementary.atanh, np.arctanh, INEXACT, draw=inside, ulps=6),
    Op(stable_sums.logaddexp, np.logaddexp, R, arity=2, ulps=4, floor=0.1),
    Op(stable_sums.logaddexp2, np.logaddexp2, R, arity=2, ulps=4, floor=0.1),
    Op(stable_sums.logaddexp_share_p.bind, lambda x, y: share(x - y, x == y), R, arity=2,
       ulps=4, name="logaddexp_share"),
    Op(stable_sums.logaddexp2_share_p.bind,
       lambda x, y: share((x - y) * np.log(2), x == y), R, arity=2,
       ulps=6, name="logaddexp2_share"),
    Op(stable_sums.logaddexp_share_slope_p.bind,
       lambda x, y: share(x - y, x == y) * share(y - x, x == y), R, arity=2,
       ulps=8, name="logaddexp_share_slope"),
    Op(stable_sums.logaddexp2_share_slope_p.bind,
       lambda x, y: share((x - y) * np.log(2), x == y) * share((y - x) * np.log(2), x == y), R,
       arity=2, ulps=12, name="logaddexp2_share_slope"),
    Op(distances.hypot, np.hypot, R, arity=2, ulps=3),
    Op(distances.height_p.bind, lambda part, a, b: a + part * (b - a), R, arity=3, ulps=6,
       draw=(between(0, 1), between(-3, 3), between(-3, 3)), floor=1.0, specials=False,
       name="height_between"),
    Op(distances.cosine, cosine, R, arity=2, ulps=3),
    Op(arithmetic.sech_squared, lambda x: 1 / np.cosh(x) ** 2, R, ulps=4),
    Op(elementary.logistic_slope, lambda x: 0.25 / np.cosh(x / 2) ** 2, R, ulps=4),
    Op(elementary.one_minus_square, lambda x: (1 - x) * (1 + x), R, draw=inside, ulps=3),
    Op(elementary.atan_slope, lambda x: 1 / (1 + x * x), R, ulps=2),
    Op(rectified.silu_slope_p.bind, silu_slope, R, name="silu_slope", ulps=4,
       floor=0.1),
    Op(rectified.gelu_slope_p.bind, gelu_slope, R, name="gelu_slope", ulps=6,
       floor=0.1),
    Op(rectified.mish_p.bind, mish, R, name="mish", ulps=5),
    Op(rectified.mish_slope_p.bind, mish_slope, R, name="mish_slope", ulps=6,
       floor=0.5),
    Op(rectified.soft_sign_p.bind, soft_sign, R, name="soft_sign",
       draw=away((0,), 0.3, between(-3, 3)), ulps=3),
    Op(rectified.squareplus_p.bind, squareplus, R, arity=2,
       name="squareplus", draw=positive, ulps=4),
]  # fmt: skip
