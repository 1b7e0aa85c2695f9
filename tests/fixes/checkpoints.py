"""Fixes of checkpoints: where they are saved, what is saved, and what is restored."""

from __future__ import annotations

import atexit
import contextlib
import json
import pathlib
import tempfile

import numpy as np

import weft.numpy as jnp
from fixes import Fixed
from weft import checkpoints
from weft.checkpoints import chunks
from weft.errors import (
    CheckpointError,
    DTypeError,
    PlatformError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
)

_folder = tempfile.TemporaryDirectory()
atexit.register(_folder.cleanup)
FOLDER = pathlib.Path(_folder.name)
ONES = np.ones(3, np.float32)
LIKE = {"w": ONES, "n": 1}


def kept(name):
    """A directory with two steps."""
    made = checkpoints.Checkpoints(FOLDER / name)
    for step in (1, 2):
        if step not in made.steps():
            made.save(step, {"w": jnp.asarray(ONES) * step, "n": step}, wait=True)
    return made


def harmed():
    """The second step lacks its commit."""
    made = kept("harmed")
    (made.directory / "step_00000002" / "checkpoint.json").unlink(missing_ok=True)
    return made


def of_a_later_version():
    made = kept("later")
    file = made.directory / "step_00000002" / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 99}))
    return made


@contextlib.contextmanager
def without_tensorstore():
    before, chunks._tensorstore = chunks._tensorstore, _Absent()
    try:
        yield
    finally:
        chunks._tensorstore = before


class _Absent:
    def __getattr__(self, name):
        raise ImportError("No module named 'tensorstore'")


def restored_without_tensorstore():
    with without_tensorstore():
        return kept("whole").restore(1)


def saved_again(step):
    made = kept("later")
    if step not in made.steps():
        made.save(step, LIKE, wait=True)
    return made.restore(step)


def saved_at(path):
    checkpoints.save(path, LIKE)
    return checkpoints.restore(path)


def below_a_file():
    (FOLDER / "file").write_text("")
    checkpoints.save(FOLDER / "file" / "model", LIKE)


def with_like(**changes):
    return kept("whole").restore(1, like=LIKE | changes)


kept("whole")

FIXES = [
    Fixed(
        "restore another step: step=1",
        wrong=lambda: harmed().restore(),
        fixed=lambda fix: harmed().restore(fix.data["steps"][-1])["w"],
        value=ONES,
        error=CheckpointError,
    ),
    Fixed(
        "upgrade weft here, or save with the version that is here",
        wrong=lambda: of_a_later_version().restore(2),
        fixed=lambda fix: saved_again(3)["w"],
        value=ONES,
        error=CheckpointError,
    ),
    Fixed(
        "restore one that is there: step=2",
        wrong=lambda: kept("whole").restore(7),
        fixed=lambda fix: kept("whole").restore(fix.data["steps"][-1])["w"],
        value=2 * ONES,
        error=CheckpointError,
    ),
    Fixed(
        "ask first: latest() is None",
        wrong=lambda: checkpoints.Checkpoints(FOLDER / "none").restore(),
        fixed=lambda fix: checkpoints.Checkpoints(FOLDER / "none").latest() is None,
        value=True,
        error=CheckpointError,
    ),
    Fixed(
        "at the top of `like` write a dict with the keys n, w, or leave `like` out",
        wrong=lambda: kept("whole").restore(1, like={"w": ONES}),
        fixed=lambda fix: kept("whole").restore(1, like={"w": ONES, "n": 0})["w"],
        value=ONES,
        error=TreeError,
    ),
    Fixed(
        "give it the shape (3,) in `like`",
        wrong=lambda: with_like(w=np.ones(4, np.float32)),
        fixed=lambda fix: with_like(w=np.ones(fix.data["shape"], np.float32))["w"],
        value=ONES,
        error=ShapeError,
    ),
    Fixed(
        "give it the dtype float32 in `like`, and convert it after",
        wrong=lambda: with_like(w=np.ones(3)),
        fixed=lambda fix: with_like(w=np.ones(3, fix.data["dtype"]))["w"].astype(float),
        value=ONES,
        error=DTypeError,
    ),
    Fixed(
        "put a value of the same kind there in `like`",
        wrong=lambda: with_like(n=1.0),
        fixed=lambda fix: with_like(n=0)["n"],
        value=1,
        error=WeftTypeError,
    ),
    Fixed(
        "leave it out of the tree, or save the arrays that it is made of",
        wrong=lambda: checkpoints.save(FOLDER / "never", {"w": ONES, "f": open}),
        fixed=lambda fix: saved_at(FOLDER / "leaf")["w"],
        value=ONES,
        error=WeftTypeError,
    ),
    Fixed(
        "save under another name or step, or remove it first",
        wrong=lambda: kept("whole").save(2, LIKE),
        fixed=lambda fix: saved_at(FOLDER / "another")["w"],
        value=ONES,
        error=WeftValueError,
    ),
    Fixed(
        "give a path, of a file system that all processes see",
        wrong=lambda: checkpoints.save("gs://bucket/model", LIKE),
        fixed=lambda fix: saved_at(FOLDER / "local")["w"],
        value=ONES,
        error=WeftValueError,
    ),
    Fixed(
        "see that all processes can write there and have room, and save again",
        wrong=below_a_file,
        fixed=lambda fix: saved_at(FOLDER / "directory" / "model")["w"],
        value=ONES,
        error=CheckpointError,
    ),
    Fixed(
        "pip install 'weft[checkpoint]'",
        wrong=restored_without_tensorstore,
        fixed=lambda fix: kept("whole").restore(1)["w"],
        value=ONES,
        error=PlatformError,
    ),
]
