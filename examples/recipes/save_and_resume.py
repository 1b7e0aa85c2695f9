"""Saves the state of a training as it runs; a killed run goes on from there, bit for bit.

    python examples/recipes/save_and_resume.py                      # shows it: kills a run
    python examples/recipes/save_and_resume.py --folder state       # stop it, and start it again
    python examples/recipes/save_and_resume.py --picture save_and_resume.svg

Checkpoints are written by TensorStore: pip install 'weft[checkpoint]'.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import checkpoints, nn, random

Tree = Any
STYLE = Path(__file__).with_name("recipes.mplstyle")


class State(NamedTuple):
    """All that a step reads and changes. The key chooses the batch and what is dropped out."""

    params: Tree
    momentum: Tree
    key: weft.Array


def start(key: weft.Array) -> State:
    key, first, second = random.split(key, 3)
    params = {
        "hidden": 0.2 * random.normal(first, (64, 64)),
        "out": 0.1 * random.normal(second, (64, 10)),
    }
    return State(params, weft.tree.map(jnp.zeros_like, params), key)


def loss(params: Tree, x: weft.Array, y: weft.Array, key: weft.Array) -> weft.Array:
    """Cross-entropy, with half of the hidden units dropped out."""
    hidden = nn.relu(x @ params["hidden"])
    hidden = jnp.where(random.bernoulli(key, 0.5, hidden.shape), 2 * hidden, 0)
    logp = nn.log_softmax(hidden @ params["out"])
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=-1))


@weft.jit(donate_argnums=0)
def train_step(state: State, x: weft.Array, y: weft.Array) -> tuple[State, weft.Array]:
    key, batch_key, drop_key = random.split(state.key, 3)
    rows = random.randint(batch_key, (64,), 0, len(y))
    value, grads = weft.value_and_grad(loss)(state.params, x[rows], y[rows], drop_key)
    momentum = weft.tree.map(lambda m, g: 0.9 * m + g, state.momentum, grads)
    params = weft.tree.map(lambda p, m: p - 0.02 * m, state.params, momentum)
    return State(params, momentum, key), value


def train(folder: Path, steps: int, kill_after: int | None = None) -> dict[int, float]:
    """The losses of the steps that this run made. It begins after the last saved step."""
    images, labels = load_digits(return_X_y=True)
    x, y = jnp.asarray(images / 16, jnp.float32), jnp.asarray(labels, jnp.int32)
    state, first, losses = start(random.key(0)), 0, {}
    with checkpoints.Checkpoints(folder, keep=2) as kept:
        last = kept.latest()
        if last is not None:
            state, first = kept.restore(last, like=state), last + 1
            print(f"goes on after step {last}", flush=True)
        for step in range(first, steps):
            state, value = train_step(state, x, y)
            losses[step] = float(value)
            if step % 20 == 0:
                kept.save(step, state)
            if step == kill_after:
                kept.wait()  # so that this example always goes on after the same step
                os.kill(os.getpid(), signal.SIGKILL)
    return losses


def draw(path: Path, whole: dict[int, float], resumed: dict[int, float]) -> None:
    with matplotlib.style.context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        axes.plot(list(whole), list(whole.values()), color="C4", lw=5, alpha=0.5, label="one run")
        axes.plot(list(resumed), list(resumed.values()), color="C0", label="the resumed run")
        axes.axvline(110, color="C1", ls="--", label="the killed run ended here")
        axes.set(xlabel="step", ylabel="loss of the batch")
        axes.legend()
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Saves and resumes a training.")
    parser.add_argument("--folder", type=Path, help="where the state is saved, and found again")
    parser.add_argument("--kill-after", type=int, help="the step after which the run is killed")
    parser.add_argument("--picture", type=Path, help="where to draw the losses")
    options = parser.parse_args(argv)
    if options.folder:
        losses = train(options.folder, 200, options.kill_after)
        print(f"the last of {len(losses)} losses: {list(losses.values())[-1]:.2f}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        whole = train(Path(folder, "whole"), 200)
        killed = Path(folder, "killed")
        command = [sys.executable, __file__, "--folder", killed, "--kill-after", "110"]
        print(f"a run is killed after step 110: it ends with {subprocess.call(command)}")
        resumed = train(killed, 200)
    equal = all(resumed[step] == whole[step] for step in resumed)
    print(f"the losses of steps {min(resumed)} to {max(resumed)} are equal: {equal}")
    if options.picture:
        draw(options.picture, whole, resumed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
