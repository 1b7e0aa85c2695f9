"""distreqx: distributions and bijectors as modules, and a mixture fitted by Optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from distreqx import bijectors, distributions

DISTRIBUTION = "distreqx"
# Sixty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def mixture(params):
    components = eqx.filter_vmap(distributions.Normal)(params["loc"], jnp.exp(params["scale"]))
    return distributions.MixtureSameFamily(distributions.Categorical(params["logits"]), components)


def main(timed):
    rng = np.random.default_rng(1)
    x = np.where(rng.uniform(size=300) < 0.3, rng.normal(-2, 0.5, 300), rng.normal(1.5, 1.0, 300))
    x = jnp.asarray(x, jnp.float32)
    params = {"loc": jnp.array([-1.0, 1.0]), "scale": jnp.zeros(2), "logits": jnp.zeros(2)}
    optimizer = optax.adam(0.05)
    state = optimizer.init(params)

    @timed
    @eqx.filter_jit
    def step(params, state):
        loss = lambda p: -jax.vmap(mixture(p).log_prob)(x).mean()
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(60):
        params, state, value = step(params, state)
        losses.append(value)
    normal = distributions.MultivariateNormalTri(jnp.ones(3), jnp.tril(jnp.ones((3, 3))))
    squashed = distributions.Transformed(
        distributions.Normal(jnp.array(0.2), jnp.array(0.5)),
        bijectors.Chain([bijectors.Tanh(), bijectors.ScalarAffine(jnp.array(0.1), jnp.array(2.0))]),
    )
    sample, density = squashed.sample_and_log_prob(jax.random.key(0))
    return {
        "losses": jnp.stack(losses),
        **params,
        "joint": normal.sample(jax.random.key(1)),
        "density": normal.log_prob(jnp.zeros(3)),
        "squashed": jnp.stack([sample, density]),
        "divergence": distributions.Normal(jnp.array(0.0), jnp.array(1.0)).kl_divergence(
            distributions.Normal(jnp.array(1.0), jnp.array(2.0))
        ),
    }
