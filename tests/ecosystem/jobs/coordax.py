"""Coordax: a heat equation on arrays with named, labelled axes, mapped over an ensemble."""

import coordax as cx
import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "coordax"


def main(timed):
    x = cx.LabeledAxis("x", np.linspace(0, 1, 16))
    member = cx.SizedAxis("member", 3)
    values = jnp.sin(jnp.linspace(0, 6, 16)) * jnp.arange(1.0, 4.0)[:, None]
    field = cx.wrap(values, member, x)

    def diffuse(u):
        return u + 0.2 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))

    @timed
    @jax.jit
    def step(field):
        return cx.cmap(diffuse)(field.untag(x)).tag(x)

    for _ in range(15):
        field = step(field)
    mean = cx.cmap(jnp.mean)(field.untag(member))
    total = jax.grad(lambda f: jnp.sum((f * f).data))(field)
    return {
        "field": field.order_as("x", "member").data,
        "mean": mean.data,
        "sum": (field + mean).data,
        "grad": total.data,
        "labels": len(field.dims),
    }
