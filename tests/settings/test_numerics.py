"""Settings of promotion, precision, sums, indices and random keys."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config, lax
from weft.errors import ShapeError, WeftIndexError, WeftValueError
from weft.settings.kinds import MATMUL_PRECISIONS

pytestmark = pytest.mark.fast

A, B = jnp.ones((2, 3)), jnp.ones(3)

# Which of these promote ranks was recorded with JAX 0.10.2: jax.numpy_rank_promotion("raise").
PROMOTING = {
    "an operator": lambda: A + B,
    "NumPy's": lambda: A + np.ones(3, np.float32),
    "clip": lambda: jnp.clip(A, B),
    "allclose": lambda: jnp.allclose(A, B),
    "logaddexp": lambda: jnp.logaddexp(A, B),
    "jit": lambda: weft.jit(lambda a, b: a * b)(A, B),
    "a density": lambda: weft.scipy.stats.norm.pdf(A, B),
}
OTHERS = {
    "numbers": lambda: A + 1,
    "no dimensions": lambda: A + jnp.float32(1),
    "where": lambda: jnp.where(A > 0, A, B),
    "matmul": lambda: jnp.matmul(jnp.ones((2, 2, 2)), jnp.ones((2, 2))),
    "var": lambda: jnp.var(A, axis=0),
    "an update": lambda: A.at[:].add(B),
    "broadcast_arrays": lambda: jnp.broadcast_arrays(A, B),
    "interp": lambda: jnp.interp(A, B, B),
}


@pytest.mark.parametrize("way", PROMOTING.values(), ids=PROMOTING)
def test_ranks_that_differ(way):
    way()
    with weft.numpy_rank_promotion("raise"), pytest.raises(ShapeError, match="different ranks"):
        way()
    with weft.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="different ranks"):
        way()
    way()


@pytest.mark.parametrize("way", OTHERS.values(), ids=OTHERS)
def test_ranks_that_may_differ(way):
    with weft.numpy_rank_promotion("raise"):
        way()


M = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
EXACT = M.astype(np.float64) @ M.astype(np.float64)


@pytest.mark.parametrize("name", MATMUL_PRECISIONS)
def test_precisions_of_products(name):
    with weft.default_matmul_precision(name):
        jaxpr = weft.make_jaxpr(jnp.dot)(M, M)
        if name.startswith(("ANY", "TF32")) or name in (
            "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32_X9",
        ):  # fmt: skip
            with pytest.raises(WeftValueError, match="on the CPU"):
                jnp.dot(M, M)
            return
        error = 1e-2 if name == "F16_F16_F16" else 1e-5
        np.testing.assert_allclose(jnp.dot(M, M), EXACT, atol=error)
        slope = weft.grad(lambda x: (x @ M).sum())(jnp.asarray(M))
        np.testing.assert_allclose(slope, np.tile(M.sum(1), (8, 1)), atol=3 * error)
    known = {
        "tensorfloat32": ("HIGH", "HIGH"), "float32": ("HIGHEST", "HIGHEST"),
        "bfloat16": ("DEFAULT", "DEFAULT"), "F32_F32_F32": "F32_F32_F32",
    }  # fmt: skip
    if name in known:
        assert jaxpr.eqns[0].params["precision"] == known[name]


def test_a_precision_of_the_call_comes_first():
    with weft.default_matmul_precision("highest"):
        found = weft.make_jaxpr(lambda x: lax.dot(x, x, precision="high"))(M)
    assert found.eqns[0].params["precision"] == ("HIGH", "HIGH")


def test_sums_of_few_bits():
    half = jnp.ones(3, "float16")
    with weft.allow_f16_reductions(False):
        assert half.sum() == 3 and jnp.var(half) == 0
        assert lax.reduce_sum(jnp.ones(3), (0,)) == 3
        with pytest.raises(WeftValueError, match="16-bit"):
            lax.reduce_sum(half, (0,))
    assert lax.reduce_sum(half, (0,)) == 3


def test_static_indices():
    x = jnp.arange(5.0)
    unchecked = config.override(check_static_indices=False)
    ways = {
        4.0: lambda x: x[7], 0.0: lambda x: x[-9], 3.0: lambda x: x[np.array([3, 9])][0],
    }  # fmt: skip
    for wanted, way in ways.items():
        with unchecked, config.override(check_static_indices=False):
            assert way(x) == wanted and weft.jit(way)(x) == wanted
        unchecked = config.override(check_static_indices=False)
    for way in (lambda x: x[7], lambda x: x[-9]):
        with pytest.raises(WeftIndexError):
            way(x)
        with pytest.raises(WeftIndexError):
            weft.jit(way)(x)
    with config.override(check_static_indices=False):
        assert x.at[9].set(1.0).tolist() == x.tolist() and x.at[7].get() == 4.0


# ---- random keys: numbers recorded with JAX 0.10.2 -----------------------------------------------


def test_sequential_threefry():
    with weft.threefry_partitionable(False):
        key = weft.random.key(7)
        bits = weft.random.bits
        assert bits(key, (5,)).tolist() == [
            276534068, 861967409, 2793701230, 1641862660, 2900896126,
        ]  # fmt: skip
        assert bits(key, (3,), "uint8").tolist() == [139, 100, 23]
        assert bits(key, (3,), "uint16").tolist() == [10431, 2976, 22207]
        assert int(bits(key)) == 3625411723
        assert weft.random.key_data(weft.random.split(key, 3)).tolist() == [
            [276534068, 861967409], [1905761346, 1641862660], [2900896126, 1402713516],
        ]  # fmt: skip
        assert weft.random.key_data(weft.random.fold_in(key, 3)).tolist() == [276534068, 1641862660]
        np.testing.assert_allclose(
            weft.random.normal(key, (2, 3)),
            [[-1.5189658, -0.83915037, -0.14154512], [-0.29950872, 0.4549224, -0.4493361]],
            rtol=1e-6,
        )
        mapped = weft.vmap(lambda k: bits(k, (3,)))(weft.random.split(key, 2))
        assert mapped[0].tolist() == bits(weft.random.split(key, 2)[0], (3,)).tolist()
    assert int(weft.random.bits(key)) != 3625411723


def test_default_generator():
    with weft.default_prng_impl("rbg"):
        raw = weft.random.PRNGKey(0)
        assert raw.tolist() == [0, 0, 0, 0] and weft.random.key_impl(raw) == "rbg"
        assert weft.random.key(0).dtype == weft.random.key_dtype("rbg")
        np.testing.assert_allclose(
            weft.random.normal(raw, (2,)), [-0.25581604, 1.177591], rtol=1e-6
        )
        with pytest.raises(TypeError):
            weft.random.normal(np.zeros(2, np.uint32))
    assert weft.random.key_impl(weft.random.key(0)) == "threefry2x32"
    with pytest.raises(ValueError, match="one of"), weft.default_prng_impl("mine"):
        pass


def test_seeds_are_moved():
    with config.override(jax_random_seed_offset=5):
        assert weft.random.key_data(weft.random.key(7)).tolist() == [0, 12]
        assert weft.random.key_data(weft.jit(weft.random.key)(7)).tolist() == [0, 12]
    with config.override(random_seed_offset=-3):
        assert weft.random.key_data(weft.random.key(7)).tolist() == [0, 4]


def test_keys_without_a_type():
    raw = weft.random.PRNGKey(0)
    with weft.legacy_prng_key("error"):
        weft.random.normal(weft.random.key(0))
        with pytest.raises(ValueError, match="the bits of one"):
            weft.random.normal(raw)
    with weft.legacy_prng_key("warn"), pytest.warns(UserWarning, match="the bits of one"):
        weft.random.normal(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.random.normal(raw)
    with weft.enable_custom_prng():
        assert weft.random.PRNGKey(0).dtype == weft.random.key(0).dtype


def test_gumbel_of_a_high_range():
    key = weft.random.key(1)
    high = weft.random.gumbel(key, (3,), mode="high")
    with config.override(jax_high_dynamic_range_gumbel=True):
        assert weft.random.gumbel(key, (3,)).tolist() == high.tolist()
    np.testing.assert_allclose(high, [0.5492554, 0.27044538, 0.52688175], rtol=1e-5)


# Functions that mixed dtypes or ranks inside; those of one dtype go under every setting.
LIBRARY = {
    "var": lambda: jnp.var(X), "std": lambda: jnp.std(X), "median": lambda: jnp.median(X),
    "quantile": lambda: jnp.quantile(X, 0.3), "histogram": lambda: jnp.histogram(X)[0],
    "trapezoid": lambda: jnp.trapezoid(X.astype("int32"), X.astype("int32")),
    "welch": lambda: weft.scipy.signal.welch(X, nperseg=4)[1],
    "stft": lambda: weft.scipy.signal.stft(X, nperseg=4)[2],
    "sqrtm": lambda: weft.scipy.linalg.sqrtm(S), "funm": lambda: weft.scipy.linalg.funm(S, jnp.exp),
    "rsf2csf": lambda: weft.scipy.linalg.rsf2csf(S, S)[0],
    "dot": lambda: lax.dot(H, H, preferred_element_type="float32"),
}  # fmt: skip
X, H = jnp.linspace(0.5, 2.0, 8), jnp.ones(4, "float16")
S = jnp.array([[2.0, 0.3], [0.3, 1.0]])


@pytest.mark.parametrize("way", LIBRARY.values(), ids=LIBRARY)
def test_functions_of_one_dtype_under_strict_rules(way):
    wanted = way()
    with weft.numpy_dtype_promotion("strict"), weft.numpy_rank_promotion("raise"):
        np.testing.assert_allclose(way(), wanted, rtol=1e-5)
        with pytest.raises(TypeError, match="numpy_dtype_promotion"):
            X + jnp.arange(8)
