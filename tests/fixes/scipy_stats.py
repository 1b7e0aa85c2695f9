"""Fixes of `weft.scipy.special` and `weft.scipy.stats`."""

from __future__ import annotations

import numpy as np
import scipy.special
import scipy.stats

import weft
from fixes import Fixed
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.scipy import special, stats

X = np.float32([0.5, 1, 2])
WHOLE = np.float32([0, 1, 2])
Z = np.complex64([3 + 4j, -1 - 2j, 1j])
HOLES = np.float32([2, np.nan, 1, 2])
ALPHAS = np.float32([[1, 2, 3], [2, 2, 2]])
SHARES = np.float32([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])
POINTS = np.float32([[0, 1], [1, 3], [2, 1], [4, 0]])
KEYS = weft.random.split(weft.random.key(0), 3)
LINE = stats.gaussian_kde(X)
PLANE = stats.gaussian_kde(POINTS.T)
REFERENCE = scipy.stats.gaussian_kde(POINTS.T.astype(np.float64))


def density(x, alpha):
    """The density of Dirichlet's distribution."""
    factor = scipy.special.gamma(alpha.sum()) / np.prod(scipy.special.gamma(alpha))
    return factor * np.prod(x ** (alpha - 1))


def share_of_square(points):
    return np.mean(np.all((points >= 0) & (points <= 2), axis=0))


def harmonic(n, **options):
    return weft.jit(lambda n: special.sph_harm_y(n, 0, X, X, **options))(n)


SPECIAL = [
    Fixed(
        "convert it: weft.numpy.array(x)",
        wrong=lambda: special.erf([0.5, 1, 2]),
        fixed=lambda fix: special.erf(weft.numpy.array([0.5, 1, 2])),
        value=scipy.special.erf(X),
        error=WeftTypeError,
    ),
    Fixed(
        "x.real, x.imag or abs(x)",
        wrong=lambda: special.erf(Z),
        fixed=lambda fix: [special.erf(part) for part in (Z.real, Z.imag, abs(Z))],
        value=[scipy.special.erf(part) for part in (Z.real, Z.imag, abs(Z))],
        error=DTypeError,
    ),
    Fixed(
        "weft.random.normal(key)",
        wrong=lambda: special.erf(KEYS[0]),
        fixed=lambda fix: special.erf(weft.random.normal(KEYS[0])),
        value=lambda found: np.allclose(
            found, scipy.special.erf(np.asarray(weft.random.normal(KEYS[0])))
        ),
        error=DTypeError,
    ),
    Fixed(
        "leave series_order out",
        wrong=lambda: special.log_ndtr(X, series_order=0),
        fixed=lambda fix: special.log_ndtr(X),
        value=scipy.special.log_ndtr(X),
        error=WeftValueError,
    ),
    Fixed(
        "weft.random.key_data(key)",
        wrong=lambda: special.wofz(KEYS),
        fixed=lambda fix: special.wofz(weft.random.key_data(KEYS).astype("float32")),
        # wofz(x) is i / (sqrt(pi) x) for large x.
        value=lambda found: np.allclose(
            np.asarray(found).imag * weft.random.key_data(KEYS), np.pi**-0.5
        ),
        error=DTypeError,
    ),
    Fixed(
        "pass d=1",
        wrong=lambda: special.multigammaln(X, 0),
        fixed=lambda fix: special.multigammaln(X, d=1),
        value=scipy.special.gammaln(X),
        error=WeftValueError,
    ),
    Fixed(
        "pass n=0",
        wrong=lambda: special.bernoulli(-1),
        fixed=lambda fix: special.bernoulli(n=0),
        value=np.array([1]),
        error=WeftValueError,
    ),
    Fixed(
        "pass v=0",
        wrong=lambda: special.bessel_jn(X, v=-1),
        fixed=lambda fix: special.bessel_jn(X, v=0),
        value=scipy.special.jv(0, X)[None],
        error=WeftValueError,
    ),
    Fixed(
        "pass n_iter=50",
        wrong=lambda: special.bessel_jn(X, v=1, n_iter=-1),
        fixed=lambda fix: special.bessel_jn(X, v=1, n_iter=50),
        value=scipy.special.jv([[0], [1]], X),
        error=WeftValueError,
    ),
    Fixed(
        "n.astype('int32')",
        wrong=lambda: special.sph_harm_y(WHOLE, 0, X, X),
        fixed=lambda fix: special.sph_harm_y(WHOLE.astype("int32"), 0, X, X),
        value=np.sqrt([1 / 4, 3 / 4, 5 / 16] / np.array(np.pi))
        * np.array([1, np.cos(X[1]), 3 * np.cos(X[2]) ** 2 - 1]),
        error=DTypeError,
    ),
    Fixed(
        "pass the largest degree there can be, such as n_max=10",
        wrong=lambda: harmonic(1),
        fixed=lambda fix: harmonic(1, n_max=10),
        value=np.sqrt(3 / (4 * np.pi)) * np.cos(X),
        error=WeftTypeError,
    ),
    Fixed(
        "pass n_max=None",
        wrong=lambda: special.sph_harm_y(1, 0, X, X, n_max=-1),
        fixed=lambda fix: special.sph_harm_y(1, 0, X, X, n_max=None),
        value=np.sqrt(3 / (4 * np.pi)) * np.cos(X),
        error=WeftValueError,
    ),
]

