"""The recipe of per-example gradients against backpropagation in NumPy, and its noise."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_network
import weft
import weft.numpy as jnp
from weft import random


@pytest.fixture(scope="module")
def case(recipe):
    """Parameters, a batch, and the gradient of each example in NumPy."""
    params = recipe.init(random.key(1), (12, 16, 5))
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(40, 12)).astype(np.float32)
    y = generator.integers(5, size=40)
    exact = numpy_network.gradients(numpy_network.wide(params), x.astype(np.float64), y)
    return params, jnp.asarray(x), jnp.asarray(y), exact


def exact_lengths(exact):
    return np.sqrt(sum((g.reshape(40, -1) ** 2).sum(axis=1) for g in weft.tree.leaves(exact)))


@pytest.mark.smoke
def test_each_gradient_is_that_of_numpy(recipe, case):
    params, x, y, exact = case
    found = recipe.per_example(params, x, y)
    weft.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, exact)
    np.testing.assert_allclose(recipe.lengths(found), exact_lengths(exact), rtol=1e-5)


def test_they_are_those_of_a_loop(recipe, case):
    params, x, y, _ = case
    found = recipe.per_example(params, x, y)
    for i in range(5):
        alone = weft.grad(recipe.loss)(params, x[i], y[i])
        weft.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-6),
            found,
            alone,
        )


@pytest.mark.parametrize("limit", [0.5, 3.0, 100.0])
def test_no_example_counts_for_more_than_the_limit(recipe, case, limit):
    params, x, y, exact = case
    lengths = exact_lengths(exact)
    assert 0.5 < lengths.min() < 3 < lengths.max() < 100
    factors = np.minimum(1, limit / lengths)
    expected = weft.tree.map(lambda g: np.tensordot(factors, g, axes=1) / 40, exact)
    found = recipe.private_gradient(random.key(0), params, x, y, limit, 0.0)
    weft.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
    )


def test_the_noise_has_its_size_and_is_another_for_each_array_and_key(recipe, case):
    params, x, y, _ = case
    make = weft.jit(recipe.private_gradient)
    plain = make(random.key(0), params, x, y, 2.0, 0.0)
    noises = [
        weft.tree.map(jnp.subtract, make(random.key(seed), params, x, y, 2.0, 3.0), plain)
        for seed in range(200)
    ]
    values = np.stack([np.concatenate([np.ravel(g) for g in weft.tree.leaves(n)]) for n in noises])
    size = 2.0 * 3.0 / 40
    count = values.size
    # Five standard errors of the mean, and of the standard deviation, of so many normal numbers.
    assert abs(values.mean()) < 5 * size / count**0.5
    assert abs(values.std() / size - 1) < 5 / (2 * count) ** 0.5
    first, second = values[0], values[1]
    assert len(np.unique(np.round(first / size, 4))) > 0.95 * len(first)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / len(first) ** 0.5
