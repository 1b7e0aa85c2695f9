"""Wrong calls of distributions and statistics of samples."""

from __future__ import annotations

import numpy as np

from bad_calls import BadCall
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.scipy import stats

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 5), np.float32)
Z = np.ones(3, np.complex64)
KDE = stats.gaussian_kde(np.arange(10, dtype=np.float32).reshape(2, 5) ** 0.5)
norm, several = stats.norm, stats.multivariate_normal

CALLS = [
    BadCall("norm.pdf", lambda: norm.pdf([1.0]), WeftTypeError, ("x is a list",)),
    BadCall("norm.pdf", lambda: norm.pdf(X, scale=None), WeftTypeError, ("scale is a NoneType",)),
    BadCall("norm.pdf", lambda: norm.pdf(X, size=2), WeftTypeError, ("size", "x, loc, scale")),
    BadCall("norm.cdf", lambda: norm.cdf(Z), DTypeError, ("x of type c64[3]",)),
    BadCall("norm.logsf", lambda: norm.logsf(X, M), ShapeError, ("(4,), (3, 5)",)),
    BadCall("norm.ppf", lambda: norm.ppf(x=0.5), WeftTypeError, ("'x'", "arguments q")),
    BadCall("gamma.logpdf", lambda: stats.gamma.logpdf(X), WeftTypeError, ("missing", "'a'")),
    BadCall("beta.cdf", lambda: stats.beta.cdf(X, 1, Z), DTypeError, ("b of type c64[3]",)),
    BadCall("t.pdf", lambda: stats.t.pdf(X, "3"), WeftTypeError, ("df is a str",)),
    BadCall("binom.pmf", lambda: stats.binom.pmf(X, M, 0.5), ShapeError, ("broadcast",)),
    BadCall("dirichlet.pdf", lambda: stats.dirichlet.pdf(X, M), ShapeError, ("vector alpha",)),
    BadCall(
        "dirichlet.logpdf", lambda: stats.dirichlet.logpdf(X, X[:2]), ShapeError, ("length 2",)
    ),
    BadCall("multinomial.pmf", lambda: stats.multinomial.pmf(1, 2, X), ShapeError, ("x ",)),
    BadCall("multinomial.logpmf", lambda: stats.multinomial.logpmf(M, 2, X), ShapeError, ("(4,)",)),
    BadCall(
        "multivariate_normal.logpdf",
        lambda: several.logpdf(X, X, X),
        ShapeError,
        ("cov of shape (4,)", "(..., n, n)"),
    ),
    BadCall(
        "multivariate_normal.pdf",
        lambda: several.pdf(X, X, np.eye(3, dtype=np.float32)),
        ShapeError,
        ("length 3",),
    ),
    BadCall(
        "multivariate_normal.logpdf",
        lambda: several.logpdf(X, X, 1.0, allow_singular=True),
        NotImplementedError,
        ("allow_singular=True",),
    ),
    BadCall("mode", lambda: stats.mode([1, 2]), WeftTypeError, ("list",)),
    BadCall("mode", lambda: stats.mode(X, 1), AxisError, ("1",)),
    BadCall("mode", lambda: stats.mode(Z), DTypeError, ("a of type c64[3]",)),
    BadCall("mode", lambda: stats.mode(X, nan_policy="omit"), NotImplementedError, ("'omit'",)),
    BadCall("rankdata", lambda: stats.rankdata(X, "mean"), WeftValueError, ("'mean'", "'dense'")),
    BadCall("rankdata", lambda: stats.rankdata(X, axis=2), AxisError, ("2",)),
    BadCall(
        "rankdata", lambda: stats.rankdata(X, nan_policy="raise"), NotImplementedError, ("'raise'",)
    ),
    BadCall("sem", lambda: stats.sem(X, axis=1), AxisError, ("1",)),
    BadCall("sem", lambda: stats.sem(X, nan_policy="raise"), NotImplementedError, ("'raise'",)),
    BadCall("gaussian_kde", lambda: stats.gaussian_kde(X[:1]), ShapeError, ("two points",)),
    BadCall("gaussian_kde", lambda: stats.gaussian_kde(X, "wide"), WeftValueError, ("'wide'",)),
    BadCall("gaussian_kde", lambda: stats.gaussian_kde(X, X), ShapeError, ("bw_method",)),
    BadCall(
        "gaussian_kde",
        lambda: stats.gaussian_kde(X, weights=X[:2]),
        ShapeError,
        ("weights", "(4,)"),
    ),
    BadCall("gaussian_kde.pdf", lambda: KDE.pdf(M), ShapeError, ("(2, m)",)),
    BadCall("integrate_kde", lambda: KDE.integrate_kde(X), WeftTypeError, ("another",)),
    BadCall("integrate_box_1d", lambda: KDE.integrate_box_1d(0, 1), ShapeError, ("2 dimensions",)),
    BadCall(
        "integrate_gaussian", lambda: KDE.integrate_gaussian(X, 1.0), ShapeError, ("mean of shape",)
    ),
    BadCall("integrate_box", lambda: KDE.integrate_box(0, 1), NotImplementedError, ("1d",)),
    BadCall("set_bandwidth", lambda: KDE.set_bandwidth(1), NotImplementedError, ("bw_method=",)),
]
