"""The recipe of a recurrent network against loops in NumPy and counts in Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import weft
from weft import random


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def states_by_numpy(params, text):
    """The state after each byte of one row, gate by gate."""
    state, states = np.zeros(params["kept"].shape[0]), []
    n = len(state)
    for byte in text:
        seen, kept = params["seen"][byte] + params["bias"], state @ params["kept"]
        update, reset = sigmoid(seen[:n] + kept[:n]), sigmoid(seen[n : 2 * n] + kept[n : 2 * n])
        candidate = np.tanh(seen[2 * n :] + reset * kept[2 * n :])
        state = candidate + update * (state - candidate)
        states.append(state)
    return np.array(states)


def bits_by_numpy(params, rows):
    found = []
    for row in rows:
        logits = states_by_numpy(params, row[:-1]) @ params["said"]
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        found += [-np.log2(share[byte]) for share, byte in zip(shares, row[1:], strict=True)]
    return np.mean(found)


@pytest.fixture(scope="module")
def params(recipe):
    """Larger weights than at the start, so that the gates open and close."""
    rng = np.random.default_rng(0)
    like = recipe.init(random.key(0))
    return weft.tree.map(lambda p: rng.normal(size=p.shape) * 0.3, like)


@pytest.mark.smoke
def test_the_loss_and_its_gradient(recipe, params):
    rows = recipe.TEXT[:60].reshape(3, 20)
    with weft.enable_x64(True):
        value, slope = weft.value_and_grad(recipe.bits)(params, rows)
    assert float(value) == pytest.approx(bits_by_numpy(params, rows), rel=1e-10)
    direction = weft.tree.map(np.random.default_rng(1).normal, params)

    def along(t):
        return bits_by_numpy(weft.tree.map(lambda p, d: p + t * d, params, direction), rows)

    products = weft.tree.map(lambda g, d: np.sum(np.asarray(g) * d), slope, direction)
    expected = (along(1e-5) - along(-1e-5)) / 2e-5
    assert sum(weft.tree.leaves(products)) == pytest.approx(expected, rel=1e-6)


def test_a_text_is_continued_byte_by_byte(recipe, params):
    text = list(b"abc")
    for _ in range(20):
        text.append(int(np.argmax(states_by_numpy(params, text)[-1] @ params["said"])))
    with weft.enable_x64(True):
        found = recipe.continued(params, np.array(text[:3]))
    assert found.tolist() == text[3:]


def test_the_table_of_pairs(recipe):
    pairs = Counter(zip(recipe.TRAIN[:-1].tolist(), recipe.TRAIN[1:].tolist(), strict=True))
    firsts = Counter(recipe.TRAIN[:-1].tolist())
    held_out = zip(recipe.TEST[:-1].tolist(), recipe.TEST[1:].tolist(), strict=True)
    bits = [-np.log2((pairs[a, b] + 0.1) / (firsts[a] + 12.8)) for a, b in held_out]
    assert recipe.pairs() == pytest.approx(np.mean(bits), rel=1e-12)


def test_a_step_is_one_of_adam(recipe, params):
    rows = recipe.TEXT[:84].reshape(4, 21)
    zeros = weft.tree.map(np.zeros_like, params)
    with weft.enable_x64(True):
        slope = weft.grad(recipe.bits)(params, rows)
        moved, mean, square, loss = recipe.step(params, zeros, zeros, 1.0, rows)
    assert float(loss) == pytest.approx(bits_by_numpy(params, rows), rel=1e-10)
    for name, p in params.items():
        g = np.asarray(slope[name])
        # Both means are those of one gradient, but for the small number that is added.
        expected = p - recipe.RATE * np.sign(g) * np.abs(g) / (np.abs(g) + 1e-7)
        np.testing.assert_allclose(moved[name], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mean[name], 0.1 * g)
        np.testing.assert_allclose(square[name], 0.01 * g * g)
