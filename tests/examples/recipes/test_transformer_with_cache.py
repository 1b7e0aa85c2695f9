"""The recipe of a transformer: with its cache, without it, and written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as jnp
from weft import random


@pytest.fixture(scope="module")
def params(recipe):
    """Weights that know no text: what comes next is a close choice among all bytes."""
    rng = np.random.default_rng(0)
    like = weft.eval_shape(recipe.init, random.key(0))
    return weft.tree.map(lambda p: rng.normal(size=p.shape) / 8, like)


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits_by_numpy(params, row, heads):
    """One head of one layer after the other, for one row."""
    x = params["byte"][row] + params["place"][: len(row)]
    for qkv, out, up, down in zip(*(params[n] for n in ("qkv", "out", "up", "down")), strict=True):
        told = []
        for head in range(heads):
            q, k, v = (normalized(x) @ qkv[:, part, head] for part in range(3))
            scores = q @ k.T / np.sqrt(q.shape[1])
            scores[np.triu_indices(len(row), 1)] = -np.inf
            told.append(scipy.special.softmax(scores, axis=1) @ v)
        x = x + np.concatenate(told, axis=1) @ out
        x = x + gelu(normalized(x) @ up) @ down
    return normalized(x) @ params["byte"].T


@pytest.mark.smoke
def test_the_logits_are_those_of_numpy(recipe, params):
    row = np.array([list(b"A text of no importance.")])
    with weft.enable_x64(True):
        found, _ = recipe.forward(params, row)
    expected = logits_by_numpy(params, row[0], recipe.HEADS)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-11)


def test_a_cache_changes_no_logits(recipe, params):
    """A row at once, against its first bytes at once and the others one by one."""
    rows = np.random.default_rng(1).integers(128, size=(2, 12))
    shape = (recipe.LAYERS, 2, 15, recipe.HEADS, recipe.EMBED // recipe.HEADS)
    with weft.enable_x64(True):
        expected, _ = recipe.forward(params, rows)
        forward = weft.jit(recipe.forward)
        # What stands in the cache behind the last byte is not read.
        cache = (jnp.full(shape, 1e3), jnp.full(shape, 1e3))
        found, cache = forward(params, rows[:, :5], cache, 0)
        np.testing.assert_allclose(found, expected[:, :5], rtol=1e-9, atol=1e-11)
        for at in range(5, 12):
            found, cache = forward(params, rows[:, at : at + 1], cache, at)
            np.testing.assert_allclose(found[:, 0], expected[:, at], rtol=1e-9, atol=1e-11)


def test_both_ways_write_the_same_text(recipe, params):
    prompt = np.array([list(b"The "), list(b"weft")])
    text = prompt.copy()
    for _ in range(16):
        best = [logits_by_numpy(params, row, recipe.HEADS)[-1].argmax() for row in text]
        text = np.column_stack([text, best])
    with weft.enable_x64(True):
        np.testing.assert_array_equal(recipe.recite(params, prompt, 20), text)
        np.testing.assert_array_equal(recipe.recite_with_cache(params, prompt, 20), text)


def test_the_operations_are_those_of_the_products(recipe):
    params = weft.eval_shape(recipe.init, random.key(0))
    n, embed = 100, recipe.EMBED
    # For each byte: 3 + 1 + 4 + 4 square products in a layer, and the logits of 128 bytes.
    of_byte = 2 * (recipe.LAYERS * 12 * embed**2 + 128 * embed)
    of_scores = 2 * 2 * recipe.LAYERS * n * embed  # n keys and n values, for a byte
    plain, cached = recipe.operations(params, recipe.TEXT[:, :8], n)
    # The rest is elementwise: softmax, gelu and norms.
    assert 1 < plain / ((n - 8) * n * (of_byte + of_scores)) < 1.1
    assert 1 < cached / (n * (of_byte + of_scores)) < 1.1
