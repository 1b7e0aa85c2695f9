"""Jumanji: snakes, puzzles and packings, stepped with random actions in batches, some of them
begun anew when they end.
"""

import jax
import jax.numpy as jnp
import jumanji
from jumanji import wrappers

DISTRIBUTION = "jumanji"


def rollout(env, actions, key, steps):
    """Rewards, and the observations of the last step."""

    def step(carry, key):
        state, seen = carry
        state, seen = env.step(state, actions(key, seen.observation))
        return (state, seen), (seen.reward, seen.step_type)

    key, first = jax.random.split(key)
    keys = jax.random.split(key, steps)
    (_, seen), (rewards, kinds) = jax.lax.scan(step, env.reset(first), keys)
    return rewards, kinds, seen.observation


def allowed(key, observation):
    """An action among those that a mask allows."""
    mask = observation.action_mask
    scores = jnp.where(mask, jax.random.gumbel(key, mask.shape), -jnp.inf)
    return jnp.argmax(scores)


def main(timed):
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    snake = wrappers.AutoResetWrapper(jumanji.make("Snake-v1", num_rows=5, num_cols=5))
    play = timed(jax.jit(jax.vmap(lambda key: rollout(snake, allowed, key, 25))))
    for one in keys:
        rewards, kinds, seen = play(jax.random.split(one, 6))

    puzzle = jumanji.make("Game2048-v1")
    scores, _, board = jax.jit(lambda key: rollout(puzzle, allowed, key, 30))(keys[1])

    knapsack = jumanji.make("Knapsack-v1")
    values, ends, packed = jax.jit(lambda key: rollout(knapsack, allowed, key, 15))(keys[2])

    tour = jumanji.make("TSP-v1")
    lengths, _, _ = jax.jit(lambda key: rollout(tour, allowed, key, 20))(keys[0])
    cube = jumanji.make("RubiksCube-partly-scrambled-v0")
    turns = cube.action_spec.num_values
    _, _, sides = jax.jit(
        lambda key: rollout(
            cube, lambda key, _: jax.random.randint(key, (3,), 0, turns), key, 5
        )
    )(keys[1])  # fmt: skip
    return {
        "rewards": rewards,
        "kinds": kinds,
        "grid": seen.grid,
        "scores": scores,
        "board": board.board,
        "values": values,
        "ends": ends,
        "packed": packed.packed_items,
        "lengths": lengths,
        "sides": sides.cube,
    }
