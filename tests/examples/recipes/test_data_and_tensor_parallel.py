"""The recipe over a mesh of 2 × 4 devices against the same training in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import weft
from weft import random
from weft.sharding import P


@pytest.fixture(scope="module")
def mesh():
    return weft.make_mesh((2, 4), ("data", "tensor"))


def training_by_numpy(params, x, y, size, rate, steps):
    params, losses = {n: np.asarray(p, np.float64) for n, p in params.items()}, []
    for i in range(steps):
        rows, targets = x[i * size :][:size].astype(np.float64), np.eye(10)[y[i * size :][:size]]
        before = rows @ params["up"] + params["bias"]
        hidden = np.maximum(before, 0)
        logits = hidden @ params["down"] + params["last"]
        losses.append(-np.mean(np.sum(targets * scipy.special.log_softmax(logits, axis=1), axis=1)))
        back = (scipy.special.softmax(logits, axis=1) - targets) / size
        back_hidden = (back @ params["down"].T) * (before > 0)
        slope = {"up": rows.T @ back_hidden, "bias": back_hidden.sum(axis=0)}
        slope |= {"down": hidden.T @ back, "last": back.sum(axis=0)}
        params = {name: p - rate * slope[name] for name, p in params.items()}
    return params, losses


@pytest.mark.smoke
def test_the_training_is_that_of_numpy(recipe, mesh):
    params, losses = recipe.train(mesh, 12)
    start = recipe.init(random.key(0))
    size, rate = recipe.BATCH, recipe.RATE
    expected, of_numpy = training_by_numpy(start, *recipe.digits(), size, rate, 12)
    np.testing.assert_allclose(losses, of_numpy, rtol=1e-5)
    for name, p in expected.items():
        np.testing.assert_allclose(params[name], p, rtol=1e-4, atol=1e-5)


def test_each_device_has_its_part_of_the_weights(recipe, mesh):
    params = recipe.place(mesh, recipe.init(random.key(0)))
    shapes = {name: p.addressable_shards[0].data.shape for name, p in params.items()}
    assert shapes == {"up": (64, 64), "bias": (64,), "down": (64, 10), "last": (10,)}
    whole = np.asarray(params["down"])
    for shard in params["down"].addressable_shards:
        part = shard.device.id % 4
        np.testing.assert_array_equal(shard.data, whole[64 * part : 64 * part + 64])


def test_what_is_communicated(recipe, mesh):
    """One sum of logits, and the sums of the gradients over `data`: no weight is gathered."""
    x, y = (array[:64] for array in recipe.digits())
    params = recipe.init(random.key(0))
    gradient = weft.value_and_grad(recipe.over(mesh))
    report = weft.assert_comms(gradient, params, x, y, all_reduce=6)
    found = sorted((row.axes, row.bytes) for row in report.rows)
    of_gradients = [4 * 64 * 64, 4 * 64, 4 * 64 * 10, 4 * 10]
    expected = [(("data",), size) for size in [4, *of_gradients]] + [(("tensor",), 4 * 32 * 10)]
    assert found == sorted(expected)


def test_the_compiler_splits_the_same_program_alike(recipe, mesh):
    """Without `shard_map`: the loss of whole arrays, whose parts lie as the specs say."""

    def whole(params, x, y):
        hidden = weft.nn.relu(x @ params["up"] + params["bias"])
        logs = weft.nn.log_softmax(hidden @ params["down"] + params["last"])
        return -weft.numpy.mean(weft.numpy.take_along_axis(logs, y[:, None], axis=-1))

    params = recipe.place(mesh, recipe.init(random.key(1)))
    rows = weft.NamedSharding(mesh, P("data"))
    given = params, *weft.device_put(tuple(a[:64] for a in recipe.digits()), rows)
    (value, slope), (expected, slope_of_map) = (
        weft.jit(weft.value_and_grad(f))(*given) for f in (whole, recipe.over(mesh))
    )
    assert float(value) == pytest.approx(float(expected), rel=1e-6)
    for name, of_map in slope_of_map.items():
        np.testing.assert_allclose(slope[name], of_map, rtol=1e-4, atol=1e-6)
