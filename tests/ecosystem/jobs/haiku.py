"""Haiku: an autoencoder with state and a recurrent network, transformed to pure functions."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

DISTRIBUTION = "dm-haiku"
# Thirty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


class Autoencoder(hk.Module):
    def __init__(self, code, name=None):
        super().__init__(name)
        self.code = code

    def __call__(self, x, training):
        size = x.shape[-1]
        x = hk.Linear(24, with_bias=False)(x)  # a bias would be trained on rounding alone
        x = hk.BatchNorm(True, True, 0.9)(x, training)
        x = hk.dropout(hk.next_rng_key(), 0.1, jax.nn.relu(x)) if training else jax.nn.relu(x)
        calls = hk.get_state("calls", (), init=jnp.zeros)
        hk.set_state("calls", calls + 1)
        code = hk.Linear(self.code, w_init=hk.initializers.VarianceScaling(0.5))(x)
        return hk.nets.MLP([24, size])(jnp.tanh(code))


def recurrent(series):
    core = hk.DeepRNN([hk.LSTM(8), jax.nn.tanh, hk.GRU(4)])
    out, _ = hk.dynamic_unroll(core, series, core.initial_state(series.shape[1]))
    return hk.LayerNorm(-1, True, True)(out)


def convolutional(image):
    x = hk.Conv2D(4, 3)(image)
    x = hk.MaxPool(2, 2, "SAME")(x)
    return hk.MultiHeadAttention(2, 4, w_init=hk.initializers.TruncatedNormal(0.3))(
        *[x.reshape(x.shape[0], -1, 4)] * 3
    )


def main(timed):
    rng = np.random.default_rng(5)
    x = jnp.asarray(rng.normal(size=(64, 3)) @ rng.normal(size=(3, 10)), jnp.float32)
    net = hk.transform_with_state(lambda x, training: Autoencoder(2)(x, training))
    params, state = net.init(jax.random.key(0), x, True)
    optimizer = optax.adam(5e-3)
    momenta = optimizer.init(params)

    @jax.jit
    def step(params, state, momenta, key):
        def loss(params):
            out, new_state = net.apply(params, state, key, x, True)
            return jnp.mean((out - x) ** 2), new_state

        (value, new_state), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, momenta = optimizer.update(grads, momenta)
        return optax.apply_updates(params, updates), new_state, momenta, value

    timed_step = timed(step)
    losses = []
    for key in jax.random.split(jax.random.key(1), 30):
        params, state, momenta, value = timed_step(params, state, momenta, key)
        losses.append(value)
    rnn = hk.without_apply_rng(hk.transform(recurrent))
    series = jax.random.normal(jax.random.key(2), (6, 2, 3))
    rnn_params = rnn.init(jax.random.key(3), series)
    conv = hk.without_apply_rng(hk.transform(convolutional))
    image = jax.random.normal(jax.random.key(4), (2, 6, 6, 1))
    out, _ = net.apply(params, state, None, x[:4], False)
    return {
        "losses": jnp.stack(losses),
        "out": out,
        "calls": state["autoencoder"]["calls"],
        "recurrent": rnn.apply(rnn_params, series),
        "recurrent_grad": jax.grad(lambda s: rnn.apply(rnn_params, s)[-1, 0, 0])(series),
        "attention": conv.apply(conv.init(jax.random.key(5), image), image),
        "size": hk.data_structures.tree_size(params),
    }
