"""NumPyro: a hierarchical model by NUTS and by variational inference, and predictions of both."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

DISTRIBUTION = "numpyro"
# A chain of Hamiltonian steps doubles a difference of rounding every few steps, so it is run in 64
# bits: in 32, later samples have nothing in common but their distribution.
TOLERANCE = 1e-5

numpyro.enable_x64()


def groups(effect, deviation=None):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(3))
    with numpyro.plate("group", effect.shape[0]):
        raw = numpyro.sample("raw", dist.Normal(0, 1))
        each = numpyro.deterministic("each", mean + spread * raw)
        numpyro.sample("observed", dist.Normal(each, effect), obs=deviation)


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights + bias), obs=y)


def densities():
    x = jnp.array([0.3, 0.7, 1.9])
    kinds = {
        "normal": dist.Normal(0.5, 2.0),
        "student": dist.StudentT(4.0, 0.0, 1.5),
        "gamma": dist.Gamma(2.0, 1.5),
        "beta": dist.TransformedDistribution(
            dist.Beta(2.0, 3.0), dist.transforms.AffineTransform(0.0, 2.0)
        ),
        "truncated": dist.TruncatedNormal(0.5, 1.0, low=0.0, high=2.0),
    }
    found = {f"density_{name}": kind.log_prob(x) for name, kind in kinds.items()}
    covariance = dist.LKJCholesky(3, 2.0).sample(jax.random.PRNGKey(9))
    normal = dist.MultivariateNormal(jnp.zeros(3), scale_tril=covariance)
    return found | {"correlation": covariance, "density_joint": normal.log_prob(x)}


def main(timed):
    rng = np.random.default_rng(8)
    scale = jnp.asarray(rng.uniform(8, 18, 6), jnp.float64)
    measured = jnp.asarray(rng.normal(5, 10, 6), jnp.float64)
    sampler = MCMC(NUTS(groups), num_warmup=40, num_samples=30, progress_bar=False)
    run = timed(lambda key: (sampler.run(key, scale, measured), sampler.get_samples())[1])
    samples = run(jax.random.PRNGKey(0))
    samples = run(jax.random.PRNGKey(0))
    x = jnp.asarray(rng.normal(size=(60, 3)), jnp.float64)
    y = jnp.asarray((rng.uniform(size=60) < 0.5 + 0.3 * np.sign(x[:, 0])), jnp.int32)
    guide = AutoNormal(regression)
    svi = SVI(regression, guide, numpyro.optim.Adam(0.05), Trace_ELBO(num_particles=4))
    fit = timed(lambda: svi.run(jax.random.PRNGKey(1), 100, x, y, progress_bar=False))
    result = fit()
    predictive = Predictive(regression, guide=guide, params=result.params, num_samples=20)
    drawn = predictive(jax.random.PRNGKey(2), x[:5])["y"]
    return {
        "first_samples": samples["mean"][:4],
        "mean": samples["mean"].mean(),
        "spread": samples["spread"].mean(),
        "each": samples["each"].mean(0),
        "losses": result.losses[::10],
        "location": result.params["weights_auto_loc"],
        "drawn": drawn.mean(0),
        **densities(),
    }
