"""Flashbax: replay buffers of items, trajectories and priorities, filled and sampled when
compiled.
"""

import flashbax as fbx
import jax
import jax.numpy as jnp

DISTRIBUTION = "flashbax"


def main(timed):
    step = {"observation": jnp.zeros(2), "reward": jnp.array(0.0)}
    flat = fbx.make_flat_buffer(max_length=64, min_length=8, sample_batch_size=6, add_batch_size=4)
    trajectories = fbx.make_trajectory_buffer(
        add_batch_size=4, sample_batch_size=3, sample_sequence_length=4, period=1,
        min_length_time_axis=4, max_length_time_axis=16,
    )  # fmt: skip
    priorities = fbx.make_prioritised_flat_buffer(
        max_length=64, min_length=8, sample_batch_size=6, add_batch_size=4
    )

    @timed
    @jax.jit
    def fill(states, key):
        observation = jax.random.normal(key, (4, 2))
        item = {"observation": observation, "reward": observation.sum(1)}
        return [
            flat.add(states[0], item),
            trajectories.add(states[1], jax.tree.map(lambda x: x[:, None], item)),
            priorities.add(states[2], item),
        ]

    states = [buffer.init(step) for buffer in (flat, trajectories, priorities)]
    for key in jax.random.split(jax.random.key(0), 12):
        states = fill(states, key)
    key = jax.random.key(1)
    sampled = jax.jit(flat.sample)(states[0], key).experience
    sequence = jax.jit(trajectories.sample)(states[1], key).experience
    chosen = jax.jit(priorities.sample)(states[2], key)
    state = jax.jit(priorities.set_priorities)(states[2], chosen.indices, jnp.arange(1.0, 7.0))
    again = jax.jit(priorities.sample)(state, key)
    return {
        "first": sampled.first["observation"],
        "second": sampled.second["reward"],
        "sequence": sequence["observation"],
        "chosen": chosen.indices,
        "probabilities": again.probabilities,
        "can_sample": flat.can_sample(states[0]),
    }
