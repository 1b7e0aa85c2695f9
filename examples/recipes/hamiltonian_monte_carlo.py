"""Bayesian linear regression by Hamiltonian Monte Carlo, beside the exact posterior.

    python examples/recipes/hamiltonian_monte_carlo.py
    python examples/recipes/hamiltonian_monte_carlo.py --picture posterior.svg

What drives diabetes? Ten measurements of 442 patients, which scikit-learn ships, explain how the
disease went on a year later. The priors are conjugate, so the posterior is known in closed form and
the samples can be compared with it. The sampler is that of Duane, Kennedy, Pendleton and Roweth,
"Hybrid Monte Carlo" (1987): `weft.grad` gives a force, `fori_loop` a path of leapfrog steps, `scan`
a chain of points, `vmap` several chains. `examples/hmc.py` also tunes its step size.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import weft
import weft.numpy as jnp
from weft import Array, lax, random

STYLE = Path(__file__).with_name("recipes.mplstyle")
CHAINS, WARMUP, SAMPLES = 8, 200, 800
SPREAD, STEP, PATH = 0.1, 0.025, 20  # of starts; a step of a path; how many steps it has


def log_density(point: Array, x: Array, y: Array) -> Array:
    """The posterior of ten weights and of s, the logarithm of the noise, but for a constant. The
    weights are normal with the deviation of the noise, whose square is inverse-gamma(1, 1)."""
    weights, s = point[:-1], point[-1]
    squares = jnp.sum((y - x @ weights) ** 2) + jnp.sum(weights**2)
    return -(len(y) + len(weights) + 2) * s - (0.5 * squares + 1) * jnp.exp(-2 * s)


def exact(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the weights, in closed form: a multivariate t."""
    inverse = np.linalg.inv(x.T @ x + np.eye(x.shape[1]))
    mean = inverse @ x.T @ y
    return mean, np.sqrt((2 + y @ y - mean @ x.T @ y) / len(y) * np.diag(inverse))


def transition(point: Array, key: Array, x: Array, y: Array) -> tuple[Array, tuple[Array, Array]]:
    """The next point of a chain: the end of a path, or the same again. Paths differ in length, so
    that none comes back to its start every time."""
    of_momentum, of_step, of_choice = random.split(key, 3)
    force = weft.grad(log_density)
    step = STEP * random.uniform(of_step, minval=0.6, maxval=1.0)
    start = random.normal(of_momentum, point.shape)

    def leapfrog(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        position, momentum = state
        momentum = momentum + 0.5 * step * force(position, x, y)
        position = position + step * momentum
        return position, momentum + 0.5 * step * force(position, x, y)

    proposal, end = lax.fori_loop(0, PATH, leapfrog, (point, start))
    gain = log_density(proposal, x, y) - log_density(point, x, y)
    gain = gain + 0.5 * (jnp.sum(start**2) - jnp.sum(end**2))
    accepted = jnp.log(random.uniform(of_choice)) < gain
    point = jnp.where(accepted, proposal, point)
    return point, (point, accepted)


@weft.jit
def sample(keys: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """A chain for each key: points, and which of their proposals were accepted."""

    def chain(key: Array) -> tuple[Array, Array]:
        keys = random.split(key, WARMUP + SAMPLES + 1)
        start = SPREAD * random.normal(keys[0], (x.shape[1] + 1,))
        return lax.scan(lambda p, k: transition(p, k, x, y), start, keys[1:])[1]

    return weft.vmap(chain)(keys)


def r_hat(chains: np.ndarray) -> np.ndarray:
    """Gelman and Rubin (1992): 1 where the spread between chains is that within each of them."""
    ratio = chains.mean(axis=1).var(axis=0, ddof=1) / chains.var(axis=1, ddof=1).mean(axis=0)
    return np.sqrt(1 - 1 / chains.shape[1] + ratio)


def draw(path: Path, names: list[str], table: np.ndarray) -> None:
    """Two standard deviations of each weight: sampled, and beside it the exact one."""
    with matplotlib.style.context(STYLE):
        axes = (figure := Figure()).subplots(subplot_kw={"ylabel": "weight"})
        at = np.arange(len(names))
        axes.errorbar(at, table[:, 0], 2 * table[:, 1], fmt="o", label="sampled")
        axes.errorbar(at + 0.2, table[:, 2], 2 * table[:, 3], fmt="o", label="exact")
        axes.set_xticks(at + 0.1, names)
        axes.legend(loc="lower right")
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the posterior")
    options = parser.parse_args(argv)
    x, y = map(scale, load_diabetes(return_X_y=True))
    points, accepted = sample(random.split(random.key(0), CHAINS), x, y)
    points = np.asarray(points)[:, WARMUP:]
    print(f"{CHAINS} chains of {SAMPLES} points, {100 * accepted.mean():.0f} % accepted")
    print(f"R-hat is at most {r_hat(points).max():.3f}")
    weights = points[..., :-1].reshape(-1, x.shape[1])
    table = np.column_stack([weights.mean(axis=0), weights.std(axis=0), *exact(x, y)])
    names = load_diabetes().feature_names
    for name, row in zip(names, table, strict=True):
        print(f"{name:4s}", "{:7.3f} ± {:.3f}, exactly {:6.3f} ± {:.3f}".format(*row))
    if options.picture:
        draw(options.picture, names, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
