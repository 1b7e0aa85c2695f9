"""evermore: a fit of a histogram with a signal, a background and their uncertainties, and the
uncertainties of the fit.
"""

import evermore as evm
import jax
import jax.numpy as jnp
import optax
from flax import nnx

DISTRIBUTION = "evermore"
# A density of Poisson less its largest one: in 32 bits such a difference has five digits.
jax.config.update("jax_enable_x64", True)


def expectation(params, hists):
    signal = params["mu"].scale()(hists["signal"])
    shape = params["shape"].morphing(up_template=hists["up"], down_template=hists["down"])
    size = params["size"].scale_log_asymmetric(up=jnp.array([1.1]), down=jnp.array([0.92]))
    return signal + size(shape(hists["background"]))


def loss(params, hists, seen):
    likelihood = evm.pdf.PoissonContinuous(lamb=expectation(params, hists)).log_prob(seen).sum()
    likelihood += evm.util.sum_over_leaves(evm.loss.get_log_probs(params))
    return -jnp.sum(likelihood)


def main(timed):
    bins = jnp.linspace(0.0, 3.0, 12)
    background = 80.0 * jnp.exp(-0.6 * bins)
    hists = {
        "signal": 12.0 * jnp.exp(-8.0 * (bins - 1.4) ** 2),
        "background": background,
        "up": background * (1.0 + 0.05 * bins),
        "down": background * (1.0 - 0.04 * bins),
    }
    seen = jax.random.poisson(jax.random.key(3), background + 1.5 * hists["signal"]).astype(float)
    params = {
        "mu": evm.Parameter(1.0),
        "shape": evm.NormalParameter(0.0),
        "size": evm.NormalParameter(0.1),
        "held": evm.Parameter(2.0, frozen=True),
    }
    graph, moving, held = nnx.split(params, evm.filter.is_dynamic_parameter, ...)
    adam = optax.adam(0.05)
    state = adam.init(moving)

    def value(moving):
        return loss(nnx.merge(graph, moving, held), hists, seen)

    @timed
    @jax.jit
    def step(moving, state):
        found, grads = jax.value_and_grad(value)(moving)
        updates, state = adam.update(grads, state)
        return optax.apply_updates(moving, updates), state, found

    losses = []
    for _ in range(60):
        moving, state, found = step(moving, state)
        losses.append(found)
    fitted = nnx.merge(graph, moving, held)
    second = jax.jit(
        lambda moving: evm.loss.covariance_matrix(
            lambda p: loss(p, hists, seen), nnx.merge(graph, moving, held)
        )
    )
    toys = evm.sample.sample_from_priors(nnx.Rngs(1), fitted)
    return {
        "losses": jnp.stack(losses),
        "mu": fitted["mu"].get_value(),
        "shape": fitted["shape"].get_value(),
        "size": fitted["size"].get_value(),
        "correlation": second(moving),
        "toy": toys["shape"].get_value(),
        "quantile": evm.pdf.PoissonDiscrete(5.0).inv_cdf(jnp.array([0.1, 0.5, 0.9])),
    }
