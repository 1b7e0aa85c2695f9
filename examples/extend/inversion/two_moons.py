"""Fits a normalising flow to two moons: the density of the data is that of the flow's inverse.

The flow is written in one direction only, from normal noise to the plane. Its inverse and the
log-determinant come from `inversion`; the likelihood is maximised by gradient descent on it.

    python two_moons.py --steps 600
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from inversion import log_density

import weft
import weft.numpy as jnp
from weft import random

LAYERS, HIDDEN = 8, 32


def moons(count: int, seed: int) -> np.ndarray:
    """Points on two half circles with normal noise of 0.1: (count, 2)."""
    rng = np.random.default_rng(seed)
    angle = np.pi * rng.random(count)
    upper = rng.random(count) < 0.5
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return (np.stack([x, y], 1) + 0.1 * rng.normal(size=(count, 2))).astype(np.float32)


def initial(key: Any) -> dict[str, Any]:
    """The weights of all layers, stacked, so that the layers are one loop."""
    first, second = random.split(key)
    return {
        "enter": random.normal(first, (LAYERS, 1, HIDDEN)),
        "offset": random.normal(second, (LAYERS, HIDDEN)),
        "leave": jnp.zeros((LAYERS, HIDDEN, 2)),
        "shift": jnp.zeros((LAYERS, 2)),
    }


def layer(x: Any, weights: dict[str, Any]) -> tuple[Any, None]:
    """A coupling layer (Dinh, Sohl-Dickstein and Bengio, 2017): one coordinate goes through as it
    is and says how the other is scaled and shifted; then they change places."""
    kept, moved = x[:1], x[1:]
    hidden = jnp.tanh(kept @ weights["enter"] + weights["offset"])
    scale, shift = hidden @ weights["leave"] + weights["shift"]
    return jnp.concatenate([moved * jnp.exp(jnp.tanh(scale)) + shift, kept]), None


def flow(weights: dict[str, Any], noise: Any) -> Any:
    """A point of the plane for a point of the noise."""
    return weft.lax.scan(layer, noise, weights)[0]


def normal(x: Any) -> Any:
    """The log-density of independent standard normal numbers."""
    return jnp.sum(-0.5 * x**2 - 0.5 * np.log(2 * np.pi).astype(np.float32))


@weft.jit
def likelihood(weights: dict[str, Any], points: Any) -> Any:
    """The mean log-density of points."""
    density = log_density(lambda noise: flow(weights, noise), normal)
    return jnp.mean(weft.vmap(density)(points))


@weft.jit
def train(weights: dict[str, Any], points: Any, steps: Any) -> dict[str, Any]:
    """Adam (Kingma and Ba, 2015) on the negative likelihood, as one program."""
    gradient = weft.grad(lambda w: -likelihood(w, points))

    def step(i: Any, state: Any) -> Any:
        weights, mean, square = state
        g = gradient(weights)
        mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, g)
        square = weft.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, g)
        t = i + 1.0
        rate = 5e-3 * jnp.sqrt(1 - 0.99**t) / (1 - 0.9**t)
        move = lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8)  # noqa: E731
        return weft.tree.map(move, weights, mean, square), mean, square

    zeros = weft.tree.map(jnp.zeros_like, weights)
    return weft.lax.fori_loop(0, steps, step, (weights, zeros, zeros))[0]


def main() -> None:
    """Trains and prints the likelihood of points that were not trained on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    points, held_out = moons(2048, 0), moons(2048, 1)
    weights = initial(random.key(0))
    print(f"mean log-density of held-out points before: {likelihood(weights, held_out):.3f}")
    weights = train(weights, points, steps)
    print(f"mean log-density of held-out points after:  {likelihood(weights, held_out):.3f}")
    noise = random.normal(random.key(1), (4, 2))
    samples = np.asarray(weft.vmap(lambda z: flow(weights, z))(noise))
    print("four samples:", ", ".join(f"({x:.2f}, {y:.2f})" for x, y in samples))


if __name__ == "__main__":
    main()
