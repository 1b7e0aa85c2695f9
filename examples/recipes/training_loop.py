"""Trains a network on handwritten digits: a loss, Adam in a few lines, one jitted step, a loop.

    python examples/recipes/training_loop.py
    python examples/recipes/training_loop.py --picture training_loop.svg

The digits are those that scikit-learn ships. Adam is that of Kingma and Ba, "Adam: a method for
stochastic optimization" (2015).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import nn, random

Tree = Any
STYLE = Path(__file__).with_name("recipes.mplstyle")


def init(key: weft.Array, sizes: list[int]) -> Tree:
    """The parameters: a list of layers, each with weights and a bias."""
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (rows, columns)) * (2 / rows) ** 0.5, "b": jnp.zeros(columns)}
        for k, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params: Tree, x: weft.Array) -> weft.Array:
    """Log-probabilities of the ten digits, for one image or for many."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])


def loss(params: Tree, x: weft.Array, y: weft.Array) -> weft.Array:
    """The mean cross-entropy of a batch."""
    return -jnp.mean(jnp.take_along_axis(predict(params, x), y[:, None], axis=-1))


class Adam(NamedTuple):
    """What Adam remembers: the number of steps, and two running means per parameter."""

    step: Any
    mean: Tree
    square: Tree


def adam_init(params: Tree) -> Adam:
    mean, square = (weft.tree.map(jnp.zeros_like, params) for _ in range(2))
    return Adam(jnp.float32(0), mean, square)


def adam_update(grads: Tree, state: Adam, rate: float = 3e-3) -> tuple[Tree, Adam]:
    """What to add to the parameters, and the next state."""
    step = state.step + 1
    mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = weft.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)

    def change(m: weft.Array, s: weft.Array) -> weft.Array:
        return -rate * (m / (1 - 0.9**step)) / (jnp.sqrt(s / (1 - 0.999**step)) + 1e-8)

    return weft.tree.map(change, mean, square), Adam(step, mean, square)


@weft.jit(donate_argnums=(0, 1))
def train_step(params: Tree, state: Adam, x: weft.Array, y: weft.Array) -> tuple[Tree, Adam, Any]:
    value, grads = weft.value_and_grad(loss)(params, x, y)
    updates, state = adam_update(grads, state)
    return weft.tree.map(jnp.add, params, updates), state, value


@weft.jit
def accuracy(params: Tree, x: weft.Array, y: weft.Array) -> weft.Array:
    return jnp.mean(jnp.argmax(predict(params, x), axis=-1) == y)


def digits() -> tuple[weft.Array, ...]:
    """1,437 images to train on and 360 to test with, in an order that is always the same."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int32)
    return tuple(map(jnp.asarray, (x[:1437], y[:1437], x[1437:], y[1437:])))


def train(epochs: int, size: int, seed: int) -> tuple[list[float], list[float]]:
    """The loss of each step and the accuracy after each epoch."""
    x, y, test_x, test_y = digits()
    init_key, data_key = random.split(random.key(seed))
    params = init(init_key, [64, 64, 10])
    state = adam_init(params)
    losses, shares = [], []
    for epoch in range(epochs):
        order = random.permutation(random.fold_in(data_key, epoch), len(y))
        for start in range(0, len(y) - size + 1, size):
            rows = order[start : start + size]
            params, state, value = train_step(params, state, x[rows], y[rows])
            losses.append(value)
        shares.append(float(accuracy(params, test_x, test_y)))
        print(f"epoch {epoch + 1:2d}: loss {losses[-1]:.2f}, accuracy {100 * shares[-1]:.0f} %")
    return [float(value) for value in losses], shares


def draw(path: Path, losses: list[float], shares: list[float]) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure()
        left, right = figure.subplots(1, 2)
        left.semilogy(losses)
        left.set(xlabel="step", ylabel="loss of the batch")
        right.plot(range(1, len(shares) + 1), shares, "o-")
        right.set(xlabel="epoch", ylabel="accuracy on held-out digits")
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Trains a network on handwritten digits.")
    parser.add_argument("--picture", type=Path, help="where to draw the curves")
    options = parser.parse_args(argv)
    losses, shares = train(epochs=10, size=64, seed=0)
    if options.picture:
        draw(options.picture, losses, shares)
    return 0


if __name__ == "__main__":
    sys.exit(main())
