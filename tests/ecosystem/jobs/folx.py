"""folx: the local energy of a network's wave function by the forward Laplacian."""

import folx
import jax
import jax.numpy as jnp

DISTRIBUTION = "folx"
# Sums of second derivatives of both signs.
TOLERANCE = 1e-5


def log_wave(params, electrons):
    r = electrons.reshape(-1, 3)
    distance = jnp.linalg.norm(r, axis=-1)
    pairs = jnp.linalg.norm(r[0] - r[1] + 1e-6)
    features = jnp.concatenate([distance, pairs[None], jnp.tanh(r.ravel())])
    for w in params[:-1]:
        features = jnp.tanh(features @ w)
    return jnp.sum(features @ params[-1]) - distance.sum()


def main(timed):
    keys = jax.random.split(jax.random.key(0), 4)
    params = [jax.random.normal(k, s) / 3 for k, s in zip(keys, [(9, 12), (12, 12), (12, 1)])]
    electrons = jax.random.normal(keys[3], (8, 6))
    laplacian = folx.forward_laplacian(lambda x: log_wave(params, x), 0)

    @timed
    @jax.jit
    def energy(electrons):
        found = jax.vmap(laplacian)(electrons)
        gradient = found.jacobian.dense_array
        kinetic = -0.5 * (found.laplacian + jnp.sum(gradient.reshape(8, -1) ** 2, -1))
        return kinetic, found.x

    for _ in range(4):
        kinetic, log = energy(electrons)
    hessian = jax.vmap(jax.hessian(lambda x: log_wave(params, x)))(electrons)
    plain = jnp.trace(hessian, axis1=-2, axis2=-1)
    return {"kinetic": kinetic, "log": log, "trace": plain}
