"""Trains a network whose hidden layer is a fixed point, on two interleaved spirals.

    python examples/fixed_point.py
    python examples/fixed_point.py --hidden 32 --steps 300 --seed 1

The layer's result is the z with z = tanh(W z + U x + b): a network of infinitely many equal layers
(Bai, Kolter and Koltun, "Deep Equilibrium Models", 2019). The program iterates until nothing
changes any more. The derivative of z needs none of the iterations: by the implicit function
theorem, it is the solution of a linear system at z. `lax.custom_root` gives the layer this
derivative. The program solves the linear system by iteration as well, in `lax.custom_linear_solve`,
which solves the transposed system in the backward pass in the same way.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax, nn, random

Parameters = dict[str, Any]

# ---- the layer ---------------------------------------------------------------------------------

# How much W may shrink differences, at least: it bounds the number of iterations.
CONTRACTION = 0.9


def iterate(step: Any, start: Any, tolerance: float, most: int = 1000) -> tuple[Any, Any]:
    """Applies `step` until no element changes by more than `tolerance`, or `most` times.

    Returns the last value and the number of steps.
    """

    def goes_on(carry: Any) -> Any:
        _, change, count = carry
        return (change > tolerance) & (count < most)

    def again(carry: Any) -> Any:
        value, _, count = carry
        new = step(value)
        return new, jnp.max(jnp.abs(new - value)), count + 1

    far = jnp.asarray(jnp.inf, start.dtype)
    value, _, count = lax.while_loop(goes_on, again, (start, far, 0))
    return value, count


def contracting(w: Any) -> Any:
    """W, with rows scaled down if their absolute sums exceed CONTRACTION.

    Then z -> tanh(W z + …) brings any two points closer in the maximum norm, so there is one fixed
    point, and iteration finds it (Banach).
    """
    sums = jnp.sum(jnp.abs(w), axis=1, keepdims=True)
    return w * jnp.minimum(1.0, CONTRACTION / sums)


def solve_linear(matvec: Any, right: Any, tolerance: float) -> Any:
    """The v with matvec(v) = right, where matvec(v) = J v - v for a contraction J.

    Such a v is the fixed point of v -> J v - right. The transpose of J has the same eigenvalues, so
    its system is solved in the same way, by `transpose_solve`.
    """

    def solve(matvec: Any, right: Any) -> Any:
        return iterate(lambda v: v + matvec(v) - right, -right, tolerance)[0]

    return lax.custom_linear_solve(matvec, right, solve, transpose_solve=solve)


def fixed_point_layer(
    params: Parameters, x: Any, tolerance: float = 1e-6, has_count: bool = False
) -> Any:
    """The z with z = tanh(W z + U x + b), for one x; with `has_count`, also the number of steps."""
    w, drive = contracting(params["w"]), params["u"] @ x + params["b"]

    def residual(z: Any) -> Any:
        return jnp.tanh(w @ z + drive) - z

    def find(residual: Any, start: Any) -> tuple[Any, Any]:
        return iterate(lambda z: z + residual(z), start, tolerance)

    solve_tangent = partial(solve_linear, tolerance=tolerance)
    z, count = lax.custom_root(residual, jnp.zeros_like(drive), find, solve_tangent, has_aux=True)
    return (z, count) if has_count else z


# ---- the network -------------------------------------------------------------------------------


def init(key: weft.Array, features: int, hidden: int) -> Parameters:
    """Random weights; the network is a fixed-point layer and a linear readout."""
    keys = random.split(key, 3)
    return {
        "w": random.normal(keys[0], (hidden, hidden)) / hidden,
        "u": random.normal(keys[1], (hidden, features)),
        "b": jnp.zeros(hidden),
        "readout": random.normal(keys[2], (hidden,)) * hidden**-0.5,
    }


def score(params: Parameters, x: Any) -> Any:
    """Log-odds that a point belongs to the second spiral."""
    return params["readout"] @ fixed_point_layer(params, x)


def loss(params: Parameters, xs: Any, ys: Any) -> Any:
    """Mean cross-entropy."""
    scores = weft.vmap(score, in_axes=(None, 0))(params, xs)
    return jnp.mean(nn.softplus(scores) - ys * scores)


@weft.jit
def accuracy(params: Parameters, xs: Any, ys: Any) -> Any:
    """The share of points on the right side."""
    scores = weft.vmap(score, in_axes=(None, 0))(params, xs)
    return jnp.mean((scores > 0) == (ys > 0.5))


@weft.jit
def iterations(params: Parameters, xs: Any) -> Any:
    """How many steps the fixed point of each x took."""
    layer = partial(fixed_point_layer, has_count=True)
    return weft.vmap(layer, in_axes=(None, 0))(params, xs)[1]


def spirals(key: weft.Array, points: int) -> tuple[Any, Any]:
    """Points on two spirals with a little noise, and which spiral each is on."""
    of_angle, of_noise = random.split(key)
    labels = jnp.arange(points) % 2
    turn = random.uniform(of_angle, (points,)) ** 0.5
    angle = 1.2 * 2 * jnp.pi * turn + jnp.pi * labels
    xs = 2.0 * turn[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return xs + 0.05 * random.normal(of_noise, xs.shape), labels.astype(xs.dtype)


# ---- training ----------------------------------------------------------------------------------


class Adam(NamedTuple):
    """The state of the optimizer (Kingma and Ba, "Adam", 2015)."""

    step: Any
    mean: Any
    square: Any


@weft.jit
def train_step(
    params: Parameters, state: Adam, xs: Any, ys: Any, rate: float
) -> tuple[Parameters, Adam, Any]:
    """One step on all points: loss and gradient, then Adam's update."""
    value, grads = weft.value_and_grad(loss)(params, xs, ys)
    step = state.step + 1
    mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = weft.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)

    def update(p: Any, m: Any, s: Any) -> Any:
        return p - rate * (m / (1 - 0.9**step)) / (jnp.sqrt(s / (1 - 0.999**step)) + 1e-8)

    return weft.tree.map(update, params, mean, square), Adam(step, mean, square), value


