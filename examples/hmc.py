"""Samples two distributions by Hamiltonian Monte Carlo, and checks the samples against the truth.

    python examples/hmc.py
    python examples/hmc.py --chains 32 --samples 2000 --seed 7

A point moves like a ball on the landscape -log p(x), pushed in a random direction. `weft.grad`
gives its force, a `fori_loop` of leapfrog steps its path, a `scan` the chain of points, and `vmap`
many chains at once (Duane, Kennedy, Pendleton and Roweth, "Hybrid Monte Carlo", 1987; Neal, "MCMC
using Hamiltonian dynamics", 2011). The program tunes the size of a step during the first part
of each chain, and discards that part. Both targets have known moments: a Gaussian with correlated
coordinates, and a banana, whose narrow curved ridge is hard for random walks.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax, random

LogDensity = Callable[[Any], Any]


# ---- the sampler -------------------------------------------------------------------------------


def leapfrog(log_density: LogDensity, x: Any, momentum: Any, step: Any, count: int) -> tuple:
    """Position and momentum after `count` steps: reversible, keeps volumes, and nearly the energy.

    Half a step of momentum, then positions and momenta in turn, half a step of momentum.
    """
    force = weft.grad(log_density)

    def both(_: Any, state: tuple) -> tuple:
        x, momentum = state
        x = x + step * momentum
        return x, momentum + step * force(x)

    momentum = momentum + 0.5 * step * force(x)
    x, momentum = lax.fori_loop(0, count, both, (x, momentum))
    return x, momentum - 0.5 * step * force(x)


def energy(log_density: LogDensity, x: Any, momentum: Any) -> Any:
    """Potential and kinetic energy: minus the logarithm of the joint density."""
    return 0.5 * jnp.sum(momentum * momentum) - log_density(x)


def transition(log_density: LogDensity, key: Any, x: Any, step: Any, count: int) -> tuple[Any, Any]:
    """The next point of a chain, and the probability with which its proposal was accepted.

    Steps are between half of `step` and all of it. With steps of one length, all paths along some
    direction could come back to where they began.
    """
    of_momentum, of_length, of_choice = random.split(key, 3)
    momentum = random.normal(of_momentum, x.shape, x.dtype)
    size = step * random.uniform(of_length, (), x.dtype, 0.5, 1.0)
    proposal, end = leapfrog(log_density, x, momentum, size, count)
    gain = energy(log_density, x, momentum) - energy(log_density, proposal, end)
    # A path that ran away has an energy that is infinite or NaN: never accepted.
    accepting = jnp.exp(jnp.minimum(0.0, jnp.where(jnp.isnan(gain), -jnp.inf, gain)))
    accepted = random.uniform(of_choice, (), x.dtype) < accepting
    return jnp.where(accepted, proposal, x), accepting


class Tuning(NamedTuple):
    """The state of the search for a step size: dual averaging of log(step)."""

    log_step: Any
    log_average: Any
    shortfall: Any
    count: Any


def tune(state: Tuning, accepting: Any, first: float, target: float) -> Tuning:
    """Hoffman and Gelman, "The No-U-Turn Sampler" (2014), algorithm 5, with their constants: on
    average, proposals should be accepted with the probability `target`."""
    count = state.count + 1
    weight = 1 / (count + 10)
    shortfall = (1 - weight) * state.shortfall + weight * (target - accepting)
    log_step = math.log(10 * first) - jnp.sqrt(count) / 0.05 * shortfall
    share = count**-0.75
    average = share * log_step + (1 - share) * state.log_average
    return Tuning(log_step, average, shortfall, count)


class Chain(NamedTuple):
    """Points (samples × dimensions), mean acceptance, and the step that was used."""

    points: Any
    acceptance: Any
    step: Any


def chain(
    log_density: LogDensity,
    key: Any,
    start: Any,
    samples: int,
    warmup: int,
    count: int,
    first_step: float = 0.1,
    target: float = 0.9,
) -> Chain:
    """A chain of `samples` points after `warmup` points of tuning; paths have `count` steps."""
    of_warmup, of_samples = random.split(key)

    def tuned(carry: tuple, key: Any) -> tuple:
        x, tuning = carry
        x, accepting = transition(log_density, key, x, jnp.exp(tuning.log_step), count)
        return (x, tune(tuning, accepting, first_step, target)), None

    log_first = jnp.asarray(math.log(first_step), start.dtype)
    zero = jnp.zeros_like(log_first)
    begin = Tuning(log_first, zero, zero, zero)
    (x, tuning), _ = lax.scan(tuned, (start, begin), random.split(of_warmup, warmup))
    step = jnp.exp(tuning.log_average)

    def sampled(x: Any, key: Any) -> tuple:
        x, accepting = transition(log_density, key, x, step, count)
        return x, (x, accepting)

    _, (points, acceptance) = lax.scan(sampled, x, random.split(of_samples, samples))
    return Chain(points, jnp.mean(acceptance), step)


@partial(weft.jit, static_argnums=(0, 3, 4, 5))
def chains(
    log_density: LogDensity, key: Any, starts: Any, samples: int, warmup: int, count: int
) -> Chain:
    """A chain from each of some starts, all of them at once."""
    one = partial(chain, log_density, samples=samples, warmup=warmup, count=count)
    return weft.vmap(one)(random.split(key, len(starts)), starts)


# ---- what the samples say ----------------------------------------------------------------------


class Estimate(NamedTuple):
    """A mean over all chains, its standard error, and the independent samples it is worth."""

    mean: float
    error: float
    effective: float
    disagreement: float


def estimate(values: np.ndarray) -> Estimate:
    """The mean of a quantity along chains (chains × samples).

    The effective sample size follows Geyer, "Practical Markov chain Monte Carlo" (1992):
    autocorrelations are summed in pairs as long as the sums are positive and fall. They, and the
    disagreement (R-hat: 1 where chains agree), compare variances within and between chains as
    Gelman and Rubin do ("Inference from iterative simulation", 1992), with each chain cut in half.
    """
    values = np.asarray(values, np.float64)
    half = values.shape[1] // 2
    values = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    chains, samples = values.shape
    means = values.mean(axis=1, keepdims=True)
    within = values.var(axis=1, ddof=1).mean()
    total = within * (samples - 1) / samples + means.var(ddof=1)
    spectrum = np.fft.rfft(values - means, 2 * samples, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :samples].mean(axis=0) / samples
    correlation = 1 - (within - covariance * samples / (samples - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[: samples // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if len(negative) else None])
    # Chains may swing from side to side and give a better mean than independent samples would;
    # more than that is an accident of the estimate.
    time = max(2 * pairs.sum() - 1, 1 / np.log10(chains * samples))
    effective = chains * samples / time
    return Estimate(
        float(values.mean()),
        float(np.sqrt(total / effective)),
        float(effective),
        float(np.sqrt(total / within)),
    )


# ---- targets -----------------------------------------------------------------------------------

# Standard deviations 0.5 and 2, correlation 0.9; and a third coordinate that depends on both.
COVARIANCE = np.array([[0.25, 0.9, 0.2], [0.9, 4.0, 0.5], [0.2, 0.5, 1.0]])
CENTRE = np.array([1.0, -2.0, 0.5])
PRECISION = np.linalg.inv(COVARIANCE)
# The banana: x is Gaussian with this standard deviation, y is Gaussian around BEND (x² - SPREAD²).
# Along its arms the ridge gets ever steeper. With a stronger bend, it would need steps there so
# much smaller than elsewhere that chains of one step size would hardly get there, and nothing would
# show it.
SPREAD, BEND = 1.0, 0.5


def gaussian(x: Any) -> Any:
    """The logarithm of the Gaussian's density, up to a constant."""
    away = x - CENTRE.astype(x.dtype)
    return -0.5 * away @ (PRECISION.astype(x.dtype) @ away)