SAMPLES = [
    Fixed(
        "a.real, a.imag or abs(a)",
        wrong=lambda: stats.sem(Z),
        fixed=lambda fix: [stats.sem(part) for part in (Z.real, Z.imag, abs(Z))],
        value=[scipy.stats.sem(part) for part in (Z.real, Z.imag, abs(Z))],
        error=DTypeError,
    ),
    Fixed(
        "leave NaN out: a[~weft.numpy.isnan(a)]",
        wrong=lambda: stats.mode(HOLES, nan_policy="omit"),
        fixed=lambda fix: list(stats.mode(HOLES[~weft.numpy.isnan(HOLES)])),
        value=[2, 2],
        error=WeftNotImplementedError,
    ),
    Fixed(
        "look for NaN: weft.numpy.isnan(a).any()",
        wrong=lambda: stats.rankdata(HOLES, nan_policy="raise"),
        fixed=lambda fix: weft.numpy.isnan(HOLES).any() or stats.rankdata(HOLES),
        value=True,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass nan_policy='propagate'",
        wrong=lambda: stats.rankdata(X, nan_policy="keep"),
        fixed=lambda fix: stats.rankdata(X, nan_policy="propagate"),
        value=np.array([1, 2, 3]),
        error=WeftValueError,
    ),
    Fixed(
        "pass method='average' or 'min' or 'max' or 'dense' or 'ordinal'",
        wrong=lambda: stats.rankdata(np.float32([3, 1, 3]), "mean"),
        fixed=lambda fix: stats.rankdata(np.float32([3, 1, 3]), method="average"),
        value=np.array([2.5, 1, 2.5]),
        error=WeftValueError,
    ),
    Fixed(
        "weft.vmap(weft.scipy.stats.dirichlet.pdf, (None, 0))(x, alpha)",
        wrong=lambda: stats.dirichlet.pdf(SHARES[0], ALPHAS),
        fixed=lambda fix: weft.vmap(weft.scipy.stats.dirichlet.pdf, (None, 0))(SHARES[0], ALPHAS),
        value=np.array([density(SHARES[0], alpha) for alpha in ALPHAS]),
        error=ShapeError,
    ),
    Fixed(
        "pass x.T: the numbers stand along the last dimension",
        wrong=lambda: stats.dirichlet.logpdf(np.repeat(SHARES, 2, 0), ALPHAS[0]),
        fixed=lambda fix: stats.dirichlet.logpdf(np.repeat(SHARES, 2, 0).T, ALPHAS[0]),
        value=np.log([density(row, ALPHAS[0]) for row in np.repeat(SHARES, 2, 0)]),
        error=ShapeError,
    ),
]

ESTIMATES = [
    Fixed(
        "pass dataset.T: its rows are the points",
        wrong=lambda: stats.gaussian_kde(X[:, None]),
        fixed=lambda fix: stats.gaussian_kde(X[:, None].T)(X),
        value=scipy.stats.gaussian_kde(X)(X),
        error=ShapeError,
    ),
    Fixed(
        "pass bw_method='scott'",
        wrong=lambda: stats.gaussian_kde(X, "wide"),
        fixed=lambda fix: stats.gaussian_kde(X, bw_method="scott")(X),
        value=scipy.stats.gaussian_kde(X, "scott")(X),
        error=WeftValueError,
    ),
    Fixed(
        "pass points.T: its rows are the points",
        wrong=lambda: PLANE(POINTS),
        fixed=lambda fix: PLANE(POINTS.T),
        value=REFERENCE(POINTS.T),
        error=ShapeError,
    ),
    Fixed(
        "in one dimension there is integrate_box_1d",
        wrong=lambda: LINE.integrate_box(0, 1),
        fixed=lambda fix: LINE.integrate_box_1d(0, 1),
        value=scipy.stats.gaussian_kde(X).integrate_box_1d(0, 1),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "in more, count the points of resample()",
        wrong=lambda: PLANE.integrate_box([0, 0], [2, 2]),
        fixed=lambda fix: PLANE.resample(weft.random.key(0), shape=(4000,)),
        value=lambda found: (
            abs(share_of_square(found) - REFERENCE.integrate_box([0, 0], [2, 2])) < 0.03
        ),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "make another estimate: gaussian_kde(dataset, bw_method=...)",
        wrong=lambda: LINE.set_bandwidth(0.5),
        fixed=lambda fix: stats.gaussian_kde(X, bw_method=0.5)(X),
        value=scipy.stats.gaussian_kde(X, 0.5)(X),
        error=WeftNotImplementedError,
    ),
]

FIXES = [*SPECIAL, *SAMPLES, *ESTIMATES]
