"""mctx: Monte Carlo tree search with MuZero's, Gumbel's and a random policy over a small game."""

import jax
import jax.numpy as jnp
import mctx

DISTRIBUTION = "mctx"
TOLERANCE = 1e-5


def main(timed):
    actions, batch = 4, 3
    table = jax.random.normal(jax.random.key(0), (16, actions))

    def recurrent(params, key, action, embedding):
        position = (embedding * 3 + action + 1) % 16
        return (
            mctx.RecurrentFnOutput(
                reward=jnp.tanh(table[position, action]), discount=jnp.full(batch, 0.9),
                prior_logits=table[position], value=table[position].mean(-1),
            ),
            position,
        )  # fmt: skip

    start = jnp.array([1, 5, 9])
    root = mctx.RootFnOutput(prior_logits=table[start], value=jnp.zeros(batch), embedding=start)

    @timed
    @jax.jit
    def muzero(key):
        return mctx.muzero_policy(
            params=(), rng_key=key, root=root, recurrent_fn=recurrent, num_simulations=24,
            invalid_actions=jnp.zeros((batch, actions)).at[0, 2].set(1),
        )  # fmt: skip

    for _ in range(4):
        searched = muzero(jax.random.key(1))
    gumbel = jax.jit(
        lambda key: mctx.gumbel_muzero_policy(
            params=(), rng_key=key, root=root, recurrent_fn=recurrent, num_simulations=16,
            max_num_considered_actions=4,
        )
    )(jax.random.key(2))  # fmt: skip
    summary = searched.search_tree.summary()
    return {
        "action": searched.action,
        "weights": searched.action_weights,
        "visits": summary.visit_counts,
        "values": summary.value,
        "gumbel_action": gumbel.action,
        "gumbel_weights": gumbel.action_weights,
    }
