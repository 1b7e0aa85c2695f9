"""Wrong calls of distributions and statistics of samples."""

from __future__ import annotations

import numpy as np

from bad_calls import BadCall
from weft.errors import ShapeError, WeftTypeError
from weft.scipy import stats

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 5), np.float32)
KDE = stats.gaussian_kde(np.arange(10, dtype=np.float32).reshape(2, 5) ** 0.5)
norm, several = stats.norm, stats.multivariate_normal

CALLS = [
    BadCall("norm.pdf", lambda: norm.pdf(X, size=2), WeftTypeError, ("size", "x, loc, scale")),
    BadCall("norm.logsf", lambda: norm.logsf(X, M), ShapeError, ("(4,), (3, 5)",)),
    BadCall("norm.ppf", lambda: norm.ppf(x=0.5), WeftTypeError, ("'x'", "arguments q")),
    BadCall("gamma.logpdf", lambda: stats.gamma.logpdf(X), WeftTypeError, ("missing", "'a'")),
    BadCall("binom.pmf", lambda: stats.binom.pmf(X, M, 0.5), ShapeError, ("broadcast",)),
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
]
