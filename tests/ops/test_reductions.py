"""Reductions, sorts and products: what the op table cannot say (errors, ties, NaN, sizes)."""

from __future__ import annotations

import numpy as np
import pytest

from weft import config, dtypes, lax, random
from weft.api.autodiff import grad, jvp, vjp
from weft.api.jacobian import jacfwd, jacrev
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.ops.reductions import window
from weft.testing import exact_array

TIES = exact_array(np.array([1.0, 1.0, 1.0, 0.0, 1.0, 2.0]))


def names(function, *args):
    return [eqn.primitive.name for eqn in make_jaxpr(function)(*args).jaxpr.eqns]


# ---- ties and special values -------------------------------------------------------------------


def test_a_maximum_shares_its_derivative_among_ties():
    got = grad(lambda x: lax.reduce_max(x, (0,)))(TIES[:5])
    np.testing.assert_array_equal(np.asarray(got), [0.25, 0.25, 0.25, 0, 0.25])


def test_a_cumulative_maximum_shares_its_derivative_among_ties():
    for derivative in (jacfwd, jacrev):
        got = np.asarray(derivative(lax.cummax)(TIES))
        for i in range(6):
            attained = np.asarray(TIES)[: i + 1] == np.asarray(TIES)[: i + 1].max()
            np.testing.assert_allclose(got[i, : i + 1], attained / attained.sum())
            assert not got[i, i + 1 :].any()


def test_the_maximum_of_a_window_has_the_derivative_of_its_first_element():
    x = TIES[:5]
    _, back = vjp(lambda x: window.reduce_window_max(x, (3,)), x)
    np.testing.assert_array_equal(np.asarray(back(np.ones(3))[0]), [1, 1, 1, 0, 0])


