"""Jraph: a graph network that learns the degree-weighted mean of neighbours, on padded batches."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax

DISTRIBUTION = "jraph"
# Thirty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def graphs(count):
    rng = np.random.default_rng(3)
    found = []
    for _ in range(count):
        n, e = rng.integers(3, 7), rng.integers(4, 10)
        found.append(
            jraph.GraphsTuple(
                nodes=rng.normal(size=(n, 3)).astype(np.float32),
                edges=rng.normal(size=(e, 2)).astype(np.float32),
                senders=rng.integers(0, n, e), receivers=rng.integers(0, n, e),
                globals=np.zeros((1, 2), np.float32),
                n_node=np.array([n]), n_edge=np.array([e]),
            )
        )  # fmt: skip
    return jraph.pad_with_graphs(jraph.batch_np(found), 48, 80, count + 1)


def network(params):
    dense = lambda name: lambda *x: jnp.tanh(jnp.concatenate(x, -1) @ params[name])
    return jraph.GraphNetwork(
        update_edge_fn=dense("edge"), update_node_fn=dense("node"), update_global_fn=dense("global")
    )


def main(timed):
    batch = graphs(6)
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "edge": jax.random.normal(keys[0], (2 + 3 + 3 + 2, 4)) / 3,
        "node": jax.random.normal(keys[1], (3 + 4 + 4 + 2, 5)) / 3,
        "global": jax.random.normal(keys[2], (5 + 4 + 2, 2)) / 3,
    }
    mask = jraph.get_graph_padding_mask(batch)
    target = jraph.segment_mean(
        batch.nodes[:, :2], jnp.repeat(jnp.arange(7), batch.n_node, total_repeat_length=48), 7
    )
    optimizer = optax.adam(0.02)
    state = optimizer.init(params)

    @timed
    @jax.jit
    def step(params, state):
        def loss(params):
            out = network(params)(batch).globals
            return jnp.sum(mask[:, None] * (out - jnp.tanh(target)) ** 2) / 6

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(30):
        params, state, value = step(params, state)
        losses.append(value)
    gat = jraph.GAT(
        lambda nodes: nodes @ params["node"][:3], lambda s, r, e: jnp.sum(s * r, -1, keepdims=True)
    )(batch)
    return {
        "losses": jnp.stack(losses),
        "globals": jax.jit(lambda p: network(p)(batch).globals)(params),
        "attention": gat.nodes,
        "softmax": jraph.segment_softmax(jnp.arange(6.0), jnp.array([0, 0, 1, 1, 1, 2]), 3),
    }
