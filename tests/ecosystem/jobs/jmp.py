"""jmp: a network trained in half precision with a loss scale that adapts."""

import jax
import jax.numpy as jnp
import jmp

DISTRIBUTION = "jmp"
# Arithmetic is that of 16 bits.
TOLERANCE = 1e-3


def main(timed):
    policy = jmp.get_policy("params=float32,compute=float16,output=float32")
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (32, 4))
    y = jnp.sin(x.sum(1))
    params = {"w": jax.random.normal(keys[1], (4, 16)), "v": jax.random.normal(keys[2], (16,)) / 4}
    scale = jmp.DynamicLossScale(jnp.array(2.0**15), period=5)

    @timed
    @jax.jit
    def step(params, scale):
        def loss(params):
            half, inputs = policy.cast_to_compute((params, x))
            out = policy.cast_to_output(jnp.tanh(inputs @ half["w"]) @ half["v"])
            value = jnp.mean((out - y) ** 2)
            return scale.scale(value), value

        grads, value = jax.grad(loss, has_aux=True)(params)
        grads = scale.unscale(policy.cast_to_param(grads))
        finite = jmp.all_finite(grads)
        scale_after = scale.adjust(finite)
        moved = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return jmp.select_tree(finite, moved, params), scale_after, value

    losses, scales = [], []
    for _ in range(20):
        params, scale, value = step(params, scale)
        losses.append(value)
        scales.append(scale.loss_scale)
    return {"losses": jnp.stack(losses), "scales": jnp.stack(scales), "v": params["v"]}
