"""Changes images at random, a batch at once: crop, mirror, rotate, contrast.

    python examples/recipes/image_augmentation.py
    python examples/recipes/image_augmentation.py --picture image_augmentation.svg

Each function takes a key and one image. `vmap` makes a function of many keys and images of it, and
`jit` one program. The photograph is one that scikit-learn ships.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image

import weft
import weft.numpy as jnp
from weft import image as images
from weft import lax, random
from weft.scipy.ndimage import map_coordinates

STYLE = Path(__file__).with_name("recipes.mplstyle")


def random_crop(key: weft.Array, image: weft.Array, border: int) -> weft.Array:
    """A part of the image's own size, after mirrored borders were added on all sides."""
    wide = jnp.pad(image, ((border, border), (border, border), (0, 0)), mode="reflect")
    row, column = random.randint(key, (2,), 0, 2 * border + 1)
    return lax.dynamic_slice(wide, (row, column, 0), image.shape)


def random_mirror(key: weft.Array, image: weft.Array) -> weft.Array:
    """The image, or its mirror image."""
    return jnp.where(random.bernoulli(key), image[:, ::-1], image)


def rotated(image: weft.Array, angle: weft.Array) -> weft.Array:
    """The image turned about its centre, counterclockwise by an angle in radians."""
    height, width, _ = image.shape
    middle = jnp.array([(height - 1) / 2, (width - 1) / 2])
    turn = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
    places = jnp.stack(jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij"), axis=-1)
    rows, columns = jnp.moveaxis((places - middle) @ turn + middle, -1, 0)

    def one_channel(channel: weft.Array) -> weft.Array:
        return map_coordinates(channel, [rows, columns], order=1, mode="reflect")

    return weft.vmap(one_channel, in_axes=2, out_axes=2)(image)


def random_rotation(key: weft.Array, image: weft.Array, degrees: float) -> weft.Array:
    """The image, turned by up to so many degrees."""
    return rotated(image, jnp.deg2rad(random.uniform(key, minval=-degrees, maxval=degrees)))


def random_contrast(key: weft.Array, image: weft.Array, strength: float) -> weft.Array:
    """The image with differences from its mean made smaller or larger by up to this share."""
    factor = random.uniform(key, minval=1 - strength, maxval=1 + strength)
    mean = jnp.mean(image)
    return jnp.clip(mean + factor * (image - mean), 0, 1)


def augment(key: weft.Array, image: weft.Array) -> weft.Array:
    """All of it, each with a key of its own."""
    crop, mirror, rotation, contrast = random.split(key, 4)
    image = random_rotation(rotation, image, degrees=25)
    image = random_crop(crop, image, border=6)
    image = random_mirror(mirror, image)
    return random_contrast(contrast, image, strength=0.5)


augment_batch = weft.jit(weft.vmap(augment))


def photograph(side: int) -> weft.Array:
    """A flower, as numbers between 0 and 1."""
    pixels = load_sample_image("flower.jpg")[:, 100:527]
    return images.resize(jnp.asarray(pixels) / 255, (side, side, 3), "linear").clip(0, 1)


def draw(path: Path, first: weft.Array, versions: weft.Array) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(8, 4))
        for number, cell in enumerate(figure.subplots(2, 4).flat):
            shown = first if number == 0 else versions[number - 1]
            cell.imshow(np.round(255 * shown).astype(np.uint8), interpolation="none")
            cell.set_title("the photograph" if number == 0 else f"key {number - 1}")
            cell.set(xticks=[], yticks=[], frame_on=False)
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Changes images at random.")
    parser.add_argument("--picture", type=Path, help="where to draw some of them")
    options = parser.parse_args(argv)
    first = photograph(40)
    batch = jnp.broadcast_to(first, (256, *first.shape))
    keys = random.split(random.key(0), 256)
    versions = augment_batch(keys, batch)
    print(f"a batch {versions.shape}, values from {versions.min():.2f} to {versions.max():.2f}")
    print(f"the same keys, the same images: {bool((augment_batch(keys, batch) == versions).all())}")
    alone = np.asarray(augment(keys[5], first))
    print(f"image 5 made alone is the same: {np.allclose(alone, versions[5], atol=1e-5)}")
    print(f"different images: {len(np.unique(np.asarray(versions).reshape(256, -1), axis=0))}")
    if options.picture:
        draw(options.picture, first, versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
