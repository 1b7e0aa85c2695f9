"""Trains a recurrent network through 1,000 steps, with checkpoints in segments of √n steps.

    python examples/recurrent.py
    python examples/recurrent.py --length 2500 --segments 50 --steps 60

The network reads 1,000 pairs of a random number and a mark. At the end it has to give the sum of
the two marked numbers (the adding problem of Hochreiter and Schmidhuber, "Long Short-Term Memory",
1997). One mark is among the first tenth, so the network has to remember a number for 900 steps. A
gradient through n steps keeps what each step computed. Here the scan over steps is cut into √n
segments under `weft.checkpoint`: the gradient keeps √n states, and computes the steps of one
segment again when it gets there (Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear
Memory Cost", 2016).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import weft
import weft.numpy as jnp
from weft import lax, nn, random

Parameters = dict[str, Any]


# ---- the network -------------------------------------------------------------------------------


def init(key: weft.Array, features: int, hidden: int, length: int) -> Parameters:
    """Weights of a gated recurrent unit.

    A unit whose update gate is open by a share u forgets within about 1/u steps. The biases of
    these gates therefore start at -log(T), for times T between a tenth of the length and the
    length. At first all units remember for long, and training finds out which marks open the gates
    (Tallec and Ollivier, "Can recurrent neural networks warp time?", 2018).
    """
    keys = random.split(key, 3)
    # There are few inputs and many units: with weights of one size for all, the marks would drown.
    scale = jnp.concatenate([jnp.ones(features), jnp.full(hidden, hidden**-0.5)])
    times = jnp.geomspace(max(1.0, length / 10), length, hidden)
    return {
        "gates": random.normal(keys[0], (features + hidden, 2 * hidden)) * scale[:, None],
        "gates_bias": jnp.concatenate([-jnp.log(times), jnp.zeros(hidden)]),
        "candidate": random.normal(keys[1], (features + hidden, hidden)) * scale[:, None],
        "candidate_bias": jnp.zeros(hidden),
        "readout": random.normal(keys[2], (hidden,)) * hidden**-0.5,
        "readout_bias": jnp.zeros(()),
    }


def cell(params: Parameters, state: Any, x: Any) -> Any:
    """The next state (Cho et al., "Learning phrase representations using RNN encoder-decoder for
    statistical machine translation", 2014)."""
    gates = jnp.concatenate([x, state], axis=-1) @ params["gates"] + params["gates_bias"]
    update, reset = jnp.split(nn.sigmoid(gates), 2, axis=-1)
    seen = jnp.concatenate([x, reset * state], axis=-1)
    candidate = jnp.tanh(seen @ params["candidate"] + params["candidate_bias"])
    return state + update * (candidate - state)


def last_state(params: Parameters, state: Any, xs: Any) -> Any:
    """The state after all steps of xs: steps × batch × features."""

    def step(state: Any, x: Any) -> tuple[Any, None]:
        return cell(params, state, x), None

    return lax.scan(step, state, xs)[0]


def last_state_in_segments(params: Parameters, state: Any, xs: Any, segments: int) -> Any:
    """The same, in segments, for which a gradient keeps only the first states.

    The compiler cannot undo the checkpoint inside a scan, so no barrier is needed.
    """
    steps = len(xs) // segments
    if steps * segments != len(xs):
        raise ValueError(f"{len(xs)} steps cannot be cut into {segments} equal segments")
    segment = weft.checkpoint(last_state, prevent_cse=False)

    def over_segment(state: Any, xs: Any) -> tuple[Any, None]:
        return segment(params, state, xs), None

    return lax.scan(over_segment, state, xs.reshape(segments, steps, *xs.shape[1:]))[0]


def loss(params: Parameters, xs: Any, targets: Any, segments: int | None) -> Any:
    """Mean squared error of a batch; with `segments` None, it keeps what every step computed."""
    state = jnp.zeros((xs.shape[1], params["readout"].shape[0]), xs.dtype)
    if segments is None:
        state = last_state(params, state, xs)
    else:
        state = last_state_in_segments(params, state, xs, segments)
    said = state @ params["readout"] + params["readout_bias"]
    return jnp.mean((said - targets) ** 2)


# ---- the task ----------------------------------------------------------------------------------


def sequences(key: weft.Array, length: int, batch: int) -> tuple[Any, Any]:
    """Inputs (length × batch × 2) and sums of the two marked numbers."""
    of_numbers, of_first, of_second = random.split(key, 3)
    numbers = random.uniform(of_numbers, (batch, length), minval=-1.0, maxval=1.0)
    early = max(1, length // 10)
    first = random.randint(of_first, (batch, 1), 0, early)
    second = random.randint(of_second, (batch, 1), early, length)
    place = jnp.arange(length)
    marks = ((place == first) | (place == second)).astype(numbers.dtype)
    return jnp.stack([numbers, marks], axis=-1).swapaxes(0, 1), jnp.sum(numbers * marks, axis=1)


# ---- training ----------------------------------------------------------------------------------


class Adam(NamedTuple):
    """The state of the optimizer (Kingma and Ba, "Adam", 2015)."""

    step: Any
    mean: Any
    square: Any


@partial(weft.jit, static_argnames=("segments", "rate"))
def train_step(
    params: Parameters, state: Adam, xs: Any, targets: Any, segments: int, rate: float
) -> tuple[Parameters, Adam, Any]:
    """One step on a batch: loss and gradient, then Adam's update."""
    value, grads = weft.value_and_grad(loss)(params, xs, targets, segments)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in weft.tree.leaves(grads)))
    grads = weft.tree.map(lambda g: g / jnp.maximum(1.0, norm), grads)
    step = state.step + 1
    mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = weft.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state.square, grads)

    def update(p: Any, m: Any, s: Any) -> Any:
        return p - rate * (m / (1 - 0.9**step)) / (jnp.sqrt(s / (1 - 0.99**step)) + 1e-8)

    return weft.tree.map(update, params, mean, square), Adam(step, mean, square), value


