"""GPJax: Gaussian processes fitted by gradient descent and L-BFGS, a classifier, and a sparse
variational one in batches.
"""

import gpjax as gpx
import jax
import jax.numpy as jnp
import optax

DISTRIBUTION = "gpjax"
# The library factorizes kernels of near points and asks for 64 bits.
jax.config.update("jax_enable_x64", True)


def main(timed):
    keys = jax.random.split(jax.random.key(1), 4)
    x = jnp.sort(jax.random.uniform(keys[0], (25, 1), minval=-3.0, maxval=3.0), axis=0)
    y = jnp.sin(2.0 * x) + 0.1 * jax.random.normal(keys[1], x.shape)
    data, places = gpx.Dataset(X=x, y=y), jnp.linspace(-3.0, 3.0, 9)[:, None]
    kernel = gpx.kernels.RBF() + gpx.kernels.Matern32(lengthscale=0.8)
    prior = gpx.gps.Prior(kernel=kernel, mean_function=gpx.mean_functions.Constant())
    model = prior * gpx.likelihoods.Gaussian(obs_stddev=0.3)

    def loss(model, data):
        return -gpx.objectives.conjugate_mll(model, data)

    @timed
    def fit(model):
        return gpx.fit(
            model=model, objective=loss, train_data=data, optim=optax.adam(0.05),
            num_iters=25, key=keys[2], verbose=False,
        )  # fmt: skip

    fitted, losses = fit(model)
    predicted = jax.jit(lambda model: model.predict(places, data).mean)(fitted)
    spread = jax.jit(lambda model: model.predict(places, data, covariance="diagonal").variance)
    _, least = gpx.fit_lbfgs(model=model, objective=loss, train_data=data, max_iters=5)

    labels = gpx.Dataset(X=x, y=(y > 0).astype(float))
    latent = prior * gpx.likelihoods.Bernoulli()
    sparse = gpx.variational_families.VariationalGaussian(
        model=latent, inducing_inputs=jnp.linspace(-3.0, 3.0, 6)[:, None]
    )
    classifier, bounds = gpx.fit(
        model=sparse, objective=lambda family, batch: -gpx.objectives.elbo(family, batch),
        train_data=labels, optim=optax.adam(0.02), num_iters=15, batch_size=8, key=keys[3],
        verbose=False,
    )  # fmt: skip
    return {
        "losses": losses,
        "mean": predicted,
        "variance": spread(fitted),
        "least": least,
        "bounds": bounds,
        "chance": jax.jit(lambda family: family.predict(places).mean)(classifier),
    }
