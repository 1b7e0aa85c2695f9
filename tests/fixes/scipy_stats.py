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
