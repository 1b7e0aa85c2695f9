"""What was saved is restored: trees, dtypes, shardings, kinds of leaves."""

from __future__ import annotations

import collections
import dataclasses
import json

import numpy as np
import pytest
import tensorstore

import weft
import weft.numpy as jnp
from weft import checkpoints, dtypes, tree
from weft.checkpoints import saved_leaves
from weft.layout import Format, Layout

Pair = collections.namedtuple("Pair", "left right")


@tree.register_dataclass
@dataclasses.dataclass
class Dense:
    weight: object
    bias: object
    name: str = tree.static(default="dense")


@tree.register_class
class Stack:
    """A class of a user's whose children have no names."""

    def __init__(self, layers):
        self.layers = layers

    def tree_flatten(self):
        return tuple(self.layers), None

    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(list(children))


def mesh_of(*sizes):
    return weft.make_mesh(sizes, ("x", "y", "z")[: len(sizes)])


def placed(value, mesh, *spec):
    return weft.device_put(value, weft.NamedSharding(mesh, weft.P(*spec)))


def stored(x):
    """The values of a leaf as bytes, and what it is."""
    if isinstance(x, weft.Array):
        bits = weft.random.key_data(x) if dtypes.is_extended(x.dtype) else x
        values = np.asarray(bits)
        return "array", x.dtype, x.shape, x.weak_type, values.tobytes()
    if isinstance(x, np.ndarray | np.generic):
        return type(x), x.dtype, x.shape, x.tobytes()
    return type(x), repr(x)


def assert_same(found, wanted):
    assert tree.structure(found) == tree.structure(wanted)
    for (path, one), (_, other) in zip(
        tree.leaves_with_path(found), tree.leaves_with_path(wanted), strict=True
    ):
        assert stored(one) == stored(other), tree.keystr(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


def model():
    return {
        "layers": [Dense(jnp.arange(6.0).reshape(2, 3), jnp.ones(3)), Dense(jnp.zeros(1), None)],
        "pair": Pair(jnp.asarray(2), (np.arange(3), [])),
        "stack": Stack([jnp.ones(2), jnp.zeros(1)]),
        "ordered": collections.OrderedDict([("z", jnp.ones(1)), ("a", 4)]),
        "default": collections.defaultdict(list, {1: jnp.ones(1), 0: 2.5}),
        ("a", 1): True,
    }  # fmt: skip


def same_keys(value):
    """The model with keys of dicts that can be sorted."""
    return {str(key): child for key, child in value.items()}


def test_a_template_gives_the_containers_back(path):
    saved = same_keys(model())
    checkpoints.save(path, saved)
    like = tree.map(lambda x: x, saved)
    assert_same(checkpoints.restore(path, like=like), saved)


def test_without_a_template_there_are_dicts_and_lists(path):
    checkpoints.save(path, same_keys(model()))
    found = checkpoints.restore(path)
    assert found["layers"][1] == {"weight": found["layers"][1]["weight"], "bias": None}
    assert set(found["pair"]) == {"left", "right"}
    assert isinstance(found["pair"]["right"], tuple) and found["pair"]["right"][1] == []
    assert isinstance(found["stack"], list) and len(found["stack"]) == 2
    assert set(found["ordered"]) == {"a", "z"} and found["default"][0] == 2.5
    assert found["('a', 1)"] is True


@pytest.mark.parametrize("keys", [(1, 2), (1.5, 2.5), (True, False), (("a", 1), ("b", 2))])
def test_keys_of_dicts_keep_their_kind(path, keys):
    saved = {key: np.float32(n) for n, key in enumerate(keys)}
    checkpoints.save(path, saved)
    assert_same(checkpoints.restore(path), saved)


def test_a_single_leaf_and_an_empty_tree(path):
    checkpoints.save(path, jnp.arange(3))
    assert_same(checkpoints.restore(path), jnp.arange(3))
    checkpoints.save(path.with_name("empty"), {"a": [], "b": None})
    assert checkpoints.restore(path.with_name("empty")) == {"a": [], "b": None}


DTYPES = sorted(dtypes.ANY | dtypes.NARROW, key=str)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(path, dtype):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2 if dtype == np.bool_ else 256, (8, dtype.itemsize), np.uint8)
    if dtypes.itemsize_bits(dtype) < 8 and dtype != np.bool_:
        bits %= 1 << dtypes.itemsize_bits(dtype)
    values = bits.view(dtype).reshape(8)
    if dtypes.is_integer(dtype) and dtype in dtypes.NARROW:
        values = bits.reshape(8).astype(np.int8).astype(dtype)
    with weft.enable_x64():
        x = jnp.asarray(values)
        saved = {"x": x, "sharded": placed(x, mesh_of(4), "x"), "scalar": x[0], "none": x[:0]}
        saved |= {"numpy": values, "one": values[3]}
        checkpoints.save(path, saved)
        found = checkpoints.restore(path, like=saved)
    assert_same(found, saved)
    assert found["sharded"].sharding == saved["sharded"].sharding


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys(path, impl):
    keys = weft.random.split(weft.random.key(3, impl=impl), 8)
    saved = {"one": keys[0], "all": keys, "sharded": placed(keys, mesh_of(4), "x")}
    checkpoints.save(path, saved)
    found = checkpoints.restore(path)
    assert_same(found, {"one": keys[0], "all": keys, "sharded": keys})
    assert_same(checkpoints.restore(path, like=saved), saved)
    drawn = [weft.random.normal(k, (3,)).tolist() for k in (found["one"], keys[0])]
    assert drawn[0] == drawn[1]


