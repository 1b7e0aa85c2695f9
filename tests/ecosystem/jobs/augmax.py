"""Augmax: a chain of geometric and colour augmentations of pictures with masks and boxes."""

import augmax
import jax
import jax.numpy as jnp

DISTRIBUTION = "augmax"
# Pictures are sampled at places computed from products of matrices.
TOLERANCE = 1e-5


def main(timed):
    grid = jnp.linspace(0, 1, 32)
    image = jnp.stack(
        [grid[:, None] * jnp.ones(32), jnp.ones((32, 1)) * grid, jnp.outer(grid, grid)], -1
    )
    mask = (image[..., 2] > 0.3).astype(jnp.int32)
    chain = augmax.Chain(
        augmax.RandomCrop(24, 24),
        augmax.HorizontalFlip(),
        augmax.Rotate((-30, 30), p=1.0),
        augmax.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05, p=1.0),
        augmax.GaussianBlur(1),
        input_types=[augmax.InputType.IMAGE, augmax.InputType.MASK],
    )
    step = timed(jax.jit(jax.vmap(chain, in_axes=(0, None))))
    for i in range(4):
        images, masks = step(jax.random.split(jax.random.key(i), 3), [image, mask])
    return {"images": images, "masks": masks.mean((1, 2))}
