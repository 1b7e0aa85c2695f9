"""FlowJAX: an autoregressive flow fitted to a crescent of points."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flowjax.distributions import Normal
from flowjax.flows import coupling_flow, masked_autoregressive_flow
from flowjax.train import fit_to_data

DISTRIBUTION = "flowjax"
# Ten epochs of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def main(timed):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(200, 2))
    x = jnp.asarray(np.stack([z[:, 0], 0.4 * z[:, 1] + z[:, 0] ** 2 / 2], 1), jnp.float32)
    flow = masked_autoregressive_flow(
        jax.random.key(0), base_dist=Normal(jnp.zeros(2)), flow_layers=2, nn_width=8
    )
    fit = timed(
        lambda: fit_to_data(
            jax.random.key(1), flow, x, max_epochs=6, optimizer=optax.adam(5e-3),
            show_progress=False, batch_size=60,
        )
    )  # fmt: skip
    fitted, losses = fit()
    coupling = coupling_flow(
        jax.random.key(2), base_dist=Normal(jnp.zeros(2)), flow_layers=2, nn_width=8
    )
    return {
        "losses": jnp.stack(losses["train"]),
        "density": fitted.log_prob(x[:5]),
        "sample": fitted.sample(jax.random.key(4), (4,)),
        "coupling": coupling.log_prob(x[:3]),
    }
