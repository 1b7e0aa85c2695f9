"""Checkpoints that somebody changed, with the digests that belong to the change: an error of
weft's own, or the tree that it says. Never another error, a hang, or a file elsewhere.

`python tools/fuzz.py --family crafted-checkpoints` draws more, in a process of its own.
"""

from __future__ import annotations

import atexit
import collections
import functools
import json
import pathlib
import random
import shutil
import tempfile

import hypothesis
import hypothesis.strategies as st
import numpy as np

import weft
import weft.numpy as jnp
from crafted_files import changed, changed_bytes
from weft import checkpoints
from weft.checkpoints.commit import digest_of
from weft.errors import WeftError

Point = collections.namedtuple("Point", "x y")
FOLDER = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def state():
    return {
        "w": jnp.arange(24.0).reshape(6, 4), "half": jnp.ones((2, 0, 3), "bfloat16"),
        "key": weft.random.key(3), "z": [jnp.asarray(1 + 2j), np.int8(3), np.arange(5) > 2],
        "point": Point(7, (None, 0.5, "text", 1j, True)), "small": jnp.arange(3, dtype="int4"),
    }  # fmt: skip


@functools.cache
def saved():
    checkpoints.save(FOLDER / "saved", state())
    return json.loads((FOLDER / "saved" / "checkpoint.json").read_text())


def crafted(seed):
    """The folder of a checkpoint that was changed in a way, and whether `like` is given."""
    draw = random.Random(seed)
    whole = saved()
    target = FOLDER / "crafted"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(FOLDER / "saved", target)
    if draw.random() < 0.9:
        content = changed(whole["content"], draw)
        whole = {**whole, "content": content, "sha256": digest_of(content)}
        (target / "checkpoint.json").write_text(json.dumps(whole))
    else:
        files = sorted(path for path in target.rglob("*") if path.is_file())
        chosen = draw.choice(files)
        chosen.write_bytes(changed_bytes(chosen.read_bytes(), draw))
    return target, draw.random() < 0.5


def use(target, with_like):
    out = checkpoints.restore(target, like=state() if with_like else None)
    weft.block_until_ready(out)
    repr(out)


@hypothesis.settings(max_examples=150)
@hypothesis.given(st.integers(0, 2**32))
def test_a_changed_checkpoint_is_refused_or_restored(seed):
    target, with_like = crafted(seed)
    try:
        use(target, with_like)
    except WeftError:
        pass


def test_no_leaf_is_read_from_elsewhere(tmp_path):
    """The name of a leaf's folder is one of the checkpoint's own."""
    for name in ("first", "second"):
        checkpoints.save(tmp_path / name, {"x": jnp.arange(4.0)})
    file = tmp_path / "first" / "checkpoint.json"
    whole = json.loads(file.read_text())
    (record,) = whole["content"]["leaves"]
    for store in (f"../../second/arrays/{record['store']}", "..", "/", "0/../../x", ""):
        record["store"] = store
        whole["sha256"] = digest_of(whole["content"])
        file.write_text(json.dumps(whole))
        try:
            checkpoints.restore(tmp_path / "first")
        except weft.errors.CheckpointError as error:
            assert "a name of a folder" in str(error)
        else:
            raise AssertionError(store)
