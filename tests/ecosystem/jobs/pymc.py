"""PyMC: a hierarchical regression whose graph is compiled by JAX: the log density and its gradient,
the best fit, a Hamiltonian sampler over it, and NUTS by NumPyro.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402
import pymc.sampling.jax as pm_jax  # noqa: E402

DISTRIBUTION = "pymc"
# NUTS amplifies rounding from step to step.
TOLERANCE = 1e-5


def regression():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 8)
    x = rng.normal(size=32)
    y = rng.normal(size=4)[group] + 0.7 * x + 0.3 * rng.normal(size=32)
    with pm.Model() as model:
        center = pm.Normal("center", 0.0, 1.0)
        spread = pm.HalfNormal("spread", 1.0)
        offset = pm.Normal("offset", 0.0, 1.0, shape=4)
        slope = pm.Normal("slope", 0.0, 1.0)
        noise = pm.Exponential("noise", 1.0)
        mean = center + spread * offset[group] + slope * x
        pm.Normal("y", mean, noise, observed=y)
    return model


def main(timed):
    model = regression()
    log_density = pm_jax.get_jaxified_logp(model)
    start = [jnp.asarray(value) for value in model.initial_point(random_seed=1).values()]
    density = timed(jax.jit(jax.value_and_grad(log_density)))
    at = start
    for _ in range(60):
        value, gradient = density(at)
        at = [x + 0.003 * g for x, g in zip(at, gradient, strict=True)]

    def leap(state, key):
        at, count = state
        momentum = [
            jax.random.normal(k, x.shape)
            for k, x in zip(jax.random.split(key, len(at)), at, strict=True)
        ]

        def inside(_, carried):
            at, momentum = carried
            push = jax.grad(log_density)(at)
            momentum = [m + 0.025 * g for m, g in zip(momentum, push, strict=True)]
            at = [x + 0.05 * m for x, m in zip(at, momentum, strict=True)]
            push = jax.grad(log_density)(at)
            return at, [m + 0.025 * g for m, g in zip(momentum, push, strict=True)]

        def energy(at, momentum):
            return -log_density(at) + sum(jnp.sum(m**2) for m in momentum) / 2

        new, last = jax.lax.fori_loop(0, 8, inside, (at, momentum))
        accept = jnp.log(jax.random.uniform(key)) < energy(at, momentum) - energy(new, last)
        at = [jnp.where(accept, n, x) for n, x in zip(new, at, strict=True)]
        return (at, count + accept), at[0]

    keys = jax.random.split(jax.random.key(0), 40)
    (_, accepted), centers = jax.jit(lambda at: jax.lax.scan(leap, (at, 0), keys))(at)

    with model:
        trace = pm_jax.sample_numpyro_nuts(
            draws=10, tune=10, chains=1, random_seed=3, progressbar=False,
            compute_convergence_checks=False, chain_method="vectorized",
        )  # fmt: skip
    return {
        "slope": trace.posterior["slope"].values[0],
        "spread": trace.posterior["spread"].values[0],
        "value": value,
        "offset": at[2],
        "gradient": gradient[0],
        "accepted": accepted,
        "centers": centers,
    }
