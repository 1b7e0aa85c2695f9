"""Optimizers and layers beside numbers of JAX 0.10.2 for the same seeds, and by their formulas."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.example_libraries import optimizers, stax

# Five steps on sum(sin(a)**2) * b**2 from a = 0.3, b = 2 by jax.example_libraries.optimizers.
RECORDED = {
    "adagrad": ((0.1,), 0.2082999944, 1.9071999788),
    "adam": ((0.1,), -0.1137999967, 1.531999945),
    "adamax": ((0.1,), -0.0308999997, 1.617300033),
    "momentum": ((0.1, 0.9), -0.417499989, -1.438899993),
    "nesterov": ((0.1, 0.9), -0.280299991, -0.719200015),
    "rmsprop": ((0.01,), 0.2019000053, 1.8990000486),
    "rmsprop_momentum": ((0.01,), 0.0285000000, 1.7139999866),
    "sgd": ((0.1,), 0.0368000008, 0.7049000263),
    "sm3": ((0.1,), 0.2237000018, 1.9071999788),
}


@pytest.mark.parametrize("name", RECORDED)
def test_optimizers(name):
    settings, first, second = RECORDED[name]
    params = {"a": jnp.arange(6.0).reshape(2, 3) / 7 + 0.3, "b": jnp.float32(2.0)}

    def loss(p):
        return jnp.sum(jnp.sin(p["a"]) ** 2) * p["b"] ** 2

    init, update, get_params = getattr(optimizers, name)(*settings)
    step = weft.jit(lambda i, s: update(i, weft.grad(loss)(get_params(s)), s))
    state = init(params)
    for i in range(5):
        state = step(i, state)
    state = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    found = get_params(state)
    np.testing.assert_allclose([found["a"][0, 0], found["b"]], [first, second], atol=1e-4)
    with pytest.raises(ValueError, match="structure"):
        update(0, [params["a"]], state)


def test_schedules():
    def rows(schedule):
        return [float(schedule(i)) for i in (0, 5, 12)]

    assert rows(optimizers.constant(0.1)) == [0.1] * 3
    np.testing.assert_allclose(
        rows(optimizers.exponential_decay(0.1, 10, 0.9)), 0.1 * 0.9 ** np.array([0, 0.5, 1.2])
    )
    np.testing.assert_allclose(rows(optimizers.inverse_time_decay(0.1, 10, 0.5, True)),
                               [0.1, 0.1, 0.1 / 1.5], rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(rows(optimizers.polynomial_decay(0.1, 10, 0.01, 2.0)),
                               [0.1, 0.0325, 0.01], rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(rows(optimizers.piecewise_constant([5, 15], [1.0, 0.5, 0.1])),
                               [1.0, 1.0, 0.5])  # fmt: skip
    with pytest.raises(ValueError, match="one value more"):
        optimizers.piecewise_constant([5], [1.0])
    with pytest.raises(TypeError, match="function"):
        optimizers.sgd("fast")
    clipped = optimizers.clip_grads({"a": jnp.array([3.0, 4.0])}, 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.8], rtol=1e-6)


def test_layers():
    """As recorded from jax.example_libraries.stax with jax.random.key(1)."""
    key = weft.random.key(1)
    net = stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu,
        stax.MaxPool((2, 2), (2, 2)), stax.Conv(3, (2, 2), strides=(2, 2)), stax.Gelu,
        stax.AvgPool((2, 2), padding="SAME"), stax.SumPool((1, 1)), stax.Flatten, stax.Dense(5),
        stax.LogSoftmax,
    )  # fmt: skip
    init, apply = net
    shape, params = init(key, (-1, 8, 8, 3))
    assert shape == (-1, 5)
    x = jnp.sin(jnp.arange(2 * 8 * 8 * 3, dtype="float32")).reshape(2, 8, 8, 3)
    found = weft.jit(apply)(params, x)
    wanted = [-2.2511, -1.7583, -2.4022, -0.6602, -2.1616]
    np.testing.assert_allclose(found[0], wanted, atol=2e-4)
    init, apply = stax.serial(
        stax.FanOut(2), stax.parallel(stax.Dense(4), stax.serial(stax.Dense(4), stax.Tanh)),
        stax.FanInSum, stax.FanOut(2), stax.parallel(stax.Identity, stax.Softplus),
        stax.FanInConcat(), stax.Dropout(0.5), stax.Elu, stax.LeakyRelu, stax.Selu, stax.Sigmoid,
        stax.Softmax, stax.Exp,
    )  # fmt: skip
    shape, params = init(key, (-1, 4))
    assert shape == (-1, 8)
    x = jnp.sin(jnp.arange(12, dtype="float32")).reshape(3, 4)
    np.testing.assert_allclose(float(apply(params, x, rng=key).sum()), 27.205, atol=2e-3)
    with pytest.raises(ValueError, match="rng="):
        apply(params, x)


def test_transposed_convolutions_and_shapes():
    key = weft.random.key(0)
    for layer, shape in [
        (stax.ConvTranspose(4, (3, 3), (2, 2)), (2, 4, 4, 3)),
        (stax.Conv1DTranspose(4, (3,), (2,), padding="SAME"), (2, 4, 3)),
        (stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3)), (2, 3, 5, 5)),
        (stax.MaxPool((2, 2), spec="NCHW"), (2, 3, 5, 5)),
        (stax.shape_dependent(lambda s: stax.Dense(s[-1])), (2, 4)),
    ]:
        out, params = layer[0](key, shape)
        assert layer[1](params, jnp.ones(shape)).shape == out
