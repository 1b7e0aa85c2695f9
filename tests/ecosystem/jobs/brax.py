"""Brax: an articulated swimmer in three physics pipelines, and a few updates of PPO on
a fast one.
"""

import functools

import jax
import jax.numpy as jnp
from brax import envs
from brax.training.agents.ppo import networks
from brax.training.agents.ppo import train as ppo

DISTRIBUTION = "brax"
# Contacts amplify rounding from step to step.
TOLERANCE = 1e-3


def rollout(env, key, length):
    state = env.reset(key)

    def advance(state, index):
        action = 0.4 * jnp.sin(0.3 * index + jnp.arange(env.action_size))
        state = env.step(state, action)
        return state, (state.pipeline_state.q, state.reward)

    return jax.lax.scan(advance, state, jnp.arange(length))[1]


def main(timed):
    found = {}
    for name, backend in (
        ("inverted_pendulum", "generalized"), ("reacher", "spring"), ("pusher", "positional"),
    ):  # fmt: skip
        env = envs.get_environment(name, backend=backend)
        run = timed(jax.jit(functools.partial(rollout, env, length=20)))
        for _ in range(2):
            q, reward = run(jax.random.PRNGKey(0))
        found |= {f"{name}_q": q[-1], f"{name}_reward": reward}
    _, params, metrics = ppo.train(
        environment=envs.get_environment("fast"), num_timesteps=512, episode_length=32,
        num_envs=16, batch_size=16, num_minibatches=2, unroll_length=4, num_evals=2,
        normalize_observations=True, seed=1, num_eval_envs=8,
        network_factory=functools.partial(
            networks.make_ppo_networks, policy_hidden_layer_sizes=(8, 8),
            value_hidden_layer_sizes=(8,),
        ),
    )  # fmt: skip
    return found | {
        "ppo_reward": metrics["eval/episode_reward"],
        "ppo_count": params[0].count if not hasattr(params[0].count, "lo") else params[0].count.lo,
        "policy": params[1]["params"]["hidden_0"]["bias"],
    }
