"""Flax linen: a small convolutional network with batch statistics and dropout, and a transformer
block.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

DISTRIBUTION = "flax"
# Twenty-five steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


class Convolutional(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x, train):
        for features in (8, 16):
            x = nn.Conv(features, (3, 3), use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.max_pool(nn.relu(x), (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        x = nn.Dropout(0.2, deterministic=not train)(x)
        return nn.Dense(self.classes)(x)


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(2 * x.shape[-1])(nn.RMSNorm()(x))))


class Language(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(11, 16)(tokens)
        stack = nn.scan(
            lambda block, x, _: (block(x), None),
            variable_axes={"params": 0}, split_rngs={"params": True}, length=3,
        )  # fmt: skip
        x, _ = stack(nn.remat(Block)(2), x, None)
        return nn.Dense(11, dtype=jnp.bfloat16)(x).astype(jnp.float32)


class TrainState(train_state.TrainState):
    batch_stats: dict


def stripes(count):
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, count)
    image = rng.normal(size=(count, 8, 8, 1)) * 0.5
    image[label == 0, ::2] += 1
    image[label == 1, :, ::2] += 1
    return jnp.asarray(image, jnp.float32), jnp.asarray(label)


@jax.jit
def step(state, x, y, key):
    def loss(params):
        out, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats}, x, True,
            rngs={"dropout": key}, mutable=["batch_stats"],
        )  # fmt: skip
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), updates

    (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state.replace(batch_stats=updates["batch_stats"]), value


def main(timed):
    x, y = stripes(32)
    model = Convolutional(2)
    variables = model.init(jax.random.key(0), x, False)
    state = TrainState.create(
        apply_fn=model.apply, params=variables["params"], tx=optax.adam(2e-3),
        batch_stats=variables["batch_stats"],
    )  # fmt: skip
    timed_step = timed(step)
    losses = []
    for key in jax.random.split(jax.random.key(1), 25):
        state, value = timed_step(state, x, y, key)
        losses.append(value)
    tokens = jax.random.randint(jax.random.key(2), (2, 7), 0, 11)
    language = Language()
    parameters = language.init(jax.random.key(3), tokens)
    gradient = jax.jit(jax.grad(lambda p: language.apply(p, tokens).var()))(parameters)
    cell = nn.RNN(nn.LSTMCell(6))
    series = jax.random.normal(jax.random.key(4), (2, 5, 3))
    return {
        "losses": jnp.stack(losses),
        "mean": state.batch_stats["BatchNorm_0"]["mean"],
        "language": language.apply(parameters, tokens),
        "gradient": gradient["params"]["Embed_0"]["embedding"],
        "lstm": cell.apply(cell.init(jax.random.key(5), series), series),
        "table": len(nn.tabulate(model, jax.random.key(0))(x, False).splitlines()) > 10,
    }
