"""Wrong calls of random distributions and generators."""

from __future__ import annotations

import numpy as np

import weft.numpy as wnp
from bad_calls import BadCall
from weft import random
from weft.errors import DTypeError, ShapeError, WeftTypeError, WeftValueError

KEY = random.key(0)
KEYS = random.split(KEY, 3)
TWO, THREE = wnp.ones(2), wnp.ones(3)
EYE = wnp.eye(2)

CALLS = [
    BadCall("gamma", lambda: random.gamma(KEYS, 1.0), ShapeError, ("one key", "(3,)")),
    BadCall("gamma", lambda: random.gamma(KEY, TWO, (3,)), ShapeError, ("a of shape (2,)", "(3,)")),
    BadCall("gamma", lambda: random.gamma(KEY, 1.0, dtype=int), DTypeError, ("real", "i32")),
    BadCall("loggamma", lambda: random.loggamma(KEY, None), WeftTypeError, ("a is", "None")),
    BadCall("beta", lambda: random.beta(KEY, TWO, THREE), ShapeError, ("a of", "b of", "together")),
    BadCall("beta", lambda: random.beta(KEY, 1.0, 1.0, (), "c64"), DTypeError, ("c64",)),
    BadCall("chisquare", lambda: random.chisquare(KEY, EYE, 2), ShapeError, ("df of shape",)),
    BadCall("t", lambda: random.t(KEY, KEY), WeftTypeError, ("df is", "number")),
    BadCall("f", lambda: random.f(KEY, TWO, THREE), ShapeError, ("dfnum of", "dfden of")),
    BadCall("dirichlet", lambda: random.dirichlet(KEY, 1.0), ShapeError, ("alpha", "dimension")),
    BadCall(
        "dirichlet",
        lambda: random.dirichlet(KEY, EYE, (3,)),
        ShapeError,
        ("alpha of shape (2, 2)",),
    ),
    BadCall(
        "generalized_normal",
        lambda: random.generalized_normal(KEY, TWO, (3,)),
        ShapeError,
        ("p of shape (2,)",),
    ),
    BadCall("ball", lambda: random.ball(KEY, 2, float("nan")), WeftValueError, ("p=nan",)),
    BadCall("ball", lambda: random.ball(KEY, 2, shape=None), WeftTypeError, ("shape=None",)),
    BadCall("poisson", lambda: random.poisson(KEY, 1.0, dtype=float), DTypeError, ("f32",)),
    BadCall("poisson", lambda: random.poisson(KEY, THREE, (2,)), ShapeError, ("lam of shape",)),
    BadCall("binomial", lambda: random.binomial(KEY, 3, 0.5, dtype=int), DTypeError, ("i32",)),
    BadCall("binomial", lambda: random.binomial(KEY, TWO, THREE), ShapeError, ("n of", "p of")),
    BadCall("binomial", lambda: random.binomial(KEY, None, 0.5), WeftTypeError, ("n is", "None")),
    BadCall("multinomial", lambda: random.multinomial(KEY, 3, 0.5), ShapeError, ("p of shape ()",)),
    BadCall(
        "multinomial", lambda: random.multinomial(KEY, THREE, TWO), ShapeError, ("n of shape (3,)",)
    ),
    BadCall(
        "multinomial",
        lambda: random.multinomial(KEY, 3, TWO, shape=(4,)),
        ShapeError,
        ("p of shape (2,)", "shape=(4,)"),
    ),
    BadCall(
        "multivariate_normal",
        lambda: random.multivariate_normal(KEY, TWO, TWO),
        ShapeError,
        ("cov of shape (2,)", "(..., n, n)"),
    ),
    BadCall(
        "multivariate_normal",
        lambda: random.multivariate_normal(KEY, THREE, EYE),
        ShapeError,
        ("mean of shape (3,)",),
    ),
    BadCall(
        "multivariate_normal",
        lambda: random.multivariate_normal(KEY, wnp.ones((3, 2)), EYE, (4,)),
        ShapeError,
        ("mean without its last dimension of shape (3,)",),
    ),
    BadCall(
        "multivariate_normal",
        lambda: random.multivariate_normal(KEY, TWO, EYE, dtype="int8"),
        DTypeError,
        ("i8",),
    ),
    BadCall("orthogonal", lambda: random.orthogonal(KEY, 2, dtype=int), DTypeError, ("i32",)),
    BadCall("key", lambda: random.key(0, impl="rgb"), WeftValueError, ("'rgb'", "'rbg'")),
    BadCall("key", lambda: random.key(0.5, impl="rbg"), WeftTypeError, ("integer as its seed",)),
    BadCall(
        "wrap_key_data",
        lambda: random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg"),
        DTypeError,
        ("u32[2]", "u32[..., 4]"),
    ),
    BadCall(
        "fold_in", lambda: random.fold_in(random.key(0, impl="rbg"), 0.5), DTypeError, ("f32",)
    ),
]
