"""jaxlie: rigid motions, their exponentials and tangents, and a pose fitted on the manifold."""

import jax
import jax.numpy as jnp
import jaxlie

DISTRIBUTION = "jaxlie"


def main(timed):
    keys = jax.random.split(jax.random.key(0), 3)
    points = jax.random.normal(keys[0], (10, 3))
    truth = jaxlie.SE3.exp(jnp.array([0.5, -0.2, 0.1, 0.3, -0.4, 0.8]))
    moved = jax.vmap(truth.apply)(points)

    def loss(pose):
        return jnp.mean((jax.vmap(pose.apply)(points) - moved) ** 2)

    @timed
    @jax.jit
    def step(pose):
        value, tangent = jaxlie.manifold.value_and_grad(loss)(pose)
        return jaxlie.manifold.rplus(pose, -0.3 * tangent), value

    pose, losses = jaxlie.SE3.identity(), []
    for _ in range(30):
        pose, value = step(pose)
        losses.append(value)
    turn = jaxlie.SO3.sample_uniform(keys[1])
    return {
        "losses": jnp.stack(losses),
        "pose": pose.wxyz_xyz,
        "log": truth.log(),
        "matrix": turn.as_matrix(),
        "euler": jnp.stack(turn.as_rpy_radians()),
        "adjoint": truth.adjoint(),
        "between": jaxlie.manifold.rminus(
            jaxlie.SO2.from_radians(0.3), jaxlie.SO2.from_radians(1.0)
        ),
        "jacobian": jax.jacfwd(lambda v: jaxlie.SO3.exp(v).log())(jnp.array([0.1, 0.2, -0.3])),
    }
