"""The numbers of weft.random are distributed as they should be; the keys are fixed.

Every test holds for the default generator, for "rbg", and for one that a package outside weft
defines.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import weft.numpy as wnp
from generators import IMPLEMENTATIONS
from weft import config, random
from weft.api.vmap import vmap
from weft.random.gaussian import tail_number

N = 20_000
# With fixed keys a test either passes for good or fails for good; at this level one of a thousand
# keys would fail for a right distribution.
LEVEL = 1e-3

CONTINUOUS = {
    "uniform": (lambda k, s: random.uniform(k, s), scipy.stats.uniform()),
    "uniform between": (
        lambda k, s: random.uniform(k, s, minval=-3.0, maxval=5.0),
        scipy.stats.uniform(-3, 8),
    ),
    "uniform of float64": (lambda k, s: random.uniform(k, s, "float64"), scipy.stats.uniform()),
    "normal": (lambda k, s: random.normal(k, s), scipy.stats.norm()),
    "normal of float64": (lambda k, s: random.normal(k, s, "float64"), scipy.stats.norm()),
    "complex normal, real part": (
        lambda k, s: random.normal(k, s, complex).real,
        scipy.stats.norm(scale=np.sqrt(0.5)),
    ),
    "complex normal, imaginary part": (
        lambda k, s: random.normal(k, s, complex).imag,
        scipy.stats.norm(scale=np.sqrt(0.5)),
    ),
    "truncated_normal": (
        lambda k, s: random.truncated_normal(k, -0.5, 2.0, s),
        scipy.stats.truncnorm(-0.5, 2.0),
    ),
    "lognormal": (lambda k, s: random.lognormal(k, 0.7, s), scipy.stats.lognorm(0.7)),
    "exponential": (lambda k, s: random.exponential(k, s), scipy.stats.expon()),
    "gumbel": (lambda k, s: random.gumbel(k, s), scipy.stats.gumbel_r()),
    "gumbel high": (lambda k, s: random.gumbel(k, s, mode="high"), scipy.stats.gumbel_r()),
    "laplace": (lambda k, s: random.laplace(k, s), scipy.stats.laplace()),
    "logistic": (lambda k, s: random.logistic(k, s), scipy.stats.logistic()),
    "cauchy": (lambda k, s: random.cauchy(k, s), scipy.stats.cauchy()),
    "maxwell": (lambda k, s: random.maxwell(k, s), scipy.stats.maxwell()),
    "double_sided_maxwell": (
        lambda k, s: abs(random.double_sided_maxwell(k, 1.0, 2.0, s) - 1.0),
        scipy.stats.maxwell(scale=2),
    ),
    "pareto": (lambda k, s: random.pareto(k, 3.0, s), scipy.stats.pareto(3)),
    "rayleigh": (lambda k, s: random.rayleigh(k, 2.0, s), scipy.stats.rayleigh(scale=2)),
    "weibull_min": (
        lambda k, s: random.weibull_min(k, 2.0, 1.5, s),
        scipy.stats.weibull_min(1.5, scale=2),
    ),
    "triangular": (
        lambda k, s: random.triangular(k, -1.0, 0.5, 3.0, s),
        scipy.stats.triang(1.5 / 4, -1, 4),
    ),
    "wald": (lambda k, s: random.wald(k, 2.0, s), scipy.stats.invgauss(2.0)),
}

# Bounds in a tail, where the error function is 1 to within rounding, or partly so.
TAILS = [(1.01, np.inf), (-np.inf, -1.5), (5.0, np.inf), (10.0, 11.0), (-12.0, -11.5), (30.0, 40.0)]
TAILS += [(3.0, 3.01), (9.5, 10.5), (-1.0, 12.0), (-np.inf, -30.0)]
CONTINUOUS |= {
    f"truncated_normal from {low} to {high}, {dtype}": (
        lambda k, s, low=low, high=high, d=dtype: random.truncated_normal(k, low, high, s, d),
        scipy.stats.truncnorm(low, high),
    )
    for low, high in TAILS
    for dtype in ("float32", "float64")
}
CONTINUOUS |= {
    f"wald of {mean}": (lambda k, s, m=mean: random.wald(k, m, s), scipy.stats.invgauss(mean))
    for mean in (1e-3, 1e4)
}


@pytest.fixture(params=(*IMPLEMENTATIONS, "rbg"))
def key(request):
    """A key from a seed, of each generator."""
    return lambda seed: random.key(seed, impl=request.param)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distribution(name, key):
    draw, distribution = CONTINUOUS[name]
    drawn = np.asarray(draw(key(1701), (N,)), np.float64)
    assert scipy.stats.kstest(drawn, distribution.cdf).pvalue > LEVEL


def fits(counts, probabilities):
    return scipy.stats.chisquare(counts, np.asarray(probabilities) * np.sum(counts)).pvalue > LEVEL


def counts_of(drawn, n):
    return np.bincount(np.asarray(drawn).ravel(), minlength=n)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_integers_are_equally_likely(dtype, key):
    drawn = np.asarray(random.randint(key(2), (N,), 3, 14, dtype), np.int64)
    assert fits(counts_of(drawn - 3, 11), np.full(11, 1 / 11))


def test_each_bit_is_set_half_of_the_time(key):
    for width in (8, 16, 32, 64):
        bits = np.asarray(random.bits(key(3), (N,), f"uint{width}"))
        places = bits[:, None] >> np.arange(width).astype(bits.dtype) & bits.dtype.type(1)
        chance = scipy.stats.binom.cdf(places.sum(0), N, 0.5)
        assert np.minimum(chance, 1 - chance).min() > LEVEL / width


@pytest.mark.parametrize("mode", ["low", "high"])
@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_booleans(p, mode, key):
    heads = int(random.bernoulli(key(4), p, (N,), mode).sum())
    assert scipy.stats.binomtest(heads, N, p).pvalue > LEVEL


def test_a_probability_below_the_step_of_a_uniform_number(key):
    # 2**-30 is below 2**-23: with the coarse steps the events would be 128 times as frequent.
    keys = random.split(key(5), 64)
    heads = vmap(lambda k: random.bernoulli(k, 2.0**-30, (1 << 20,), "high").sum())(keys)
    assert int(heads.sum()) < 2


def test_signs_and_trials(key):
    signs = np.asarray(random.rademacher(key(6), (N,)))
    assert set(signs.tolist()) == {-1, 1}
    assert scipy.stats.binomtest(int((signs > 0).sum()), N, 0.5).pvalue > LEVEL
    trials = np.minimum(np.asarray(random.geometric(key(6), 0.3, (N,))), 12)
    expected = [0, *(0.3 * 0.7 ** np.arange(11)), 0.7**11]
    assert trials.min() == 1
    assert fits(counts_of(trials, 13)[1:], expected[1:])


P = np.array([0.05, 0.4, 0.3, 0.25])


def test_categories(key):
    logits = wnp.log(wnp.array(P))
    drawn = random.categorical(key(7), logits, shape=(N,))
    assert fits(counts_of(drawn, 4), P)
    first = vmap(lambda k: random.categorical(k, logits, shape=(2,), replace=False))(
        random.split(key(8), N)
    )
    pairs = np.asarray(first)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert fits(counts_of(pairs[:, 0], 4), P)
    joint = P[:, None] * P / (1 - P[:, None]) * (1 - np.eye(4))
    got = counts_of(pairs[:, 0] * 4 + pairs[:, 1], 16)
    kept = joint.ravel() > 0
    assert not got[~kept].any()
    assert fits(got[kept], joint.ravel()[kept] / joint.sum())


def test_choices(key):
    drawn = random.choice(key(9), 4, (N,), p=wnp.array(P))
    assert fits(counts_of(drawn, 4), P)
    drawn = random.choice(key(9), wnp.array([3, 1, 0, 2]), (N,))
    assert fits(counts_of(drawn, 4), np.full(4, 0.25))
    weights = wnp.array([0.0, 0.5, 0.0, 0.5, 0.0])
    assert set(np.asarray(random.choice(key(9), 5, (N,), p=weights)).tolist()) == {1, 3}


def test_orders_are_equally_likely(key):
    keys = random.split(key(10), N)
    orders = np.asarray(vmap(lambda k: random.permutation(k, 4))(keys))
    assert (np.sort(orders, 1) == np.arange(4)).all()
    _, counts = np.unique(orders @ (64, 16, 4, 1), return_counts=True)
    assert len(counts) == 24
    assert fits(counts, np.full(24, 1 / 24))
    lines = np.asarray(random.permutation(key(10), wnp.tile(wnp.arange(5), (N, 1)), 1, True))
    assert (np.sort(lines, 1) == np.arange(5)).all()
    assert fits(counts_of(lines[:, 0], 5), np.full(5, 0.2))


def test_streams_of_different_keys_are_independent(key):
    parent = key(11)
    keys = [parent, *random.split(parent, 4), *(random.fold_in(parent, i) for i in range(4, 8))]
    drawn = np.stack([np.asarray(random.normal(k, (N,))) for k in keys])
    correlation = np.corrcoef(drawn) - np.eye(len(keys))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(N)


def test_derived_keys_are_distinct(key):
    parent = key(12)
    split = random.key_data(random.split(parent, 2000))
    again = random.key_data(vmap(random.split)(random.split(parent, 100)).reshape(200))
    folded = random.key_data(
        vmap(random.fold_in, (None, 0))(parent, wnp.arange(2000, 4000, dtype="uint32"))
    )
    rows = np.concatenate([np.asarray(x) for x in (split, again, folded)])
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_moments_of_narrow_numbers(key):
    for dtype, step in (("float16", 2.0**-10), ("bfloat16", 2.0**-7)):
        drawn = np.asarray(random.uniform(key(13), (N,), dtype), np.float64)
        assert drawn.min() == 0.0
        assert drawn.max() < 1
        assert set(np.unique(drawn / step % 1)) == {0.0}
        assert drawn.mean() == pytest.approx(0.5 - step / 2, abs=5 * np.sqrt(1 / 12 / N))
        assert drawn.var() == pytest.approx(1 / 12, rel=0.03)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.001, np.inf), (1.001, 1.002), (1.5, 3), (3, 3.01), (9.5, 10.5), (30, 31), (50, np.inf)],
)
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 3e-7), ("float64", 1e-14)])
def test_numbers_in_a_tail_stand_at_their_quantile(low, high, dtype, rtol):
    # Nearer to 1 the rounding of 1 - chance decides about the last digits of the quantile.
    chance = np.append(np.linspace(0, 0.9, 200), 2.0**-20).astype(dtype)
    of = chance.dtype.type
    low, high = of(low), of(high)
    with config.enable_x64():
        got = tail_number(*(wnp.array(x) for x in (low, high, chance)))
    assert got.dtype == dtype
    tails = scipy.special.log_ndtr([-np.float64(low), -np.float64(high)])
    between = np.log1p(chance.astype(np.float64) * np.expm1(tails[1] - tails[0]))
    wanted = -scipy.special.ndtri_exp(tails[0] + between)
    np.testing.assert_allclose(got, wanted, rtol=rtol)
