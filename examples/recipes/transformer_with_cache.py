"""A transformer recites a text: with a cache of keys and values, and without one.

    python examples/recipes/transformer_with_cache.py
    python examples/recipes/transformer_with_cache.py --picture cache.svg

A small decoder (Vaswani et al., "Attention is all you need", 2017, with norms before each half of a
block) learns the docstring of `argparse` by heart. Without a cache it computes all bytes so far
again for each new one; with their keys and values kept, it computes the new one alone.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

import weft
import weft.numpy as jnp
from weft import Array, lax, nn, random
from weft.example_libraries import optimizers

STYLE = Path(__file__).with_name("recipes.mplstyle")
LAYERS, EMBED, HEADS, CONTEXT = 2, 64, 4, 203
TEXT = np.array([list((argparse.__doc__ or "").encode()[:CONTEXT])], np.int32)
Cache = tuple[Array, Array]  # keys and values: layers × batch × positions × heads × EMBED / HEADS


def init(key: Array) -> dict[str, Any]:
    """Normal weights. Those of the layers lie one behind the other, for `scan`."""
    shapes = {"byte": (128, EMBED), "place": (CONTEXT, EMBED)}
    shapes |= {"qkv": (LAYERS, EMBED, 3, HEADS, EMBED // HEADS), "out": (LAYERS, EMBED, EMBED)}
    shapes |= {"up": (LAYERS, EMBED, 4 * EMBED), "down": (LAYERS, 4 * EMBED, EMBED)}
    keys = dict(zip(shapes, random.split(key, len(shapes)), strict=True))
    return {name: random.normal(keys[name], shape) / 8 for name, shape in shapes.items()}


def block(x: Array, layer: dict, cache: Cache | None, at: Array) -> tuple[Array, Cache]:
    """One layer for the positions from `at` on; their keys and values go into the cache."""
    q, k, v = jnp.einsum("bte,echd->cbthd", nn.standardize(x), layer["qkv"])
    if cache is not None:
        k = lax.dynamic_update_slice_in_dim(cache[0], k, at, axis=1)
        v = lax.dynamic_update_slice_in_dim(cache[1], v, at, axis=1)
    seen = jnp.arange(k.shape[1]) <= at + jnp.arange(x.shape[1])[:, None]
    attended = nn.dot_product_attention(q, k, v, mask=seen)
    x = x + attended.reshape(x.shape) @ layer["out"]
    return x + nn.gelu(nn.standardize(x) @ layer["up"]) @ layer["down"], (k, v)


def forward(params: dict, row: Array, cache: Cache | None = None, at: Any = 0) -> tuple:
    """For each byte of the row the logits of the next one, and the keys and values of all layers.
    With a cache, the row stands at the position `at`, and the cache has what comes before."""
    layers = {name: params[name] for name in ("qkv", "out", "up", "down")}
    x = params["byte"][row] + lax.dynamic_slice_in_dim(params["place"], at, row.shape[1])
    x, cache = lax.scan(lambda x, given: block(x, *given, at), x, (layers, cache))
    return nn.standardize(x) @ params["byte"].T, cache


@partial(weft.jit, static_argnums=1)
def train(row: Array, steps: int) -> tuple[dict, Array]:
    """Weights that know the row by heart, and the losses on the way."""
    start, update, params_of = optimizers.adam(5e-3)

    def loss(params: dict) -> Array:
        logs = nn.log_softmax(forward(params, row[:, :-1])[0])
        return -jnp.mean(jnp.take_along_axis(logs, row[:, 1:, None], axis=-1))

    def step(state: Any, i: Array) -> tuple[Any, Array]:
        value, slope = weft.value_and_grad(loss)(params_of(state))
        return update(i, slope, state), value

    state, losses = lax.scan(step, start(init(random.key(0))), jnp.arange(steps))
    return params_of(state), losses


@partial(weft.jit, static_argnames="length")
def recite(params: dict, prompt: Array, length: int) -> Array:
    """The row that begins with the prompt: for each byte all bytes are computed."""

    def put(at: Array, row: Array) -> Array:
        return row.at[:, at].set(jnp.argmax(forward(params, row)[0][:, at - 1], axis=-1))

    row = jnp.pad(prompt, [(0, 0), (0, length - prompt.shape[1])])
    return lax.fori_loop(prompt.shape[1], length, put, row)


@partial(weft.jit, static_argnames="length")
def recite_with_cache(params: dict, prompt: Array, length: int) -> Array:
    """The same row: the prompt is computed at once, and then one byte after the other."""

    def step(carry: tuple[Array, Cache], at: Array) -> tuple[tuple[Array, Cache], Array]:
        logits, cache = forward(params, *carry, at)
        return (jnp.argmax(logits, axis=-1), cache), carry[0]

    empty = jnp.zeros((LAYERS, len(prompt), length, HEADS, EMBED // HEADS))
    logits, cache = forward(params, prompt, (empty, empty))
    first, places = jnp.argmax(logits[:, -1:], axis=-1), jnp.arange(prompt.shape[1], length)
    _, found = lax.scan(step, (first, cache), places)
    return jnp.concatenate([prompt, found[:, :, 0].T], axis=1)


def operations(params: dict, prompt: Array, length: int) -> list[float]:
    """The floating-point operations of both functions, without running them."""
    return [weft.cost(f, params, prompt, length).flops for f in (recite, recite_with_cache)]


def draw(path: Path, costs: dict[int, list[float]]) -> None:
    with matplotlib.style.context(STYLE):
        axes = (figure := Figure()).subplots()
        axes.semilogy(
            list(costs), list(costs.values()), "o-", label=["without a cache", "with a cache"]
        )
        axes.legend()
        axes.set(xlabel="bytes of text", ylabel="floating-point operations")
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the costs")
    options = parser.parse_args(argv)
    params, losses = train(TEXT, 40)
    print(f"loss {losses[0]:.2f}, after {len(losses)} steps {losses[-1]:.2f}")
    prompt = TEXT[:, :8]
    plain, cached = (f(params, prompt, CONTEXT) for f in (recite, recite_with_cache))
    print(bytes(cached[0].tolist()).decode())
    print(f"the same without a cache: {jnp.array_equal(plain, cached)}")
    costs = {n: operations(params, prompt, n) for n in (25, 50, 100, 150, CONTEXT)}
    print("operations: {:.1e}, with a cache {:.1e}".format(*costs[CONTEXT]))
    if options.picture:
        draw(options.picture, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
