"""A checkpoint that is not as it was written is refused with the name of the leaf; so is a template
that does not fit. Every error has a fix."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import shutil

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import checkpoints, tree
from weft.checkpoints import chunks
from weft.errors import (
    CheckpointError,
    DTypeError,
    Fix,
    PlatformError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
)


def state():
    mesh = weft.make_mesh((4,), ("x",))
    w = weft.device_put(jnp.arange(32.0).reshape(8, 4), weft.NamedSharding(mesh, weft.P("x")))
    return {"params": {"w": w, "b": jnp.ones(4)}, "step": 7, "lr": [0.5, np.arange(3)]}


@pytest.fixture
def kept(tmp_path):
    """Two steps, of which the second is to be harmed."""
    made = checkpoints.Checkpoints(tmp_path, keep=None)
    made.save(1, state(), wait=True)
    made.save(2, state(), wait=True)
    return made


def store_of(kept, name):
    return next((kept.directory / "step_00000002" / "arrays").glob(f"*{name}"))


def refused(kept, message, *, leaf=None, **how):
    """The error of restoring the second step, with what it has to say; the first one is whole."""
    with pytest.raises(CheckpointError, match=message) as caught:
        kept.restore(2, **how)
    error = caught.value
    assert isinstance(error.fix, Fix) and error.fix.data["steps"] == [1]
    assert leaf is None or f"leaf {leaf} " in str(error)
    found = kept.restore(error.fix.data["steps"][-1])
    assert (np.asarray(found["params"]["w"]) == np.asarray(state()["params"]["w"])).all()
    return error


W = "['params']['w']"


def test_a_missing_shard(kept):
    (store_of(kept, "w") / "c" / "2" / "0").unlink()
    error = refused(kept, "missing", leaf=W)
    assert error.got == "no chunk c/2/0"


def test_a_missing_array(kept):
    shutil.rmtree(store_of(kept, "w"))
    refused(kept, "missing", leaf=W)


@pytest.mark.parametrize(
    "part", [slice(0), slice(3), slice(30), slice(35), slice(4, None)], ids=str
)
def test_a_chunk_cut_short(kept, part):
    chunk = store_of(kept, "w") / "c" / "1" / "0"
    content = chunk.read_bytes()[part]  # without its beginning, with the right CRC at its end
    chunk.write_bytes(content)
    error = refused(kept, "cut short", leaf=W)
    assert error.got == f"{len(content)} bytes" and error.wanted == "36 bytes of the chunk c/1/0"


def test_a_chunk_that_is_longer(kept):
    chunk = store_of(kept, "w") / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes() + b"\0")
    refused(kept, "longer", leaf=W)


@pytest.mark.parametrize("byte", range(36))
def test_every_flipped_byte_of_a_chunk(kept, byte):
    chunk = store_of(kept, "w") / "c" / "3" / "0"
    content = bytearray(chunk.read_bytes())
    content[byte] ^= 1 << byte % 8
    chunk.write_bytes(content)
    refused(kept, "changed after it was saved|not as it was saved", leaf=W)


def test_a_chunk_of_another_place_or_checkpoint(kept):
    # It has the right CRC for its bytes, and is not the one that was saved.
    shutil.copy(store_of(kept, "w") / "c" / "0" / "0", store_of(kept, "w") / "c" / "1" / "0")
    refused(kept, "not as it was saved", leaf=W)


def test_only_what_is_read_is_looked_at(kept):
    """A damaged chunk that no device of this process needs is another process's error."""
    chunk = store_of(kept, "b") / "c" / "0"
    chunk.write_bytes(b"")
    refused(kept, "cut short", leaf="['params']['b']")


@pytest.mark.parametrize("leaf", ["w", "b", "lr_1"])
def test_the_description_of_an_array_is_not_needed(kept, leaf):
    (store_of(kept, leaf) / "zarr.json").write_text("{")
    found = kept.restore(2)
    assert (np.asarray(found["params"]["w"]) == np.asarray(state()["params"]["w"])).all()


# ---- the commit ----------------------------------------------------------------------------------


def commit_of(kept):
    return kept.directory / "step_00000002" / "checkpoint.json"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "{}", '{"format": "weft checkpoint"}', "\x80", "[" * 10**5]
)
def test_an_unreadable_commit(kept, text):
    commit_of(kept).write_bytes(text.encode("latin-1"))
    refused(kept, "no file that a checkpoint begins with")


def test_a_missing_commit(kept):
    commit_of(kept).unlink()
    refused(kept, "no complete checkpoint")


def test_a_commit_cut_short(kept):
    text = commit_of(kept).read_text()
    for length in range(0, len(text) - 1, 61):
        commit_of(kept).write_text(text[:length])
        refused(kept, "no file that a checkpoint begins with")


def test_a_commit_with_another_number(kept):
    text = commit_of(kept).read_text()
    assert '"0x7"' in text
    commit_of(kept).write_text(text.replace('"0x7"', '"0x8"'))
    refused(kept, "changed after it was written")


def test_a_later_version_and_another_format(kept):
    whole = json.loads(commit_of(kept).read_text())
    commit_of(kept).write_text(json.dumps(whole | {"version": 2, "content": {"new": []}}))
    with pytest.raises(CheckpointError, match="later version of weft") as caught:
        kept.restore(2)
    assert "upgrade weft" in caught.value.fix.text
    commit_of(kept).write_text(json.dumps(whole | {"format": "another"}))
    refused(kept, "another format")