def banana(x: Any) -> Any:
    """The logarithm of the banana's density, up to a constant."""
    ridge = BEND * (x[0] ** 2 - SPREAD**2)
    return -0.5 * (x[0] / SPREAD) ** 2 - 0.5 * (x[1] - ridge) ** 2


class Target(NamedTuple):
    """A density, and functions of its points (… × dimensions) with their true means."""

    log_density: LogDensity
    dimensions: int
    quantities: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]]


def mean_of(i: int, true: float) -> tuple:
    """The coordinate i."""
    return lambda x: x[..., i], true


def product_of(i: int, j: int, centre: np.ndarray, true: float) -> tuple:
    """The product of two coordinates, measured from their true means."""
    return lambda x: (x[..., i] - centre[i]) * (x[..., j] - centre[j]), true


def gaussian_target() -> Target:
    """Means, variances and covariances of the Gaussian."""
    n = len(CENTRE)
    quantities = {f"mean {i}": mean_of(i, CENTRE[i]) for i in range(n)}
    for i in range(n):
        for j in range(i, n):
            quantities[f"covariance {i}{j}"] = product_of(i, j, CENTRE, COVARIANCE[i, j])
    return Target(gaussian, n, quantities)


def banana_target() -> Target:
    """Means and variances of the banana, and the moment that measures its bend: E[x² y]."""
    zero = np.zeros(2)
    fourth = 2 * SPREAD**4  # the variance of x²
    return Target(
        banana,
        2,
        {
            "mean x": mean_of(0, 0.0),
            "mean y": mean_of(1, 0.0),
            "variance x": product_of(0, 0, zero, SPREAD**2),
            "variance y": product_of(1, 1, zero, 1 + BEND**2 * fourth),
            "mean x² y": (lambda x: x[..., 0] ** 2 * x[..., 1], BEND * fourth),
        },
    )


