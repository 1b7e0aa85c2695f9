"""Wrong calls of special functions."""

from __future__ import annotations

import numpy as np

import weft
import weft.scipy.special as special
from bad_calls import BadCall
from weft.errors import ShapeError, WeftNotImplementedError, WeftTypeError

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 5), np.float32)

CALLS = [
    BadCall(
        "erf",
        lambda: special.erf(X, X),
        WeftTypeError,
        ("takes 1 positional argument", "the arguments x"),
    ),
    BadCall("erf", lambda: special.erf(X, out=X), WeftTypeError, ("out", "unexpected")),
    BadCall("beta", lambda: special.beta(X), WeftTypeError, ("missing", "'b'", "a, b")),
    BadCall("beta", lambda: special.beta(X, M), ShapeError, ("(4,), (3, 5)",)),
    BadCall("comb", lambda: special.comb(X, M, repetition=True), ShapeError, ("(4,)",)),
    BadCall("sph_harm_y", lambda: special.sph_harm_y(1, 0, X, M), ShapeError, ("broadcast",)),
    BadCall(
        "sph_harm_y",
        lambda: special.sph_harm_y(1, 0, X, X, diff_n=1),
        NotImplementedError,
        ("diff_n=1", "weft.jvp"),
    ),
    BadCall(
        "expn",
        lambda: weft.grad(special.expn)(np.float32(1), np.float32(1)),
        WeftNotImplementedError,
        ("derivative in n", "stop_gradient"),
    ),
    BadCall(
        "hyp2f1",
        lambda: weft.grad(special.hyp2f1)(*np.float32([1, 1, 1, 0.5])),
        WeftNotImplementedError,
        ("derivative in a",),
    ),
]
