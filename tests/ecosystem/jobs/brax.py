"""Brax: articulated bodies in two physics pipelines, and updates of a policy by its loss of PPO."""

import functools

import jax
import jax.numpy as jnp
import optax
from brax import envs
from brax.envs.wrappers import training
from brax.training import acting
from brax.training.acme import running_statistics, specs
from brax.training.agents.ppo import losses, networks

DISTRIBUTION = "brax"
# Steps of the bodies amplify rounding. With 64 bits JAX and weft differ by 1e-15 in them, and by
# 3e-7 in what the networks, whose parameters have 32 bits, compute.
TOLERANCE = 1e-4


def rollout(env, key, length):
    state = env.reset(key)

    def advance(state, index):
        action = 0.4 * jnp.sin(0.3 * index + jnp.arange(env.action_size))
        state = env.step(state, action)
        return state, (state.pipeline_state.q, state.reward)

    return jax.lax.scan(advance, state, jnp.arange(length))[1]


def learn(timed):
    env = training.wrap(envs.get_environment("fast"), 32)
    nets = networks.make_ppo_networks(
        env.observation_size, env.action_size, running_statistics.normalize,
        policy_hidden_layer_sizes=(8, 8), value_hidden_layer_sizes=(8,),
    )  # fmt: skip
    keys = jax.random.split(jax.random.PRNGKey(1), 5)
    params = losses.PPONetworkParams(
        policy=nets.policy_network.init(keys[0]), value=nets.value_network.init(keys[1])
    )
    statistics = running_statistics.init_state(
        specs.Array((env.observation_size,), jnp.dtype("float32"))
    )
    optimizer = optax.adam(3e-3)
    state = jax.jit(env.reset)(jax.random.split(keys[2], 8))
    loss = jax.value_and_grad(losses.compute_ppo_loss, has_aux=True)

    @timed
    @jax.jit
    def update(params, moments, statistics, state, key):
        act, fit = jax.random.split(key)
        policy = networks.make_inference_fn(nets)((statistics, params.policy))
        state, data = acting.generate_unroll(env, state, policy, act, 16, ("truncation",))
        statistics = running_statistics.update(statistics, data.observation)
        data = jax.tree.map(lambda x: x.swapaxes(0, 1), data)
        (value, _), grads = loss(params, statistics, data, fit, nets)
        updates, moments = optimizer.update(grads, moments)
        return optax.apply_updates(params, updates), moments, statistics, state, value

    carry = (params, optimizer.init(params), statistics, state)
    values = []
    for key in jax.random.split(keys[3], 4):
        *carry, value = update(*carry, key)
        values.append(value)
    return {
        "losses": jnp.stack(values),
        "policy": carry[0].policy["params"]["hidden_0"]["kernel"],
        "mean": carry[2].mean,
        "observed": carry[3].obs,
    }


def main(timed):
    found = {}
    for name, backend in (("inverted_pendulum", "generalized"), ("reacher", "spring")):
        env = envs.get_environment(name, backend=backend)
        run = timed(jax.jit(functools.partial(rollout, env, length=20)))
        for _ in range(2):
            q, reward = run(jax.random.PRNGKey(0))
        found |= {f"{name}_q": q[-1], f"{name}_reward": reward}
    return found | learn(timed)