def train(params: Parameters, xs: Any, ys: Any, steps: int) -> tuple[Parameters, list[float]]:
    """The parameters after some steps, and the loss of each step."""
    zeros = weft.tree.map(jnp.zeros_like, params)
    state = Adam(jnp.zeros(()), zeros, zeros)
    losses = []
    for i in range(steps):
        params, state, value = train_step(params, state, xs, ys, 0.03)
        losses.append(float(value))
        if i % max(1, steps // 8) == 0 or i == steps - 1:
            print(f"  step {i + 1:4d}: loss {losses[-1]:.4f}", flush=True)
    return params, losses


# ---- the program -------------------------------------------------------------------------------


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`, for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} up")
        return int(text)

    return read


def main(argv: list[str] | None = None) -> int:
    """Runs the program and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=at_least(1), default=24, help="size of the layer (24)")
    parser.add_argument(
        "--points", type=at_least(2), default=200, help="seen, and as many new (200)"
    )
    parser.add_argument("--steps", type=at_least(1), default=400, help="of training (400)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and points (0)")
    options = parser.parse_args(argv)
    begin = time.perf_counter()

    keys = random.split(random.key(options.seed), 3)
    xs, ys = spirals(keys[0], options.points)
    new_xs, new_ys = spirals(keys[1], options.points)
    params = init(keys[2], 2, options.hidden)
    params, _ = train(params, xs, ys, options.steps)
    counts = np.asarray(iterations(params, xs))
    print(f"right on points seen: {100 * float(accuracy(params, xs, ys)):.1f} %")
    print(f"right on new points: {100 * float(accuracy(params, new_xs, new_ys)):.1f} %")
    print(f"iterations to the fixed point: {counts.min()} to {counts.max()}")
    print(f"{time.perf_counter() - begin:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
