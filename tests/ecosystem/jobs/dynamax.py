"""Dynamax: Gaussian hidden Markov models by expectation maximization, and Kalman smoothing."""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_smoother, parallel_lgssm_smoother

DISTRIBUTION = "dynamax"
# Ten steps of expectation maximization amplify the rounding of the first.
TOLERANCE = 1e-5


def main(timed):
    model = GaussianHMM(num_states=3, emission_dim=2)
    means = jnp.array([[-3.0, 0.0], [0.0, 3.0], [3.0, -1.0]])
    true, _ = model.initialize(
        jax.random.PRNGKey(0), emission_means=means,
        transition_matrix=0.05 / 2 * jnp.ones((3, 3)) + (0.95 - 0.025) * jnp.eye(3),
        emission_covariances=jnp.tile(0.3 * jnp.eye(2), (3, 1, 1)),
    )  # fmt: skip
    states, emissions = model.sample(true, jax.random.PRNGKey(1), 120)
    params, props = model.initialize(jax.random.PRNGKey(2), method="prior")
    fit = timed(lambda: model.fit_em(params, props, emissions, num_iters=10, verbose=False))
    fit()
    fitted, likelihoods = fit()
    path = model.most_likely_states(fitted, emissions)
    kalman = LinearGaussianSSM(2, 1)
    dynamics, _ = kalman.initialize(
        jax.random.PRNGKey(3), dynamics_weights=jnp.array([[1.0, 0.1], [-0.1, 0.98]]),
        emission_weights=jnp.array([[1.0, 0.0]]),
    )  # fmt: skip
    _, observed = kalman.sample(dynamics, jax.random.PRNGKey(4), 40)
    smooth = timed(jax.jit(lgssm_smoother))
    for _ in range(5):
        posterior = smooth(dynamics, observed)
    parallel = parallel_lgssm_smoother(dynamics, observed)
    return {
        "states": states,
        "likelihoods": likelihoods,
        "means": fitted.emissions.means,
        "path": path,
        "smoothed": posterior.smoothed_means,
        "filtered": posterior.marginal_loglik,
        "parallel": parallel.smoothed_means,
    }
