"""`Checkpoints`: retention, writing in the background, its errors, and what killed writers left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft import checkpoints
from weft.checkpoints import Checkpoints, saving, step_directory
from weft.errors import CheckpointError


def kept_steps(tmp_path, steps, **how):
    with Checkpoints(tmp_path, **how) as kept:
        for step in steps:
            kept.save(step, {"x": np.full(3, step)})
    return kept.steps()


@pytest.mark.parametrize(
    "how, wanted",
    [
        ({}, [4, 5, 6]),
        ({"keep": 1}, [6]),
        ({"keep": None}, [0, 1, 2, 3, 4, 5, 6]),
        ({"keep": 2, "keep_every": 3}, [0, 3, 5, 6]),
        ({"keep": 100}, [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_which_steps_are_kept(tmp_path, how, wanted):
    assert kept_steps(tmp_path, range(7), **how) == wanted
    assert sorted(os.listdir(tmp_path)) == [f"step_{n:08d}" for n in wanted]
    for step in wanted:
        assert Checkpoints(tmp_path).restore(step)["x"].tolist() == [step] * 3


def test_the_checkpoint_that_was_just_written_stays(tmp_path):
    """A program that goes back and continues from an earlier step keeps what it saves."""
    assert kept_steps(tmp_path, [10, 11, 12, 5], keep=2) == [5, 11, 12]


def test_numbers_of_more_digits(tmp_path):
    assert kept_steps(tmp_path, [99_999_999, 100_000_000, 3 * 10**9]) == [
        99_999_999, 100_000_000, 3 * 10**9
    ]  # fmt: skip


def test_what_else_lies_in_the_directory_stays(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "step_1").mkdir()
    assert kept_steps(tmp_path, [1, 2], keep=1) == [2]
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "step_00000002", "step_1"]


def test_latest(tmp_path):
    kept = Checkpoints(tmp_path / "made" / "by" / "it")
    assert kept.latest() is None and kept.steps() == []
    kept.save(4, 1, wait=True)
    kept.save(20, 2, wait=True)
    assert kept.latest() == 20 and kept.restore() == 2 and kept.restore(4) == 1
    assert repr(kept).endswith("steps=[4, 20])")


@pytest.mark.parametrize("how", [{"keep": 0}, {"keep": -1}, {"keep_every": 0}])
def test_counts_that_are_none(tmp_path, how):
    with pytest.raises(ValueError, match="not negative|1 or more"):
        Checkpoints(tmp_path, **how)


def test_steps_that_are_none(tmp_path):
    kept = Checkpoints(tmp_path)
    with pytest.raises(ValueError, match="step is not negative"):
        kept.save(-1, 1)
    with pytest.raises(TypeError, match="step is an integer"):
        kept.save(1.5, 1)
    kept.save(1, 1)
    with pytest.raises(ValueError, match="already"):
        kept.save(1, 2)
    assert kept.restore() == 1


# ---- in the background ---------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch):
    """An event that the writing waits for."""
    event = threading.Event()
    original = step_directory.write

    def write(*args):
        assert event.wait(30)
        original(*args)

    monkeypatch.setattr(step_directory, "write", write)
    return event


def test_arrays_may_be_donated_and_changed_after_save(tmp_path, held):
    mesh = weft.make_mesh((4,), ("x",))
    x = jnp.arange(64.0)
    sharded = weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))
    host = np.arange(5)
    kept = Checkpoints(tmp_path)
    kept.save(0, {"x": x, "sharded": sharded, "host": host})
    step = weft.jit(lambda a, b: (a * 0 - 1, b * 0 - 1), donate_argnums=(0, 1))
    new = step(x, sharded)
    host[:] = -1
    assert x.is_deleted() and sharded.is_deleted()
    assert kept.steps() == []
    held.set()
    kept.wait()
    found = kept.restore()
    assert found["x"].tolist() == found["sharded"].tolist() == list(range(64))
    assert found["host"].tolist() == list(range(5)) and (np.asarray(new[0]) == -1).all()


def test_save_waits_for_the_save_before(tmp_path, held):
    kept = Checkpoints(tmp_path)
    kept.save(0, {"x": jnp.ones(2)})
    threading.Timer(0.2, held.set).start()
    kept.save(1, {"x": jnp.zeros(2)})
    assert 0 in kept.steps()
    assert kept.restore()["x"].tolist() == [0, 0]  # restore waits too
    assert kept.steps() == [0, 1]


class Full(OSError):
    """The disk is full."""


@pytest.fixture
def failing(monkeypatch):
    def write(*_):
        raise Full(28, "No space left on device")

    monkeypatch.setattr(saving, "write_content", write)
    return monkeypatch


@pytest.mark.parametrize("call", ["save", "wait", "restore", "exit"])
def test_an_error_in_the_background_is_raised_at_the_next_call(tmp_path, failing, call):
    kept = Checkpoints(tmp_path)
    kept.save(3, {"x": jnp.ones(2)})
    calls = {
        "save": lambda: kept.save(4, 1), "wait": kept.wait, "restore": kept.restore,
        "exit": lambda: kept.__exit__(None, None, None),
    }  # fmt: skip
    with pytest.raises(CheckpointError, match="was not written") as caught:
        calls[call]()
    assert isinstance(caught.value.__cause__, OSError) and caught.value.fix is not None
    assert kept.steps() == []
    failing.undo()
    kept.save(3, {"x": jnp.ones(2)}, wait=True)  # it is raised once, and the step is free
    assert kept.steps() == [3] and sorted(os.listdir(tmp_path)) == ["step_00000003"]


def test_an_error_while_waiting_leaves_the_last_checkpoint(tmp_path, failing):
    failing.undo()
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"x": 1}, wait=True)
    failing.setattr(saving, "write_content", lambda *_: (_ for _ in ()).throw(Full(28, "full")))
    with pytest.raises(CheckpointError):
        kept.save(2, {"x": 2}, wait=True)
    assert kept.restore() == {"x": 1}


LIMITED = """
import resource, sys
import numpy as np
from weft import checkpoints
kept = checkpoints.Checkpoints(sys.argv[1])
kept.save(1, {"small": np.ones(10)}, wait=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    kept.save(2, {"big": np.ones(50_000), "small": np.ones(10)}, wait=True)
except checkpoints.step_directory.CheckpointError as error:
    print(error.message)
print(kept.steps(), kept.restore()["small"].sum())
"""


def test_a_disk_that_takes_no_more(tmp_path):
    out = python_output("-c", LIMITED, tmp_path)
    assert "was not written" in out and "File too large" in out and out.endswith("[1] 10.0\n")


ENDS = """
import sys
import numpy as np
import weft.numpy as jnp
from weft import checkpoints
kept = checkpoints.Checkpoints(sys.argv[1])
kept.save(1, {"x": jnp.ones((512, 512)), "n": np.ones((512, 512))})
"""


def test_a_program_that_ends_after_its_last_save_has_saved(tmp_path):
    python_output("-c", ENDS, tmp_path, timeout=60)
    assert Checkpoints(tmp_path).restore(1)["x"].sum() == 512 * 512


def test_a_program_that_ends_says_that_its_last_save_failed(tmp_path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-c", ENDS, str(tmp_path / "file" / "below")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "was not written" in done.stderr and "NotADirectoryError" in done.stderr


# ---- what is left --------------------------------------------------------------------------------


def test_what_a_killed_writer_left_is_ignored_and_removed_at_the_next_save(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(1, {"x": 1}, wait=True)
    for name in ("step_00000002.partial", "step_00000000.removed"):
        (tmp_path / name / "arrays").mkdir(parents=True)
        (tmp_path / name / "checkpoint.json").write_text("{")
    assert kept.steps() == [1] and kept.restore() == {"x": 1}
    kept.save(2, {"x": 2}, wait=True)
    assert sorted(os.listdir(tmp_path)) == ["step_00000001", "step_00000002"]


def test_what_another_program_is_writing_stays(tmp_path):
    other = tmp_path / "step_00000005.partial"
    other.mkdir()
    number = os.open(other, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    kept = Checkpoints(tmp_path)
    kept.save(4, {"x": 4}, wait=True)
    assert other.is_dir()
    with pytest.raises(CheckpointError, match="another program is writing"):
        kept.save(5, {"x": 5}, wait=True)
    os.close(number)
    kept.save(5, {"x": 5}, wait=True)
    assert kept.steps() == [4, 5]


def test_save_leaves_nothing_where_it_fails(tmp_path, failing):
    with pytest.raises(CheckpointError):
        checkpoints.save(tmp_path / "model", {"x": jnp.ones(2)})
    assert not (tmp_path / "model").exists()
    failing.undo()
    checkpoints.save(tmp_path / "model", {"x": jnp.ones(2)})
    assert os.listdir(tmp_path) == ["model"]
