"""Wrong calls of random distributions and generators."""

from __future__ import annotations

import numpy as np

import weft.numpy as wnp
from bad_calls import BadCall
from weft import random
from weft.errors import DTypeError, ShapeError

KEY = random.key(0)
KEYS = random.split(KEY, 3)
TWO, THREE = wnp.ones(2), wnp.ones(3)
EYE = wnp.eye(2)

CALLS = [
    BadCall("gamma", lambda: random.gamma(KEYS, 1.0), ShapeError, ("one key", "(3,)")),
    BadCall("gamma", lambda: random.gamma(KEY, TWO, (3,)), ShapeError, ("a of shape (2,)", "(3,)")),
    BadCall("beta", lambda: random.beta(KEY, TWO, THREE), ShapeError, ("a of", "b of", "together")),
    BadCall("chisquare", lambda: random.chisquare(KEY, EYE, 2), ShapeError, ("df of shape",)),
    BadCall("f", lambda: random.f(KEY, TWO, THREE), ShapeError, ("dfnum of", "dfden of")),
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
    BadCall("poisson", lambda: random.poisson(KEY, THREE, (2,)), ShapeError, ("lam of shape",)),
    BadCall("binomial", lambda: random.binomial(KEY, TWO, THREE), ShapeError, ("n of", "p of")),
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
        "wrap_key_data",
        lambda: random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg"),
        DTypeError,
        ("u32[2]", "u32[..., 4]"),
    ),
]
