"""RLax: losses of temporal differences, returns, policies and exploration on recorded episodes."""

import jax
import jax.numpy as jnp
import rlax

DISTRIBUTION = "rlax"
TOLERANCE = 1e-5


def main(timed):
    keys = jax.random.split(jax.random.key(0), 6)
    q = jax.random.normal(keys[0], (12, 3))
    actions = jax.random.randint(keys[1], (12,), 0, 3)
    rewards = jax.random.normal(keys[2], (12,))
    discounts = jnp.full(12, 0.9).at[7].set(0.0)
    values = jax.random.normal(keys[3], (13,))

    @timed
    @jax.jit
    def loss_and_grad(q):
        def loss(q):
            errors = jax.vmap(rlax.double_q_learning)(
                q[:-1], actions[:-1], rewards[:-1], discounts[:-1], q[1:], q[1:] + 0.1
            )
            return jnp.mean(rlax.huber_loss(errors, 1.0))

        return jax.value_and_grad(loss)(q)

    for _ in range(5):
        loss, grad = loss_and_grad(q)
    corrected = rlax.vtrace_td_error_and_advantage(
        values[:-1], values[1:], rewards, discounts, jnp.exp(0.2 * values[1:])
    )
    atoms = jnp.linspace(-2, 2, 11)
    logits = jax.random.normal(keys[4], (3, 11))
    return {
        "loss": loss,
        "grad": grad,
        "returns": rlax.lambda_returns(rewards, discounts, values[1:], 0.8),
        "advantage": rlax.truncated_generalized_advantage_estimation(
            rewards, discounts, 0.95, values
        ),
        "corrected": corrected.pg_advantage,
        "policy": rlax.policy_gradient_loss(q, actions, rewards, jnp.ones(12)),
        "categorical": rlax.categorical_q_learning(
            atoms, logits, jnp.array(1), jnp.array(0.3), jnp.array(0.9), atoms, logits[::-1]
        ),
        "projected": rlax.categorical_l2_project(atoms + 0.13, jax.nn.softmax(logits[0]), atoms),
        "greedy": rlax.epsilon_greedy(0.2).sample(keys[5], q),
    }
