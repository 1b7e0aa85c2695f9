"""gymnax: four environments stepped in batches by random and linear policies."""

import gymnax
import jax
import jax.numpy as jnp

DISTRIBUTION = "gymnax"
# Episodes end where a value crosses a bound.
TOLERANCE = 1e-5


def rollout(env, params, key, length):
    first, key = jax.random.split(key)
    observation, state = env.reset(first, params)

    def advance(carry, key):
        observation, state = carry
        one, other = jax.random.split(key)
        action = env.action_space(params).sample(one)
        observation, state, reward, done, *_ = env.step(other, state, action, params)
        return (observation, state), (observation.astype(jnp.float32).ravel()[:4], reward, done)

    return jax.lax.scan(advance, (observation, state), jax.random.split(key, length))[1]


def main(timed):
    found = {}
    for name in ("CartPole-v1", "Pendulum-v1", "Catch-bsuite", "Breakout-MinAtar"):
        env, params = gymnax.make(name)
        batch = jax.vmap(lambda key, env=env, params=params: rollout(env, params, key, 40))
        run = timed(jax.jit(batch))
        for _ in range(3):
            seen, reward, done = run(jax.random.split(jax.random.key(0), 5))
        short = name.split("-")[0].lower()
        found |= {f"{short}_seen": seen, f"{short}_reward": reward, f"{short}_done": done.sum()}
    return found
