"""array-api-compat: one function of the array API standard, run with NumPy's and with JAX's
arrays.
"""

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "array-api-compat"


def principal_axes(x, count):
    xp = array_api_compat.array_namespace(x)
    centred = x - xp.mean(x, axis=0, keepdims=True)
    covariance = centred.T @ centred / (array_api_compat.size(x) / x.shape[1] - 1)
    values, vectors = xp.linalg.eigh(covariance)
    order = xp.flip(xp.argsort(values))[:count]
    vectors = xp.take(vectors, order, axis=1)
    return xp.take(values, order), xp.abs(vectors), xp.std(x, correction=1)


def main(timed):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))).astype(np.float32)
    run = timed(jax.jit(principal_axes, static_argnums=1))
    for _ in range(10):
        values, vectors, spread = run(jnp.asarray(x), 2)
    by_numpy = principal_axes(x, 2)
    xp = array_api_compat.array_namespace(jnp.asarray(x))
    return {
        "values": values,
        "vectors": vectors,
        "spread": spread,
        "as_numpy": np.allclose(values, by_numpy[0], rtol=1e-4),
        "is_jax": array_api_compat.is_jax_array(jnp.ones(2)),
        "writeable": array_api_compat.is_writeable_array(jnp.ones(2)),
        "lazy": array_api_compat.is_lazy_array(jnp.ones(2)),
        "unique": xp.unique_values(xp.asarray([3, 1, 3, 2])),
        "moved": array_api_compat.to_device(jnp.arange(3), array_api_compat.device(jnp.ones(1))),
    }