NUMBERS = [0, -1, 10**30, True, 0.1, -0.0, float("nan"), float("inf"), 5e-324, 1 + 2j, "a", "é\n"]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers_and_strings_of_python(path, value):
    checkpoints.save(path, [value])
    (found,) = checkpoints.restore(path)
    assert type(found) is type(value) and repr(found) == repr(value)
    (found,) = checkpoints.restore(path, like=[value])
    assert repr(found) == repr(value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3), (1, 1, 4)])
def test_shapes(path, shape):
    size = int(np.prod(shape))
    saved = {"x": jnp.arange(size, dtype=float).reshape(shape), "n": np.arange(size).reshape(shape)}
    checkpoints.save(path, saved)
    assert_same(checkpoints.restore(path), saved)


def test_numpy_arrays_keep_64_bits_and_any_order_in_memory(path):
    saved = {"t": np.arange(6.0).reshape(2, 3).T, "swapped": np.arange(3, dtype=">f8"), "i": 7}
    checkpoints.save(path, saved)
    found = checkpoints.restore(path)
    assert found["t"].dtype == np.float64 and (found["t"] == saved["t"]).all()
    assert found["swapped"].dtype == np.dtype("<f8")
    assert (found["swapped"] == saved["swapped"]).all() and found["t"].flags.writeable


def test_weak_types_are_kept(path):
    saved = [jnp.ones(()), weft.jit(lambda: 2.0)()]
    assert [x.weak_type for x in saved] == [False, True]
    checkpoints.save(path, saved)
    assert_same(checkpoints.restore(path), saved)


def test_layouts(path):
    order = Layout((1, 0))
    x = weft.device_put(jnp.arange(6.0).reshape(2, 3), Format(order, weft.devices()[0]))
    checkpoints.save(path, x)
    assert_same(checkpoints.restore(path), jnp.arange(6.0).reshape(2, 3))
    assert checkpoints.restore(path, like=x).format == x.format


def test_what_each_kind_of_template_gives(path):
    checkpoints.save(path, {"x": np.arange(4, dtype=np.float32)})
    mesh = mesh_of(2)
    where = weft.NamedSharding(mesh, weft.P("x"))
    struct = weft.ShapeDtypeStruct((4,), np.float32, sharding=where)
    assert checkpoints.restore(path, like={"x": struct})["x"].sharding == where
    found = checkpoints.restore(path, like={"x": jnp.zeros(4)})["x"]
    assert type(found) is weft.Array and not found.committed
    assert type(checkpoints.restore(path, like={"x": np.zeros(4, np.float32)})["x"]) is np.ndarray
    found = checkpoints.restore(path, shardings=weft.devices()[3])["x"]
    assert found.devices() == {weft.devices()[3]}
    found = checkpoints.restore(path, like={"x": struct}, shardings=weft.devices()[3])["x"]
    assert found.devices() == {weft.devices()[3]}


def test_a_spec_over_the_mesh_in_force(path):
    checkpoints.save(path, {"x": jnp.arange(8.0), "n": 3})
    with weft.use_mesh(mesh_of(4)):
        found = checkpoints.restore(path, shardings={"x": weft.P("x"), "n": None})
    assert found["x"].sharding.spec == weft.P("x") and found["n"] == 3


SPECS = [(), ("x",), ("y",), (None, "x"), ("x", "y"), ("y", "x"), (("x", "y"),), (None, ("y", "x"))]


@pytest.mark.parametrize("saved_spec", SPECS, ids=str)
def test_any_sharding_into_any_other(path, saved_spec):
    table = np.arange(16 * 8, dtype=np.int32).reshape(16, 8)
    checkpoints.save(path, placed(table, mesh_of(2, 4), *saved_spec))
    for mesh in (mesh_of(4, 2), mesh_of(2, 2), mesh_of(1, 8)):
        for spec in SPECS:
            where = weft.NamedSharding(mesh, weft.P(*spec))
            found = checkpoints.restore(path, shardings=where)
            assert found.sharding == where
            for shard in found.addressable_shards:
                assert (np.asarray(shard.data) == table[shard.index]).all()


