"""JAXNS: nested sampling of a line through noisy points: its evidence and its posterior."""

import jax
import jax.numpy as jnp
from jaxns.core import NestedSampler
from jaxns.model import Model
from jaxns.priors import Prior
from tensorflow_probability.substrates import jax as tfp

DISTRIBUTION = "jaxns"
tfpd = tfp.distributions


def line(places, seen, noise):
    offset = Prior(tfpd.Normal(0.0, 1.0), name="offset").realise()
    slope = Prior(tfpd.Uniform(-3.0, 3.0), name="slope").realise()
    return jnp.sum(tfpd.Normal(offset + slope * places, noise).log_prob(seen))


def main(timed):
    places = jnp.linspace(0.0, 1.0, 6)
    noise = 0.3 * jax.random.normal(jax.random.PRNGKey(3), (6,))
    args = (places, 0.4 + 1.3 * places + noise, jnp.asarray(0.3))
    model = Model(prior_model=line)
    sampler = NestedSampler(model=model, root_allocation_degree=30, max_samples=600)
    run = timed(lambda key: sampler.run(key=key, args=args))
    results = run(jax.random.PRNGKey(6)).to_result().trim()
    posterior = results.resample(50, key=jax.random.PRNGKey(7))
    return {
        "evidence": results.log_Z_mean,
        "uncertainty": results.log_Z_uncert,
        "slope": posterior.integrate_fn_over_posterior(lambda x: x["slope"]),
    }