def test_nan_propagates():
    x = np.array([1, np.nan, 3, np.nan])
    assert np.isnan(lax.reduce_max(x, (0,))) and np.isnan(lax.reduce_min(x, (0,)))
    assert int(lax.argmax(x, 0, np.int32)) == int(lax.argmin(x, 0, np.int32)) == 1
    np.testing.assert_array_equal(np.asarray(lax.cummax(x)), [1, np.nan, np.nan, np.nan])
    values, places = lax.top_k(np.array([np.inf, -np.nan, 1, np.nan]), 3)
    np.testing.assert_array_equal(np.asarray(values), [np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(np.asarray(places), [1, 3, 0])


def test_reductions_of_nothing_give_the_identity():
    x = np.zeros((0, 2))
    for function, wanted in (
        (lax.reduce_max, -np.inf),
        (lax.reduce_min, np.inf),
        (lax.reduce_prod, 1),
        (lax.reduce_sum, 0),
    ):
        np.testing.assert_array_equal(np.asarray(function(x, (0,))), [wanted] * 2)
    np.testing.assert_array_equal(np.asarray(lax.reduce_and(x.astype(np.int8), (0,))), [-1, -1])


def test_a_logarithm_of_cumulative_exponentials_of_nothing():
    x = exact_array(np.array([-np.inf, -np.inf, 1.0, 800.0]))
    np.testing.assert_array_equal(np.asarray(lax.cumlogsumexp(x)), [-np.inf, -np.inf, 1, 800])
    got = grad(lambda x: lax.reduce_sum(lax.slice(lax.cumlogsumexp(x), (2,), (4,)), (0,)))(x)
    np.testing.assert_array_equal(np.asarray(got), [0, 0, 1, 1])


def test_long_sums_keep_their_digits():
    x = np.full(200_000, 0.1, np.float32)
    want = np.cumsum(x, dtype=np.float64).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(lax.cumsum(x)), want)


def test_a_stable_sort_of_both_zeros():
    x = np.array([0.0, -0.0, -1.0, 0.0, -0.0], np.float32)
    values, places = lax.sort_key_val(x, np.arange(5, dtype=np.int32))
    np.testing.assert_array_equal(np.asarray(places), [2, 0, 1, 3, 4])
    np.testing.assert_array_equal(np.signbit(np.asarray(values)), [1, 0, 1, 0, 1])


def test_random_keys_follow_a_sort():
    keys = random.split(random.key(0), 4)
    _, moved = lax.sort((np.array([3, 1, 2, 0]), keys))
    want = np.asarray(random.key_data(keys))[[3, 1, 2, 0]]
    np.testing.assert_array_equal(np.asarray(random.key_data(moved)), want)
    with pytest.raises(DTypeError, match="no order"):
        lax.sort((keys, np.arange(4)))


# ---- reductions by a function ------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, init, primitive",
    [
        (lax.add, 0, "reduce_sum"),
        (lambda a, b: lax.mul(b, a), 1, "reduce_prod"),
        (jit(lax.max), -(2**31), "reduce_max"),
        (lax.min, 2**31 - 1, "reduce_min"),
        (lax.bitwise_and, -1, "reduce_and"),
        (lax.bitwise_or, 0, "reduce_or"),
        (lax.bitwise_xor, 0, "reduce_xor"),
    ],
)
def test_known_functions_become_their_reductions(function, init, primitive):
    x = exact_array(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert names(lambda x: lax.reduce(x, init, function, (1,)), x) == [primitive]


def test_known_functions_of_windows():
    x = exact_array(np.ones((4, 4), np.float32))
    for function, init, primitive in (
        (lax.add, 0.0, "reduce_window_sum"),
        (lax.max, -np.inf, "reduce_window_max"),
        (lax.min, np.inf, "reduce_window_min"),
        (lax.add, 1.0, "reduce_window"),
        (lax.mul, 1.0, "reduce_window"),
    ):
        found = names(lambda x, f=function, i=init: lax.reduce_window(x, i, f, (2, 2)), x)
        assert found == [primitive]


def test_a_reduction_keeps_the_order_of_elements():
    """The composition of affine maps is associative and does not commute."""
    a, b = (np.random.default_rng(i).normal(size=7) for i in range(2))

    def compose(f, g):
        return lax.mul(f[0], g[0]), lax.add(lax.mul(g[0], f[1]), g[1])

    def run(a, b):
        return lax.reduce((a, b), (1.0, 0.0), compose, (0,))[1]

    want = 0.0
    for slope, shift in zip(a, b, strict=True):
        want = slope * want + shift
    args = exact_array(a), exact_array(b)
    np.testing.assert_allclose(float(run(*args)), want, rtol=1e-12)
    _, back = vjp(run, *args)
    tail = np.append(np.cumprod(a[:0:-1])[::-1], 1)
    np.testing.assert_allclose(np.asarray(back(exact_array(1.0))[1]), tail, rtol=1e-12)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: lax.reduce(x, 0.0, lambda a, b: lax.add(a, lax.reduce_sum(x, (0,))), (0,)),
         WeftValueError),
        (lambda x: lax.reduce(x, np.zeros(3, np.float32), lax.add, (0,)), ShapeError),
        (lambda x: lax.reduce(x, 0.0, lambda a, b: (a, b), (0,)), WeftTypeError),
        (lambda x: lax.reduce(x, 0.0, lax.gt, (0,)), WeftTypeError),
        (lambda x: lax.reduce(x, np.int32(0), lax.add, (0,)), WeftTypeError),
        (lambda x: lax.reduce((x, x), (0.0,), lax.add, (0,)), WeftTypeError),
        (lambda x: lax.reduce((), (), lax.add, (0,)), WeftTypeError),
        (lambda x: lax.reduce((x, lax.reduce_sum(x, (0,))), (0.0, 0.0), lambda a, b: a, ()),
         ShapeError),
        (lambda x: lax.reduce(x, 0.0, lax.add, (1,)), AxisError),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2)), ShapeError),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (0,)), WeftValueError),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), padding="WIDE"), WeftValueError),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), padding=[(-3, -3)]), ShapeError),
        (lambda x: window.select_and_gather_add(x, x, "EQ", (2,)), WeftValueError),
        (lambda x: window.select_and_gather_add(x, lax.slice(x, (0,), (2,)), "GE", (2,)),
         ShapeError),
        (lambda x: window.select_and_scatter_add(x, x, "GE", (2,)), ShapeError),
        (lambda x: lax.reduce_max(x, (1,)), AxisError),
        (lambda x: lax.reduce_max(x, (0, 0)), AxisError),
        (lambda x: lax.argmax(x, 1, np.int32), AxisError),
        (lambda x: lax.argmax(x, 0, np.float32), DTypeError),
        (lambda x: lax.argmax(np.zeros(0), 0, np.int32), ShapeError),
        (lambda x: lax.argmax(np.zeros(300), 0, np.int8), DTypeError),
        (lambda x: lax.cumsum(x, 1), AxisError),
        (lambda x: lax.sort((x, lax.slice(x, (0,), (2,)))), ShapeError),
        (lambda x: lax.sort((x, x), num_keys=3), WeftValueError),
        (lambda x: lax.sort(()), WeftValueError),
        (lambda x: lax.top_k(x, 6), WeftValueError),
        (lambda x: lax.approx_max_k(x, 1, recall_target=1.5), WeftValueError),
    ],
)  # fmt: skip
def test_errors_of_reductions(call, error):
    with pytest.raises(error):
        call(exact_array(np.ones(5, np.float32)))