def train(
    key: weft.Array, params: Parameters, options: argparse.Namespace
) -> tuple[Parameters, list[float]]:
    """The parameters after some steps, and the loss of each step."""
    zeros = weft.tree.map(jnp.zeros_like, params)
    state = Adam(jnp.zeros(()), zeros, zeros)
    losses = []
    for i in range(options.steps):
        xs, targets = sequences(random.fold_in(key, i), options.length, options.batch)
        params, state, value = train_step(
            params, state, xs, targets, options.segments, options.rate
        )
        losses.append(float(value))
        if i % max(1, options.steps // 10) == 0 or i == options.steps - 1:
            print(f"  step {i + 1:4d}: loss {losses[-1]:.4f}", flush=True)
    return params, losses


# ---- memory ------------------------------------------------------------------------------------


def temporary_memory(params: Parameters, length: int, batch: int, segments: int | None) -> int:
    """The bytes that a compiled gradient takes in addition to its arguments and results."""
    xs = weft.ShapeDtypeStruct((length, batch, 2), jnp.float32)
    targets = weft.ShapeDtypeStruct((batch,), jnp.float32)
    gradient = weft.jit(weft.grad(loss), static_argnums=3)
    compiled = gradient.lower(params, xs, targets, segments).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


# ---- the program -------------------------------------------------------------------------------


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`, for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} up")
        return int(text)

    return read


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--length", type=at_least(1), default=1000, help="steps of a sequence (1000)"
    )
    parser.add_argument(
        "--segments", type=at_least(1), help="that divide the length (nearest to √length)"
    )
    parser.add_argument("--hidden", type=at_least(1), default=16, help="units (16)")
    parser.add_argument("--batch", type=at_least(1), default=32, help="sequences per step (32)")
    parser.add_argument("--steps", type=at_least(1), default=300, help="of training (300)")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate (0.01)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (0)")
    options = parser.parse_args(argv)
    if options.segments is None:
        divisors = [n for n in range(1, options.length + 1) if options.length % n == 0]
        options.segments = min(divisors, key=lambda n: abs(math.log(n * n / options.length)))
    elif options.length % options.segments:
        parser.error(f"{options.segments} segments do not divide {options.length} steps")
    return options


def main(argv: list[str] | None = None) -> int:
    """Runs the program and returns the exit status."""
    options = arguments(argv)
    begin = time.perf_counter()
    key, init_key = random.split(random.key(options.seed))
    params = init(init_key, 2, options.hidden, options.length)

    plain = temporary_memory(params, options.length, options.batch, None)
    saved = temporary_memory(params, options.length, options.batch, options.segments)
    print(f"temporary memory of a gradient through {options.length} steps:")
    print(f"  every step kept   {plain / 2**20:8.2f} MiB")
    print(f"  {options.segments:3d} segments      {saved / 2**20:8.2f} MiB")
    print(f"  {plain / saved:.1f} times less")

    print("training (a network that ignores its input has the loss 0.667):")
    _, losses = train(key, params, options)
    print(f"mean loss of the last ten steps: {sum(losses[-10:]) / len(losses[-10:]):.4f}")
    print(f"{time.perf_counter() - begin:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