def test_the_digest_is_that_of_the_documentation(kept):
    whole = json.loads(commit_of(kept).read_text())
    text = json.dumps(whole["content"], sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == whole["sha256"]


def test_what_is_not_there(tmp_path, kept):
    with pytest.raises(CheckpointError, match="there is no checkpoint at") as caught:
        kept.restore(3)
    assert caught.value.fix.data["steps"] == [1, 2]
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        checkpoints.restore(tmp_path / "nothing" / "here")
    with pytest.raises(CheckpointError, match="there are no checkpoints in") as caught:
        checkpoints.Checkpoints(tmp_path / "empty").restore()
    assert caught.value.fix is not None


def test_keys_of_a_generator_that_is_not_here(kept, monkeypatch):
    keys = weft.random.key(0, impl="rbg")
    kept.save(3, {"key": keys}, wait=True)
    file = kept.directory / "step_00000003" / "checkpoint.json"
    content = json.loads(file.read_text())["content"]
    content["leaves"][0]["type"]["key"] = "strange"
    checkpoints.commit.write_content(file, content)
    with pytest.raises(WeftValueError, match=r"leaf \['key'\]") as caught:
        kept.restore(3)
    assert "define_generator('strange'" in caught.value.fix.text


# ---- templates -----------------------------------------------------------------------------------


@tree.register_dataclass
@dataclasses.dataclass
class Params:
    w: object
    b: object


PairOfParams = collections.namedtuple("PairOfParams", "b w")


def changed(**changes):
    return {**state(), **changes}


PARAMS = state()["params"]


@pytest.mark.parametrize(
    "like, where",
    [
        (changed(more=1), "the top"),
        ({k: v for k, v in state().items() if k != "step"}, "the top"),
        (changed(params=[1, 2]), "['params']"),
        (changed(params=None), "['params']"),
        (changed(params=Params(PARAMS["w"], PARAMS["b"])), "['params']"),
        (changed(params=PairOfParams(PARAMS["b"], PARAMS["w"])), "['params']"),
        (changed(params={"w": PARAMS["w"], "c": PARAMS["b"]}), "['params']"),
        (changed(params=jnp.ones(3)), "['params']"),
        (changed(step=[7]), "['step']"),
        (changed(step=None), "['step']"),
        (changed(lr=(0.5, np.arange(3))), "['lr']"),
        (changed(lr=[0.5]), "['lr']"),
        (3.0, "the top"),
    ],
)
def test_a_template_of_another_structure(kept, like, where):
    with pytest.raises(TreeError) as caught:
        kept.restore(like=like)
    assert f"differ at {where}" in caught.value.message
    assert caught.value.fix is not None and where in caught.value.fix.text


@pytest.mark.parametrize(
    "like, leaf, error",
    [
        (changed(params={**PARAMS, "b": jnp.ones(5)}), "['params']['b']", ShapeError),
        (changed(params={**PARAMS, "b": jnp.ones((4, 1))}), "['params']['b']", ShapeError),
        (changed(params={**PARAMS, "b": jnp.ones(4, int)}), "['params']['b']", DTypeError),
        (changed(params={**PARAMS, "b": np.ones(4)}), "['params']['b']", DTypeError),
        (changed(params={**PARAMS, "b": 1.0}), "['params']['b']", WeftTypeError),
        (changed(params={**PARAMS, "b": "b"}), "['params']['b']", WeftTypeError),
        (changed(step=7.0), "['step']", WeftTypeError),
        (changed(step=True), "['step']", WeftTypeError),
        (changed(step=jnp.asarray(7)), "['step']", WeftTypeError),
        (changed(lr=[0.5, weft.random.split(weft.random.key(0), 3)]), "['lr'][1]", DTypeError),
    ],
)
def test_a_template_with_another_leaf(kept, like, leaf, error):
    with pytest.raises(error) as caught:
        kept.restore(like=like)
    assert f"leaf {leaf} " in caught.value.message and caught.value.fix is not None


def test_a_sharding_that_does_not_fit(kept):
    where = weft.NamedSharding(weft.make_mesh((8,), ("x",)), weft.P("x"))
    with pytest.raises(ShapeError, match=r"leaf \['params'\]\['b'\]"):
        kept.restore(shardings={"params": where, "step": None, "lr": None})
    with pytest.raises(TreeError, match="shardings is not a prefix"):
        kept.restore(shardings={"params": where})


def test_nothing_is_read_before_all_of_the_template_fits(kept):
    shutil.rmtree(store_of(kept, "w"))
    with pytest.raises(ShapeError):
        kept.restore(2, like=changed(lr=[0.5, np.arange(4)]))


def test_without_tensorstore(kept, monkeypatch):
    class Absent:
        def __getattr__(self, name):
            raise ImportError("No module named 'tensorstore'")

    monkeypatch.setattr(chunks, "_tensorstore", Absent())
    for call in (kept.restore, lambda: kept.save(3, state())):
        with pytest.raises(PlatformError, match="TensorStore, which is not installed") as caught:
            call()
        assert "pip install 'weft[checkpoint]'" in caught.value.fix.text
