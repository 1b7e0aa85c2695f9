"""`examples/train_lm.py` in one process and in several: the same losses; killed and gone on from a
checkpoint: the same losses, bit for bit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from group_runs import ROOT

pytest.importorskip("tensorstore")

SMALL = (
    "--layers", "2", "--embed", "32", "--heads", "4", "--context", "32", "--batch", "8", "--text",
    "50000", "--print-losses",
)  # fmt: skip
PATH = str(ROOT / "examples" / "train_lm.py")


def command(count, *arguments):
    """One process with eight devices, or several that share them."""
    if count == 1:
        return [sys.executable, PATH, "--devices", "8", *SMALL, *arguments]
    launcher = [sys.executable, "-m", "weft.launch", "-n", str(count)]
    return [*launcher, "--devices-per-process", str(8 // count), PATH, *SMALL, *arguments]


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_FLAGS"))}
    return kept | {"PYTHONPATH": str(ROOT)}


def losses(text):
    """step -> loss, exactly."""
    found = re.findall(r"loss (\d+) (\S+)$", text, re.MULTILINE)
    return {int(step): float.fromhex(value) for step, value in found}


def run(count, *arguments):
    done = subprocess.run(
        command(count, *arguments), env=environment(), capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


@pytest.fixture(scope="module")
def alone():
    return run(1, "--steps", "8")


@pytest.mark.parametrize("count", [2, 4])
def test_losses_do_not_depend_on_the_processes(alone, count):
    found = run(count, "--steps", "8")
    assert found.keys() == alone.keys() == set(range(8))
    assert alone[7] < alone[0] - 0.5
    np.testing.assert_allclose(list(found.values()), list(alone.values()), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_killed_and_resumed(alone, count, tmp_path):
    """One process of the run is killed when the checkpoint of step 3 is there; a run that begins
    anew goes on from it."""
    folder = str(tmp_path / "state")
    arguments = ("--folder", folder, "--save-every", "4")
    process = subprocess.Popen(
        command(count, "--steps", "1000", *arguments), env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    seen = ""
    while not re.search(r"loss 9 ", seen):
        line = process.stdout.readline()
        assert line, seen
        seen += line
    victim = process.pid if count == 1 else children(process.pid)[-1]
    os.kill(victim, signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    before = losses(seen + rest)
    after = run(count, "--steps", "14", *arguments)
    assert min(after) > 0 and min(after) % 4 == 0 and max(after) == 13
    whole = run(count, "--steps", "14")
    for step, value in (before | after).items():
        if step in whole:
            assert value == whole[step], step


def children(number):
    """The processes that a process has started, in order."""
    with open(f"/proc/{number}/task/{number}/children", encoding="ascii") as file:
        found = [int(child) for child in file.read().split()]
    assert found
    return sorted(found)
