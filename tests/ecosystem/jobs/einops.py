"""Einops: patches of pictures, attention and pooling by rearrangement, inside jit,
vmap and grad.
"""

import jax
import jax.numpy as jnp
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.flax import EinMix, Reduce

DISTRIBUTION = "einops"


def attention(x, weights):
    q, k, v = rearrange(x @ weights, "b t (three h d) -> three b h t d", three=3, h=2)
    scores = einsum(q, k, "b h i d, b h j d -> b h i j") / jnp.sqrt(q.shape[-1])
    out = einsum(jax.nn.softmax(scores), v, "b h i j, b h j d -> b h i d")
    return rearrange(out, "b h t d -> b t (h d)")


def model(params, image):
    patches = rearrange(image, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4)
    tokens = patches @ params["embed"]
    cls = repeat(params["cls"], "d -> b 1 d", b=image.shape[0])
    tokens, shapes = pack([cls, tokens], "b * d")
    tokens = tokens + attention(tokens, params["qkv"])
    cls, tokens = unpack(tokens, shapes, "b * d")
    return reduce(tokens, "b t d -> b d", "mean") + rearrange(cls, "b 1 d -> b d")


def main(timed):
    keys = jax.random.split(jax.random.key(0), 5)
    params = {
        "embed": jax.random.normal(keys[0], (48, 8)) / 7,
        "cls": jax.random.normal(keys[1], (8,)),
        "qkv": jax.random.normal(keys[2], (8, 24)) / 3,
    }
    image = jax.random.normal(keys[3], (2, 16, 16, 3))
    forward = timed(jax.jit(jax.value_and_grad(lambda p: model(p, image).var())))
    for _ in range(10):
        value, grads = forward(params)
    mix = EinMix("b (h c) -> b (h d)", weight_shape="h c d", bias_shape="h d",
                 sizes=dict(h=2, c=4, d=3))  # fmt: skip
    x = jax.random.normal(keys[4], (3, 8))
    variables = mix.init(keys[0], x)
    pooled = jax.vmap(lambda im: reduce(im, "(h 2) (w 2) c -> h w c", "max"))(image)
    layer = Reduce("b h w c -> b c", "mean")
    return {
        "value": value,
        "grad": grads["cls"],
        "embed": grads["embed"],
        "pooled": pooled,
        "mixed": mix.apply(variables, x),
        "means": layer.apply(layer.init(keys[0], image), image),
    }
