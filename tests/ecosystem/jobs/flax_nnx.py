"""Flax NNX: stateful modules with batch statistics, dropout and shared weights,
trained by Optax.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

DISTRIBUTION = "flax"
# Thirty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


class Count(nnx.Variable):
    """How often a module was called."""


class Encoder(nnx.Module):
    def __init__(self, width, *, rngs):
        self.first = nnx.Linear(4, width, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(width, 2, rngs=rngs)
        self.count = Count(jnp.array(0))

    def __call__(self, x):
        self.count[...] = self.count[...] + 1
        x = self.dropout(nnx.relu(self.norm(self.first(x))))
        return self.last(x)


class Twice(nnx.Module):
    """One set of weights at two places."""

    def __init__(self, rngs):
        self.a = nnx.Linear(3, 3, rngs=rngs)
        self.b = self.a

    def __call__(self, x):
        return self.b(nnx.tanh(self.a(x)))


def data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 4))
    y = np.stack([np.sin(x[:, 0]) + x[:, 1], x[:, 2] * x[:, 3]], 1)
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def deep(rngs):
    @nnx.split_rngs(splits=4)
    @nnx.vmap
    def layers(rngs):
        return nnx.Linear(5, 5, rngs=rngs)

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(x, layer):
        return nnx.gelu(layer(x))

    return forward(jnp.ones((2, 5)), layers(rngs))


def main(timed):
    x, y = data()
    model = Encoder(16, rngs=nnx.Rngs(0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    timed_step = timed(step)
    losses = [timed_step(model, optimizer, x, y) for _ in range(30)]
    model.eval()
    twice = Twice(nnx.Rngs(4))
    grads = nnx.grad(lambda m: jnp.sum(m(jnp.ones((2, 3)))))(twice)
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    again = nnx.merge(graph, jax.tree.map(lambda p: p * 2, params), rest)
    return {
        "losses": jnp.stack(losses),
        "out": model(x),
        "count": model.count[...],
        "mean": model.norm.mean[...],
        "shared": len(jax.tree.leaves(nnx.state(twice, nnx.Param))),
        "shared_grad": grads["a"]["kernel"][...],
        "doubled": again(x[:2]),
        "deep": deep(nnx.Rngs(7)),
    }
