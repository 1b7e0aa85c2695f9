"""JAXopt: solvers with and without constraints, and derivatives of their solutions."""

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np

DISTRIBUTION = "jaxopt"
# Solvers stop where their own tolerance is met.
TOLERANCE = 1e-4


def ridge(w, penalty, x, y):
    return jnp.mean((x @ w - y) ** 2) + penalty * jnp.sum(w**2)


def banana(z):
    return 100 * (z[1] - z[0] ** 2) ** 2 + (1 - z[0]) ** 2


def main(timed):
    rng = np.random.default_rng(7)
    x = jnp.asarray(rng.normal(size=(40, 5)), jnp.float32)
    y = jnp.asarray(
        x @ np.array([1.0, -2.0, 0.0, 0.0, 0.5]) + 0.1 * rng.normal(size=40), jnp.float32
    )
    descent = jaxopt.GradientDescent(ridge, maxiter=200, tol=1e-5)
    solve = timed(jax.jit(lambda p: descent.run(jnp.zeros(5), p, x, y).params))
    for _ in range(5):
        weights = solve(0.1)
    through = jax.jit(jax.jacobian(lambda p: descent.run(jnp.zeros(5), p, x, y).params))
    lasso = jaxopt.ProximalGradient(
        jaxopt.objective.least_squares, jaxopt.prox.prox_lasso, maxiter=300, tol=1e-6
    ).run(jnp.zeros(5), 0.1, data=(x, y))
    simplex = jaxopt.ProjectedGradient(
        jaxopt.objective.least_squares, jaxopt.projection.projection_simplex, maxiter=200
    ).run(jnp.ones(5) / 5, data=(x, y))
    lbfgs = jaxopt.LBFGS(banana, maxiter=80).run(jnp.array([-1.2, 1.0]))
    least = jaxopt.LevenbergMarquardt(lambda z: jnp.stack([10 * (z[1] - z[0] ** 2), 1 - z[0]])).run(
        jnp.array([-1.2, 1.0])
    )
    quadratic = jaxopt.BoxOSQP().run(
        params_obj=(jnp.array([[4.0, 1.0], [1.0, 2.0]]), jnp.array([1.0, 1.0])),
        params_eq=jnp.array([[1.0, 1.0], [1.0, 0.0]]),
        params_ineq=(jnp.array([1.0, 0.0]), jnp.array([1.0, 0.7])),
    )
    fixed = jaxopt.AndersonAcceleration(lambda z, a: jnp.cos(a * z), maxiter=50).run(
        jnp.array([0.5]), 1.2
    )
    bisection = jaxopt.Bisection(lambda z, a: z**3 - a, 0.0, 3.0)
    root = jax.value_and_grad(lambda a: bisection.run(None, a).params)
    scipy = jaxopt.ScipyMinimize(fun=banana, method="BFGS").run(jnp.array([-1.0, 1.0]))
    return {
        "weights": weights,
        "derivative": through(0.1),
        "lasso": lasso.params,
        "simplex": simplex.params,
        "lbfgs": lbfgs.params,
        "least": least.params,
        "quadratic": quadratic.params.primal[0],
        "fixed": fixed.params,
        "root": jnp.stack(root(5.0)),
        "scipy": scipy.params,
        "loss": jaxopt.loss.multiclass_logistic_loss(1, jnp.array([0.1, 0.6, -1.0])),
    }
