"""Computes in 16 bits and keeps the weights in 32: loss scaling, and steps that are skipped.

    python examples/recipes/mixed_precision.py
    python examples/recipes/mixed_precision.py --picture mixed_precision.svg

The method is that of Micikevicius et al., "Mixed precision training" (2018): a copy of the weights
in half precision computes loss and gradient, the loss is scaled so that small gradients do not
vanish, and the update is made in float32.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
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


class State(NamedTuple):
    """All that training remembers. The parameters and the momentum are float32."""

    params: Tree
    momentum: Tree
    scale: Any  # what the loss is multiplied by
    good: Any  # finite steps since the scale changed
    skipped: Any  # steps that were not finite


def start(key: weft.Array, sizes: tuple[int, ...], scale: float) -> State:
    keys = random.split(key, len(sizes) - 1)
    params = [
        {"w": random.normal(k, (rows, columns)) * (2 / rows) ** 0.5, "b": jnp.zeros(columns)}
        for k, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    zeros = weft.tree.map(jnp.zeros_like, params)
    return State(params, zeros, jnp.float32(scale), jnp.int32(0), jnp.int32(0))


def predict(params: Tree, x: weft.Array) -> weft.Array:
    """Log-probabilities. Products are in the dtype of the parameters, logarithms in float32."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return nn.log_softmax((x @ params[-1]["w"] + params[-1]["b"]).astype(jnp.float32))


def loss(params: Tree, x: weft.Array, y: weft.Array) -> weft.Array:
    return -jnp.mean(jnp.take_along_axis(predict(params, x), y[:, None], axis=-1))


def gradient(params: Tree, scale: Any, x: weft.Array, y: weft.Array) -> Tree:
    """The float32 gradient of the loss, computed in the dtype of x with a scaled loss."""

    def scaled(params: Tree) -> weft.Array:
        narrow = weft.tree.map(lambda p: p.astype(x.dtype), params)
        return scale * loss(narrow, x, y)

    return weft.tree.map(lambda g: g / scale, weft.grad(scaled)(params))


@weft.jit
def train_step(state: State, x: weft.Array, y: weft.Array) -> State:
    """One step, or none where the gradient is not finite: then the scale is halved."""
    grads = gradient(state.params, state.scale, x, y)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(g)) for g in weft.tree.leaves(grads)]))
    momentum = weft.tree.map(lambda m, g: 0.9 * m + g, state.momentum, grads)
    params = weft.tree.map(lambda p, m: p - 0.05 * m, state.params, momentum)
    grows = state.good + 1 == 50  # the scale is doubled after 50 finite steps
    scale = jnp.where(grows, 2 * state.scale, state.scale)
    taken = State(params, momentum, scale, jnp.where(grows, 0, state.good + 1), state.skipped)
    left_out = state._replace(scale=state.scale / 2, good=0, skipped=state.skipped + 1)
    return weft.tree.map(partial(jnp.where, finite), taken, left_out)


def train(x: weft.Array, y: weft.Array, scale: float) -> tuple[State, list[float]]:
    """The state after 20 epochs, and the scale after each step."""
    state, scales = start(random.key(0), (64, 64, 10), scale), []
    for step in range(440):
        rows = slice(64 * (step % 22), 64 * (step % 22 + 1))
        state = train_step(state, x[rows], y[rows])
        scales.append(state.scale)
    return state, [float(value) for value in scales]


def flat_gradient(params: Tree, scale: float, x: weft.Array, y: weft.Array) -> np.ndarray:
    grads = weft.jit(gradient)(params, scale, x, y)
    return np.asarray(weft.flatten_util.ravel_pytree(grads)[0])


def draw(path: Path, exact: np.ndarray, scales: list[float]) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure()
        left, right = figure.subplots(1, 2)
        left.hist(np.log2(np.abs(exact[exact != 0])), bins=np.arange(-45, 0), color="C0")
        left.axvline(-25, color="C1")
        left.text(-26, 140, "0 in float16", color="C1", ha="right")
        left.set(xlabel="log2 of an element of the gradient", ylabel="how many")
        right.step(range(1, len(scales) + 1), np.log2(scales), where="post")
        right.set(xlabel="step", ylabel="log2 of the scale", yticks=range(16, 21))
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Trains with 16-bit arithmetic.")
    parser.add_argument("--picture", type=Path, help="where to draw gradients and scales")
    options = parser.parse_args(argv)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = jnp.asarray(images[order] / 16, jnp.float32), jnp.asarray(labels[order], jnp.int32)
    for dtype, scale in (("float32", 1.0), ("bfloat16", 1.0), ("float16", 2.0**16)):
        state, scales = train(x.astype(dtype), y, scale)
        right = jnp.mean(jnp.argmax(predict(state.params, x[1437:]), axis=-1) == y[1437:])
        print(f"{dtype}: {100 * right:.0f} % right, {state.skipped} steps skipped")
    sure = jnp.argsort(jnp.max(predict(state.params, x), axis=-1))[-360:]
    exact = flat_gradient(state.params, 1.0, x[sure], y[sure])
    for scale in (1.0, 2.0**10):
        found = flat_gradient(state.params, scale, x[sure].astype(jnp.float16), y[sure])
        lost = 100 * np.mean(found[exact != 0] == 0)
        error = 100 * np.linalg.norm(found - exact) / np.linalg.norm(exact)
        print(f"float16, scale {scale:.0f}: {lost:.0f} % vanish, error {error:.0f} %")
    if options.picture:
        draw(options.picture, exact, scales)
    return 0


if __name__ == "__main__":
    sys.exit(main())
