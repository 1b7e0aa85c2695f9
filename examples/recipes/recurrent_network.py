"""A gated recurrent network that learns to continue the text of Python's reference manual.

    python examples/recipes/recurrent_network.py
    python examples/recipes/recurrent_network.py --picture text.svg

The text is `pydoc_data.topics`, which comes with Python. The cell is that of Cho et al., "Learning
Phrase Representations using RNN Encoder-Decoder" (2014); `scan` runs it along the text, and the
gradient goes back through the scan. A table that counts pairs of characters says what a network
without a memory could do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from pydoc_data.topics import topics

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

import weft
import weft.numpy as jnp
from weft import Array, lax, nn, random

STYLE = Path(__file__).with_name("recipes.mplstyle")
BYTES, HIDDEN, BATCH, LENGTH, STEPS, RATE = 128, 96, 16, 64, 400, 1e-2
TEXT = np.frombuffer("".join(topics.values()).encode("ascii", "replace"), np.uint8).astype(np.int32)
TRAIN, TEST = TEXT[:-20_000], TEXT[-20_000:]
Params = dict[str, Array]


def init(key: Array) -> Params:
    """Glorot's weights; bytes come in as rows of a table."""
    shapes = {"seen": (BYTES, 3 * HIDDEN), "kept": (HIDDEN, 3 * HIDDEN), "said": (HIDDEN, BYTES)}
    keys = dict(zip(shapes, random.split(key, len(shapes)), strict=True))
    glorot = nn.initializers.glorot_normal()
    params = {name: glorot(keys[name], shape) for name, shape in shapes.items()}
    return params | {"bias": jnp.zeros(3 * HIDDEN)}


def cell(params: Params, state: Array, byte: Array) -> tuple[Array, Array]:
    """One step: the state after a byte, twice, as `scan` asks for a carry and an output."""
    seen = params["seen"][byte] + params["bias"]
    kept = state @ params["kept"]
    update, reset = jnp.split(nn.sigmoid((seen + kept)[..., : 2 * HIDDEN]), 2, axis=-1)
    candidate = jnp.tanh(seen[..., 2 * HIDDEN :] + reset * kept[..., 2 * HIDDEN :])
    state = update * state + (1 - update) * candidate
    return state, state


def bits(params: Params, text: Array) -> Array:
    """The mean bits per byte that the network needs for the rest of each row of text."""
    start = jnp.zeros((len(text), HIDDEN))
    _, states = lax.scan(lambda s, b: cell(params, s, b), start, text[:, :-1].T)
    logs = nn.log_softmax(states @ params["said"])
    return -jnp.mean(jnp.take_along_axis(logs, text.T[1:, :, None], axis=-1)) / np.log(2)


@weft.jit(donate_argnums=(0, 1, 2))
def step(params: Params, mean: Params, square: Params, count: Array, text: Array) -> tuple:
    """A step of Adam (Kingma and Ba, 2015) on the gradient, and the loss before it."""
    loss, slope = weft.value_and_grad(bits)(params, text)
    mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
    square = weft.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, slope)
    rate = RATE * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    change = weft.tree.map(lambda m, s: rate * m / (jnp.sqrt(s) + 1e-8), mean, square)
    return weft.tree.map(jnp.subtract, params, change), mean, square, loss


@weft.jit
def continued(params: Params, start: Array) -> Array:
    """The twenty bytes that go on after a start, each the most probable one."""

    def next_byte(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        state, _ = cell(params, *carry)
        byte = jnp.argmax(state @ params["said"]).astype(start.dtype)
        return (state, byte), byte

    state, _ = lax.scan(lambda s, b: cell(params, s, b), jnp.zeros(HIDDEN), start[:-1])
    return lax.scan(next_byte, (state, start[-1]), None, length=20)[1]


def pairs() -> float:
    """The bits per byte of a table: how often which byte follows which."""
    counts = np.full((BYTES, BYTES), 0.1)
    np.add.at(counts, (TRAIN[:-1], TRAIN[1:]), 1)
    return -np.log2(counts / counts.sum(axis=1, keepdims=True))[TEST[:-1], TEST[1:]].mean()


def train(steps: int) -> tuple[Params, list[float]]:
    """The weights after some steps on passages drawn from the text, and the losses on the way."""
    params, losses, rng = init(random.key(0)), [], np.random.default_rng(0)
    mean, square = (weft.tree.map(jnp.zeros_like, params) for _ in range(2))
    for i in range(steps):
        at = rng.integers(len(TRAIN) - LENGTH, size=(BATCH, 1)) + np.arange(LENGTH + 1)
        params, mean, square, loss = step(params, mean, square, i + 1.0, TRAIN[at])
        losses.append(loss)
    return params, [float(loss) for loss in losses]


def draw(path: Path, losses: list[float], found: float) -> None:
    with matplotlib.style.context(STYLE):
        axes = (figure := Figure()).subplots()
        axes.plot(losses, linewidth=1, label="network, in training")
        axes.axhline(found, color="C2", label="network, held-out text")
        axes.axhline(pairs(), color="C1", label="table of pairs, held-out text")
        axes.set(xlabel="step", ylabel="bits per byte")
        axes.legend()
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the losses")
    options = parser.parse_args(argv)
    params, losses = train(STEPS)
    found = float(weft.jit(bits)(params, TEST.reshape(-1, 200)))
    print(f"held-out text: {found:.2f} bits per byte, by the table of pairs {pairs():.2f}")
    for start in ("an argu", "the state", "the func", "an express"):
        codes = continued(params, np.array(list(start.encode())))
        print(f"{start} -> {start}{bytes(codes.tolist()).decode().split()[0]}")
    if options.picture:
        draw(options.picture, losses, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
