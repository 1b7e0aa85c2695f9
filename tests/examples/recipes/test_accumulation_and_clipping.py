"""The recipe of accumulated and clipped gradients against NumPy and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_network
import weft
import weft.numpy as jnp
from weft import random


def batch(count=60):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(count, 12))
    return x, generator.integers(5, size=count)


@pytest.fixture
def params(recipe):
    made = recipe.init(random.key(1), (12, 16, 5))
    return weft.tree.map(lambda p: p.astype(jnp.float64), made)


@pytest.mark.smoke
@pytest.mark.parametrize("parts", [1, 3, 12, 60])
def test_parts_add_up_to_the_gradient_of_numpy(recipe, params, parts):
    x, y = batch()
    with weft.enable_x64():
        value, grads = recipe.accumulated(params, jnp.asarray(x), jnp.asarray(y), parts)
    reference = numpy_network.wide(params)
    assert float(value) == pytest.approx(numpy_network.losses(reference, x, y).mean(), rel=1e-13)
    for found, expected in zip(grads, numpy_network.mean_gradient(reference, x, y), strict=True):
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-15)


def test_parts_that_do_not_divide_the_batch_are_refused(recipe, params):
    x, y = batch()
    with pytest.raises(weft.errors.ShapeError):
        recipe.accumulated(params, jnp.asarray(x, jnp.float64), jnp.asarray(y), 7)


def test_memory_falls_with_the_parts(recipe):
    params = recipe.init(random.key(1), (12, 256, 5))
    x, y = batch(960)
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y)
    one, many = (recipe.temporary_memory(params, x, y, parts) for parts in (1, 16))
    activations = 960 * 256 * 4
    assert one > activations and many < one / 4


TREE = {"a": np.array([3.0, 0.0]), "b": [np.array([[4.0]]), np.array(12.0)]}  # its length is 13


def test_a_long_gradient_gets_the_length_of_the_limit_and_keeps_its_direction(recipe):
    tree = weft.tree.map(jnp.asarray, TREE)
    found, norm = recipe.clipped(tree, 6.5)
    assert float(norm) == 13
    weft.tree.map(lambda a, b: np.testing.assert_array_equal(a, b / 2), found, TREE)


@pytest.mark.parametrize("limit", [13.0, 20.0, float("inf")])
def test_a_short_gradient_stays(recipe, limit):
    found, _ = recipe.clipped(weft.tree.map(jnp.asarray, TREE), limit)
    weft.tree.map(np.testing.assert_array_equal, found, TREE)


def test_a_gradient_of_zero_stays(recipe):
    found, norm = recipe.clipped({"a": jnp.zeros(3)}, 1.0)
    assert float(norm) == 0 and np.asarray(found["a"]).tolist() == [0, 0, 0]


def test_no_step_is_longer_than_the_limit_allows(recipe):
    params = recipe.init(random.key(1), (12, 16, 5))
    x, y = batch(64)
    after, _, norm = recipe.train_step(
        params, jnp.asarray(100 * x, jnp.float32), jnp.asarray(y), 1.0
    )
    moved = weft.tree.map(jnp.subtract, after, params)
    assert float(norm) > 10
    assert float(recipe.global_norm(moved)) == pytest.approx(0.3, rel=1e-5)
