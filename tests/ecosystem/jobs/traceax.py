"""traceax: traces of operators by random vectors, in five ways."""

import jax
import jax.numpy as jnp
import lineax as lx
import traceax as tr

DISTRIBUTION = "traceax"
# Bases of random vectors are found by factorizations.
TOLERANCE = 1e-5


def main(timed):
    a = jax.random.normal(jax.random.key(0), (20, 20))
    a = a @ a.T / 20
    operator = lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag)
    found = {"exact": jnp.trace(a)}
    for kind in (
        tr.HutchinsonEstimator, tr.HutchPlusPlusEstimator, tr.XTraceEstimator,
        tr.XNysTraceEstimator,
    ):  # fmt: skip
        run = timed(jax.jit(lambda key, kind=kind: kind().estimate(key, operator, k=9)[0]))
        for _ in range(3):
            found[kind.__name__] = run(jax.random.key(1))
    return found
