"""Exponax: Burgers' and the Kuramoto-Sivashinsky equation by exponential integrators, and a
gradient.
"""

import exponax as ex
import jax
import jax.numpy as jnp

DISTRIBUTION = "exponax"
# The second equation is chaotic; it runs for a short time.
TOLERANCE = 1e-5


def main(timed):
    grid = ex.make_grid(1, 3.0, 48)
    start = jnp.sin(2 * jnp.pi * grid / 3.0) + 0.3 * jnp.cos(4 * jnp.pi * grid / 3.0)
    burgers = ex.stepper.Burgers(1, 3.0, 48, 0.02, diffusivity=0.03)
    run = timed(jax.jit(ex.rollout(burgers, 25)))
    for _ in range(3):
        path = run(start)
    chaotic = ex.stepper.KuramotoSivashinsky(1, 20.0, 48, 0.05)
    later = jax.jit(ex.repeat(chaotic, 40))(start)
    grad = jax.jit(jax.grad(lambda u: jnp.sum(ex.repeat(burgers, 5)(u) ** 2)))(start)
    noise = ex.ic.RandomTruncatedFourierSeries(1, cutoff=4)(48, key=jax.random.PRNGKey(0))
    return {
        "path": path,
        "later": later,
        "grad": grad,
        "noise": noise,
        "spectrum": ex.get_spectrum(start),
        "error": ex.metrics.RMSE(path[-1], start),
    }
