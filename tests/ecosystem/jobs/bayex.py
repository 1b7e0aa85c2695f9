"""Bayex: Bayesian optimization of a function of one variable by a Gaussian process."""

import bayex
import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "bayex"
# Each point that is tried depends on the fit to all before it, whose matrix is nearly singular: in
# 32 bits rounding alone decides which one is best.
jax.config.update("jax_enable_x64", True)


def wavy(x):
    return -(jnp.sin(3 * x) + 0.3 * (x - 1) ** 2)


def main(timed):
    optimizer = bayex.Optimizer({"x": bayex.domain.Real(-2.0, 3.0)}, acq="EI", maximize=True)
    tried = {"x": [-1.0, 0.5, 2.0]}
    state = optimizer.init([float(wavy(x)) for x in tried["x"]], tried)
    sample = timed(jax.jit(optimizer.sample))
    for i in range(4):
        params = sample(jax.random.key(i), state)
        state = optimizer.fit(state, wavy(params["x"]), params)
    return {
        "best": state.best_score,
        "best_x": state.best_params["x"],
        "scores": np.asarray(state.ys)[:7],
    }
