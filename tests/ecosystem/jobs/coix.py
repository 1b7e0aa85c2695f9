"""coix: importance weights of a guided program, and its evidence bound as a loss."""

import coix
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

DISTRIBUTION = "coix"


def main(timed):
    coix.set_backend("coix.numpyro")
    data = jnp.array([0.8, 1.1, 1.4, 0.9])

    def model(params, data):
        z = numpyro.sample("z", dist.Normal(0.0, 2.0))
        numpyro.sample("x", dist.Normal(z, 0.5).expand([4]).to_event(1), obs=data)
        return (params, data)

    def guide(params, data):
        numpyro.sample("z", dist.Normal(params["loc"], jnp.exp(params["scale"])))
        return (params, data)

    def loss(params, key):
        program = coix.propose(model, guide, loss_fn=coix.loss.iwae_loss)
        with numpyro.handlers.seed(rng_seed=key), numpyro.plate("particles", 16):
            _, _, metrics = coix.traced_evaluate(program)(params, data)
        return metrics["loss"], metrics["log_density"]

    params = {"loc": jnp.array(0.3), "scale": jnp.array(-0.5)}
    step = timed(jax.jit(jax.value_and_grad(loss, has_aux=True)))
    losses = []
    for key in jax.random.split(jax.random.PRNGKey(0), 12):
        (value, density), grads = step(params, key)
        params = jax.tree.map(lambda p, g: p - 0.02 * g, params, grads)
        losses.append(value)
    return {"losses": jnp.stack(losses), "density": density, **params}
