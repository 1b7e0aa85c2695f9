"""Wrong calls of special functions."""

from __future__ import annotations

import numpy as np

import weft
import weft.scipy.special as special
from bad_calls import BadCall
from weft.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.testing import exact_array

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 5), np.float32)
Z = np.ones(3, np.complex64)

CALLS = [
    BadCall("erf", lambda: special.erf([1.0]), WeftTypeError, ("x is a list", "array(x)")),
    BadCall("erf", lambda: special.erf(Z), DTypeError, ("x of type c64[3]", "floating-point")),
    BadCall(
        "erf",
        lambda: special.erf(X, X),
        WeftTypeError,
        ("takes 1 positional argument", "the arguments x"),
    ),
    BadCall("erf", lambda: special.erf(X, out=X), WeftTypeError, ("out", "unexpected")),
    BadCall("gamma", lambda: special.gamma("a"), WeftTypeError, ("x is a str", "number")),
    BadCall("gamma", lambda: special.gamma(None), WeftTypeError, ("x is a NoneType",)),
    BadCall("gammaln", lambda: special.gammaln(exact_array(X, "int4")), DTypeError, ("x ",)),
    BadCall("beta", lambda: special.beta(X), WeftTypeError, ("missing", "'b'", "a, b")),
    BadCall("beta", lambda: special.beta(X, M), ShapeError, ("(4,), (3, 5)",)),
    BadCall("hyp2f1", lambda: special.hyp2f1(1, 1, Z, 1), DTypeError, ("c of type",)),
    BadCall("log_ndtr", lambda: special.log_ndtr(X, 0), WeftValueError, ("series_order=0", "30")),
    BadCall("log_ndtr", lambda: special.log_ndtr(Z), DTypeError, ("x of type c64[3]",)),
    BadCall("factorial", lambda: special.factorial(X, exact=True), NotImplementedError, ("exact",)),
    BadCall("comb", lambda: special.comb(Z, 1), DTypeError, ("N of type c64[3]",)),
    BadCall("comb", lambda: special.comb(X, M, repetition=True), ShapeError, ("(4,)",)),
    BadCall("multigammaln", lambda: special.multigammaln(X, 0), WeftValueError, ("d=0", "1 on")),
    BadCall("multigammaln", lambda: special.multigammaln(Z, 2), DTypeError, ("a of type c64[3]",)),
    BadCall("bernoulli", lambda: special.bernoulli(-1), WeftValueError, ("n=-1", "0 on")),
    BadCall("bessel_jn", lambda: special.bessel_jn(Z, v=1), DTypeError, ("z of type c64[3]",)),
    BadCall("sph_harm_y", lambda: special.sph_harm_y(0.5, 0, X, X), DTypeError, ("integers as n",)),
    BadCall("sph_harm_y", lambda: special.sph_harm_y(1, 0, X, M), ShapeError, ("broadcast",)),
    BadCall(
        "sph_harm_y",
        lambda: special.sph_harm_y(1, 0, X, X, diff_n=1),
        NotImplementedError,
        ("diff_n=1", "weft.jvp"),
    ),
    BadCall(
        "sph_harm_y",
        lambda: weft.jit(lambda n: special.sph_harm_y(n, 0, X, X))(1),
        WeftTypeError,
        ("n_max",),
    ),
    BadCall("wofz", lambda: special.wofz([1.0]), WeftTypeError, ("list",)),
    BadCall("softmax", lambda: special.softmax(X, axis=1), AxisError, ("1",)),
    BadCall("log_softmax", lambda: special.log_softmax(X, axis=0.5), WeftTypeError, ("axis=0.5",)),
    BadCall("logsumexp", lambda: special.logsumexp(X, where=X), DTypeError, ("mask",)),
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
