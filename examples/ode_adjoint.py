"""Fits a model of predators and prey to noisy counts, by gradients through an ODE solver.

    python examples/ode_adjoint.py
    python examples/ode_adjoint.py --steps 400 --noise 0.2 --seed 3

`solve` integrates any system of ordinary differential equations with the Runge-Kutta pair of
Dormand and Prince, whose steps adapt to the error that they make. The number of steps is not known
beforehand, so the solver is a `while_loop`, which does not keep its steps. Its derivative is a
second system of equations, integrated backward in time. `weft.custom_vjp` gives the solver this
derivative, and the fit is then gradient descent as for any other model.
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
from weft import lax

# The rate of change of a state at a time, with parameters: trees of arrays, all of them.
Rates = Callable[[weft.Array, Any, Any], Any]


class Tolerance(NamedTuple):
    """How exact a solution should be, and after how many steps between two times to give up."""

    relative: float = 1e-5
    absolute: float = 1e-6
    max_steps: int = 10_000


USUAL = Tolerance()


# ---- the solver --------------------------------------------------------------------------------

# Dormand and Prince, "A family of embedded Runge-Kutta formulae" (Journal of Computational and
# Applied Mathematics 6, 1980), Table 2: RK5(4)7M. The last stage is evaluated at the result, with
# the weights of fifth order, so it is also the first stage of the next step.
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# Weights of fifth order minus those of fourth: what they multiply is an estimate of the error.
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


class Progress(NamedTuple):
    """Where the integration stands: `elapsed` of the span, the state there and its rate."""

    elapsed: Any
    state: Any
    rate: Any
    step: Any
    count: Any


def combined(base: Any, scale: Any, weights: tuple[float, ...], rates: list[Any]) -> Any:
    """base + scale · Σ weight · rate, leaf by leaf."""

    def leaf(x: Any, *ks: Any) -> Any:
        total = sum(w * k for w, k in zip(weights, ks, strict=True) if w)
        return x + (scale * total).astype(x.dtype)

    return weft.tree.map(leaf, base, *rates)


def runge_kutta_step(
    rates: Rates, t: Any, state: Any, rate: Any, step: Any, params: Any
) -> tuple[Any, Any, Any]:
    """The state one step later, the rate there, and the estimate of the error of the state."""
    stages = [rate]
    end = state
    for node, weights in zip(NODES, STAGES, strict=True):
        end = combined(state, step, weights, stages)
        stages.append(rates(t + node * step, end, params))
    zero = weft.tree.map(jnp.zeros_like, state)
    return end, stages[-1], combined(zero, step, ERROR, stages)


def norm(x: Any, reference: Any, tolerance: Tolerance) -> Any:
    """Root mean square of all elements, each divided by its tolerance."""
    scaled = weft.tree.map(
        lambda e, r: e / (tolerance.absolute + tolerance.relative * jnp.abs(r)), x, reference
    )
    leaves = weft.tree.leaves(scaled)
    return jnp.sqrt(sum(jnp.sum(e * e) for e in leaves) / max(1, sum(e.size for e in leaves)))


def first_step(state: Any, rate: Any, tolerance: Tolerance) -> Any:
    """A step that changes the state by a hundredth (Hairer, Nørsett and Wanner, "Solving Ordinary
    Differential Equations I", II.4, without its second evaluation: a bad guess is rejected)."""
    size, speed = norm(state, state, tolerance), norm(rate, state, tolerance)
    usable = (size > 1e-5) & (speed > 1e-5)
    return jnp.where(usable, 0.01 * size / jnp.where(usable, speed, 1.0), 1e-4)


def advance(
    rates: Rates, t: Any, state: Any, rate: Any, step: Any, to: Any, params: Any, tol: Tolerance
) -> tuple[Any, Any, Any]:
    """The state at the time `to`, the rate there, and the size of the next step.

    NaN if `max_steps` steps do not reach it.
    """
    span, direction = jnp.abs(to - t), jnp.sign(to - t)

    def unfinished(now: Progress) -> Any:
        return (now.elapsed < span) & (now.count < tol.max_steps)

    def attempt(now: Progress) -> Progress:
        last = now.elapsed + now.step >= span
        size = jnp.where(last, span - now.elapsed, now.step)
        begin = t + direction * now.elapsed
        end, end_rate, error = runge_kutta_step(
            rates, begin, now.state, now.rate, direction * size, params
        )
        larger = weft.tree.map(lambda a, b: jnp.maximum(jnp.abs(a), jnp.abs(b)), now.state, end)
        wrong = norm(error, larger, tol)
        accepted = wrong <= 1.0  # not if it is NaN
        # The error of a step is of fifth order. 0.9 and the limits are the usual ones: it is
        # cheaper to step a little too carefully than to step again.
        factor = jnp.clip(0.9 * jnp.maximum(wrong, 1e-10) ** -0.2, 0.2, 10.0)
        wanted = size * jnp.where(jnp.isnan(factor), 0.2, factor)
        # A last step that was cut short says little about how long the next may be.
        wanted = jnp.where(last & accepted, jnp.maximum(wanted, now.step), wanted)
        wanted = wanted.astype(now.step.dtype)
        elapsed = jnp.where(last, span, now.elapsed + size)
        elapsed, state, rate = weft.tree.map(
            partial(jnp.where, accepted),
            (elapsed, end, end_rate),
            (now.elapsed, now.state, now.rate),
        )
        return Progress(elapsed, state, rate, wanted, now.count + 1)

    start = Progress(jnp.zeros_like(span), state, rate, step, 0)
    found = lax.while_loop(unfinished, attempt, start)
    arrived = found.elapsed >= span
    state = weft.tree.map(lambda y: jnp.where(arrived, y, jnp.nan), found.state)
    return state, found.rate, found.step


@partial(weft.custom_vjp, nondiff_argnums=(0, 4))
def solve(rates: Rates, state: Any, times: Any, params: Any, tolerance: Tolerance = USUAL) -> Any:
    """The solution of dy/dt = rates(t, y, params) at `times`, stacked along a new first axis.

    `state` is the solution at times[0]; times rise or fall. Everything that you differentiate
    must be in `params`: `rates` may close over constants only. Derivatives are in reverse mode, of
    any order, with respect to `state`, `times` and `params`.
    """
    rate = rates(times[0], state, params)
    step = first_step(state, rate, tolerance).astype(times.dtype)

    def to_next(carry: Any, to: Any) -> tuple[Any, Any]:
        t, y, rate, step = carry
        y, rate, step = advance(rates, t, y, rate, step, to, params, tolerance)
        return (to, y, rate, step), y

    _, rest = lax.scan(to_next, (times[0], state, rate, step), times[1:])
    return weft.tree.map(lambda y, ys: jnp.concatenate([y[None], ys]), state, rest)


# ---- its derivative ----------------------------------------------------------------------------


def inner(a: Any, b: Any) -> Any:
    """The inner product of two trees."""
    products = weft.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return sum(weft.tree.leaves(products))


def at(tree: Any, i: Any) -> Any:
    """The elements at i of the arrays of a tree."""
    return weft.tree.map(lambda x: x[i], tree)


def backward_rates(rates: Rates, t: Any, state: Any, params: Any) -> Any:
    """The rates of the solution, of the adjoint a = dL/dy, and of the sum for dL/dparams.

    da/dt = -a ∂f/∂y: Pontryagin's equations, in the form of Chen, Rubanova, Bettencourt and
    Duvenaud, "Neural Ordinary Differential Equations" (2018).
    """
    y, adjoint, _ = state
    rate, pullback = weft.vjp(lambda y, p: rates(t, y, p), y, params)
    return rate, *weft.tree.map(jnp.negative, pullback(adjoint))


def solve_forward(rates: Rates, state: Any, times: Any, params: Any, tol: Tolerance) -> Any:
    """The solution, and the residuals: the solution again. No step between the times is kept."""
    ys = solve(rates, state, times, params, tol)
    return ys, (ys, times, params)


def solve_backward(rates: Rates, tol: Tolerance, residuals: Any, cotangent: Any) -> Any:
    """Cotangents of the first state, the times and the parameters.

    It calls `solve`, so that it can be differentiated in turn.
    """
    ys, times, params = residuals

    def from_next(carry: Any, interval: Any) -> tuple[Any, Any]:
        adjoint, gathered = carry
        earlier, later, y, y_ct = interval
        adjoint = weft.tree.map(jnp.add, adjoint, y_ct)
        time_ct = inner(y_ct, rates(later, y, params))
        # Each interval starts from the stored solution. Integrated backward all the way, it would
        # drift away from the stored one where the system is contracting.
        found = solve(
            partial(backward_rates, rates),
            (y, adjoint, gathered),
            jnp.stack([later, earlier]),
            params,
            tol,
        )
        _, adjoint, gathered = at(found, -1)
        return (adjoint, gathered), time_ct

    rest = weft.tree.map(lambda x: x[1:], (ys, cotangent))
    start = weft.tree.map(jnp.zeros_like, (at(ys, 0), params))
    (adjoint, gathered), times_ct = lax.scan(
        from_next, start, (times[:-1], times[1:], *rest), reverse=True
    )
    # A later start is a state that has not moved on: minus its rate.
    first_ct = -inner(adjoint, rates(times[0], at(ys, 0), params))
    adjoint = weft.tree.map(jnp.add, adjoint, at(cotangent, 0))
    return adjoint, jnp.concatenate([jnp.reshape(first_ct, (1,)), times_ct]), gathered


solve.defvjp(solve_forward, solve_backward)


# ---- predators and prey ------------------------------------------------------------------------

NAMES = ("birth", "predation", "growth", "death")


def lotka_volterra(t: Any, state: Any, params: Any) -> Any:
    """Prey are born and eaten; predators grow by eating, and die."""
    prey, predators = state[0], state[1]
    return jnp.stack(
        [
            params["birth"] * prey - params["predation"] * prey * predators,
            params["growth"] * prey * predators - params["death"] * predators,
        ]
    )


TRUE = {"birth": 1.5, "predation": 1.0, "growth": 0.6, "death": 2.0}
START = np.array([2.0, 1.0], np.float32)


def counts(rng: np.random.Generator, times: np.ndarray, noise: float) -> np.ndarray:
    """The counts at some times: the true solution times log-normal noise."""
    params = weft.tree.map(np.float32, TRUE)
    exact = np.asarray(solve(lotka_volterra, START, jnp.asarray(times), params))
    return exact * np.exp(noise * rng.normal(size=exact.shape)).astype(np.float32)


def loss(logs: Any, times: Any, observed: Any) -> Any:
    """Mean squared difference of logarithms; the parameters are positive, so they have logs too."""
    params = weft.tree.map(jnp.exp, logs)
    found = solve(lotka_volterra, START, times, params)
    return jnp.mean((jnp.log(found) - jnp.log(observed)) ** 2)


@weft.jit
def descend(logs: Any, velocity: Any, times: Any, observed: Any) -> tuple[Any, Any, Any]:
    """A step of gradient descent with momentum; gradients longer than 1 are cut to that length."""
    value, gradient = weft.value_and_grad(loss)(logs, times, observed)
    length = jnp.sqrt(inner(gradient, gradient))
    gradient = weft.tree.map(lambda g: g / jnp.maximum(1.0, length), gradient)
    velocity = weft.tree.map(lambda v, g: 0.9 * v - 0.02 * g, velocity, gradient)
    return weft.tree.map(jnp.add, logs, velocity), velocity, value


def fit(times: Any, observed: Any, steps: int, show: bool) -> tuple[dict[str, float], list[float]]:
    """The parameters after some steps from a poor guess, and the loss of each step."""
    logs = {name: jnp.zeros(()) for name in NAMES}
    velocity = weft.tree.map(jnp.zeros_like, logs)
    losses = []
    for i in range(steps):
        logs, velocity, value = descend(logs, velocity, times, observed)
        losses.append(float(value))
        if show and (i % max(1, steps // 8) == 0 or i == steps - 1):
            print(f"  step {i + 1:4d}: loss {losses[-1]:.5f}")
    return {name: float(jnp.exp(x)) for name, x in logs.items()}, losses


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
    parser.add_argument("--steps", type=at_least(1), default=300, help="of gradient descent (300)")
    parser.add_argument("--points", type=at_least(2), default=40, help="counts over ten years (40)")
    parser.add_argument("--noise", type=float, default=0.05, help="relative, of the counts (0.05)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (0)")
    options = parser.parse_args(argv)
    begin = time.perf_counter()

    times = np.linspace(0.0, 10.0, options.points).astype(np.float32)
    observed = counts(np.random.default_rng(options.seed), times, options.noise)
    print(f"{options.points} counts of prey and predators, each {100 * options.noise:.0f} % off")
    found, losses = fit(jnp.asarray(times), jnp.asarray(observed), options.steps, show=True)
    print(f"\n{'':12s}{'true':>8s}{'start':>8s}{'found':>8s}")
    for name in NAMES:
        print(f"{name:12s}{TRUE[name]:8.3f}{1.0:8.3f}{found[name]:8.3f}")
    print(f"\nmean error of a count: {100 * losses[-1] ** 0.5:.1f} %")
    print(f"{time.perf_counter() - begin:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
