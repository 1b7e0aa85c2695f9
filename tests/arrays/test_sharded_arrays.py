"""Arrays over several devices: what they tell, what of them lies where, how values come out."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.api.device_put import device_put, make_array_from_single_device_arrays
from weft.arrays.array import Array, as_stored, put, to_place
from weft.core.types import ArrayType
from weft.errors import DeletedArrayError, ShapeError, WeftIndexError, WeftValueError
from weft.runtime import client
from weft.runtime.backends.fake import FakeBackend
from weft.sharding import Mesh, NamedSharding, P, SingleDeviceSharding, TiledSharding

pytestmark = pytest.mark.fast


def mesh(*sizes, names="ijk", devices=None):
    count = int(np.prod(sizes))
    chosen = weft.devices()[:count] if devices is None else devices
    return Mesh(np.array(chosen, object).reshape(sizes), tuple(names[: len(sizes)]))


def over(*entries, on=None):
    return NamedSharding(on or mesh(4, 2), P(*entries))


def table(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


SPECS = [
    P(),
    P("i"),
    P("j"),
    P(None, "i"),
    P("i", "j"),
    P("j", "i"),
    P(("i", "j")),
    P(("j", "i")),
    P(None, ("j", "i")),
]
DTYPES = ["?", "i1", "i4", "i8", "u2", "f2", "f4", "f8", "c8", "c16"]
DTYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4]


# ---- values in and out ---------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_values_come_out_as_they_went_in(spec):
    x = table(16, 8)
    y = device_put(x, over(*spec))
    assert y.sharding is over(*spec) and y.device is y.sharding and y.committed
    assert y.devices() == set(weft.devices()) and y.num_devices == 8
    out = np.asarray(y)
    np.testing.assert_array_equal(out, x)
    assert out.dtype == x.dtype and not out.flags.writeable
    assert y.is_fully_addressable and y.is_fully_replicated == (spec == P())
    assert (y.nbytes, y.size, len(y)) == (x.nbytes, x.size, 16)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("spec", [P(), P("i"), P(None, "j")], ids=str)
def test_every_dtype(dtype, spec):
    x = table(4, 6) % 2
    with weft.enable_x64():
        y = device_put(x.astype(dtype), over(*spec))
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(y), x.astype(dtype))
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x.astype(dtype)[shard.index])


@pytest.mark.parametrize("shape", [(), (0,), (0, 8), (8, 0), (1,), (8, 1, 1)], ids=str)
def test_arrays_without_dimensions_or_elements(shape):
    x = table(*shape)
    for spec in (P(), P("i"), P(None, "j")):
        if len(spec) > len(shape) or (len(spec) and shape[len(spec) - 1] == 1):
            continue
        y = device_put(x, over(*spec))
        assert y.shape == shape and y.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(y), x)
        assert [shard.data.size for shard in y.addressable_shards] == [
            x[shard.index].size for shard in y.addressable_shards
        ]
        assert repr(y).startswith("Array(") and np.array_equal(pickle.loads(pickle.dumps(y)), x)


def test_every_order_in_memory_is_understood():
    x = table(8, 16)
    repeated = np.broadcast_to(np.float32(3), (8, 16))
    for view in (x.T, x[::-1], x[:, ::2], np.asfortranarray(x), x.astype(">f4"), repeated):
        for spec in (P("i", "j"), P("j"), P()):
            y = device_put(view, over(*spec))
            np.testing.assert_array_equal(np.asarray(y), view)


def test_changing_the_source_afterwards_changes_nothing():
    for spec in (P(), P("i"), P("j")):
        x = np.ones((8, 4), np.float32)
        y = device_put(x, over(*spec))
        x[:] = 2
        assert (np.asarray(y) == 1).all()
    big = np.ones((4, 9 << 20), np.float32)
    y = device_put(big, over("i"))
    big[:] = 2
    assert (np.asarray(y) == 1).all()


def test_random_keys_are_split_and_never_their_bits():
    keys = weft.random.split(weft.random.key(0), 8)
    bits = np.asarray(weft.random.key_data(keys))
    for how in (over("i"), over(("i", "j")), over(), over("i", on=mesh(1, 1))):
        y = device_put(keys, how)
        assert y.dtype is keys.dtype and y.shape == (8,) and repr(y) == repr(keys)
        np.testing.assert_array_equal(y._stored(), bits)
        for shard in y.addressable_shards:
            assert shard.data.dtype is keys.dtype
            np.testing.assert_array_equal(
                np.asarray(weft.random.key_data(shard.data)), bits[shard.index]
            )
        again = pickle.loads(pickle.dumps(y))
        np.testing.assert_array_equal(weft.random.key_data(again), bits)
        np.testing.assert_array_equal(copy.deepcopy(y)._stored(), bits)
        np.testing.assert_array_equal(device_put(y, weft.devices()[2])._stored(), bits)
        np.testing.assert_array_equal(device_put(y, over("j"))._stored(), bits)
    made = as_stored(bits, keys.type, over("i"))
    np.testing.assert_array_equal(made._stored(), bits)


# ---- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_each_device_has_its_block(spec, reverse):
    devices = weft.devices()[::-1] if reverse else weft.devices()
    grid = mesh(4, 2, devices=devices)
    x = table(16, 8)
    y = device_put(x, NamedSharding(grid, spec))
    coordinates = {grid.devices[i, j]: {"i": i, "j": j} for i, j in np.ndindex(4, 2)}
    assert [shard.device for shard in y.addressable_shards] == list(devices)
    for shard in y.addressable_shards:
        # Which block a device holds, from the definition of a spec.
        block = x
        for dimension in range(2):
            parts = [block]
            for name in spec.entry_axes(dimension):
                parts = [np.array_split(p, grid.shape[name], dimension) for p in parts]
                parts = [parts[0][coordinates[shard.device][name]]]
            block = parts[0]
        np.testing.assert_array_equal(np.asarray(shard.data), block)
        np.testing.assert_array_equal(x[shard.index], block)
        assert shard.data.devices() == {shard.device} and shard.data.committed
    counts = {}
    for shard in y.global_shards:
        counts.setdefault(str(shard.index), []).append(shard.replica_id)
    assert all(numbers == list(range(len(numbers))) for numbers in counts.values())


def test_parts_by_their_number():
    x = table(8)
    y = device_put(x, over("i"))
    np.testing.assert_array_equal(y.addressable_data(2), [2, 3])
    np.testing.assert_array_equal(y.addressable_data(-1), [6, 7])
    with pytest.raises(WeftIndexError) as caught:
        y.addressable_data(8)
    np.testing.assert_array_equal(y.addressable_data(**caught.value.fix.data), [0, 1])
    z = wnp.arange(3)
    assert z.addressable_data(0).device == z.device
    (shard,) = z.addressable_shards
    assert shard.index == (slice(None),) and shard.replica_id == 0
    np.testing.assert_array_equal(shard.data, [0, 1, 2])


def test_a_part_is_an_ordinary_array():
    y = device_put(table(8, 2), over("i"))
    part = y.addressable_shards[5].data
    np.testing.assert_array_equal(part + 1, table(8, 2)[4:6] + 1)
    assert (part + 1).device == weft.devices()[5]
    assert part.unsafe_buffer_pointer() == y.addressable_data(5).unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.from_dlpack(part), table(8, 2)[4:6])
    np.testing.assert_array_equal(weft.jit(lambda v: v * 2)(part), table(8, 2)[4:6] * 2)


def test_a_mesh_of_one_device():
    one = NamedSharding(mesh(1), P("i"))
    y = device_put(table(4), one)
    assert y.sharding is one and y.device is weft.devices()[0] and y.num_devices == 1
    np.testing.assert_array_equal(y, table(4))
    np.testing.assert_array_equal(np.from_dlpack(y), table(4))
    assert y.unsafe_buffer_pointer() == y.addressable_data(0).unsafe_buffer_pointer()


def test_what_arrays_on_one_device_tell():
    x = wnp.arange(3)
    second = device_put(x, weft.devices()[1])
    assert x.sharding is SingleDeviceSharding(weft.devices()[0]) and not x.committed
    assert second.sharding.device_set == {weft.devices()[1]} and second.committed
    for array in (x, second):
        assert array.num_devices == 1 and array.is_fully_replicated and array.is_fully_addressable


# ---- conversions ---------------------------------------------------------------------------------


def test_text_is_that_of_the_values():
    x = table(4, 2)
    y = device_put(x, over("i"))
    assert repr(y) == repr(wnp.asarray(x))[:-1] + ", sharding=P('i'))" and str(y) == str(x)
    number = device_put(2.5, over())
    assert f"{number:.3f}" == "2.500"
    assert repr(number) == repr(wnp.asarray(2.5))[:-1] + ", sharding=P())"
    y.delete()
    assert repr(y) == "Array(deleted, shape=(4, 2), dtype=float32)"


def test_numbers_come_out():
    number = device_put(np.float32(2.5), over())
    assert (float(number), int(number), complex(number)) == (2.5, 2, 2.5)
    assert bool(number) and number.item() == 2.5 and number.tolist() == 2.5
    assert [10, 11, 12][device_put(np.int32(1), over())] == 11
    x = table(4, 2)
    y = device_put(x, over("i", "j"))
    assert y.tolist() == x.tolist() and y.item(3, 1) == 7.0
    np.testing.assert_array_equal(np.asarray(y, np.float64), x)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(y)


def test_copies_keep_their_place_and_share_nothing():
    x = table(8, 4)
    for place in (over("i", "j"), over("j"), over(), weft.devices()[3]):
        y = device_put(x, place)
        copies = copy.copy(y), copy.deepcopy(y)
        assert all(z.sharding is y.sharding and z.committed for z in copies)
        y.delete()
        for z in copies:
            np.testing.assert_array_equal(z, x)
    uncommitted = wnp.asarray(x)
    assert not copy.deepcopy(uncommitted).committed


def test_pickling_takes_the_values():
    x = table(8, 4)
    again = pickle.loads(pickle.dumps(device_put(x, over("i", "j"))))
    assert not again.committed and again.devices() == {weft.devices()[0]}
    np.testing.assert_array_equal(again, x)
    weak = pickle.loads(pickle.dumps(device_put(1.5, over())))
    assert weak.weak_type and float(weak) == 1.5


def test_what_needs_one_device_says_so_and_the_fix_works():
    y = device_put(table(8), over("i"))
    for use in (
        lambda v: v.unsafe_buffer_pointer(),
        lambda v: v.__dlpack__(),
        lambda v: v.__dlpack_device__(),
    ):
        with pytest.raises(WeftValueError, match="8 devices") as caught:
            use(y)
        use(y.addressable_data(**caught.value.fix.data))
        use(device_put(y, weft.devices()[0]))


# ---- life ----------------------------------------------------------------------------------------


def test_waiting_and_fetching():
    y = device_put(table(8), over("i"))
    assert y.block_until_ready() is y and y.is_ready()
    y.copy_to_host_async()
    assert weft.block_until_ready({"a": y, "b": 1})["a"] is y
    got = weft.device_get({"a": y, "b": [y, 2]})
    np.testing.assert_array_equal(got["a"], table(8))
    assert type(got["a"]) is np.ndarray and got["b"][1] == 2


def test_a_deleted_array_is_an_error_and_never_a_crash():
    y = device_put(table(8), over("i"))
    part = y.addressable_data(0)
    y.delete()
    y.delete()
    assert y.is_deleted() and part.is_deleted() and y.sharding is over("i")
    for use in (
        np.asarray,
        lambda v: v.block_until_ready(),
        lambda v: v.is_ready(),
        lambda v: v.copy_to_host_async(),
        lambda v: v.addressable_shards,
        lambda v: v.addressable_data(0),
        lambda v: v.unsafe_buffer_pointer(),
        lambda v: v.__dlpack__(),
        copy.deepcopy,
        pickle.dumps,
        lambda v: device_put(v, weft.devices()[1]),
        lambda v: device_put(v, over()),
    ):
        with pytest.raises(DeletedArrayError):
            use(y)


# ---- moving --------------------------------------------------------------------------------------


def places():
    """Places of every kind for arrays of shape (8, 4)."""
    other = mesh(2, 2, devices=weft.devices()[3:7])
    backwards = mesh(4, 2, devices=weft.devices()[::-1])
    order = np.array([5, 0, 3, 6, 1, 7, 2, 4])
    return {
        "first": weft.devices()[0],
        "last": weft.devices()[7],
        "rows": over("i"),
        "columns": over(None, "j"),
        "both": over("i", "j"),
        "swapped": over("j", "i"),
        "eighths": over(("i", "j")),
        "other eighths": over(("j", "i")),
        "everywhere": over(),
        "half": NamedSharding(other, P("i", "j")),
        "half everywhere": NamedSharding(other, P()),
        "half rows": NamedSharding(other, P(("j", "i"))),
        "backwards": NamedSharding(backwards, P("i", "j")),
        "one": NamedSharding(mesh(1), P("i")),
        "tiles": TiledSharding(weft.devices(), order.reshape(2, 4, 1)),
        "tiles with copies": TiledSharding(weft.devices(), order.reshape(4, 1, 2)),
    }


@pytest.mark.parametrize("source", places())
@pytest.mark.parametrize("copied", [False, True])
def test_from_any_place_to_any_other(source, copied):
    x = table(8, 4)
    for target, place in places().items():
        y = device_put(x, places()[source])
        z = to_place(y, place, copy=copied)
        assert (z is y) == (target == source and not copied)
        np.testing.assert_array_equal(np.asarray(z), x)
        for shard in z.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
        if copied:
            y.delete()
            assert not z.is_deleted()
        w = to_place(z, weft.devices()[2])  # and on from there
        np.testing.assert_array_equal(np.asarray(w), x)


def pointers(array):
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


def test_blocks_that_stay_are_not_copied():
    y = device_put(table(8, 4), over("i"))
    same = to_place(y, over("i", None))
    assert same is not y and pointers(same) == pointers(y)
    # Other order of the same devices, every block where it was.
    grid = mesh(4, 2)
    turned = Mesh(grid.devices.T, ("j", "i"))
    again = to_place(y, NamedSharding(turned, P("i")))
    assert set(pointers(again)) == set(pointers(y))
    np.testing.assert_array_equal(again, table(8, 4))
    # A part of the devices, and one of them.
    half = to_place(y, NamedSharding(mesh(4, devices=grid.devices[:, 0]), P("i")))
    assert set(pointers(half)) <= set(pointers(y))
    everywhere = device_put(table(8, 4), over())
    alone = to_place(everywhere, weft.devices()[3])
    assert pointers(alone) == [pointers(everywhere)[3]]
    np.testing.assert_array_equal(alone, table(8, 4))
    spread = to_place(alone, over())
    assert pointers(spread)[3] == pointers(alone)[0]


def test_putting_makes_no_copy_of_the_whole():
    with client.use_backend(FakeBackend(8)) as fake:
        grid = Mesh(np.array(fake.devices(), object).reshape(4, 2), ("i", "j"))
        x = table(8, 4)
        y = device_put(x, NamedSharding(grid, P("i", "j")))
        assert fake.counts["puts"] == 1 and fake.counts["copies"] == 0
        np.testing.assert_array_equal(np.asarray(y), x)
        to_place(y, NamedSharding(grid, P("i", "j")))
        to_place(y, NamedSharding(Mesh(grid.devices.T, ("j", "i")), P("i", "j")))
        assert fake.counts["puts"] == 1 and fake.counts["copies"] == 0
        z = to_place(y, NamedSharding(grid, P("i")))
        assert fake.counts["puts"] == 2 and fake.counts["copies"] == 0
        np.testing.assert_array_equal(np.asarray(z), x)
        backwards = Mesh(grid.devices[::-1], ("i", "j"))
        w = to_place(z, NamedSharding(backwards, P("i")))
        assert fake.counts["puts"] == 2 and fake.counts["copies"] == 8
        np.testing.assert_array_equal(np.asarray(w), x)
        np.testing.assert_array_equal(np.asarray(to_place(w, fake.devices()[2])), x)


def test_put_takes_places():
    x = table(8, 4)
    of = ArrayType(x.shape, x.dtype)
    for place in (None, *places().values()):
        y = put(x, of, place)
        assert y.committed == (place is not None)
        np.testing.assert_array_equal(y, x)
    with pytest.raises(ShapeError):
        put(table(6), ArrayType((6,), np.float32), over("i"))


# ---- several processes ---------------------------------------------------------------------------


class TwoProcesses(FakeBackend):
    """Eight devices, of which this process has four."""

    def __init__(self):
        super().__init__(8)
        self._devices = [type(d)(d.id, process_index=d.id // 4) for d in self._devices]

    def local_devices(self):
        return self._devices[:4]

    @property
    def process_count(self):
        return 2


def test_parts_that_other_processes_hold():
    with client.use_backend(TwoProcesses()) as fake:
        devices = fake.devices()
        grid = Mesh(np.array(devices, object).reshape(2, 4), ("i", "j"))
        x = table(8, 4)
        y = device_put(x, NamedSharding(grid, P("i", "j")))
        assert not y.is_fully_addressable
        assert [shard.device.id for shard in y.addressable_shards] == [0, 1, 2, 3]
        assert [shard.data is None for shard in y.global_shards] == [False] * 4 + [True] * 4
        np.testing.assert_array_equal(y.addressable_data(2), x[:4, 2:3])
        assert "other processes" in repr(y) and repr(y) == str(y)
        for use in (np.asarray, pickle.dumps, lambda v: device_put(v, devices[0])):
            with pytest.raises(WeftValueError, match="no device of this process") as caught:
                use(y)
            assert "addressable_shards" in caught.value.fix.text
        # All of it is here where each block has a copy here.
        z = device_put(x, NamedSharding(grid, P(None, "j")))
        np.testing.assert_array_equal(np.asarray(z), x)
        everywhere = device_put(x, NamedSharding(grid, P()))
        np.testing.assert_array_equal(np.asarray(everywhere), x)
        np.testing.assert_array_equal(np.asarray(device_put(z, devices[1])), x)
        local = [device_put(x[:4], device) for device in devices[:4]]
        made = make_array_from_single_device_arrays((8, 4), NamedSharding(grid, P("i")), local)
        assert len(made.addressable_shards) == 4 and not made.is_fully_addressable


def test_arrays_are_made_of_buffers_that_programs_return():
    """What evaluation does: a buffer over devices, its type, and a signature with a sharding."""
    x = table(8, 4)
    how = over("i", "j")
    placement = client.backend().tiled(how.device_list, how.assignment(2))
    blocks = [x[index] for index in how.devices_indices_map(x.shape).values()]
    of = ArrayType(x.shape, x.dtype)
    buffer = client.backend().put_shards(blocks, of, placement, how.device_list)
    y = Array(buffer, of, (of, how))
    np.testing.assert_array_equal(y, x)
    assert y.sharding is how
