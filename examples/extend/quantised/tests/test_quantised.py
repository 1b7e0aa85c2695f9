"""A quantised array in place of an array, against NumPy on the product of its parts."""

from __future__ import annotations

import numpy as np
import pytest
from quantised import Quantised, quantise

import weft
import weft.numpy as jnp
from weft import lax

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 3)).astype(np.float32)
Q = quantise(jnp.array(X))
PRODUCT = np.asarray(Q.values).astype(np.float32) * np.asarray(Q.scale)


def near(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_the_error_is_at_most_half_a_step(axis):
    q = quantise(jnp.array(X), axis)
    assert q.values.dtype == np.int8
    assert np.all(np.abs(np.asarray(q) - X) <= 0.500001 * np.asarray(q.scale))


def test_zeros_and_wrong_dtypes():
    assert np.array_equal(quantise(jnp.zeros(3)), np.zeros(3))
    with pytest.raises(TypeError, match="floating-point"):
        quantise(jnp.arange(3))


@pytest.mark.parametrize(
    "function",
    [
        lambda m, q: m.sin(q),
        lambda m, q: m.sum(q, axis=0),
        lambda m, q: q @ np.ones((3, 2), np.float32),
        lambda m, q: np.ones((2, 4), np.float32) @ q,
        lambda m, q: m.concatenate([q, q]),
        lambda m, q: m.where(q > 0, q, 0),
        lambda m, q: q[1:, ::2],
        lambda m, q: q.T.reshape(2, 6),
        lambda m, q: 2 - q / 3,
        lambda m, q: q**2 + abs(-q),
        lambda m, q: m.var(q, axis=1),
    ],
)
def test_functions_take_it_for_the_product(function):
    wanted = function(np, PRODUCT)
    near(function(jnp, Q), wanted)
    near(weft.jit(lambda q: function(jnp, q))(Q), wanted)


def test_lax_functions():
    near(lax.add(Q, Q), 2 * PRODUCT)
    near(lax.dot_general(Q, Q, (((1,), (1,)), ((), ()))), PRODUCT @ PRODUCT.T)


def test_it_goes_in_and_out_of_transformed_functions_as_itself():
    out = weft.jit(lambda q: q.rescaled(2.0))(Q)
    assert isinstance(out, Quantised) and out.values.dtype == np.int8
    near(out, 2 * PRODUCT)
    rows = quantise(jnp.array(X), axis=1)
    mapped = weft.vmap(lambda q: jnp.sum(q * q))(rows)
    near(mapped, np.sum(np.asarray(rows) ** 2, axis=1))


def test_derivatives_with_respect_to_the_scale_and_to_other_operands():
    v = jnp.array(X[0])

    def loss(scale, v):
        return jnp.sum((Quantised(Q.values, scale) @ v) ** 2)

    integers = np.asarray(Q.values).astype(np.float64)
    product = integers * float(Q.scale)
    of_scale, of_v = weft.jit(weft.grad(loss, argnums=(0, 1)))(Q.scale, v)
    residual = product @ X[0].astype(np.float64)
    np.testing.assert_allclose(of_scale, 2 * residual @ (integers @ X[0]), rtol=1e-5)
    np.testing.assert_allclose(of_v, 2 * product.T @ residual, rtol=1e-5)


def test_in_a_loop_and_on_a_device():
    placed = weft.device_put(Q, weft.devices()[0])
    assert isinstance(placed, Quantised)
    carry, _ = lax.scan(
        lambda c, _: (jnp.tanh(c @ placed @ placed.T), None), X.T @ X @ X.T, None, 3
    )
    wanted = X.T @ X @ X.T
    for _ in range(3):
        wanted = np.tanh(wanted @ PRODUCT @ PRODUCT.T)
    near(carry, wanted)
