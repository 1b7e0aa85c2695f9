"""Pgx: many games at once, played by random legal moves and by a small network that learns from
them by policy gradients.
"""

import jax
import jax.numpy as jnp
import optax
import pgx

DISTRIBUTION = "pgx"


def random_move(key, mask):
    return jax.random.categorical(key, jnp.where(mask, 0.0, -1e9), axis=-1)


def play(env, length, games):
    """Moves at random from the start; what happened, and the last states."""

    @jax.jit
    def run(key):
        first, rest = jax.random.split(key)
        state = jax.vmap(env.init)(jax.random.split(first, games))

        def advance(state, key):
            chosen, *chance = jax.random.split(key, games + 1)
            action = random_move(chosen, state.legal_action_mask)
            state = jax.vmap(env.step)(state, action, jnp.stack(chance))
            return state, (action, state.rewards.sum(0), state.terminated.sum())

        state, (actions, rewards, ended) = jax.lax.scan(
            advance, state, jax.random.split(rest, length)
        )
        return actions, rewards, ended, state.observation

    return run


def main(timed):
    found = {}
    for name, length in (("tic_tac_toe", 9), ("connect_four", 24)):
        run = timed(play(pgx.make(name), length, 8))
        for seed in range(3):
            actions, rewards, ended, observation = run(jax.random.PRNGKey(seed))
        found |= {f"{name}_actions": actions, f"{name}_rewards": rewards, f"{name}_ended": ended}
        found[f"{name}_observation"] = observation

    env, games = pgx.make("kuhn_poker"), 32
    size = env.init(jax.random.PRNGKey(0)).observation.size
    params = {"w": jnp.zeros((size, env.num_actions)), "b": jnp.zeros(env.num_actions)}
    optimizer = optax.sgd(0.5)

    def logits(params, state):
        scores = state.observation.reshape(games, -1).astype(jnp.float32) @ params["w"]
        return jnp.where(state.legal_action_mask, scores + params["b"], -1e9)

    def loss(params, key):
        first, rest = jax.random.split(key)
        state = jax.vmap(env.init)(jax.random.split(first, games))

        def advance(carried, key):
            state, log_probability, rewards = carried
            scores = logits(params, state)
            action = jax.random.categorical(key, scores)
            chosen = jax.nn.log_softmax(scores)[jnp.arange(games), action]
            mover = jax.nn.one_hot(state.current_player, 2) * ~state.terminated[:, None]
            state = jax.vmap(env.step)(state, action)
            return (state, log_probability + mover * chosen[:, None], rewards + state.rewards), None

        start = (state, jnp.zeros((games, 2)), jnp.zeros((games, 2)))
        (_, log_probability, rewards), _ = jax.lax.scan(advance, start, jax.random.split(rest, 3))
        return -jnp.mean(jnp.sum(log_probability * rewards, axis=1)), rewards

    @timed
    @jax.jit
    def learn(params, state, key):
        (value, rewards), grads = jax.value_and_grad(loss, has_aux=True)(params, key)
        updates, state = optimizer.update(grads, state)
        return value, rewards, optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    for key in jax.random.split(jax.random.PRNGKey(1), 10):
        value, rewards, params, state = learn(params, state, key)
    return found | {"value": value, "rewards": rewards, "w": params["w"]}
