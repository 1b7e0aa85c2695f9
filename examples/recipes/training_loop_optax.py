"""The training loop with Optax: a library written for JAX, which runs on weft as it is.

    pip install optax --no-deps      # weft stands for jax
    python examples/recipes/training_loop_optax.py

`import weft.as_jax` is the first import: from there on `import jax` gives weft. The model, its
loss and the data are those of training_loop.py, and so are the losses that it prints.
"""

from __future__ import annotations

import sys
from typing import Any

import weft.as_jax  # isort: split

import optax
from training_loop import accuracy, digits, init, loss

import weft
from weft import random

Tree = Any

optimizer = optax.adam(3e-3)


@weft.jit(donate_argnums=(0, 1))
def train_step(params: Tree, state: Tree, x: weft.Array, y: weft.Array) -> tuple[Tree, Tree, Any]:
    value, grads = weft.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def train(epochs: int, size: int, seed: int) -> list[float]:
    """The loss of each step."""
    x, y, test_x, test_y = digits()
    init_key, data_key = random.split(random.key(seed))
    params = init(init_key, [64, 64, 10])
    state = optimizer.init(params)
    losses: list[Any] = []
    for epoch in range(epochs):
        order = random.permutation(random.fold_in(data_key, epoch), len(y))
        for start in range(0, len(y) - size + 1, size):
            rows = order[start : start + size]
            params, state, value = train_step(params, state, x[rows], y[rows])
            losses.append(value)
        share = float(accuracy(params, test_x, test_y))
        print(f"epoch {epoch + 1:2d}: loss {float(value):.2f}, accuracy {100 * share:.0f} %")
    return [float(value) for value in losses]


if __name__ == "__main__":
    train(epochs=10, size=64, seed=0)
    sys.exit(0)
