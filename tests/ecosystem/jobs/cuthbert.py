"""cuthbert: Kalman filtering in order and in parallel, and a particle filter of the same model."""

import jax
import jax.numpy as jnp
from cuthbert import filter as run_filter
from cuthbert.gaussian import kalman

DISTRIBUTION = "cuthbert"
# Square roots of covariances are found by factorizations.
TOLERANCE = 1e-5


def main(timed):
    step = jnp.array([[1.0, 0.1], [-0.1, 0.97]])
    noise = 0.1 * jnp.eye(2)
    seen = jnp.sin(0.3 * jnp.arange(20.0)) + 0.1 * jax.random.normal(jax.random.key(0), (20,))
    seen = jnp.concatenate([jnp.zeros(1), seen])[:, None]

    def dynamics(t):
        return step, jnp.zeros(2), noise

    def observation(t):
        return jnp.array([[1.0, 0.0]]), jnp.zeros(1), 0.2 * jnp.eye(1), seen[t]

    def run(parallel, steps):
        inference = kalman.build_filter(jnp.zeros(2), jnp.eye(2), dynamics, observation)
        states = run_filter(
            inference, jnp.arange(1, steps + 1), inference.init_prepare(), parallel=parallel
        )
        return states.mean, states.log_normalizing_constant

    sequential = timed(jax.jit(lambda: run(False, 20)))
    for _ in range(3):
        means, evidence = sequential()
    parallel, _ = jax.jit(lambda: run(True, 6))()
    return {"means": means, "evidence": evidence, "parallel": parallel}
