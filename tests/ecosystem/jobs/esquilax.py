"""Esquilax: agents that steer by their neighbours in space and send messages over a graph."""

from functools import partial

import esquilax
import jax
import jax.numpy as jnp

DISTRIBUTION = "esquilax"
# Agents near the border of a neighbourhood join or leave it by rounding.
TOLERANCE = 1e-5


@partial(
    esquilax.transforms.spatial, i_range=0.2, include_self=False,
    reduction=esquilax.reductions.Reduction(fn=(jnp.add, jnp.add), id=(0, jnp.zeros(2))),
)  # fmt: skip
def neighbours(params, a, b):
    return 1, b["heading"]


@esquilax.transforms.amap
def turn(params, inputs, *, key):
    heading, (count, total) = inputs
    mean = jnp.where(count > 0, total / jnp.maximum(count, 1), heading)
    heading = heading + params * (mean - heading) + 0.05 * jax.random.normal(key, (2,))
    return heading / jnp.linalg.norm(heading)


def first_state(key):
    one, other = jax.random.split(key)
    heading = jax.random.normal(other, (40, 2))
    return {
        "position": jax.random.uniform(one, (40, 2)),
        "heading": heading / jnp.linalg.norm(heading, axis=1, keepdims=True),
    }


def step(i, key, params, state):
    seen = neighbours(params, state, state, pos=state["position"])
    heading = turn(params, (state["heading"], seen), key=key)
    position = (state["position"] + 0.02 * heading) % 1.0
    return {"position": position, "heading": heading}, jnp.linalg.norm(heading.mean(0))


def main(timed):
    @timed
    @jax.jit
    def run(key):
        return esquilax.sim_runner(
            step, 0.3, first_state(jax.random.PRNGKey(5)), 20, key, show_progress=False
        )

    run(jax.random.PRNGKey(1))
    state, order, _ = run(jax.random.PRNGKey(0))
    return {"order": order, "position": state["position"]}
