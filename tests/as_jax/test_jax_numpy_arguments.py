"""Arguments of `jax.numpy` that mean something else there than in NumPy."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config
from weft.errors import ShapeError, WeftValueError
from weft.test_util import check_jvp


@pytest.fixture(autouse=True)
def jax_rule():
    with config.override(argument_rule="jax"):
        yield


def test_fromfunction_is_mapped():
    seen = []

    def f(i, j):
        seen.append(i.shape)
        return {"sum": 10 * i + j, "row": i * jnp.ones(3)}

    found = jnp.fromfunction(f, (2, 4), dtype=int)
    assert seen == [()]
    np.testing.assert_array_equal(found["sum"], [[0, 1, 2, 3], [10, 11, 12, 13]])
    np.testing.assert_array_equal(found["row"], np.ones((2, 4, 3)) * np.arange(2)[:, None, None])
    np.testing.assert_array_equal(jnp.fromfunction(lambda i: 7.0, 3), [7, 7, 7])
    assert jnp.fromfunction(lambda: 3.0, ()) == 3.0


def test_vsplit_of_a_vector():
    first, second = jnp.vsplit(jnp.arange(6), 2)
    np.testing.assert_array_equal([first, second], np.arange(6).reshape(2, 3))
    with config.override(argument_rule="weft"), pytest.raises(ShapeError):
        jnp.vsplit(jnp.arange(6), 2)


def test_polynomials_of_several_dimensions():
    x, y = np.arange(6.0).reshape(3, 2), np.ones((1, 2))
    padded = np.concatenate([np.zeros((2, 2)), y])
    np.testing.assert_array_equal(jnp.polyadd(x, y), x + padded)
    np.testing.assert_array_equal(jnp.polysub(y, x), padded - x)
    with pytest.raises(ShapeError):
        jnp.polyadd(jnp.ones((2, 3)), jnp.ones((2, 2)))


def test_labels_of_einsum_may_be_any_characters():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jnp.einsum("10, 02 -> 21", x, y), (x @ y).T)
    np.testing.assert_array_equal(jnp.einsum("b0,0a", x, y), (x @ y).T)
    np.testing.assert_array_equal(jnp.einsum("...0,0...->...", x, y[:, 0]), x @ y[:, 0])
    np.testing.assert_array_equal(jnp.einsum("α...->...α", y), y.T)
    for wrong in ("0.,0->", "0,0->2", "0->0->0"):
        with pytest.raises(WeftValueError):
            jnp.einsum(wrong, *[y[0]] * (wrong.count(",") + 1))
    with config.override(argument_rule="weft"), pytest.raises(WeftValueError, match="read"):
        jnp.einsum("0,0->", y[0], y[0])


@pytest.mark.parametrize("write", [jnp.save, jnp.savez])
def test_files_of_short_floats(write):
    x = jnp.arange(4, dtype=jnp.bfloat16)
    file = io.BytesIO()
    write(file, x)
    file.seek(0)
    found = jnp.load(file)
    found = found if write is jnp.save else found["arr_0"]
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, x)
    with config.override(argument_rule="weft"), pytest.raises(WeftValueError):
        write(io.BytesIO(), x)


def test_an_array_of_conditions():
    x = jnp.arange(3)
    one_each = [lambda x: x, lambda x: 10 * x, lambda x: 100 * x]
    for conditions in (jnp.array([False, True, False]), [False, True, False]):
        np.testing.assert_array_equal(jnp.piecewise(x, conditions, one_each), [0, 10, 20])
    rows = jnp.array([[True, False, False], [False, True, False]])
    found = weft.jit(lambda x, rows: jnp.piecewise(x, rows, one_each))(x, rows)
    np.testing.assert_array_equal(found, [0, 10, 200])


def test_the_nearest_of_two():
    x, q = jnp.arange(7), jnp.array([25, 50, 75])
    np.testing.assert_array_equal(jnp.percentile(x, q, method="nearest"), [1, 3, 4])
    with config.override(argument_rule="weft"):
        np.testing.assert_array_equal(jnp.percentile(x, q, method="nearest"), [2, 3, 4])


def test_the_polynomial_of_a_matrix_is_complex():
    found = jnp.poly(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, [1, -5, -2], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "bool"])
def test_fractions_of_any_dtype(dtype):
    x = np.array([1, 0, 1, 1]).astype(dtype)
    assert jnp.median(x) == 1 and jnp.quantile(x, 0.0) == jnp.percentile(x, 0) == 0
    assert jnp.quantile(x, 2.0) == 1  # what is out of range means the nearest end
    np.testing.assert_array_equal(jnp.nanquantile(x, jnp.array([0, 1])), [0, 1])


def test_tolerances_of_checked_derivatives_count_by_elements():
    def slightly_wrong(x, t):
        return x[0] * 3, t[0] * 3.06

    def check(size):
        x = np.ones(size, np.float32)
        check_jvp(lambda x: x * 3, slightly_wrong, (x,), atol=1e-3, rtol=1e-3, eps=1e-2)

    check(30)
    with pytest.raises(AssertionError):
        check(2)
    with config.override(argument_rule="weft"), pytest.raises(AssertionError):
        check(30)
