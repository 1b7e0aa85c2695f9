"""The gradient of every example by itself: which ones are hard, and training with privacy.

    python examples/recipes/per_example_gradients.py
    python examples/recipes/per_example_gradients.py --picture per_example_gradients.svg

`vmap(grad(loss))` gives one gradient per example in one pass. To limit the length of each and add
noise to their sum is the method of Abadi et al., "Deep learning with differential privacy" (2016).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import nn, random

Tree = Any
STYLE = Path(__file__).with_name("recipes.mplstyle")


def init(key: weft.Array, sizes: tuple[int, ...]) -> Tree:
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (rows, columns)) * (2 / rows) ** 0.5, "b": jnp.zeros(columns)}
        for k, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params: Tree, x: weft.Array) -> weft.Array:
    """Log-probabilities of the ten digits."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])


def loss(params: Tree, x: weft.Array, y: weft.Array) -> weft.Array:
    """The cross-entropy of one example."""
    return -predict(params, x)[y]


per_example = weft.vmap(weft.grad(loss), in_axes=(None, 0, 0))


def lengths(grads: Tree) -> weft.Array:
    """The length of each example's gradient, over all parameters."""
    squares = [jnp.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in weft.tree.leaves(grads)]
    return jnp.sqrt(sum(squares))


def private_gradient(
    key: weft.Array, params: Tree, x: weft.Array, y: weft.Array, limit: float, noise: float
) -> Tree:
    """The mean of gradients of at most this length, with noise of `noise * limit` on their sum."""
    grads = per_example(params, x, y)
    factors = jnp.minimum(1, limit / lengths(grads))
    sums = weft.tree.map(lambda g: jnp.tensordot(factors, g, axes=1), grads)
    keys = weft.tree.unflatten(
        weft.tree.structure(sums), list(random.split(key, len(weft.tree.leaves(sums))))
    )
    return weft.tree.map(
        lambda s, k: (s + noise * limit * random.normal(k, s.shape)) / len(y), sums, keys
    )


@weft.jit
def train_step(key: weft.Array, params: Tree, x: weft.Array, y: weft.Array, noise: float) -> Tree:
    grads = private_gradient(key, params, x, y, 1.0, noise)
    return weft.tree.map(lambda p, g: p - 2 * g, params, grads)


def train(x: weft.Array, y: weft.Array, noise: float) -> Tree:
    """The parameters after 440 steps of 64 examples."""
    params = init(random.key(0), (64, 64, 10))
    for step in range(440):
        rows = slice(64 * (step % 22), 64 * (step % 22 + 1))
        key = random.fold_in(random.key(1), step)
        params = train_step(key, params, x[rows], y[rows], noise)
    return params


def draw(path: Path, norms: np.ndarray, images: np.ndarray, titles: list[str]) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure()
        grid = figure.add_gridspec(2, 8)
        axes = figure.add_subplot(grid[:, :4])
        axes.hist(norms, bins=40)
        axes.axvline(1, color="C1", label="the limit")
        axes.set(xlabel="length of an example's gradient", ylabel="examples", yscale="log")
        axes.legend()
        for i, title in enumerate(titles):
            cell = figure.add_subplot(grid[i // 4, 4 + i % 4])
            cell.imshow(16 - images[i].reshape(8, 8))
            cell.set_title(title, fontsize="small")
            cell.set(xticks=[], yticks=[], frame_on=False)
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Gradients of single examples.")
    parser.add_argument("--picture", type=Path, help="where to draw the hardest digits")
    options = parser.parse_args(argv)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order], labels[order]
    x, y = jnp.asarray(images / 16, jnp.float32), jnp.asarray(labels, jnp.int32)
    for noise in (0.0, 1.0, 4.0):
        params = train(x, y, noise)
        right = jnp.mean(jnp.argmax(predict(params, x[1437:]), axis=-1) == y[1437:])
        print(f"noise {noise:.0f}: {100 * float(right):.0f} % right")
        if noise == 0:
            norms = np.asarray(weft.jit(lambda *given: lengths(per_example(*given)))(params, x, y))
            hardest = np.argsort(-norms)[:8]
            guesses = np.asarray(jnp.argmax(predict(params, x[hardest]), axis=-1))
    print(f"longest gradient {norms.max():.0f}, median {np.median(norms):.2f}")
    titles = [f"{labels[i]}, not {guess}" if labels[i] != guess else f"{labels[i]}"
              for i, guess in zip(hardest, guesses, strict=True)]  # fmt: skip
    print(f"hardest: {'; '.join(titles[:4])}")
    if options.picture:
        draw(options.picture, norms, images[hardest], titles)
    return 0


if __name__ == "__main__":
    sys.exit(main())
