"""flowMC: chains of Langevin steps whose global moves come from a normalizing flow that learns
from them.
"""

import jax
import jax.numpy as jnp
from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
from flowMC.Sampler import Sampler

DISTRIBUTION = "flowMC"
# Steps are accepted by comparisons, and the flow is trained on what was accepted.
TOLERANCE = 1e-5


def density(x, data):
    return -0.5 * jnp.sum((x - data["center"]) ** 2) - 0.1 * (x[1] - x[0] ** 2) ** 2


def main(timed):
    key, start, begin = jax.random.split(jax.random.PRNGKey(42), 3)
    data = {"center": jnp.array([0.5, -0.3])}
    bundle = RQSpline_MALA_Bundle(
        begin, 4, 2, density, n_local_steps=5, n_global_steps=5, n_training_loops=2,
        n_production_loops=1, n_epochs=2, mala_step_size=0.2, rq_spline_hidden_units=[8],
        rq_spline_n_bins=4, rq_spline_n_layers=2, batch_size=20, n_max_examples=40,
    )  # fmt: skip
    sampler = Sampler(
        n_dim=2, n_chains=4, rng_key=key, resource_strategy_bundles=bundle, checkpoint_interval=0
    )
    first = 0.5 * jax.random.normal(start, (4, 2))

    @timed
    def sample():
        sampler.sample(first, data)
        return sampler.resources["positions_production"].data

    positions = sample()
    resources = sampler.resources
    return {
        "positions": positions,
        "density": resources["log_prob_production"].data,
        "training": resources["positions_training"].data,
        "losses": resources["loss_buffer"].data,
        "accepted": resources["local_accs_training"].data,
        "flow": resources["model"].log_prob(jnp.array([0.2, 0.1])),
    }
