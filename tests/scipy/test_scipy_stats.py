"""Distributions and statistics of samples: held to SciPy in double precision."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import scipy.stats

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from weft.scipy import stats
from weft.testing import check_grads, check_vmap, exact_array

pytestmark = pytest.mark.fast

X = np.concatenate([np.linspace(-5, 8, 40), [0, 1, -1, 2, 0.5, np.inf, -np.inf, np.nan]])
Q = np.concatenate([np.linspace(0, 1, 30), [1e-10, -0.1, 1.1, np.nan]])
K = np.concatenate([np.arange(-2.0, 15.0), [1.5, np.inf, -np.inf, np.nan]])
# Each distribution with its parameters, several where they differ in kind.
PARAMETERS = {
    "bernoulli": [(0.3,), (0.0,), (1.2,)],
    "beta": [(2.1, 0.7), (1.0, 1.0), (0.5, 0.5), (-1.0, 2.0)],
    "betabinom": [(9, 1.2, 2.3), (0, 1.0, 1.0), (9, -1.0, 1.0)],
    "binom": [(9, 0.3), (4, 0.0), (4, 1.0), (-1, 0.5), (4, 1.5)],
    "cauchy": [()],
    "chi2": [(3.1,), (2.0,), (1.0,), (-1.0,)],
    "expon": [()],
    "gamma": [(2.3,), (1.0,), (0.5,), (-1.0,)],
    "gennorm": [(1.6,), (0.5,), (2.0,)],
    "geom": [(0.3,), (1.0,), (1.5,)],
    "gumbel_l": [()],
    "gumbel_r": [()],
    "laplace": [()],
    "logistic": [()],
    "nbinom": [(4, 0.3), (2.5, 0.9), (-1, 0.5)],
    "norm": [()],
    "pareto": [(1.7,), (-1.0,)],
    "poisson": [(2.5,), (0.0,), (-1.0,)],
    "t": [(4.2,), (1e6,), (np.inf,), (-1.0,)],
    "truncnorm": [(-1.2, 2.5), (2.0, 3.0), (-4.0, -1.0), (-np.inf, 1.0), (10.0, 12.0)],
    "uniform": [()],
    "vonmises": [(2.2,), (0.0,)],
    "wrapcauchy": [(0.4,), (1.5,)],
}
METHODS = {
    "bernoulli": "cdf logpmf pmf ppf",
    "beta": "cdf logcdf logpdf logsf pdf sf",
    "betabinom": "logpmf pmf",
    "binom": "logpmf pmf",
    "cauchy": "cdf isf logcdf logpdf logsf pdf ppf sf",
    "chi2": "cdf logcdf logpdf logsf pdf sf",
    "expon": "cdf logcdf logpdf logsf pdf ppf sf",
    "gamma": "cdf logcdf logpdf logsf pdf sf",
    "gennorm": "cdf logpdf pdf",
    "geom": "logpmf pmf",
    "gumbel_l": "cdf logcdf logpdf logsf pdf ppf sf",
    "gumbel_r": "cdf logcdf logpdf logsf pdf ppf sf",
    "laplace": "cdf logpdf pdf",
    "logistic": "cdf isf logpdf pdf ppf sf",
    "nbinom": "logpmf pmf",
    "norm": "cdf isf logcdf logpdf logsf pdf ppf sf",
    "pareto": "cdf logcdf logpdf logsf pdf ppf sf",
    "poisson": "cdf entropy logpmf pmf",
    "t": "logpdf pdf",
    "truncnorm": "cdf logcdf logpdf logsf pdf sf",
    "uniform": "cdf logpdf pdf ppf",
    "vonmises": "logpdf pdf",
    "wrapcauchy": "logpdf pdf",
}


def arguments(function):
    return list(inspect.signature(function).parameters)


def methods(name):
    """The methods of a distribution that take a point and the parameters."""
    return [m for m in METHODS[name].split() if m != "entropy"]


def places(name, method):
    """Operands at which a method is evaluated, and location and scale that it takes."""
    taken = arguments(getattr(getattr(stats, name), method))
    point = Q if method in ("ppf", "isf") else K if taken[0] == "k" else X
    if name == "bernoulli" and method == "ppf":
        # SciPy answers with -1 for 0, and moves probabilities within rounding of a step.
        point = np.array([0.1, 0.3, 0.69, 0.71, 0.9, 0.99, -0.1, 1.1, np.nan])
    elsewhere = {"loc": 1.0 if taken[0] == "k" else 0.3, "scale": 1.7}
    return point, {key: value for key, value in elsewhere.items() if key in taken}


def f64(*values):
    return [exact_array(v, "float64") for v in values]


def with_limits(name, method, point, want):
    """SciPy's densities with 0 at infinity where SciPy subtracts one infinity from another. (On a
    circle nothing is infinitely far.)"""
    if (
        name == "vonmises"
        or method not in ("pdf", "logpdf", "pmf", "logpmf")
        or np.isnan(want).sum() == want.size
    ):
        return want
    lost = np.isinf(point) & np.isnan(want)
    return np.where(lost, -np.inf if method.startswith("log") else 0.0, want)


@pytest.mark.parametrize("name", PARAMETERS)
def test_values(name):
    """One program for all methods of a distribution."""
    chapter, reference = getattr(stats, name), getattr(scipy.stats, name)
    assert chapter.__all__ == METHODS[name].split()

    def all_of(points, place, *parameters):
        found = []
        for method, x in zip(methods(name), points, strict=True):
            elsewhere = {key: place[key] for key in places(name, method)[1]}
            found.append(getattr(chapter, method)(x, *parameters, **elsewhere))
        return found

    points = [places(name, method)[0] for method in methods(name)]
    compiled = weft.jit(all_of)
    discrete = "pmf" in methods(name)
    for parameters in PARAMETERS[name]:
        for place in ({"loc": 0.0, "scale": 1.0}, {"loc": 1.0 if discrete else 0.3, "scale": 1.7}):
            given = {key: exact_array(value, "float64") for key, value in place.items()}
            got = compiled(f64(*points), given, *f64(*parameters))
            for method, point, out in zip(methods(name), points, got, strict=True):
                options = {key: place[key] for key in places(name, method)[1]}
                with np.errstate(all="ignore"):
                    want = getattr(reference, method)(point, *parameters, **options)
                want = with_limits(name, method, point, want)
                message = f"{method} {parameters} {options}"
                np.testing.assert_allclose(out, want, rtol=2e-12, atol=1e-15, err_msg=message)


# Where one of the two probabilities is close to 1, and where a square would overflow.
TAILS = {
    "beta": [(0.01, 30.0), (1e-3, 1e-3), (1.0, 3.0), (0.5, 200.0), (50.0, 80.0), (3.0, 0.01)],
    "cauchy": [()],
}


@pytest.mark.parametrize("name", TAILS)
def test_tails_are_relatively_precise(name):
    point = np.array([1e-300, 1e-20, 1e-10, 1e-3, 0.1, 0.4, 0.7, 0.99])
    if name == "cauchy":
        point = np.concatenate([-1 / point, point, 1 / point])
    for parameters in TAILS[name]:
        # SciPy's own probabilities; those of 1 - p are exact to the rounding of 1 only.
        p, q = (getattr(getattr(scipy.stats, name), m)(point, *parameters) for m in ("cdf", "sf"))
        logs = {"logcdf": (p, q), "logsf": (q, p)}
        for method in ("cdf", "sf", "logpdf", *logs):
            got = getattr(getattr(stats, name), method)(*f64(point, *parameters))
            if method in logs:
                own, other = logs[method]
                with np.errstate(divide="ignore"):
                    want = np.where(own < 0.5, np.log(own), np.log1p(-other))
            else:
                want = getattr(getattr(scipy.stats, name), method)(point, *parameters)
            kept = np.abs(want) > 1e-300
            np.testing.assert_allclose(
                np.asarray(got)[kept], want[kept], rtol=1e-11, err_msg=f"{method} {parameters}"
            )


@pytest.mark.parametrize("side", [stats.gumbel_r.logsf, lambda y: stats.gumbel_l.logcdf(-y)])
def test_logarithms_of_tails_go_on_where_probabilities_end(side):
    y = np.array([3.0, 14.0, 15.5, 80.0, 150.0, 3000.0, -3.0, -150.0, -3000.0], np.float32)
    power = np.exp(-np.maximum(y, -10.0).astype(np.float64))
    with np.errstate(all="ignore"):
        want = np.where(y > 30, -y, np.log(-np.expm1(-power)))
        slope = np.where(y > 30, -1, -power * np.exp(-power) / -np.expm1(-power))
    np.testing.assert_allclose(side(y), want, rtol=3e-7, atol=1e-30)
    np.testing.assert_allclose(weft.vmap(weft.grad(side))(y), slope, rtol=2e-5, atol=1e-30)


# What a result depends on smoothly, and points inside of the support.
SMOOTH = {
    "beta": ([0.3, 0.6], 2.1, 1.7),
    "cauchy": ([-2.0, 0.4],),
    "chi2": ([0.7, 4.0], 3.1),
    "expon": ([0.5, 2.0],),
    "gamma": ([0.7, 4.0], 2.3),
    "gennorm": ([-1.2, 0.6], 1.6),
    "gumbel_l": ([-2.0, 0.4],),
    "gumbel_r": ([-1.0, 0.4],),
    "laplace": ([-2.0, 0.4],),
    "logistic": ([-2.0, 0.4],),
    "norm": ([-2.0, 0.4],),
    "pareto": ([1.5, 3.0], 1.7),
    "t": ([-2.0, 0.4], 4.2),
    "truncnorm": ([-0.5, 0.8], -1.2, 2.5),
    "vonmises": ([-2.0, 0.4], 2.2),
    "wrapcauchy": ([1.0, 4.0], 0.4),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    """Of the logarithm of the density, in all operands."""
    chapter = getattr(stats, name)
    args = f64(*SMOOTH[name])
    if "scale" in arguments(chapter.logpdf):
        args += f64(0.1, 1.3) if name != "pareto" else f64(0.1, 0.8)
    check_grads(weft.jit(chapter.logpdf), args, order=2, modes=("rev",))


DISCRETE = {
    "bernoulli": ([0.0, 1.0, 2.0], 0.3),
    "betabinom": ([0.0, 3.0, 10.0], 9.0, 1.2, 2.3),
    "binom": ([0.0, 3.0, 10.0], 9.0, 0.3),
    "geom": ([0.0, 1.0, 4.0], 0.3),
    "nbinom": ([-1.0, 0.0, 4.0], 4.0, 0.3),
    "poisson": ([-1.0, 0.0, 4.0], 2.5),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_derivatives_of_probabilities(name):
    """In the parameters that are no counts, at points of the support and outside of it."""
    points, *parameters = DISCRETE[name]
    counts = parameters[: 1 if name in ("betabinom", "binom") else 0]
    rest = f64(*parameters[len(counts) :])
    pmf = getattr(stats, name).pmf
    check_grads(
        weft.jit(lambda *ps: pmf(*f64(points), *f64(*counts), *ps)), rest, order=2, modes=("rev",)
    )


@pytest.mark.parametrize("name", [n for n in SMOOTH if n not in ("vonmises",)])
def test_no_nan_at_the_border(name):
    """Derivatives outside of the support and on its border are numbers."""
    chapter = getattr(stats, name)
    _, *parameters = SMOOTH[name]
    count = 1 + len(parameters)
    slopes_at = weft.jit(weft.grad(chapter.pdf, argnums=tuple(range(count))))
    for x in (-50.0, 0.0, 1.0, 50.0):
        slopes = slopes_at(*[np.float32(v) for v in (x, *parameters)])
        assert not any(np.isnan(s) for s in slopes), (x, slopes)


def test_entropy_of_poisson():
    mu = np.array([0.0, 0.1, 1.0, 2.5, 100.0, 149.0, 151.0, 1e3, -1.0])
    got = stats.poisson.entropy(*f64(mu))
    np.testing.assert_allclose(got, scipy.stats.poisson.entropy(mu), rtol=1e-11)
    check_grads(weft.jit(stats.poisson.entropy), f64([0.5, 20.0, 200.0]), order=1)


def test_shapes_and_dtypes():
    x, loc = np.ones((3, 1), np.float32), np.zeros(4, np.float32)
    assert stats.norm.pdf(x, loc).shape == (3, 4)
    assert stats.gamma.sf(x, loc + 1.0).shape == (3, 4)
    assert stats.binom.pmf(np.arange(3), 4, 0.5).dtype == np.float32
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        out = stats.norm.logcdf(exact_array([-20.0], dtype))
        assert out.dtype == dtype
        assert abs(float(out[0]) / scipy.stats.norm.logcdf(-20.0) - 1) < jnp.finfo(dtype).eps * 4
    with weft.enable_x64():
        assert stats.norm.pdf(0.5).dtype == np.float64
    check_vmap(stats.truncnorm.logpdf, [np.float32([0.1, 2.0]), np.float32(-1), np.float32(1)])


def test_an_eager_call_is_one_program(monkeypatch):
    x = jnp.asarray(np.linspace(0.1, 1, 13))
    programs = counted_compilations(monkeypatch)
    stats.truncnorm.logsf(x, -1, 2.5)
    assert len(programs) == 1


# ---- several variables ---------------------------------------------------------------------------

RANDOM = np.random.default_rng(3)


def test_multivariate_normal():
    x, mean = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=3)
    root = RANDOM.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    normal = stats.multivariate_normal
    want = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(normal.logpdf(*f64(x, mean, cov)), want, rtol=1e-12)
    np.testing.assert_allclose(normal.pdf(*f64(x, mean, cov)), np.exp(want), rtol=1e-12)
    np.testing.assert_allclose(
        normal.logpdf(*f64(x, mean, 2.0)),
        scipy.stats.multivariate_normal.logpdf(x, mean, 2.0),
        rtol=1e-12,
    )
    # Without vectors the distribution has one dimension, and each number is a sample.
    want = scipy.stats.multivariate_normal.logpdf(mean, 0.5, 2.0)
    np.testing.assert_allclose(normal.logpdf(*f64(mean, 0.5, 2.0)), want, rtol=1e-12)
    covs = np.stack([cov * (i + 1) for i in range(4)])
    want = [
        scipy.stats.multivariate_normal.logpdf(a, mean, c) for a, c in zip(x, covs, strict=True)
    ]
    np.testing.assert_allclose(normal.logpdf(*f64(x, mean, covs)), want, rtol=1e-12)

    def symmetric(x, mean, root):
        return normal.logpdf(x, mean, root @ root.T + jnp.eye(3, dtype="float64"))

    check_grads(weft.jit(symmetric), f64(x, mean, root), order=2, modes=("rev",))


def test_dirichlet():
    # Not of RANDOM, whose draws depend on which tests ran: near a corner of the simplex derivatives
    # are too large for finite differences.
    draws = np.random.default_rng(3).dirichlet([4.0, 5.0, 6.0], size=4)
    x, alpha = draws.T, np.array([1.5, 0.7, 2.2])
    want = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(*f64(x, alpha)), want, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.logpdf(*f64(x[:-1], alpha)), want, rtol=1e-11)
    np.testing.assert_allclose(stats.dirichlet.pdf(*f64(x, alpha)), np.exp(want), rtol=1e-12)
    assert stats.dirichlet.pdf(np.array([0.5, 0.6]), np.ones(2)).item() == 0
    check_grads(weft.jit(stats.dirichlet.logpdf), f64(x[:-1], alpha), order=2, modes=("rev",))


def test_multinomial():
    x, p = np.array([[1, 2, 3], [0, 0, 6], [2, 2, 1], [-1, 3, 4]]), np.array([0.2, 0.3, 0.5])
    want = scipy.stats.multinomial.logpmf(x, 6, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(*f64(x, 6, p)), want, rtol=1e-12)
    np.testing.assert_allclose(stats.multinomial.pmf(*f64(x, 6, p)), np.exp(want), rtol=1e-12)
    check_grads(weft.jit(lambda p: stats.multinomial.logpmf(*f64(x[:1], 6), p)), f64(p), order=1)


# ---- statistics of samples -----------------------------------------------------------------------

SAMPLES = {
    "integers": RANDOM.integers(0, 5, (6, 4)),
    "booleans": RANDOM.integers(0, 2, (6, 4)).astype(bool),
    "numbers": RANDOM.integers(0, 3, (6, 4)) / 2,
    "some NaN": np.where(RANDOM.random((6, 4)) < 0.1, np.nan, RANDOM.integers(0, 3, (6, 4)) / 2),
}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_mode(kind, axis):
    a = SAMPLES[kind]
    for keepdims in (False, True):
        got = stats.mode(a, axis, keepdims=keepdims)
        want = scipy.stats.mode(a.astype(float), axis, keepdims=keepdims)
        np.testing.assert_array_equal(np.asarray(got.mode).astype(float), want.mode)
        np.testing.assert_array_equal(got.count, want.count)
        assert got.mode.shape == np.shape(want.mode)


@pytest.mark.parametrize(
    "a",
    [
        [1.0, np.nan, 2.0, 2.0],
        [np.nan, np.nan, 1.0],
        [np.nan, 3.0, 2.0],
        [np.nan, 1.0, np.nan, 1.0],
        [np.nan],
        [-np.inf, np.inf, np.nan, np.inf],
    ],
)
def test_the_mode_of_numbers_and_nan(a):
    got, want = stats.mode(np.array(a, np.float32)), scipy.stats.mode(a)
    np.testing.assert_array_equal(got.mode, want.mode)
    np.testing.assert_array_equal(got.count, want.count)


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_rankdata(kind, axis):
    a = SAMPLES[kind]
    for method in ("average", "min", "max", "dense", "ordinal"):
        got = stats.rankdata(a, method, axis=axis)
        np.testing.assert_array_equal(got, scipy.stats.rankdata(a, method, axis=axis))


@pytest.mark.parametrize("axis", [0, -1, None])
def test_sem(axis):
    for kind, policy in (("numbers", "propagate"), ("some NaN", "omit"), ("some NaN", "propagate")):
        for ddof in (0, 1):
            got = stats.sem(*f64(SAMPLES[kind]), axis, ddof, policy)
            want = scipy.stats.sem(SAMPLES[kind], axis, ddof, policy)
            np.testing.assert_allclose(got, want, rtol=1e-13)
    check_grads(weft.jit(lambda a: stats.sem(a, axis)), f64(RANDOM.normal(size=(3, 4))), order=1)
    assert stats.sem(np.arange(12).reshape(3, 4), axis, keepdims=True).ndim == 2


def test_samples_in_transformations():
    a = np.float32(SAMPLES["numbers"])
    np.testing.assert_array_equal(
        weft.vmap(lambda x: stats.mode(x).mode)(a), scipy.stats.mode(a, 1).mode
    )
    np.testing.assert_array_equal(
        weft.jit(weft.vmap(stats.rankdata))(a), scipy.stats.rankdata(a, axis=1)
    )
    empty = stats.mode(np.zeros((0, 2)))
    assert np.isnan(np.asarray(empty.mode)).all() and empty.count.tolist() == [0, 0]


# ---- density estimates ---------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("method", [None, "silverman", 0.7])
def test_gaussian_kde(d, method):
    sample, weights = RANDOM.normal(size=(d, 9)), RANDOM.random(9)
    points = RANDOM.normal(size=(d, 5))
    with weft.enable_x64():
        for given in (None, weights):
            ours = stats.gaussian_kde(sample, method, given)
            theirs = scipy.stats.gaussian_kde(sample, method, given)
            assert (ours.d, ours.n) == (theirs.d, theirs.n)
            for name in ("neff", "covariance", "inv_cov", "weights"):
                np.testing.assert_allclose(
                    getattr(ours, name), getattr(theirs, name), rtol=1e-11, err_msg=name
                )
            for name in ("evaluate", "pdf", "logpdf", "__call__"):
                want = getattr(theirs, name)(points)
                np.testing.assert_allclose(getattr(ours, name)(points), want, rtol=1e-11)
            mean, cov = np.full(d, 0.3), 0.5 * np.eye(d)
            np.testing.assert_allclose(
                ours.integrate_gaussian(mean, cov), theirs.integrate_gaussian(mean, cov), rtol=1e-11
            )
            np.testing.assert_allclose(
                ours.integrate_kde(ours), theirs.integrate_kde(theirs), rtol=1e-11
            )
            if d == 1:
                np.testing.assert_allclose(
                    ours.integrate_box_1d(-0.5, 1.0), theirs.integrate_box_1d(-0.5, 1.0), rtol=1e-11
                )


def test_gaussian_kde_in_transformations():
    sample = RANDOM.normal(size=(2, 7))
    points = RANDOM.normal(size=(2, 3))
    logpdf = weft.jit(lambda s, p: stats.gaussian_kde(s).logpdf(p))
    check_grads(logpdf, f64(sample, points), order=1)
    estimate = stats.gaussian_kde(np.float32(sample))
    rebuilt = weft.jit(lambda e: e)(estimate)
    np.testing.assert_allclose(rebuilt(points), estimate(points), rtol=1e-6)
    drawn = np.asarray(estimate.resample(weft.random.key(0), (4000,)))
    assert drawn.shape == (2, 4000)
    mean = sample.mean(1)
    spread = np.cov(sample, bias=False) * (1 + 7 ** (-2 / 6) * 1)
    np.testing.assert_allclose(drawn.mean(1), mean, atol=5 * np.sqrt(spread.max() / 4000))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [30, 1000, 100_000])
def test_large_counts_do_not_cancel(n, dtype):
    """Against exact integers: comb(n, k) / 2**n, and its neighbours' quotients."""
    with weft.enable_x64():
        _check_large_counts(n, dtype)


