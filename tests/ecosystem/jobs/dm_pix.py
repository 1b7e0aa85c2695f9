"""PIX: photographs that are made, distorted, coloured and compared, all compiled and batched."""

import dm_pix as pix
import jax
import jax.numpy as jnp

DISTRIBUTION = "dm-pix"
# Colours are divided by differences of channels.
TOLERANCE = 1e-5


def picture(size):
    grid = jnp.linspace(0, 1, size)
    y, x = jnp.meshgrid(grid, grid, indexing="ij")
    return jnp.stack([x, y, 0.5 + 0.5 * jnp.sin(12 * x * y)], -1)


def augment(key, image):
    keys = jax.random.split(key, 5)
    image = pix.random_flip_left_right(keys[0], image)
    image = pix.random_brightness(keys[1], image, 0.2)
    image = pix.random_contrast(keys[2], image, 0.7, 1.3)
    image = pix.random_hue(keys[3], image, 0.1)
    image = pix.random_crop(keys[4], image, (20, 20, 3))
    return pix.gaussian_blur(image, 1.0, 5)


def main(timed):
    image = picture(24)
    step = timed(jax.jit(jax.vmap(augment, in_axes=(0, None))))
    for i in range(5):
        batch = step(jax.random.split(jax.random.key(i), 4), image)
    turned = pix.rotate(image, 0.4)
    slope = jax.grad(lambda angle: pix.rotate(image, angle).mean())(0.4)
    return {
        "batch": batch,
        "turned": turned,
        "slope": slope,
        "ssim": pix.ssim(image, turned),
        "psnr": pix.psnr(image, turned),
        "hsv": pix.rgb_to_hsv(image),
        "elastic": pix.elastic_deformation(jax.random.key(3), image, 10.0, 3.0),
        "blocks": pix.depth_to_space(pix.space_to_depth(image, 2), 2)[0, 0],
        "patches": pix.extract_patches(image[None], (1, 6, 6, 1), (1, 6, 6, 1), (1, 1, 1, 1))[
            0, 0, 0, :9
        ],
    }
