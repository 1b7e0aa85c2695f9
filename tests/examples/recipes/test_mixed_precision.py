"""The recipe of mixed precision: its gradient against NumPy's, and what it does with bad steps."""

from __future__ import annotations

import numpy as np
import pytest

import numpy_network
import weft
import weft.numpy as jnp
from weft import random


def inputs(seed=0, count=48):
    generator = np.random.default_rng(seed)
    x = jnp.asarray(generator.uniform(size=(count, 12)), jnp.float32)
    return x, jnp.asarray(generator.integers(5, size=count), jnp.int32)


def relative_error(found, expected):
    pairs = [(np.asarray(a[n], np.float64), b[n]) for a, b in zip(found, expected, strict=True)
             for n in a]  # fmt: skip
    wrong = sum(np.sum((a - b) ** 2) for a, b in pairs)
    return np.sqrt(wrong / sum(np.sum(b**2) for _, b in pairs))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_gradient_is_that_of_numpy_to_the_digits_of_the_dtype(recipe, dtype):
    params = recipe.start(random.key(1), (12, 16, 5), 1.0).params
    x, y = inputs()
    expected = numpy_network.mean_gradient(
        numpy_network.wide(params), np.asarray(x, np.float64), np.asarray(y)
    )
    found = recipe.gradient(params, jnp.float32(256), x.astype(dtype), y)
    assert all(g.dtype == jnp.float32 for g in weft.tree.leaves(found))
    # Each part is rounded a few times on its way, so the whole differs by a few units of rounding.
    assert relative_error(found, expected) < 4 * float(jnp.finfo(dtype).eps)


def test_small_gradients_need_the_scale(recipe):
    # Images that the network is sure of: the slopes at the logits lie below 2**-24.
    params = recipe.start(random.key(1), (12, 16, 5), 1.0).params
    params[-1]["w"] = 40 * params[-1]["w"]
    x, _ = inputs()
    y = jnp.argmax(recipe.predict(params, x), axis=-1)
    sure = np.max(np.asarray(recipe.predict(params, x)), axis=-1) > -1e-6
    x, y = x[sure], y[sure]
    assert len(y) > 10
    exact = numpy_network.mean_gradient(
        numpy_network.wide(params), np.asarray(x, np.float64), np.asarray(y)
    )
    plain, scaled = (
        relative_error(recipe.gradient(params, jnp.float32(s), x.astype(jnp.float16), y), exact)
        for s in (1, 2**14)
    )
    assert plain == 1  # all of it is 0
    # Logits near 40 are rounded to 1/32, and their exponentials are wrong by as much.
    assert scaled < 0.2


def test_scales_that_are_powers_of_two_change_no_bit(recipe):
    params = recipe.start(random.key(1), (12, 16, 5), 1.0).params
    plain, scaled = (recipe.gradient(params, jnp.float32(s), *inputs()) for s in (1, 2**10))
    weft.tree.map(np.testing.assert_array_equal, plain, scaled)


def test_steps_are_those_of_numpy(recipe):
    state = recipe.start(random.key(2), (12, 16, 5), 2.0**7)
    params = numpy_network.wide(state.params)
    momentum = [{n: np.zeros_like(v) for n, v in layer.items()} for layer in params]
    for step in range(8):
        x, y = inputs(seed=step)
        grads = numpy_network.mean_gradient(params, np.asarray(x, np.float64), np.asarray(y))
        for layer, moved, slopes in zip(params, momentum, grads, strict=True):
            for name in layer:
                moved[name] = 0.9 * moved[name] + slopes[name]
                layer[name] -= 0.05 * moved[name]
        state = recipe.train_step(state, x, y)
    assert relative_error(state.params, params) < 1e-6
    assert (int(state.good), int(state.skipped), float(state.scale)) == (8, 0, 2.0**7)


@pytest.mark.parametrize("cause", ["an input", "the scale"])
def test_a_step_that_is_not_finite_is_left_out(recipe, cause):
    state = recipe.start(random.key(2), (12, 16, 5), 2.0**7)
    x, y = inputs()
    before = recipe.train_step(state, x.astype(jnp.float16), y)
    if cause == "an input":
        after = recipe.train_step(before, x.at[3, 4].set(jnp.inf).astype(jnp.float16), y)
    else:
        before = before._replace(scale=jnp.float32(2.0**30))
        after = recipe.train_step(before, x.astype(jnp.float16), y)
    weft.tree.map(np.testing.assert_array_equal, after.params, before.params)
    weft.tree.map(np.testing.assert_array_equal, after.momentum, before.momentum)
    assert float(after.scale) == float(before.scale) / 2
    assert (int(after.good), int(after.skipped)) == (0, 1)


def test_the_scale_doubles_after_fifty_finite_steps(recipe):
    state = recipe.start(random.key(2), (12, 16, 5), 4.0)
    scales = []
    for _ in range(101):
        state = recipe.train_step(state, *inputs())
        scales.append(float(state.scale))
    assert scales == [4.0] * 49 + [8.0] * 50 + [16.0] * 2


def test_updates_below_the_digits_of_float16_add_up(recipe):
    """The biases move by less than float16 can show near their values, and still get there."""
    state = recipe.start(random.key(2), (12, 16, 5), 2.0**7)
    state.params[-1]["b"] = jnp.full(5, 100.0)
    x, y = inputs()
    after = recipe.train_step(state, x.astype(jnp.float16), y)
    first = np.asarray(after.params[-1]["b"])
    assert (first != 100).all() and (first.astype(np.float16) == 100).all()