def test_chunks_are_shards_and_large_ones_are_cut(path, monkeypatch):
    monkeypatch.setattr(saved_leaves, "CHUNK_BYTES", 64)
    table = np.arange(24 * 8, dtype=np.float32).reshape(24, 8)
    saved = {
        "whole": jnp.asarray(table), "rows": placed(table, mesh_of(4), "x"),
        "columns": placed(table, mesh_of(2), None, "x"), "prime": np.arange(37.0),
    }  # fmt: skip
    checkpoints.save(path, saved)
    chunks = {}
    for record in json.loads((path / "checkpoint.json").read_text())["content"]["leaves"]:
        chunks[record["path"]] = record["chunk"]
        assert np.prod(record["chunk"]) * np.dtype(record["type"]["dtype"]).itemsize <= 64
    assert chunks == {
        "['whole']": [2, 8], "['rows']": [2, 8], "['columns']": [4, 4], "['prime']": [8]
    }  # fmt: skip
    assert_same(checkpoints.restore(path, like=saved), saved)


def moved_bytes(direction, function):
    """How many bytes of files TensorStore reads or writes in a function."""
    name = f"/tensorstore/kvstore/file/bytes_{direction}"

    def now():
        found = tensorstore.experimental_collect_matching_metrics(name)
        return sum(value["value"] for metric in found for value in metric["values"])

    before = now()
    function()
    return now() - before


def test_each_chunk_is_read_once(path):
    table = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    checkpoints.save(path, placed(table, mesh_of(4), "x"))
    size = table.nbytes + 4 * 4  # each chunk has a CRC
    for spec in ((), ("x",), (None, "x")):  # the last one cuts every chunk in two
        where = weft.NamedSharding(mesh_of(2), weft.P(*spec))
        read = moved_bytes("read", lambda at=where: checkpoints.restore(path, shardings=at))
        assert read == size


def test_replicated_arrays_are_written_once(path):
    x = placed(np.ones((64, 64), np.float32), mesh_of(8))
    assert x.nbytes < moved_bytes("written", lambda: checkpoints.save(path, x)) < x.nbytes + 1000


def test_copies_on_several_devices_are_independent(path):
    table = np.arange(4096, dtype=np.float32)
    checkpoints.save(path, table)
    x = checkpoints.restore(path, shardings=weft.NamedSharding(mesh_of(8), weft.P()))
    first, *others = [x.addressable_data(n) for n in range(8)]
    weft.block_until_ready(weft.jit(lambda a: a * 0 - 1, donate_argnums=0)(first))
    for other in others:
        assert (np.asarray(other) == table).all()


def test_it_is_an_array_for_other_readers_of_zarr(path):
    x = placed(np.arange(16.0, dtype=np.float32).reshape(4, 4), mesh_of(2), "x")
    checkpoints.save(path, {"w": x})
    (store,) = (path / "arrays").iterdir()
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(store)}}
    assert (tensorstore.open(spec).result().read().result() == np.asarray(x)).all()


def test_transfers_that_a_guard_refuses_are_asked_for_here(path):
    saved = {"x": placed(np.arange(8.0), mesh_of(2), "x"), "y": jnp.ones(2)}
    with weft.transfer_guard("disallow"):
        checkpoints.save(path, saved)
        found = checkpoints.restore(path, like=saved)
    assert_same(found, saved)


@pytest.mark.parametrize(
    "leaf",
    [object(), np.array(["a"]), np.array([None]), weft.ShapeDtypeStruct((2,), "float32"), b"bytes",
     np.zeros(2, dtypes.float0), np.array("2020-01-01", "datetime64[D]")],
    ids=lambda leaf: type(leaf).__name__ + str(getattr(leaf, "dtype", "")),
)  # fmt: skip
def test_a_leaf_that_cannot_be_saved_is_named(path, leaf):
    with pytest.raises(TypeError, match=r"\['a'\]\[1\]"):
        checkpoints.save(path, {"a": [1, leaf]})
    assert not path.exists() and not list(path.parent.iterdir())


def test_traced_and_deleted_arrays_cannot_be_saved(path):
    with pytest.raises(TypeError, match=r"\['x'\]"):
        weft.jit(lambda x: checkpoints.save(path, {"x": x}))(1.0)
    x = jnp.ones(2)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted") as caught:
        checkpoints.save(path, {"x": x})
    assert "['x']" in caught.value.__notes__[0]


def test_a_checkpoint_is_not_overwritten(path):
    checkpoints.save(path, {"x": 1})
    with pytest.raises(ValueError, match="already"):
        checkpoints.save(path, {"x": 2})
    assert checkpoints.restore(path) == {"x": 1}


@pytest.mark.parametrize("function", [checkpoints.restore, lambda p: checkpoints.save(p, 1)])
def test_a_remote_store_is_refused(function):
    with pytest.raises(ValueError, match="directories of a file system"):
        function("gs://bucket/model")
