"""Optimistix: roots, minima, least squares and fixed points, and derivatives of solutions."""

import jax
import jax.numpy as jnp
import optimistix as optx

DISTRIBUTION = "optimistix"
# Solvers stop where their own tolerance is met.
TOLERANCE = 1e-4


def banana(y, args):
    return (args - y[0]) ** 2 + 100 * (y[1] - y[0] ** 2) ** 2


def decay(y, args):
    t, observed = args
    return observed - y["scale"] * jnp.exp(-y["rate"] * t)


def main(timed):
    t = jnp.linspace(0, 3, 20)
    observed = 2.5 * jnp.exp(-1.3 * t) + 0.05 * jnp.sin(20 * t)

    @timed
    @jax.jit
    def fit(t, observed):
        solver = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6)
        start = {"scale": jnp.array(1.0), "rate": jnp.array(0.5)}
        return optx.least_squares(decay, solver, start, (t, observed)).value

    for _ in range(4):
        fitted = fit(t, observed)

    @jax.jit
    def root(a):
        solver = optx.Newton(rtol=1e-6, atol=1e-6)
        return optx.root_find(lambda y, a: y - a * jnp.tanh(y) - 0.3, solver, 0.5, a).value

    def minimum(a):
        solver = optx.BFGS(rtol=1e-5, atol=1e-5)
        return optx.minimise(banana, solver, jnp.array([-1.0, 1.0]), a, max_steps=500).value

    fixed = optx.fixed_point(
        lambda y, a: jnp.cos(a * y), optx.FixedPointIteration(rtol=1e-6, atol=1e-6), 0.5, 0.9
    )
    simplex = optx.minimise(
        banana, optx.NelderMead(rtol=1e-4, atol=1e-4), jnp.array([0.5, 0.5]), 1.0, max_steps=500
    )
    return {
        **fitted,
        "root": root(0.5),
        "root_slope": jax.grad(root)(0.5),
        "minimum": jax.jit(minimum)(1.0),
        "fixed": fixed.value,
        "simplex": simplex.value,
        "bisection": optx.root_find(
            lambda y, a: y**3 - a, optx.Bisection(rtol=1e-6, atol=1e-6), 1.0, 2.0,
            options={"lower": 0.0, "upper": 2.0},
        ).value,
    }  # fmt: skip
