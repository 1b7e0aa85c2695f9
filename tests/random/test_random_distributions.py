"""The distributions made of gamma distributed numbers, and those of counts, vectors and matrices:
how they are distributed, over wide ranges of parameters, and their derivatives and transformations.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import weft
import weft.numpy as wnp
from closeness import close
from weft import config, lax, random
from weft.sharding import PartitionSpec as P

N = 4000
# The keys are fixed; at this level one of ten thousand would fail for a right distribution.
LEVEL = 1e-4
DTYPES = ("float16", "bfloat16", "float32", "float64")


def drawn(draw, parameters, dtype, seed=1, n=N):
    """Numbers for each row of parameters, drawn at once: an array (rows, n) of float64."""
    columns = [wnp.array(np.array(column), dtype) for column in zip(*parameters, strict=True)]
    out = draw(random.key(seed), *columns, (n, len(parameters)), dtype)
    assert out.dtype == wnp.dtype(dtype)
    return np.asarray(out, np.float64).T


# Each: how to draw, the distribution by SciPy, and rows of parameters from small to large.
CONTINUOUS = {
    "gamma": (
        random.gamma,
        scipy.stats.gamma,
        [(0.3,), (0.999,), (1.0,), (3.5,), (100.0,), (1e6,)],
    ),
    "loggamma": (random.loggamma, scipy.stats.loggamma, [(1e-3,), (0.1,), (1.0,), (30.0,), (1e4,)]),
    "beta": (
        random.beta,
        scipy.stats.beta,
        [(0.5, 0.5), (1.0, 1.0), (0.2, 6.0), (7.0, 0.5), (300.0, 200.0)],
    ),
    "chisquare": (random.chisquare, scipy.stats.chi2, [(0.5,), (1.0,), (4.0,), (1000.0,)]),
    "t": (random.t, scipy.stats.t, [(0.2,), (1.0,), (2.5,), (50.0,)]),
    "f": (random.f, scipy.stats.f, [(1.0, 1.0), (0.5, 8.0), (20.0, 3.0), (300.0, 500.0)]),
    "generalized_normal": (
        random.generalized_normal,
        scipy.stats.gennorm,
        [(0.3,), (1.0,), (2.0,), (30.0,)],
    ),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float32") for name in CONTINUOUS] + [("gamma", "float64"), ("beta", "float64")],
)
def test_continuous_distribution(name, dtype):
    draw, of, parameters = CONTINUOUS[name]
    for row, numbers in zip(parameters, drawn(draw, parameters, dtype), strict=True):
        exact = tuple(float(np.asarray(x, dtype)) for x in row)
        assert np.isfinite(numbers).all(), row
        assert scipy.stats.kstest(numbers, of(*exact).cdf).pvalue > LEVEL, row


MOMENTS = {
    "gamma": (random.gamma, (4.0,), scipy.stats.gamma(4.0)),
    "loggamma": (random.loggamma, (2.0,), scipy.stats.loggamma(2.0)),
    "beta": (random.beta, (2.0, 3.0), scipy.stats.beta(2, 3)),
    "chisquare": (random.chisquare, (6.0,), scipy.stats.chi2(6)),
    "t": (random.t, (12.0,), scipy.stats.t(12)),
    "f": (random.f, (4.0, 16.0), scipy.stats.f(4, 16)),
    "generalized_normal": (random.generalized_normal, (4.0,), scipy.stats.gennorm(4)),
    "binomial": (random.binomial, (50.0, 0.25), scipy.stats.binom(50, 0.25)),
}


NARROW = [(name, "bfloat16") for name in MOMENTS] + [("gamma", "float16"), ("t", "float16")]


@pytest.mark.parametrize(("name", "dtype"), NARROW)
def test_moments_of_narrow_numbers(name, dtype):
    draw, parameters, of = MOMENTS[name]
    (numbers,) = drawn(draw, [parameters], dtype, seed=3, n=2 * N)
    mean, variance, kurtosis = (float(x) for x in of.stats("mvk"))
    error = np.sqrt(variance / len(numbers))
    step = abs(mean) * float(wnp.finfo(dtype).eps)
    assert abs(numbers.mean() - mean) < 4.5 * error + step
    deviation = np.sqrt((kurtosis + 2) / len(numbers))
    assert abs(numbers.var() / variance - 1) < 5 * deviation + 4 * float(wnp.finfo(dtype).eps)


def test_small_parameters_leave_nothing_undefined():
    """What is made of numbers too small for the dtype is computed from their logarithms."""
    small = wnp.full((500,), 1e-3)
    key = random.key(5)
    both = np.asarray(random.beta(key, small, small))
    assert np.isfinite(both).all()
    # Nearly all of the mass is at both ends, equally.
    assert scipy.stats.binomtest(int((both > 0.5).sum()), 500).pvalue > LEVEL
    sums = np.asarray(random.dirichlet(key, wnp.full((4,), 1e-3), (500,))).sum(-1)
    np.testing.assert_allclose(sums, 1, rtol=1e-6)
    assert not np.isnan(np.asarray(random.f(key, small, small))).any()
    assert not np.isnan(np.asarray(random.t(key, wnp.full((500,), 0.05)))).any()


def test_edges_of_the_parameters():
    key = random.key(2)
    a = wnp.array([0.0, -1.0, np.nan, np.inf])
    np.testing.assert_array_equal(random.gamma(key, a), [0.0, np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(random.loggamma(key, a), [-np.inf, np.nan, np.nan, np.inf])
    assert random.gamma(key, wnp.zeros((0, 3))).shape == (0, 3)
    assert random.poisson(key, wnp.array([0.0, -1.0, np.nan, np.inf])).tolist() == [
        0, -1, -1, 2**31 - 1,
    ]  # fmt: skip
    assert random.poisson(key, 1e12, dtype="int16").item() == 2**15 - 1
    assert random.poisson(key, -1.0, dtype="uint8").item() == 0
    n = wnp.array([0.0, 5.0, 5.0, -1.0, 5.0, 5.0, np.nan, np.inf, 10.7])
    p = wnp.array([0.5, 0.0, 1.0, 0.5, -0.1, 1.1, 0.5, 0.5, 1.0])
    np.testing.assert_array_equal(
        random.binomial(key, n, p), [0, 0, 5, np.nan, np.nan, np.nan, np.nan, np.inf, 10]
    )


# ---- counts ------------------------------------------------------------------------------------


def assert_counts(numbers, of):
    """A chi-square test over ranges that hold a twentieth of the mass each."""
    edges = np.unique(of.ppf(np.linspace(0, 1, 21)[1:-1]))
    places = np.searchsorted(edges, numbers)
    chances = np.diff(np.concatenate([[0.0], of.cdf(edges), [1.0]]))
    found = np.bincount(places, minlength=len(chances))
    assert (found[chances == 0] == 0).all()
    chances, found = chances[chances > 0], found[chances > 0]
    if len(found) > 1:
        assert scipy.stats.chisquare(found, chances * len(numbers)).pvalue > LEVEL


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_poisson_distribution(impl):
    rates = [0.01, 0.7, 5.0, 9.99, 10.0, 40.0, 3e3, 1e6, 1e8]
    numbers = random.poisson(random.key(4, impl=impl), wnp.array(rates), (N, len(rates)))
    assert numbers.dtype == np.int32
    for rate, column in zip(rates, np.asarray(numbers).T, strict=True):
        assert_counts(column, scipy.stats.poisson(float(np.float32(rate))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binomial_distribution(dtype):
    parameters = [
        (1, 0.3), (10, 0.5), (30, 0.9), (100, 0.0999), (100, 0.1001), (1000, 0.5), (10**6, 1e-6),
        (10**6, 0.4), (10**6, 0.999),
    ]  # fmt: skip
    for row, numbers in zip(parameters, drawn(random.binomial, parameters, dtype), strict=True):
        p = float(np.asarray(row[1], dtype))
        assert_counts(numbers, scipy.stats.binom(row[0], p))


def test_multinomial_distribution():
    p = np.array([0.1, 0.0, 0.35, 0.5, 0.05])
    numbers = np.asarray(random.multinomial(random.key(6), 30, wnp.array(p), shape=(N, 5)))
    assert (numbers.sum(-1) == 30).all() and (numbers[:, 1] == 0).all()
    for i in (0, 2, 3, 4):
        assert_counts(numbers[:, i], scipy.stats.binom(30, p[i]))
    covariance = np.cov(numbers.T) / 30
    np.testing.assert_allclose(covariance, np.diag(p) - np.outer(p, p), atol=0.025)
    # Weights are divided by their sum.
    np.testing.assert_array_equal(
        random.multinomial(random.key(6), 30, wnp.array(p * 4), shape=(9, 5)),
        random.multinomial(random.key(6), 30, wnp.array(p), shape=(9, 5)),
    )


# ---- vectors -----------------------------------------------------------------------------------


def test_dirichlet_distribution():
    alpha = np.array([0.4, 1.0, 7.0])
    numbers = np.asarray(random.dirichlet(random.key(8), wnp.array(alpha), (N,)), np.float64)
    for i in range(3):
        of = scipy.stats.beta(alpha[i], alpha.sum() - alpha[i])
        assert scipy.stats.kstest(numbers[:, i], of.cdf).pvalue > LEVEL


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 5.0, np.inf])
def test_points_of_balls(p):
    points = np.abs(np.asarray(random.ball(random.key(9), 3, p, (N,)), np.float64))
    sizes = points.max(-1) if np.isinf(p) else (points**p).sum(-1) ** (1 / p)
    assert sizes.max() <= 1 + 1e-6
    assert scipy.stats.kstest(sizes**3, scipy.stats.uniform().cdf).pvalue > LEVEL


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_vectors(method, dtype):
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[2, 0.6, 0], [0.6, 1, -0.3], [0, -0.3, 0.5]])
    numbers = np.asarray(
        random.multivariate_normal(
            random.key(10), wnp.array(mean, dtype), wnp.array(cov, dtype), (N,), method=method
        )
    )
    assert numbers.dtype == wnp.dtype(dtype)
    white = np.linalg.solve(np.linalg.cholesky(cov), (numbers.astype(np.float64) - mean).T)
    slack = 30 * float(wnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.cov(white), np.eye(3), atol=5 * np.sqrt(2 / N) + slack)
    np.testing.assert_allclose(white.mean(1), 0, atol=5 / np.sqrt(N) + slack)


def test_singular_covariances_and_batches():
    singular = wnp.array([[1.0, 1.0], [1.0, 1.0]])
    for method in ("eigh", "svd"):
        numbers = np.asarray(
            random.multivariate_normal(random.key(1), wnp.zeros(2), singular, (50,), method=method)
        )
        np.testing.assert_allclose(numbers[:, 0], numbers[:, 1], atol=1e-3)
    covs = wnp.array(np.stack([np.eye(2), 9 * np.eye(2)]))
    numbers = random.multivariate_normal(random.key(1), wnp.zeros(2), covs, (N, 2))
    np.testing.assert_allclose(np.asarray(numbers).std((0, 2)), [1, 3], rtol=0.05)
    assert random.multivariate_normal(random.key(1), wnp.zeros((3, 1, 2)), covs).shape == (3, 2, 2)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_orthogonal_matrices(dtype):
    slack = 20 * float(wnp.finfo(dtype).eps)
    for n, m in ((3, None), (2, 4), (4, 2), (1, 1), (0, 3)):
        q = random.orthogonal(random.key(12), n, (200,), dtype, m)
        assert q.shape == (200, n, n if m is None else m) and q.dtype == wnp.dtype(dtype)
        wide = np.asarray(q).astype(np.complex128)
        if q.shape[1] > q.shape[2]:
            wide = wide.swapaxes(1, 2)
        product = wide @ wide.conj().swapaxes(1, 2)
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(wide.shape[1]), product.shape),
                                   atol=slack)  # fmt: skip
    if dtype == "float64":
        # The first entry of a random direction in three dimensions is uniform in [-1, 1].
        first = np.asarray(random.orthogonal(random.key(13), 3, (N,), dtype))
        for i, j in ((0, 0), (1, 2), (2, 1)):
            assert scipy.stats.kstest(first[:, i, j], scipy.stats.uniform(-1, 2).cdf).pvalue > LEVEL
        assert scipy.stats.binomtest(int((np.linalg.det(first) > 0).sum()), N).pvalue > LEVEL


# ---- derivatives -------------------------------------------------------------------------------


def at_quantile(of, x, *parameters, step=1e-5):
    """The derivative in the first parameter of the number at the quantile at which x stands."""
    first, *rest = parameters
    chance = of(*parameters).cdf(x)
    ends = [of(first + sign * step * first, *rest).ppf(chance) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step * first)


@pytest.mark.parametrize("a", [0.05, 0.6, 1.0, 4.5, 200.0])
def test_the_derivative_of_gamma_is_that_of_the_quantile(a):
    with config.enable_x64():
        key = random.key(3)
        parameters = wnp.full((40,), a)
        x = random.gamma(key, parameters)
        slope = weft.grad(lambda p: random.gamma(key, p).sum())(parameters)
        wanted = at_quantile(scipy.stats.gamma, np.asarray(x), a)
        inside = np.asarray(x) > 1e-200
        np.testing.assert_allclose(np.asarray(slope)[inside], wanted[inside], rtol=1e-5)
        of_log = weft.grad(lambda p: random.loggamma(key, p).sum())(parameters)
        np.testing.assert_allclose(
            np.asarray(of_log)[inside], (wanted / np.asarray(x))[inside], rtol=1e-5
        )


def test_the_derivative_of_the_logarithm_where_the_number_is_too_small():
    with config.enable_x64():
        key, a = random.key(3), 1e-4
        x = float(random.loggamma(key, a))
        assert x < -800
        # x**a = u gamma(a + 1) to all digits, so that of log x is (digamma(a + 1) - log x) / a.
        wanted = (scipy.special.digamma(1 + a) - x) / a
        np.testing.assert_allclose(weft.grad(random.loggamma, 1)(key, a), wanted, rtol=1e-12)


def moment_slopes(draw, parameters, n=40_000):
    """The mean over many draws of the derivative of draws, in the first parameter."""
    key = random.key(14)
    return np.asarray(
        weft.jacfwd(lambda p: draw(key, p, *parameters[1:], (n,)).mean())(parameters[0])
    )


@pytest.mark.parametrize(
    ("draw", "parameters", "wanted"),
    [
        # The derivative of the mean: a / (a + b), df, 0, dfden / (dfden - 2).
        (random.beta, (2.0, 3.0), 3.0 / 25.0),
        (random.chisquare, (3.0,), 1.0),
        (random.t, (7.0,), 0.0),
        (lambda k, b, a, n: random.beta(k, a, b, n), (3.0, 2.0), -2.0 / 25.0),
        (lambda k, d, n: random.f(k, 5.0, d, n), (9.0,), 1 / 7 - 9 / 49),
        (lambda k, p, n: abs(random.generalized_normal(k, p, n)), (1.0,), None),
    ],
)
def test_derivatives_of_means(draw, parameters, wanted):
    if wanted is None:
        # E|x| = gamma(2/p) / gamma(1/p).
        mean = lambda p: scipy.special.gamma(2 / p) / scipy.special.gamma(1 / p)  # noqa: E731
        wanted = (mean(1 + 1e-6) - mean(1 - 1e-6)) / 2e-6
    with config.enable_x64():
        found = moment_slopes(draw, parameters)
    assert found == pytest.approx(wanted, abs=0.03)


def test_derivatives_of_vectors():
    with config.enable_x64():
        key = random.key(15)
        alpha = wnp.array([0.5, 2.0, 3.0])
        slopes = weft.jacrev(lambda a: random.dirichlet(key, a, (40_000,)).mean(0))(alpha)
        total = 5.5
        wanted = np.eye(3) / total - np.outer(np.asarray(alpha), np.ones(3)) / total**2
        np.testing.assert_allclose(slopes, wanted, atol=0.01)
        mean, cov = wnp.array([0.3, 0.1]), wnp.array([[2.0, 0.5], [0.5, 1.0]])
        for method in ("cholesky", "eigh", "svd"):
            draw = lambda m, c, k=method: random.multivariate_normal(  # noqa: E731
                key, m, c, (3,), method=k
            )
            direction = wnp.array([[0.2, 0.1], [0.1, -0.3]])
            _, tangent = weft.jvp(draw, (mean, cov), (mean, direction))
            ends = [draw(mean * (1 + s), cov + s * direction) for s in (1e-6, -1e-6)]
            np.testing.assert_allclose(tangent, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_counts_have_a_derivative_of_0():
    key = random.key(1)
    assert weft.grad(lambda p: random.binomial(key, 20.0, p))(0.3) == 0
    assert weft.grad(lambda n: random.binomial(key, n, 0.3))(20.0) == 0
    slope = weft.grad(lambda p: random.multinomial(key, 20.0, p)[0])(wnp.array([0.3, 0.7]))
    assert slope.tolist() == [0, 0]


def test_a_second_derivative_of_gamma_is_an_error_that_says_so():
    with pytest.raises(weft.errors.WeftNotImplementedError, match="random_gamma_grad"):
        weft.grad(weft.grad(random.gamma, 1), 1)(random.key(0), 2.0)


# ---- under transformations ---------------------------------------------------------------------

DRAWS = {
    "gamma": lambda k, x: random.gamma(k, x, (3,)),
    "beta": lambda k, x: random.beta(k, x, 2.0, (3,)),
    "dirichlet": lambda k, x: random.dirichlet(k, wnp.stack([x, x + 1]), (2,)),
    "t": lambda k, x: random.t(k, x, (3,)),
    "f": lambda k, x: random.f(k, x, 5.0),
    "chisquare": lambda k, x: random.chisquare(k, x),
    "generalized_normal": lambda k, x: random.generalized_normal(k, x, (2,)),
    "ball": lambda k, x: random.ball(k, 2, x),
    "poisson": lambda k, x: random.poisson(k, 6 * x, (3,)),
    "binomial": lambda k, x: random.binomial(k, 20 * x, 0.4, (3,)),
    "multinomial": lambda k, x: random.multinomial(k, 12, wnp.stack([x, x + 1])),
    "multivariate_normal": lambda k, x: random.multivariate_normal(
        k, wnp.stack([x, x]), wnp.eye(2) * (x + 1)
    ),
    "orthogonal": lambda k, x: random.orthogonal(k, 2) * x,
}
# What the others are made of.
BASIC = ("gamma", "poisson", "binomial", "multivariate_normal", "orthogonal")
VALUES = np.array([0.5, 1.5, 2.5, 4.0], np.float32)


@pytest.mark.parametrize("name", DRAWS)
def test_mapped_and_jitted_draws_are_those_of_each_key(name):
    draw = DRAWS[name]
    keys, xs = random.split(random.key(20), 4), wnp.array(VALUES)
    each = [draw(k, x) for k, x in zip(keys, xs, strict=True)]
    close(weft.jit(weft.vmap(draw))(keys, xs), np.stack(each))
    if name in BASIC:
        one = [draw(keys[0], x) for x in xs]
        close(weft.vmap(draw, (None, 0))(keys[0], xs), np.stack(one))


@pytest.mark.parametrize("name", DRAWS)
def test_draws_inside_shard_map(name):
    draw = DRAWS[name]
    mesh = weft.make_mesh((4,), ("i",))
    keys, xs = random.split(random.key(21), 4), wnp.array(VALUES)
    each = np.stack([draw(k, x) for k, x in zip(keys, xs, strict=True)])
    varying = weft.shard_map(
        lambda k, x: draw(k[0], x[0])[None],
        mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P("i"),
    )  # fmt: skip
    close(weft.jit(varying)(keys, xs), each)
    if name not in BASIC:
        return
    fixed = weft.shard_map(
        lambda k, x: draw(k, x[0])[None], mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i")
    )
    close(weft.jit(fixed)(keys[0], xs), np.stack([draw(keys[0], x) for x in xs]))
    whole = weft.shard_map(draw, mesh=mesh, in_specs=(P(), P()), out_specs=P())
    close(weft.jit(whole)(keys[0], xs[1]), draw(keys[0], xs[1]))


def test_draws_inside_a_scan():
    def step(key, x):
        key, own = random.split(key)
        return key, (random.gamma(own, x), random.poisson(own, x))

    _, (gammas, counts) = lax.scan(step, random.key(2), wnp.array(VALUES))
    key = random.key(2)
    for x, g, c in zip(VALUES, gammas, counts, strict=True):
        key, own = random.split(key)
        close(g, random.gamma(own, x))
        assert int(c) == int(random.poisson(own, x))


def test_the_primitive_of_gamma():
    key, a = random.key(1), wnp.array([0.4, 2.0])
    for log_space, draw in ((False, random.gamma), (True, random.loggamma)):
        found = random.random_gamma_p.bind(key, a, log_space=log_space)
        np.testing.assert_array_equal(found, draw(key, a))


def test_raw_keys_draw_the_same():
    raw, typed = random.PRNGKey(11), random.key(11)
    for draw in (lambda k: random.gamma(k, 2.0), lambda k: random.poisson(k, 2.0),
                 lambda k: random.ball(k, 2), lambda k: random.binomial(k, 9, 0.5)):  # fmt: skip
        np.testing.assert_array_equal(draw(raw), draw(typed))


# ---- draws of all kinds: programs that take long to compile with all optimizations --------------


def test_mapping_over_keys_draws_what_each_key_draws():
    keys = random.split(random.key(5), 3)
    for draw in (
        lambda k: random.normal(k, (4,)),
        lambda k: random.bits(k, (2, 2), "uint8"),
        lambda k: random.randint(k, (3,), 0, 50),
        lambda k: random.permutation(k, 6),
        lambda k: random.choice(k, 4, (2,), p=wnp.array([0.1, 0.2, 0.3, 0.4], "float32")),
        lambda k: random.categorical(k, wnp.arange(3.0), shape=(5,)),
        lambda k: random.key_data(random.split(k)),
        lambda k: random.key_data(random.fold_in(k, 9)),
    ):
        each = np.stack([np.asarray(draw(k)) for k in keys])
        assert (np.asarray(weft.vmap(draw)(keys)) == each).all()
        assert (np.asarray(weft.jit(weft.vmap(draw))(keys)) == each).all()
        raw = random.key_data(keys)
        assert (np.asarray(weft.vmap(draw)(raw)) == each).all()


@pytest.mark.parametrize(
    ("draw", "value"),
    [
        (lambda k, x: random.uniform(k, minval=x, maxval=3.0), 1.0),
        (lambda k, x: random.uniform(k, minval=1.0, maxval=x), 3.0),
        (lambda k, x: random.truncated_normal(k, x, 2.0), -0.5),
        (lambda k, x: random.truncated_normal(k, -2.0, x), 0.5),
        (lambda k, x: random.truncated_normal(k, x, 3.0), 2.0),
        (lambda k, x: random.truncated_normal(k, x, np.inf), 15.0),
        (lambda k, x: random.truncated_normal(k, -20.0, x), -19.9),
        (lambda k, x: random.truncated_normal(k, x, -8.0), -8.1),
        (lambda k, x: random.lognormal(k, x), 0.7),
        (lambda k, x: random.pareto(k, x), 2.0),
        (lambda k, x: random.rayleigh(k, x), 2.0),
        (lambda k, x: random.weibull_min(k, x, 2.0), 2.0),
        (lambda k, x: random.weibull_min(k, 2.0, x), 1.5),
        (lambda k, x: random.triangular(k, 0.0, x, 2.0), 0.9),
        (lambda k, x: random.wald(k, x), 1.5),
        (lambda k, x: random.double_sided_maxwell(k, x, 2.0), 1.5),
    ],
)
def test_derivatives_in_the_parameters(draw, value):
    with config.enable_x64():
        key = random.key(21)
        step = 1e-6
        numeric = (float(draw(key, value + step)) - float(draw(key, value - step))) / (2 * step)
        for differentiated in (
            weft.grad(draw, 1),
            weft.grad(weft.jit(draw), 1),
            weft.jit(weft.grad(draw, 1)),
        ):
            assert float(differentiated(key, value)) == pytest.approx(numeric, rel=1e-7, abs=1e-9)


def test_gumbel_numbers_of_all_bits():
    # Recorded from JAX 0.10.2: random.gumbel(random.key(0), (2,), mode="highest").
    key = weft.random.key(0)
    found = weft.random.gumbel(key, (2,), mode="highest")
    np.testing.assert_array_equal(found, np.float32([-1.081849217414856, -1.3463642597198486]))
    assert int(weft.random.categorical(key, wnp.zeros(3), mode="highest")) == 2
    many = np.asarray(weft.random.gumbel(key, (50_000,), mode="highest"), np.float64)
    np.testing.assert_allclose(many.mean(), np.euler_gamma, atol=0.02)
