"""A program of several processes, for checkpoints/test_processes.py: its arguments are names of
functions below, each with the path that it gets."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

import numpy as np
import tensorstore

import weft
import weft.numpy as jnp
from weft import checkpoints
from weft.checkpoints import chunks
from weft.errors import CheckpointError

TABLE = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)


def mesh():
    return weft.make_mesh((2, weft.device_count() // 2), ("x", "y"))


def spread(table, *spec):
    """An array over all processes."""
    where = weft.NamedSharding(mesh(), weft.P(*spec))
    return weft.make_array_from_callback(table.shape, where, lambda index: table[index])


def state():
    """Arrays over all processes, and what each process has for itself."""
    mine = weft.process_index()
    keys = weft.random.key_data(weft.random.split(weft.random.key(0), 8))
    return {
        "w": spread(TABLE, "x", "y"),
        "rows": spread(TABLE, ("y", "x")),
        "half": spread(TABLE, None, "x"),
        "all": spread(TABLE),
        "bfloat16": spread(TABLE.astype(jnp.bfloat16), "y"),
        "keys": weft.random.wrap_key_data(spread(np.asarray(keys), "x", None)),
        "empty": spread(TABLE[:0], None, "y"),
        "local": jnp.ones(3) * (mine + 1), "numpy": np.arange(3) + mine, "number": mine + 5,
    }  # fmt: skip


def structs(spec):
    """The types of `state`, all in one sharding."""
    where = weft.NamedSharding(mesh(), weft.P(*spec))

    def one(name, x):
        if not isinstance(x, weft.Array) or name == "local":
            return x
        place = where if x.ndim == 2 and x.size else weft.NamedSharding(mesh(), weft.P())
        return weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)

    return {name: one(name, x) for name, x in state().items()}


def check(found):
    """Every part that this process has is as it was saved; what was local is process 0's."""
    wanted = dict.fromkeys(("w", "rows", "half", "all"), TABLE)
    for name, table in wanted.items():
        assert found[name].shape == table.shape
        for shard in found[name].addressable_shards:
            assert (np.asarray(shard.data) == table[shard.index]).all(), name
    assert found["bfloat16"].dtype == jnp.bfloat16
    for shard in found["bfloat16"].addressable_shards:
        assert (np.asarray(shard.data, np.float32) == TABLE[shard.index].astype(jnp.bfloat16)).all()
    keys = weft.random.key_data(weft.random.split(weft.random.key(0), 8))
    for shard in found["keys"].addressable_shards:
        assert (np.asarray(weft.random.key_data(shard.data)) == np.asarray(keys)[shard.index]).all()
    assert found["empty"].shape == (0, 32) and found["local"].tolist() == [1, 1, 1]
    assert found["numpy"].tolist() == [0, 1, 2] and found["number"] == 5


def bytes_read():
    name = "/tensorstore/kvstore/file/bytes_read"
    found = tensorstore.experimental_collect_matching_metrics(name)
    return sum(value["value"] for metric in found for value in metric["values"])


def saving(path):
    checkpoints.save(path, state())


def restoring(path):
    for spec in ((), ("x",), ("y", "x"), (None, ("x", "y"))):
        check(checkpoints.restore(path, like=structs(spec)))


def reading_what_is_needed(path):
    """Of an array that lies in quarters, each process reads the two that its devices need."""
    before = bytes_read()
    where = weft.NamedSharding(mesh(), weft.P("x"))
    found = checkpoints.restore(path, shardings=where)
    rows = {shard.index[0].start or 0 for shard in found.addressable_shards}
    needed = len(rows) * TABLE.nbytes // 2
    crcs = bytes_read() - before - needed  # of 4 bytes for each chunk
    assert 0 < crcs <= 16 * 4, (crcs, needed)
    last = weft.devices()[-1]  # of process 1
    before = bytes_read()
    found = checkpoints.restore(path, shardings=last)
    assert len(found.addressable_shards) == weft.process_index()
    assert bytes_read() - before == (TABLE.nbytes + 8 * 4 if weft.process_index() else 0)
    print(f"process {weft.process_index()} read {needed} of {TABLE.nbytes} bytes", flush=True)


def saving_one(path):
    checkpoints.save(path, spread(TABLE, "x", "y"))


def steps(path):
    """Saves in the background, and goes on from the last step."""
    with checkpoints.Checkpoints(path, keep=2) as kept:
        assert kept.latest() is None
        for step in range(4):
            kept.save(step, {"w": spread(TABLE + step, "x", "y"), "step": step})
        found = kept.restore(shardings={"w": weft.NamedSharding(mesh(), weft.P("y")), "step": None})
        assert found["step"] == 3
        for shard in found["w"].addressable_shards:
            assert (np.asarray(shard.data) == TABLE[shard.index] + 3).all()
    assert kept.steps() == [2, 3]
    assert sorted(os.listdir(path)) == ["step_00000002", "step_00000003"]


def one_cannot_write(path):
    """Process 1 fails while it writes: all hear of it, and the checkpoint before stays."""
    kept = checkpoints.Checkpoints(path)
    kept.save(1, {"w": spread(TABLE, "x", "y")}, wait=True)
    original = chunks.LeafStore.write
    if weft.process_index() == 1:

        def write(self, block):
            raise OSError(28, "No space left on device")

        chunks.LeafStore.write = write
    kept.save(2, {"w": spread(TABLE + 1, "x", "y")})
    try:
        kept.wait()
    except CheckpointError as error:
        print(f"process {weft.process_index()}: {error.message}", flush=True)
    chunks.LeafStore.write = original
    assert kept.steps() == [1]
    kept.save(3, {"w": spread(TABLE + 2, "x", "y")}, wait=True)
    assert kept.steps() == [1, 3]


def different_trees(path):
    tree = {"w": spread(TABLE, "x", "y"), "b": np.zeros(2 + weft.process_index())}
    try:
        checkpoints.save(path, tree)
    except CheckpointError as error:
        print(f"process {weft.process_index()}: {error.message}", flush=True)


def of_other_processes(path):
    """An array that only process 1 has."""
    last = weft.make_mesh((1,), ("x",), devices=weft.devices()[-1:])
    where = weft.NamedSharding(last, weft.P())
    x = weft.make_array_from_callback((4,), where, lambda index: TABLE[0, :4], dtype=np.float32)
    try:
        checkpoints.save(path, {"x": x})
    except CheckpointError as error:
        print(f"process {weft.process_index()}: {error.message}", flush=True)


def killed(path):
    """Process 1 is killed while it writes step 2."""
    kept = checkpoints.Checkpoints(path)
    kept.save(1, {"w": spread(TABLE, "x", "y")}, wait=True)
    if weft.process_index() == 1:
        chunks.LeafStore.seal = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    kept.save(2, {"w": spread(TABLE + 1, "x", "y")}, wait=True)


if __name__ == "__main__":
    weft.distributed.initialize()
    for what, path in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        globals()[what](pathlib.Path(path))
