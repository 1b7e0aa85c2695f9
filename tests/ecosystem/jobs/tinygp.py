"""tinygp: a Gaussian process with a composed kernel, fitted by its likelihood, and a fast one in
time.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tinygp
from tinygp import kernels

DISTRIBUTION = "tinygp"
# Solutions of nearly singular systems.
TOLERANCE = 1e-5


def process(params, x):
    kernel = jnp.exp(params["amplitude"]) * kernels.ExpSquared(jnp.exp(params["scale"]))
    kernel += 0.3 * kernels.Matern32(0.5) * kernels.Cosine(1.5)
    return tinygp.GaussianProcess(kernel, x, diag=jnp.exp(params["noise"]), mean=params["mean"])


def main(timed):
    rng = np.random.default_rng(2)
    x = jnp.asarray(np.sort(rng.uniform(0, 8, 30)), jnp.float32)
    y = jnp.asarray(np.sin(x) + 0.1 * rng.normal(size=30) + 1, jnp.float32)
    params = {k: jnp.array(v) for k, v in
              dict(amplitude=0.0, scale=0.1, noise=-3.0, mean=0.5).items()}  # fmt: skip
    optimizer = optax.sgd(3e-3)
    state = optimizer.init(params)

    @timed
    @jax.jit
    def step(params, state):
        loss = lambda p: -process(p, x).log_probability(y)
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(25):
        params, state, value = step(params, state)
        losses.append(value)
    at = jnp.linspace(0, 8, 7)
    conditioned = jax.jit(lambda p: process(p, x).condition(y, at).gp.loc)(params)
    fast = tinygp.GaussianProcess(
        kernels.quasisep.Matern52(1.5) + kernels.quasisep.SHO(2.0, 1.0), x, diag=0.05
    )
    return {
        "losses": jnp.stack(losses),
        **params,
        "predicted": conditioned,
        "quasiseparable": jax.jit(lambda y: fast.log_probability(y))(y),
        "sample": process(params, x[:6]).sample(jax.random.key(4)),
    }