def _check_large_counts(n, dtype):
    eps = np.finfo(dtype).eps
    for k in (n // 2, n // 2 + math.isqrt(n)):
        exact = math.comb(n, k) / 2**n
        found = stats.binom.pmf(*map(dtype, (k, n, 0.5)))
        np.testing.assert_allclose(found, exact, rtol=50 * eps)
        # comb(k + r - 1, k) successes and failures: r / (k + r) of the binomial probability.
        found = stats.nbinom.pmf(*map(dtype, (n - k, k, 0.5)))
        np.testing.assert_allclose(found, exact * k / n, rtol=50 * eps)
        # The beta density of k + 1 and n - k + 1 at 1/2 is n + 1 such probabilities.
        found = stats.beta.pdf(*map(dtype, (0.5, k + 1, n - k + 1)))
        np.testing.assert_allclose(found, exact * (n + 1), rtol=50 * eps)
        slope = weft.grad(stats.binom.logpmf, 2)(*map(dtype, (k, n, 0.5)))
        np.testing.assert_allclose(slope, 4 * k - 2 * n, atol=n * eps * 4, rtol=50 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [11, 1000, 100_000])
def test_large_means_do_not_cancel(mean, dtype):
    """At k = mean by Stirling's series, which has far more digits there than are needed."""
    exact = 1 / math.sqrt(2 * math.pi * mean)
    exact *= math.exp(-1 / (12 * mean) + 1 / (360 * mean**3) - 1 / (1260 * mean**5))
    # Of Stirling's series the terms that are left out come to 1e-11 for 11.
    bound = max(50 * np.finfo(dtype).eps, 1e-10 if mean < 100 else 0)
    with weft.enable_x64():
        found = stats.poisson.pmf(dtype(mean), dtype(mean))
        np.testing.assert_allclose(found, exact, rtol=bound)
        found = stats.gamma.pdf(dtype(mean), dtype(mean + 1))
        np.testing.assert_allclose(found, exact, rtol=bound)
        found = stats.chi2.pdf(dtype(2 * mean), dtype(2 * mean + 2))
        np.testing.assert_allclose(found, exact / 2, rtol=bound)
        slope = weft.grad(stats.poisson.logpmf, 1)(dtype(mean), dtype(mean * 1.25))
        np.testing.assert_allclose(slope, -0.2, rtol=bound)
