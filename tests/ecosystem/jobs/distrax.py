"""Distrax: a flow of coupling layers fitted by maximum likelihood, mixtures, and a hidden Markov
model.
"""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

DISTRIBUTION = "distrax"
# Forty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def first_params(key):
    one, other = jax.random.split(key)
    layer = lambda k: {
        "w": 0.1 * jax.random.normal(k, (1, 16)),
        "b": jnp.zeros(16),
        "out": 0.1 * jax.random.normal(jax.random.fold_in(k, 1), (16, 2)),
    }
    return [layer(one), layer(other)]


def flow(params):
    def conditioner(layer):
        return lambda x: jnp.tanh(x[..., :1] @ layer["w"] + layer["b"]) @ layer["out"]

    layers = []
    for layer, flip in zip(params, (False, True)):
        coupling = distrax.SplitCoupling(
            split_index=1, event_ndims=1, swap=flip, conditioner=conditioner(layer),
            bijector=lambda p: distrax.ScalarAffine(p[..., :1], log_scale=p[..., 1:]),
        )  # fmt: skip
        layers.append(coupling)
    base = distrax.Independent(distrax.Normal(jnp.zeros(2), jnp.ones(2)), 1)
    return distrax.Transformed(base, distrax.Chain(layers))


def hidden_markov():
    model = distrax.HMM(
        init_dist=distrax.Categorical(probs=jnp.array([0.6, 0.4])),
        trans_dist=distrax.Categorical(probs=jnp.array([[0.9, 0.1], [0.3, 0.7]])),
        obs_dist=distrax.Normal(jnp.array([-1.0, 2.0]), jnp.array([0.5, 0.8])),
    )
    observed = jnp.array([-1.2, -0.7, 1.8, 2.2, 0.1])
    _, _, posterior, likelihood = model.forward_backward(observed)
    return posterior, likelihood, model.viterbi(observed)


def main(timed):
    rng = np.random.default_rng(4)
    z = rng.normal(size=(200, 2))
    x = jnp.asarray(np.stack([z[:, 0], 0.5 * z[:, 1] + z[:, 0] ** 2 / 2], 1), jnp.float32)
    optimizer = optax.adam(1e-2)
    params = first_params(jax.random.key(0))
    state = optimizer.init(params)

    @timed
    @jax.jit
    def step(params, state):
        loss = lambda p: -flow(p).log_prob(x).mean()
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(40):
        params, state, value = step(params, state)
        losses.append(value)
    samples, density = flow(params).sample_and_log_prob(seed=jax.random.key(3), sample_shape=(6,))
    mixture = distrax.MixtureSameFamily(
        distrax.Categorical(logits=jnp.array([0.1, 0.5, -0.4])),
        distrax.Normal(jnp.array([-2.0, 0.0, 2.0]), jnp.array([0.5, 1.0, 0.3])),
    )
    posterior, likelihood, path = hidden_markov()
    # Inverse and determinant are derived from the jaxpr of the function.
    derived = distrax.Lambda(lambda v: jnp.tanh(2.0 * v) + 1.0)
    normal = distrax.MultivariateNormalTri(jnp.zeros(3), jnp.tril(jnp.ones((3, 3))))
    return {
        "losses": jnp.stack(losses),
        "samples": samples,
        "density": density,
        "mixture": mixture.log_prob(jnp.linspace(-3, 3, 7)),
        "mixed": mixture.sample(seed=jax.random.key(5), sample_shape=(5,)),
        "divergence": distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(1.0, 2.0)),
        "posterior": posterior,
        "likelihood": likelihood,
        "path": path,
        "inverse": derived.inverse(jnp.array([0.5, 1.2])),
        "logdet": derived.forward_log_det_jacobian(jnp.array([0.1, -0.4])),
        "joint": normal.log_prob(jnp.array([0.1, 0.2, 0.3])),
        "entropy": distrax.Categorical(logits=jnp.arange(4.0)).entropy(),
        "spline": distrax.RationalQuadraticSpline(jnp.linspace(-1, 1, 13), -2.0, 2.0).forward(
            jnp.linspace(-3, 3, 5)
        ),
    }
