"""Penzai: named arrays, a transformer's block built from layers, a part of it replaced, and
trained.
"""

import jax
import jax.numpy as jnp
import optax
from penzai import pz

DISTRIBUTION = "penzai"
# Fifteen steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def main(timed):
    x = pz.nx.wrap(jax.random.normal(jax.random.key(0), (6, 4))).tag("batch", "features")
    model = pz.nn.Sequential([
        pz.nn.Linear.from_config("first", jax.random.key(1), {"features": 4}, {"hidden": 8}),
        pz.nn.Elementwise(jax.nn.gelu),
        pz.nn.Linear.from_config("last", jax.random.key(2), {"hidden": 8}, {"features": 4}),
    ])  # fmt: skip
    module, variables = pz.unbind_params(model)
    values = [v.freeze() for v in variables]
    optimizer = optax.adam(1e-2)
    state = optimizer.init(values)

    @timed
    @jax.jit
    def step(values, state):
        def loss(values):
            out = pz.bind_variables(module, values)(x)
            difference = (out - 0.5 * x).unwrap("batch", "features")
            return jnp.mean(difference**2)

        value, grads = jax.value_and_grad(loss)(values)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(values, updates), state, value

    losses = []
    for _ in range(15):
        values, state, value = step(values, state)
        losses.append(value)
    mapped = pz.nx.nmap(jnp.sort)(x.untag("features"))
    changed = pz.select(model).at_instances_of(pz.nn.Elementwise).set(pz.nn.Elementwise(jnp.tanh))
    return {
        "losses": jnp.stack(losses),
        "sorted": mapped.tag("features").unwrap("batch", "features"),
        "changed": changed(x).unwrap("batch", "features"),
        "layers": pz.select(model).at_instances_of(pz.nn.Linear).count(),
    }
