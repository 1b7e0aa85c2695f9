"""matfree: traces, diagonals and functions of matrices that are only multiplied with."""

import jax
import jax.numpy as jnp
from matfree import decomp, funm, stochtrace

DISTRIBUTION = "matfree"
# Lanczos' vectors lose orthogonality by rounding.
TOLERANCE = 1e-5


def main(timed):
    a = jax.random.normal(jax.random.key(0), (12, 12))
    a = a @ a.T / 12 + jnp.eye(12)
    like = jnp.ones(12)
    sampler = stochtrace.sampler_signs(like, num=64)
    trace = stochtrace.estimator_monte_carlo(stochtrace.monte_carlo_trace(), sampler)
    run = timed(jax.jit(lambda a, key: trace(lambda v: a @ v, key)))
    for _ in range(4):
        found = run(a, jax.random.key(1))
    tridiagonal = decomp.tridiag_sym(6, reortho="full")
    logdet = stochtrace.estimator_monte_carlo(
        funm.monte_carlo_funm_sym_logdet(tridiagonal), sampler
    )
    exponential = funm.funm_lanczos_sym(
        funm.dense_funm_sym_eigh(jnp.exp), decomp.tridiag_sym(8, reortho="full")
    )
    return {
        "trace": found,
        "logdet": jax.jit(lambda key: logdet(lambda v: a @ v, key))(jax.random.key(2)),
        "exponential": exponential(lambda v: -a @ v, like),
        "slope": jax.grad(lambda s: trace(lambda v: s * (a @ v), jax.random.key(1)))(2.0),
    }
