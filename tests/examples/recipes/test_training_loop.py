"""The recipe of a training loop against the same training in NumPy, and with Optax."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import numpy_network
import weft
from source_files import ROOT
from weft import random


@pytest.mark.smoke
def test_thirty_steps_are_those_of_numpy(recipe):
    x, y, _, _ = recipe.digits()
    params = recipe.init(random.key(3), [64, 16, 10])
    state = recipe.adam_init(params)
    reference = numpy_network.wide(params)
    mean, square = ([{n: np.zeros_like(v) for n, v in layer.items()} for layer in reference]
                    for _ in range(2))  # fmt: skip
    for step in range(30):
        rows = slice(40 * step, 40 * step + 40)
        given = np.asarray(x[rows], np.float64), np.asarray(y[rows])
        expected = numpy_network.losses(reference, *given).mean()
        grads = numpy_network.mean_gradient(reference, *given)
        numpy_network.adam_step(reference, grads, mean, square, step + 1, 3e-3)
        params, state, value = recipe.train_step(params, state, x[rows], y[rows])
        assert float(value) == pytest.approx(expected, rel=1e-5)
    for ours, theirs in zip(params, reference, strict=True):
        for name in ours:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_the_network_learns(recipe, capsys):
    losses, shares = recipe.train(epochs=10, size=64, seed=1)
    assert len(losses) == 220 and np.mean(losses[-22:]) < 0.25
    assert shares[-1] > 0.94
    assert capsys.readouterr().out.count("epoch") == 10


def python_with_optax():
    """An interpreter that finds Optax: this one, or that of the ecosystem's tests."""
    if importlib.util.find_spec("optax"):
        return sys.executable
    other = ROOT / ".venv-ecosystem" / "bin" / "python"
    return str(other) if other.exists() else None


def test_optax_makes_the_same_steps(recipe, capsys):
    python = python_with_optax()
    if python is None:
        pytest.skip("Optax is not installed: `make test-ecosystem` makes an environment with it")
    script = pathlib.Path(recipe.__file__).with_name("training_loop_optax.py")
    run = subprocess.run([python, script], capture_output=True, text=True, check=True)
    recipe.train(epochs=10, size=64, seed=0)
    assert run.stdout == capsys.readouterr().out


def test_the_rate_is_the_length_of_the_first_step(recipe):
    """Both means are those of one gradient then, so each parameter moves by the rate."""
    params = [{"w": weft.numpy.array([2.0, -3.0])}]
    grads = [{"w": weft.numpy.array([1e-3, -7.0])}]
    updates, state = recipe.adam_update(grads, recipe.adam_init(params), 0.5)
    np.testing.assert_allclose(updates[0]["w"], [-0.5, 0.5], rtol=1e-4)
    assert float(state.step) == 1
