"""Lineax: linear systems by structure, iterative solvers, least squares, and derivatives through
them.
"""

import jax
import jax.numpy as jnp
import lineax as lx

DISTRIBUTION = "lineax"
# Iterative solvers stop where their own tolerance is met.
TOLERANCE = 1e-5


def main(timed):
    keys = jax.random.split(jax.random.key(0), 4)
    a = jax.random.normal(keys[0], (8, 8)) + 4 * jnp.eye(8)
    b = jax.random.normal(keys[1], (8,))
    spd = lx.MatrixLinearOperator(a @ a.T, lx.positive_semidefinite_tag)
    tall = lx.MatrixLinearOperator(jax.random.normal(keys[2], (12, 4)))
    right = jax.random.normal(keys[3], (12,))
    tridiagonal = lx.TridiagonalLinearOperator(4 * jnp.ones(8), jnp.ones(7), -jnp.ones(7))

    @timed
    @jax.jit
    def general(a, b):
        return lx.linear_solve(lx.MatrixLinearOperator(a), b, lx.AutoLinearSolver(True)).value

    for _ in range(5):
        found = general(a, b)
    cg = jax.jit(lambda: lx.linear_solve(spd, b, lx.CG(rtol=1e-6, atol=1e-6)).value)()
    gmres = jax.jit(
        lambda: lx.linear_solve(
            lx.FunctionLinearOperator(lambda x: a @ x, jax.ShapeDtypeStruct((8,), jnp.float32)), b,
            lx.GMRES(rtol=1e-6, atol=1e-6),
        ).value
    )()  # fmt: skip
    grad = jax.jit(jax.grad(lambda a: jnp.sum(solve(a, b) ** 2)))(a)
    return {
        "general": found,
        "cg": cg,
        "gmres": gmres,
        "cholesky": lx.linear_solve(spd, b, lx.Cholesky()).value,
        "tridiagonal": lx.linear_solve(tridiagonal, b).value,
        "least_squares": lx.linear_solve(tall, right, lx.QR()).value,
        "svd": lx.linear_solve(tall, right, lx.SVD()).value,
        "grad": grad,
        "batched": jax.vmap(lambda b: solve(a, b))(jnp.stack([b, 2 * b])),
    }


def solve(a, b):
    return lx.linear_solve(lx.MatrixLinearOperator(a), b).value
