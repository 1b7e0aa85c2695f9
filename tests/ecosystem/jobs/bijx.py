"""bijx: a normalizing flow of coupling layers with spectrum scaling, trained by reverse
divergence.
"""

import bijx
import jax
import jax.numpy as jnp
import optax
from flax import nnx

DISTRIBUTION = "bijx"
# Thirty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-4


def main(timed):
    base = bijx.IndependentNormal((2,), rngs=nnx.Rngs(params=0, sample=1))
    mix = bijx.AffineLinear(rngs=nnx.Rngs(3))
    chain = bijx.Chain(
        bijx.Scaling(jnp.array([1.5, 0.7])), bijx.Shift(jnp.array([0.5, -0.5])),
        bijx.Inverse(bijx.Tanh()), bijx.Inverse(bijx.Inverse(bijx.Tanh())), mix, bijx.Sinh(),
    )  # fmt: skip
    flow = bijx.Transformed(base, chain)
    target = lambda x: -0.5 * jnp.sum((x - 1.0) ** 2 / 0.3, -1)
    optimizer = nnx.Optimizer(flow, optax.adam(2e-2), wrt=nnx.Param)

    @timed
    @nnx.jit
    def step(flow, optimizer, key):
        def loss(flow):
            x, density = flow.sample((32,), rng=key)
            return jnp.mean(density - target(x))

        value, grads = nnx.value_and_grad(loss)(flow)
        optimizer.update(flow, grads)
        return value

    losses = [step(flow, optimizer, k) for k in jax.random.split(jax.random.key(2), 30)]
    x = jnp.array([[0.1, 0.4], [1.0, -0.3]])
    y, density = flow.bijection.forward(x, jnp.zeros(2))
    back, _ = flow.bijection.reverse(y, density)
    return {
        "losses": jnp.stack(losses),
        "y": y,
        "density": density,
        "back": back,
        "log_density": flow.log_density(x),
    }
