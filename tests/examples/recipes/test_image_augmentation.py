"""The recipe of image augmentation against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

import weft
import weft.numpy as jnp
from weft import random


@pytest.fixture(scope="module")
def image():
    return jnp.asarray(np.random.default_rng(0).uniform(size=(9, 12, 3)), jnp.float32)


def keys(count=100):
    return random.split(random.key(3), count)


@pytest.mark.smoke
def test_a_crop_is_a_part_of_the_image_with_its_border(recipe, image):
    crop = weft.jit(weft.vmap(lambda key: recipe.random_crop(key, image, border=2)))
    wide = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
    parts = {(i, j): wide[i : i + 9, j : j + 12] for i in range(5) for j in range(5)}
    seen = set()
    for found in np.asarray(crop(keys(400))):
        (place,) = [place for place, part in parts.items() if (part == found).all()]
        seen.add(place)
    assert seen == set(parts)


def test_half_of_the_images_are_mirrored(recipe, image):
    found = np.asarray(weft.vmap(lambda key: recipe.random_mirror(key, image))(keys(400)))
    mirrored = (found == np.asarray(image)[:, ::-1]).all(axis=(1, 2, 3))
    same = (found == np.asarray(image)).all(axis=(1, 2, 3))
    assert (mirrored ^ same).all()
    assert abs(mirrored.sum() - 200) < 5 * 10  # five standard deviations


def test_quarter_turns_are_those_of_numpy(recipe, image):
    square = image[:, :9]
    for quarters in range(4):
        found = recipe.rotated(square, jnp.float32(quarters * np.pi / 2))
        np.testing.assert_allclose(found, np.rot90(square, quarters), atol=2e-5)


@pytest.mark.parametrize("degrees", [-70, 10, 33.3])
def test_rotations_are_those_of_scipy(recipe, image, degrees):
    found = recipe.rotated(image, jnp.deg2rad(jnp.float32(degrees)))
    expected = scipy.ndimage.rotate(image, degrees, reshape=False, order=1, mode="reflect")
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_angles_fill_their_range(recipe):
    # A ramp keeps its slope in the middle, which shows the angle.
    ramp = jnp.broadcast_to(jnp.arange(21.0)[:, None, None], (21, 21, 1))
    found = weft.vmap(lambda key: recipe.random_rotation(key, ramp, degrees=25))(keys())
    down, across = (
        found[:, 11, 10, 0] - found[:, 10, 10, 0],
        found[:, 10, 11, 0] - found[:, 10, 10, 0],
    )
    angles = np.degrees(np.arctan2(across, down))
    assert -25 < angles.min() < -22 and 22 < angles.max() < 25


def test_contrast_keeps_the_mean(recipe):
    # In the middle of the range, so that nothing is cut off.
    image = jnp.asarray(np.random.default_rng(1).uniform(0.4, 0.6, size=(6, 5, 3)), jnp.float32)
    found = np.asarray(weft.vmap(lambda key: recipe.random_contrast(key, image, 0.5))(keys()))
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), image.mean(), rtol=1e-5)
    factors = found.std(axis=(1, 2, 3)) / np.asarray(image).std()
    assert 0.5 < factors.min() < 0.55 and 1.45 < factors.max() < 1.5
    expected = image.mean() + factors[:, None, None, None] * (image - image.mean())
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_contrast_stays_in_the_range(recipe, image):
    found = weft.vmap(lambda key: recipe.random_contrast(key, image, 0.9))(keys())
    assert float(found.min()) == 0 and float(found.max()) == 1


def test_a_batch_is_its_images_one_by_one(recipe, image):
    batch = jnp.stack([image, image**2, 1 - image])
    found = recipe.augment_batch(keys(3), batch)
    for i in range(3):
        np.testing.assert_allclose(found[i], recipe.augment(keys(3)[i], batch[i]), atol=1e-5)
    assert float(jnp.abs(found[0] - found[1]).max()) > 0.1