# ---- products ----------------------------------------------------------------------------------

X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: lax.dot_general(X, X, (((0,), (1,)), ((), ()))), ShapeError),
        (lambda: lax.dot_general(X, X, (((0,), (0, 1)), ((), ()))), ShapeError),
        (lambda: lax.dot_general(X, X, (((2,), (0,)), ((), ()))), AxisError),
        (lambda: lax.dot_general(X, X, (((0,), (0,)), ((0,), (0,)))), AxisError),
        (lambda: lax.dot(X, X[None]), ShapeError),
        (lambda: lax.batch_matmul(X, X[0]), ShapeError),
        (lambda: lax.dot(X, X.T, precision="exact"), WeftValueError),
        (lambda: lax.dot(X, X.T, precision=("high",) * 3), WeftValueError),
        (lambda: lax.dot(X, X.T, out_sharding="i"), WeftNotImplementedError),
        (
            lambda: lax.dot(X.astype(int), X.T.astype(int), preferred_element_type=np.int8),
            DTypeError,
        ),
        (lambda: lax.dot(X + 1j, X.T, preferred_element_type=np.float32), DTypeError),
    ],
)
def test_errors_of_products(call, error):
    with pytest.raises(error):
        call()


def test_axes_of_a_product_may_count_from_the_end():
    got = lax.dot_general(X, X, (((-1,), (1,)), ((), ())))
    np.testing.assert_array_equal(np.asarray(got), X @ X.T)


def test_precision_is_an_attribute_of_the_product():
    def text(**params):
        return jit(lambda x: lax.dot(x, x, **params)).lower(np.ones((2, 2))).as_text()

    assert "HIGHEST, HIGHEST" in text(precision=lax.Precision.HIGHEST)
    assert "HIGH, DEFAULT" in text(precision=("high", None))
    assert "HIGHEST" not in text()
    with config.override(default_matmul_precision="highest"):
        assert "HIGHEST, HIGHEST" in text()


@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16])
def test_narrow_products_can_be_summed_in_a_wider_dtype(dtype):
    x = exact_array(np.full((1, 4096), 1.0, dtype))

    def product(x, y):
        return lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=np.float32)

    value, back = vjp(product, x, x)
    assert float(value[0, 0]) == 4096 and value.dtype == np.float32
    assert [ct.dtype for ct in back(np.ones((1, 1), np.float32))] == [dtype, dtype]


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "SAME"},
        {"padding": [(2, 1)], "window_strides": (2,)},
        {"base_dilation": (2,)},
        {"base_dilation": (3,), "window_dilation": (2,), "padding": [(1, 2)]},
    ],
)
def test_padding_counts_for_nothing_under_any_transformation(options):
    def windows(x, init):
        return lax.reduce_window(x, init, lambda a, b: a + b, (2,), **options)

    x, init = np.arange(4.0, dtype=np.float32), np.float32(1.5)
    wanted = np.asarray(lax.reduce_window(x, 0.0, lax.add, (2,), **options)) + init
    np.testing.assert_allclose(windows(x, init), wanted)
    np.testing.assert_allclose(jvp(windows, (x, init), (x, init))[0], wanted)
    np.testing.assert_allclose(jit(windows)(x, init), wanted)
    np.testing.assert_allclose(vmap(windows, (None, 0))(x, np.array([1.5, 2.5]))[0], wanted)


@pytest.mark.parametrize("x", [0.0, 1e-25, 3e-26])
def test_the_slope_of_a_quotient_in_a_small_divisor(x):
    y = np.float32(1e-19) if x else np.float32(1e-25)
    wanted = -float(np.float32(x)) / float(y) ** 2
    for run in (grad(lax.div, 1), jit(grad(lax.div, 1))):
        np.testing.assert_allclose(run(np.float32(x), y), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "dtypes_of", [("float8_e5m2", "float8_e4m3fn"), ("float8_e5m2", "float32")]
)
def test_products_of_narrow_numbers_in_a_preferred_dtype(dtypes_of):
    x, y = (np.array([1.0, 2.0, 0.5]).astype(dtypes.parse(d)) for d in dtypes_of)
    found = lax.dot(x, y, preferred_element_type=np.float32)
    assert found.dtype == np.float32 and found == 5.25
