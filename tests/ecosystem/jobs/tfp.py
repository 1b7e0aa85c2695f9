"""TensorFlow Probability on JAX: distributions and bijectors, a hierarchical model sampled by
Hamiltonian Monte Carlo, a variational fit, a Gaussian process and a hidden Markov model.
"""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

DISTRIBUTION = "tfp-nightly"
# Trajectories of the sampler amplify rounding.
TOLERANCE = 1e-5
tfb, tfd = tfp.bijectors, tfp.distributions


def main(timed):
    keys = jax.random.split(jax.random.PRNGKey(0), 5)
    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]) / 10
    spread = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]) / 10
    model = tfd.JointDistributionSequential([
        tfd.Normal(0.0, 1.0, name="mean"),
        tfd.LogNormal(0.0, 0.5, name="scale"),
        lambda scale, mean: tfd.Independent(
            tfd.Normal(mean[..., None] * jnp.ones(8), scale[..., None]), 1
        ),
        lambda each: tfd.Independent(tfd.Normal(each, spread), 1),
    ])  # fmt: skip
    target = lambda mean, scale, each: model.log_prob([mean, scale, each, effects])
    kernel = tfp.mcmc.TransformedTransitionKernel(
        tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.2, num_leapfrog_steps=3),
        [tfb.Identity(), tfb.Exp(), tfb.Identity()],
    )

    @timed
    @jax.jit
    def sample(key):
        return tfp.mcmc.sample_chain(
            15, [jnp.zeros(()), jnp.ones(()), jnp.zeros(8)], kernel=kernel, seed=key,
            trace_fn=lambda _, results: results.inner_results.is_accepted,
        )  # fmt: skip

    sample(keys[0])
    (means, scales, each), accepted = sample(keys[1])

    @jax.jit
    def mixture(x):
        mixed = tfd.MixtureSameFamily(
            tfd.Categorical(probs=jnp.array([0.3, 0.7])),
            tfd.MultivariateNormalTriL(
                jnp.array([[0.0, 1.0], [2.0, -1.0]]), jnp.array([[1.0, 0.0], [0.4, 0.8]])
            ),
        )
        return mixed.sample(5, seed=keys[2]), mixed.log_prob(x)

    flow = tfb.Chain([tfb.Shift(1.0), tfb.Softplus(), tfb.Scale(jnp.array([0.5, 2.0]))])
    drawn = tfd.TransformedDistribution(tfd.Normal(jnp.zeros(2), 1.0), flow)

    @jax.jit
    def process(amplitude):
        kernel = tfp.math.psd_kernels.MaternFiveHalves(amplitude, 0.7)
        points = jnp.linspace(0.0, 2.0, 6)[:, None]
        gaussian = tfd.GaussianProcess(kernel, points, observation_noise_variance=0.1)
        return gaussian.log_prob(effects[:6])

    @jax.jit
    def hidden(seen):
        chain = tfd.HiddenMarkovModel(
            tfd.Categorical(probs=jnp.array([0.6, 0.4])),
            tfd.Categorical(probs=jnp.array([[0.8, 0.2], [0.3, 0.7]])),
            tfd.Normal(jnp.array([0.0, 1.5]), 1.0),
            num_steps=8,
        )
        return chain.log_prob(seen), chain.posterior_mode(seen)

    likelihood, mode = hidden(effects)
    found, density = mixture(jnp.array([[0.5, 0.5], [2.0, -1.0]]))
    return {
        "means": means,
        "scales": scales,
        "each": each,
        "accepted": accepted,
        "sample": found,
        "density": density,
        "flow": jax.jit(jax.vmap(jax.grad(lambda x: drawn.log_prob(x).sum())))(
            jnp.array([[1.5, 1.7], [2.0, 3.0]])
        ),
        "process": jnp.stack(jax.jit(jax.value_and_grad(process))(1.3)),
        "hidden": likelihood,
        "mode": mode,
        "divergence": jax.jit(lambda a, b: tfd.kl_divergence(tfd.Gamma(a, 1.0), tfd.Gamma(b, 2.0)))(
            1.5, 2.5
        ),
    }
