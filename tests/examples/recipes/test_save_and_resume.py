"""The recipe of saving and resuming: an interrupted run has the losses of one that was not."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import checkpoints, random

pytest.importorskip("tensorstore")


@pytest.fixture(scope="module")
def whole(recipe, tmp_path_factory):
    return recipe.train(tmp_path_factory.mktemp("whole"), 50)


@pytest.mark.smoke
@pytest.mark.parametrize("stops", [(30,), (21, 41), (20, 20)])
def test_an_interrupted_run_has_the_same_losses(recipe, whole, tmp_path, stops, capsys):
    last_saved = -1
    for stop in (*stops, 50):
        losses = recipe.train(tmp_path, stop)
        assert list(losses) == list(range(last_saved + 1, stop))
        assert all(losses[step] == whole[step] for step in losses)
        last_saved = max(step for step in range(0, stop, 20))
    assert capsys.readouterr().out.count("goes on after step") == len(stops)
    assert len(set(whole.values())) == 50


def test_without_the_key_the_losses_would_be_others(recipe, whole, tmp_path):
    recipe.train(tmp_path, 21)
    with checkpoints.Checkpoints(tmp_path) as kept:
        state = kept.restore(20, like=recipe.start(random.key(0)))
        kept.save(25, state._replace(key=random.key(1)))
    losses = recipe.train(tmp_path, 30)
    assert list(losses) == [26, 27, 28, 29]
    assert all(losses[step] != whole[step] for step in losses)


def test_the_loss_is_that_of_numpy(recipe):
    state = recipe.start(random.key(4))
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(30, 64)).astype(np.float32)
    y = generator.integers(10, size=30)
    key, batch_key, drop_key = random.split(state.key, 3)
    rows = np.asarray(random.randint(batch_key, (64,), 0, 30))
    kept = np.asarray(random.bernoulli(drop_key, 0.5, (64, 64)))
    hidden = np.maximum(x[rows].astype(float) @ np.asarray(state.params["hidden"], float), 0)
    logits = (2 * kept * hidden) @ np.asarray(state.params["out"], float)
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(64), y[rows]]
    after, value = recipe.train_step(state, jnp.asarray(x), jnp.asarray(y))
    assert float(value) == pytest.approx(expected.mean(), rel=1e-5)
    np.testing.assert_array_equal(random.key_data(after.key), random.key_data(key))
    assert weft.tree.structure(after) == weft.tree.structure(recipe.start(random.key(0)))
