"""Esquilax: agents that steer by their neighbours in space and send messages over a graph."""

import esquilax
import jax
import jax.numpy as jnp

DISTRIBUTION = "esquilax"
# Agents near the border of a neighbourhood join or leave it by rounding.
TOLERANCE = 1e-4


@esquilax.transforms.spatial(
    i_range=0.2, reduction=(jnp.add, jnp.add), default=(0, jnp.zeros(2)), include_self=False
)
def neighbours(params, a, b):
    return 1, b["heading"]


@esquilax.transforms.amap
def turn(params, inputs, key):
    heading, (count, total) = inputs
    mean = jnp.where(count > 0, total / jnp.maximum(count, 1), heading)
    heading = heading + params * (mean - heading) + 0.05 * jax.random.normal(key, (2,))
    return heading / jnp.linalg.norm(heading)


class Flock(esquilax.Sim):
    speed: float

    def default_params(self):
        return 0.3

    def initial_state(self, key):
        one, other = jax.random.split(key)
        heading = jax.random.normal(other, (40, 2))
        return {
            "position": jax.random.uniform(one, (40, 2)),
            "heading": heading / jnp.linalg.norm(heading, axis=1, keepdims=True),
        }

    def step(self, i, key, params, state):
        seen = neighbours(params, state, state, pos=state["position"])
        heading = turn(params, (state["heading"], seen), key=key)
        position = (state["position"] + self.speed * heading) % 1.0
        return {"position": position, "heading": heading}, jnp.linalg.norm(heading.mean(0))


def main(timed):
    flock = Flock(speed=0.02)
    run = timed(
        lambda: esquilax.sim_runner(flock, 20, jax.random.PRNGKey(0), show_progress=False)
    )
    run()
    state, order = run()

    @esquilax.transforms.edge_map("add")
    def send(params, start, end, edge):
        return params * (start - end) + edge

    edges = jnp.array([[0, 0, 1, 2], [1, 2, 2, 0]])
    sent = send(0.5, jnp.arange(3.0), jnp.ones(3), jnp.arange(4.0), edge_idxs=edges)
    return {"order": order, "position": state["position"], "sent": sent}