TARGETS = {"correlated Gaussian": gaussian_target(), "banana": banana_target()}


# ---- the program -------------------------------------------------------------------------------


def sample(target: Target, key: Any, options: argparse.Namespace) -> Chain:
    """The chains of a target, from starts that are spread much wider than the target."""
    of_starts, of_chains = random.split(key)
    starts = 3.0 * random.normal(of_starts, (options.chains, target.dimensions))
    return chains(
        target.log_density, of_chains, starts, options.samples, options.warmup, options.path
    )


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
    parser.add_argument("--chains", type=at_least(1), default=16, help="at once (16)")
    parser.add_argument("--samples", type=at_least(4), default=2000, help="of each chain (2000)")
    parser.add_argument("--warmup", type=at_least(1), default=500, help="points of tuning (500)")
    parser.add_argument(
        "--path", type=at_least(1), default=12, help="leapfrog steps to a point (12)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the randomness (0)")
    options = parser.parse_args(argv)
    begin = time.perf_counter()
    keys = random.split(random.key(options.seed), len(TARGETS))
    for key, (name, target) in zip(keys, TARGETS.items(), strict=True):
        found = sample(target, key, options)
        points = np.asarray(found.points)
        print(
            f"{name}: {options.chains} chains of {options.samples} points, "
            f"step {float(jnp.mean(found.step)):.2f}, "
            f"{100 * float(jnp.mean(found.acceptance)):.0f} % accepted"
        )
        print(f"  {'':14s}{'true':>8s}{'found':>9s}{'± error':>9s}{'worth':>8s}{'R-hat':>7s}")
        for label, (quantity, true) in target.quantities.items():
            e = estimate(quantity(points))
            print(
                f"  {label:14s}{true:8.3f}{e.mean:9.3f}{e.error:9.3f}{e.effective:8.0f}"
                f"{e.disagreement:7.3f}"
            )
    print(f"{time.perf_counter() - begin:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
