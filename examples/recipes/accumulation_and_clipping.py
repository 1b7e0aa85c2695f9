"""Adds up gradients over parts of a batch, and keeps a single bad batch from spoiling the weights.

    python examples/recipes/accumulation_and_clipping.py
    python examples/recipes/accumulation_and_clipping.py --picture accumulation_and_clipping.svg

A `scan` over parts of the batch gives the gradient of the whole, in the memory of one part.
Clipping by the global norm is that of Pascanu, Mikolov and Bengio, "On the difficulty of training
recurrent neural networks" (2013).
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import lax, nn, random

Tree = Any
STYLE = Path(__file__).with_name("recipes.mplstyle")


def init(key: weft.Array, sizes: tuple[int, ...]) -> Tree:
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (rows, columns)) * (2 / rows) ** 0.5, "b": jnp.zeros(columns)}
        for k, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def loss(params: Tree, x: weft.Array, y: weft.Array) -> weft.Array:
    """The mean cross-entropy of a batch."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ params[-1]["w"] + params[-1]["b"]
    return -jnp.mean(jnp.take_along_axis(nn.log_softmax(logits), y[:, None], axis=-1))


def accumulated(params: Tree, x: weft.Array, y: weft.Array, parts: int) -> tuple[weft.Array, Tree]:
    """The loss of a batch and its gradient, computed in so many parts one after another."""

    def add(total: Tree, part: tuple[weft.Array, weft.Array]) -> tuple[Tree, None]:
        return weft.tree.map(jnp.add, total, weft.value_and_grad(loss)(params, *part)), None

    split = weft.tree.map(lambda a: a.reshape(parts, len(a) // parts, *a.shape[1:]), (x, y))
    zeros = jnp.zeros(()), weft.tree.map(jnp.zeros_like, params)
    total, _ = lax.scan(add, zeros, split)
    return weft.tree.map(lambda t: t / parts, total)


def global_norm(tree: Tree) -> weft.Array:
    """The length of all arrays of a tree, taken for one vector."""
    return jnp.sqrt(sum(jnp.sum(a * a) for a in weft.tree.leaves(tree)))


def clipped(grads: Tree, limit: float) -> tuple[Tree, weft.Array]:
    """The gradient, made shorter where it is longer than the limit; and the length it had."""
    norm = global_norm(grads)
    factor = jnp.minimum(1, limit / norm)
    return weft.tree.map(lambda g: factor * g, grads), norm


@weft.jit
def train_step(params: Tree, x: weft.Array, y: weft.Array, limit: float) -> tuple[Tree, ...]:
    value, grads = accumulated(params, x, y, parts=4)
    grads, norm = clipped(grads, limit)
    return weft.tree.map(lambda p, g: p - 0.3 * g, params, grads), value, norm


def train(x: weft.Array, y: weft.Array, limit: float) -> tuple[list[float], list[float]]:
    """Losses and lengths of gradients in 60 steps. The 20th batch is broken: it is too bright."""
    params = init(random.key(0), (64, 64, 10))
    losses, norms = [], []
    for step in range(60):
        rows = slice(64 * (step % 22), 64 * (step % 22 + 1))
        brightness = 50.0 if step == 20 else 1.0
        params, value, norm = train_step(params, brightness * x[rows], y[rows], limit)
        losses.append(float(value))
        norms.append(float(norm))
    return losses, norms


def temporary_memory(params: Tree, x: weft.Array, y: weft.Array, parts: int) -> int:
    """The bytes that the compiled gradient takes besides arguments and results."""
    compiled = weft.jit(partial(accumulated, parts=parts)).lower(params, x, y).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def draw(path: Path, memory: dict[int, int], plain: list[float], limited: list[float]) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure()
        left, right = figure.subplots(1, 2)
        left.bar([str(parts) for parts in memory], [size / 1e6 for size in memory.values()])
        left.set(xlabel="parts", ylabel="temporary memory, MB")
        right.semilogy(plain, color="C1", label="not clipped")
        right.semilogy(limited, color="C0", label="clipped")
        right.set(xlabel="step", ylabel="loss")
        right.legend()
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Accumulates and clips gradients.")
    parser.add_argument("--picture", type=Path, help="where to draw memory and losses")
    options = parser.parse_args(argv)
    images, labels = load_digits(return_X_y=True)
    x, y = jnp.asarray(images / 16, jnp.float32), jnp.asarray(labels, jnp.int32)
    params = init(random.key(0), (64, 512, 512, 10))
    _, whole = weft.jit(weft.value_and_grad(loss))(params, x[:1024], y[:1024])
    memory = {parts: temporary_memory(params, x[:1024], y[:1024], parts) for parts in (1, 4, 16)}
    for parts, size in memory.items():
        _, grads = weft.jit(partial(accumulated, parts=parts))(params, x[:1024], y[:1024])
        error = global_norm(weft.tree.map(jnp.subtract, grads, whole)) / global_norm(whole)
        print(f"{parts} parts: {size / 1e6:.1f} MB, differs by less than 1e-6: {error < 1e-6}")
    curves = [train(x, y, limit) for limit in (float("inf"), 1.0)]
    for name, (losses, norms) in zip(("not clipped", "clipped"), curves, strict=True):
        print(f"{name}: longest gradient {max(norms):.0f}, loss at the end {losses[-1]:.1f}")
    if options.picture:
        draw(options.picture, memory, curves[0][0], curves[1][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
