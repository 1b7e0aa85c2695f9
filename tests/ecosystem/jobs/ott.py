"""OTT: optimal transport between clouds of points, balanced or not, its derivatives, matching of
spaces, and sorting by it.
"""

import jax
import jax.numpy as jnp
from ott.geometry import costs, geometry, pointcloud
from ott.solvers import linear, quadratic
from ott.solvers.linear import implicit_differentiation
from ott.tools import sinkhorn_divergence, soft_sort

DISTRIBUTION = "ott-jax"
# Sinkhorn's iterations are logarithms of sums of exponentials of costs over a small epsilon.
TOLERANCE = 1e-5


def main(timed):
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (24, 2))
    y = jax.random.normal(keys[1], (30, 2)) + jnp.array([1.0, -0.5])
    b = jax.nn.softmax(jax.random.normal(keys[2], (30,)))

    @timed
    @jax.jit
    def transport(x, y, b):
        geom = pointcloud.PointCloud(x, y, epsilon=0.1)
        out = linear.solve(geom, b=b, threshold=1e-4)
        return out.matrix, out.reg_ot_cost, out.converged

    for _ in range(3):
        matrix, cost, converged = transport(x, y, b)

    def unbalanced(x):
        geom = pointcloud.PointCloud(x, y, cost_fn=costs.PNormP(1.5), epsilon=0.2)
        return linear.solve(geom, b=b, tau_a=0.9, tau_b=0.95).reg_ot_cost

    def divergence(x):
        return sinkhorn_divergence.sinkdiv(x, y, epsilon=0.2)[0]

    # A gradient flow: the points move to those of the other cloud.
    @timed
    @jax.jit
    def flow(x):
        return x - 2.0 * jax.grad(divergence)(x)

    moved = x
    for _ in range(5):
        moved = flow(moved)

    implicit = implicit_differentiation.ImplicitDiff(solver_kwargs={"rtol": 1e-5, "atol": 1e-5})

    # Derivatives of the plan pass through the fixed point by its implicit function.
    def sent(epsilon):
        out = linear.solve(
            pointcloud.PointCloud(x, y, epsilon=epsilon), b=b, tau_a=0.8, tau_b=0.8,
            threshold=1e-5, implicit_diff=implicit, max_iterations=200,
        )  # fmt: skip
        return jnp.sum(out.matrix[0] * jnp.arange(30.0))

    near = geometry.Geometry(jnp.sum((x[:, None] - x) ** 2, -1))
    far = geometry.Geometry(jnp.sum((y[:, None] - y) ** 2, -1))
    match = jax.jit(lambda: quadratic.solve(near, far, epsilon=1.0, max_iterations=10))()
    scores = jnp.array([0.3, -1.2, 2.0, 0.7, 0.1])
    return {
        "matrix": matrix,
        "cost": cost,
        "converged": converged,
        "unbalanced": jax.jit(jax.grad(unbalanced))(x),
        "moved": moved,
        "implicit": jax.jit(jax.grad(sent))(0.5),
        "match": match.matrix,
        "sorted": jax.jit(soft_sort.sort)(scores),
    }
