"""`device_put` and arrays made of parts: trees, prefixes of places, sharing of memory, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from weft.api.device_put import (
    device_put,
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from weft.errors import (
    AxisError,
    DeletedArrayError,
    DTypeError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    TiledSharding,
    use_mesh,
)

pytestmark = pytest.mark.fast


def grid(*sizes, names="ijk"):
    count = math.prod(sizes)
    devices = np.array(weft.devices()[:count], object).reshape(sizes)
    return Mesh(devices, tuple(names[: len(sizes)]))


def over(*entries, on=None):
    return NamedSharding(on or grid(4, 2), P(*entries))


def table(*shape, dtype=np.float32):
    return np.arange(math.prod(shape)).reshape(shape).astype(dtype)


# ---- trees ---------------------------------------------------------------------------------------


def test_every_leaf_goes_to_one_place():
    tree = {"a": table(8), "b": [wnp.ones((8, 2)), (2.5, np.float32(1))], "c": None}
    out = device_put(tree, over())
    assert out["c"] is None
    for leaf in weft.tree.leaves(out):
        assert leaf.sharding is over()
    np.testing.assert_array_equal(out["a"], table(8))
    assert out["b"][1][0].weak_type and float(out["b"][1][0]) == 2.5
    assert device_put([], over()) == []


def test_prefixes_of_places():
    second = weft.devices()[1]
    tree = {"w": {"x": table(8), "y": table(4, 8)}, "b": table(3), "n": 1, "m": wnp.ones(2)}
    where = {"w": over("i"), "b": second, "n": None, "m": None}
    out = device_put(tree, where)
    assert out["w"]["x"].sharding is over("i") and out["w"]["y"].sharding is over("i")
    assert out["b"].device == second and out["b"].committed
    assert not out["n"].committed and out["m"] is tree["m"]
    with pytest.raises(TreeError, match="device"):
        device_put(tree, {"w": second})
    with pytest.raises(TreeError, match="device"):
        device_put((1, 2), [second, second])


def test_every_kind_of_place():
    x = table(8, 4)
    device = weft.devices()[2]
    tiles = TiledSharding(weft.devices(), np.arange(8)[::-1].reshape(8, 1, 1))
    for place, wanted in (
        (device, SingleDeviceSharding(device)),
        (SingleDeviceSharding(device), SingleDeviceSharding(device)),
        (over("i"), over("i")),
        (tiles, tiles),
    ):
        for source in (x, wnp.asarray(x), device_put(x, over("j")), device_put(x, device)):
            y = device_put(source, place)
            assert y.sharding is wanted and y.committed
            np.testing.assert_array_equal(y, x)
            assert device_put(y, place) is y
    with use_mesh(grid(4, 2)):
        assert device_put(x, P("j", "i")).sharding is over("j", "i")
        assert device_put({"a": x}, {"a": P("i")})["a"].sharding is over("i")
    plain = device_put(x)
    assert not plain.committed and device_put(plain) is plain
    spread = device_put(x, over("i"))
    assert device_put(spread) is spread


@pytest.mark.parametrize("value", [2, 2.5, True, 1j, np.int8(3), np.float64(0.5)], ids=repr)
def test_numbers_keep_their_type(value):
    plain = device_put(value)
    for place in (over(), weft.devices()[1]):
        y = device_put(value, place)
        assert y.type is plain.type
        np.testing.assert_array_equal(y, plain)


def test_wide_values_take_the_default_width_and_have_to_fit():
    y = device_put(np.arange(8.0), over("i"))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.arange(8.0))
    for place in (over(), weft.devices()[1], None):
        for value in (1 << 40, np.array([1 << 40])):
            with pytest.raises(OverflowError):
                device_put(value, place)
    with weft.enable_x64():
        assert device_put(np.arange(8.0), over("i")).dtype == np.float64


# ---- errors --------------------------------------------------------------------------------------


def test_shapes_that_cannot_be_split_name_the_leaf_and_the_fix_works():
    tree = {"layer": [{"w": table(8, 2)}, {"w": table(6, 2)}]}
    with pytest.raises(ShapeError) as caught:
        device_put(tree, over("i"))
    text = str(caught.value)
    assert "x['layer'][1]['w']" in text and "(6, 2)" in text and "P('i')" in text
    assert "multiple of 4" in text
    fixed = np.resize(table(6, 2), caught.value.fix.data["shape"])
    assert device_put({"layer": [fixed]}, over("i"))["layer"][0].sharding is over("i")
    y = device_put(table(6, 2), NamedSharding(grid(4, 2), caught.value.fix.data["spec"]))
    np.testing.assert_array_equal(y, table(6, 2))
    for leaf in (wnp.ones((6, 2)), device_put(table(6, 2), over())):
        with pytest.raises(ShapeError, match=r"of x\[0\]"):
            device_put([leaf], over("i"))


def test_specs_that_are_too_long_name_the_leaf():
    with pytest.raises(ShapeError, match=r"x\['b'\]") as caught:
        device_put({"a": table(8, 4), "b": table(8)}, over("i", "j"))
    y = device_put(table(8), NamedSharding(grid(4, 2), caught.value.fix.data["spec"]))
    assert y.sharding is over("i")
    with pytest.raises(ShapeError, match="dimensions"):
        device_put(1.0, over("i"))


def test_what_is_no_place():
    for place in ("cpu:0", 3, object(), grid(8)):
        with pytest.raises(WeftTypeError, match="device_put") as caught:
            device_put(table(8), place)
        assert caught.value.got
    with pytest.raises(WeftValueError, match="no mesh") as caught:
        device_put(table(8), P("i"))
    with use_mesh(grid(4, 2)):
        assert device_put(table(8), caught.value.fix.data["spec"]).sharding is over("i")
    with pytest.raises(AxisError), use_mesh(grid(4, 2)):
        device_put(table(8), P("k"))
    with pytest.raises(WeftValueError, match="no devices"):
        device_put(table(8), NamedSharding(AbstractMesh((8,), ("i",)), P("i")))
    with pytest.raises(WeftValueError, match="compiler") as caught:
        device_put(table(8, 8), over("i", P.UNCONSTRAINED))
    again = NamedSharding(grid(4, 2), caught.value.fix.data["spec"])
    assert device_put(table(8, 8), again).sharding is again


@pytest.mark.parametrize(
    "bad", ["text", object(), np.array(["a"]), weft.ShapeDtypeStruct((2,), "f4")]
)
def test_leaves_that_are_no_arrays(bad):
    for place in (None, weft.devices()[1], over()):
        with pytest.raises(WeftTypeError):
            device_put([1.0, bad], place)
    if not isinstance(bad, weft.ShapeDtypeStruct):
        with pytest.raises(WeftTypeError, match=r"x\[1\]"):
            device_put([1.0, bad], over())


# ---- sharing memory ------------------------------------------------------------------------------


def pointers(array):
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


def sources(x):
    return [
        wnp.asarray(x),
        device_put(x, weft.devices()[0]),
        device_put(x, weft.devices()[3]),
        device_put(x, over("i")),
        device_put(x, over()),
    ]


PLACES = [0, 3, P("i"), P("i", None), P(), P("j")]


def place_of(what):
    return weft.devices()[what] if isinstance(what, int) else over(*what)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_memory_of_its_own(place):
    for source in sources(table(8, 4)):
        y = device_put(source, place_of(place), may_alias=False)
        assert set(pointers(y)).isdisjoint(pointers(source))
        source.delete()
        np.testing.assert_array_equal(y, table(8, 4))
    x = wnp.arange(3)
    y = device_put(x, may_alias=False)
    assert y is not x and not y.committed and pointers(x) != pointers(y)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_donated_arrays_are_gone(place):
    for source in sources(table(8, 4)):
        y = device_put(source, place_of(place), donate=True)
        assert source.is_deleted() and not y.is_deleted()
        with pytest.raises(DeletedArrayError, match="donated at .*test_device_put"):
            source.block_until_ready()
        with pytest.raises(DeletedArrayError):
            source + 1
        with pytest.raises(DeletedArrayError):
            weft.jit(lambda v: v + 1)(source)
        np.testing.assert_array_equal(y, table(8, 4))
        y.block_until_ready()


def test_donating_moves_no_data_that_stays():
    source = device_put(table(8, 4), over("i"))
    before = pointers(source)
    assert pointers(device_put(source, over("i", None), donate=True)) == before


def test_prefixes_of_donate_and_may_alias():
    a, b = device_put(table(8), over("i")), device_put(table(8), over("i"))
    out = device_put({"a": a, "b": b}, over(), donate={"a": True, "b": False})
    assert a.is_deleted() and not b.is_deleted()
    np.testing.assert_array_equal(out["a"], table(8))
    c = device_put({"a": b, "b": b}, over("i", on=grid(4, 2)), may_alias={"a": False, "b": None})
    assert c["b"] is b and set(pointers(c["a"])).isdisjoint(pointers(b))
    with pytest.raises(TreeError, match="donate"):
        device_put({"a": b}, over(), donate={"b": True})
    with pytest.raises(WeftValueError, match="aliased at once") as caught:
        device_put({"a": b}, over(), donate=True, may_alias=True)
    assert caught.value.fix.data == {"argument": "may_alias"} and "x['a']" in str(caught.value)
    device_put({"a": b}, over(), donate=True)


def aligned(count):
    """`count` floats that start at a multiple of 64 bytes."""
    memory = np.zeros(4 * count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + 4 * count].view(np.float32)


def test_numpy_arrays_are_used_in_place_only_when_that_is_allowed():
    for place in (weft.devices()[1], over("i"), over()):
        x = aligned(8 * 64)
        y = device_put(x, place, may_alias=True)
        assert min(pointers(y)) == x.ctypes.data
        for may_alias in (None, False):
            z = device_put(x, place, may_alias=may_alias)
            assert x.ctypes.data not in pointers(z)
            x[:] += 1
            np.testing.assert_array_equal(z, x - 1)


# ---- in traced functions -------------------------------------------------------------------------


def test_in_a_traced_function_a_sharding_constrains_and_a_device_does_not():
    jaxpr = weft.make_jaxpr(lambda x: device_put(x, over("i")))(table(8))
    assert "sharding_constraint" in str(jaxpr)
    plain = weft.make_jaxpr(lambda x: device_put(x, weft.devices()[1]))(table(8))
    assert not plain.jaxpr.eqns
    assert not weft.make_jaxpr(lambda x: device_put(x))(table(8)).jaxpr.eqns
    with pytest.raises(ShapeError, match=r"x\['a'\]"):
        weft.make_jaxpr(lambda x: device_put({"a": x}, over("i")))(table(6))


def test_derivatives_and_batches_go_through():
    x = wnp.asarray(table(8))
    place = over("i")
    np.testing.assert_array_equal(
        weft.grad(lambda v: (device_put(v, place) ** 2).sum())(device_put(x, place)), 2 * table(8)
    )
    y, tangent = weft.jvp(lambda v: device_put(v, place) * 3, (x,), (x,))
    np.testing.assert_array_equal(y, 3 * table(8))
    np.testing.assert_array_equal(tangent, 3 * table(8))
    rows = weft.vmap(lambda v: device_put(v, place) + 1)(table(2, 8))
    np.testing.assert_array_equal(rows, table(2, 8) + 1)


def test_functions_that_make_arrays_take_places():
    place = over("i")
    for make in (
        lambda where: wnp.asarray(table(8), device=where),
        lambda where: wnp.zeros(8, device=where),
        lambda where: wnp.full(8, 2.5, device=where),
        lambda where: wnp.ones_like(table(8), device=where),
    ):
        plain = make(None)
        for where in (place, weft.devices()[1], SingleDeviceSharding(weft.devices()[2])):
            made = make(where)
            assert made.devices() == device_put(plain, where).devices()
            np.testing.assert_array_equal(made, plain)
        with use_mesh(grid(4, 2)):
            assert make(P("i")).sharding is place
        with pytest.raises(WeftTypeError, match="device"):
            make("cpu:0")
    jaxpr = weft.make_jaxpr(lambda x: wnp.asarray(x, device=place))(table(8))
    assert "sharding_constraint" in str(jaxpr)


# ---- random moves --------------------------------------------------------------------------------


@st.composite
def shardings(draw, ndim):
    count = draw(st.sampled_from([1, 2, 4, 8]))
    order = draw(st.permutations(range(8)))[:count]
    sizes = draw(
        st.sampled_from([s for s in [(1,), (2,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2)]
                         if math.prod(s) == count])
    )  # fmt: skip
    devices = np.array([weft.devices()[i] for i in order], object).reshape(sizes)
    mesh = Mesh(devices, tuple("abc"[: len(sizes)]))
    names = list(draw(st.permutations(mesh.axis_names)))
    entries = []
    for _ in range(ndim):
        taken = draw(st.integers(0, len(names)))
        entries.append(tuple(names[:taken]))
        names = names[taken:]
    return NamedSharding(mesh, P(*entries))


@given(st.data())
def test_any_sequence_of_moves_keeps_the_values(data):
    shape = data.draw(st.sampled_from([(8,), (8, 16), (16, 8, 8), (8, 0)]))
    x = table(*shape)
    y = x
    for _ in range(3):
        place = data.draw(st.one_of(st.sampled_from(weft.devices()), shardings(len(shape))))
        before = y
        y = device_put(y, place, may_alias=data.draw(st.sampled_from([None, False])))
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
        np.testing.assert_array_equal(np.asarray(y), x)
        np.testing.assert_array_equal(np.asarray(before), x)


# ---- arrays made of parts ------------------------------------------------------------------------


def test_a_callback_is_asked_once_for_each_block():
    x = table(8, 4)
    for place in (over("i", "j"), over("j"), over(), over(None, "i"), weft.devices()[1]):
        asked = []

        def part(index, asked=asked):
            asked.append(index)
            return x[index]

        y = make_array_from_callback((8, 4), place, part)
        np.testing.assert_array_equal(y, x)
        assert y.dtype == x.dtype and y.committed
        different = {str(shard.index) for shard in y.addressable_shards}
        assert len(asked) == len(different) and {str(index) for index in asked} == different
        expected = device_put(x, place)
        assert y.sharding is expected.sharding
        for one, two in zip(y.addressable_shards, expected.addressable_shards, strict=True):
            np.testing.assert_array_equal(one.data, two.data)


def test_callbacks_may_answer_with_arrays_of_every_kind():
    keys = weft.random.split(weft.random.key(3), 8)
    y = make_array_from_callback((8,), over("i"), lambda index: keys[index[0]])
    np.testing.assert_array_equal(y._stored(), weft.random.key_data(keys))
    assert y.dtype is keys.dtype
    x = wnp.asarray(table(8))
    z = make_array_from_callback((8,), over("i"), lambda index: x[index[0]])
    np.testing.assert_array_equal(z, x)
    number = make_array_from_callback((), over(), lambda index: 2.5)
    assert float(number) == 2.5 and not number.weak_type and number.dtype == np.float32
    mixed = make_array_from_callback(
        (8,), over("i"), lambda index: x[index[0]] if index[0].start else table(8)[index]
    )
    np.testing.assert_array_equal(mixed, x)
    # The user's memory may change afterwards.
    memory = table(8)
    kept = make_array_from_callback((8,), over("i"), lambda index: memory[index])
    memory[:] = -1
    np.testing.assert_array_equal(kept, table(8))


def test_the_dtype_of_parts():
    wide = table(8, dtype=np.float64)
    assert make_array_from_callback((8,), over("i"), lambda i: wide[i]).dtype == np.float32
    y = make_array_from_callback((8,), over("i"), lambda i: wide[i], dtype=np.float16)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, wide)
    exact = make_array_from_callback((8,), over("i"), lambda i: wide[i], dtype=np.float64)
    assert exact.dtype == np.float64

    def uneven(index):
        return table(8)[index] if index[0].start else table(8, dtype=np.int32)[index]

    with pytest.raises(DTypeError, match=r"\[2:4\]") as caught:
        make_array_from_callback((8,), over("i"), uneven)
    y = make_array_from_callback((8,), over("i"), uneven, caught.value.fix.data["dtype"])
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, table(8))


def test_bad_parts_of_a_callback():
    with pytest.raises(ShapeError, match=r"\[0:2, :\]") as caught:
        make_array_from_callback((8, 4), over("i"), lambda index: np.zeros(3, np.float32))
    assert "f32[3]" in str(caught.value) and "f32[2,4]" in str(caught.value)
    with pytest.raises(WeftTypeError, match="no array"):
        make_array_from_callback((8,), over("i"), lambda index: "text")
    with pytest.raises(ShapeError, match="cannot be split"):
        make_array_from_callback((6,), over("i"), lambda index: table(6)[index])
    with pytest.raises(WeftTypeError, match="takes a sharding"):
        make_array_from_callback((6,), None, lambda index: table(6)[index])
    with pytest.raises(WeftTypeError, match="shape"):
        make_array_from_callback("shape", over(), lambda index: table(6)[index])
    with pytest.raises(WeftTypeError, match="with values"):
        weft.make_jaxpr(lambda v: make_array_from_callback((8,), over(), lambda i: v))(table(8))


def test_arrays_are_joined_without_a_copy():
    x = table(8, 4)
    for place in (over("i", "j"), over("j"), over(), weft.devices()[1]):
        whole = device_put(x, place)
        blocks = [shard.data for shard in whole.addressable_shards]
        y = make_array_from_single_device_arrays((8, 4), place, blocks[::-1])
        assert y.sharding is whole.sharding
        assert pointers(y) == pointers(whole)
        np.testing.assert_array_equal(y, x)
    keys = weft.random.split(weft.random.key(3), 8)
    blocks = [device_put(keys[i : i + 1], device) for i, device in enumerate(weft.devices())]
    y = make_array_from_single_device_arrays((8,), over(("i", "j")), blocks)
    np.testing.assert_array_equal(y._stored(), weft.random.key_data(keys))
    uncommitted = make_array_from_single_device_arrays((3,), weft.devices()[0], [wnp.arange(3)])
    np.testing.assert_array_equal(uncommitted, [0, 1, 2])


def test_bad_parts_on_devices():
    place = over(("i", "j"))
    blocks = [device_put(np.float32([i]), device) for i, device in enumerate(weft.devices())]

    def make(given, shape=(8,)):
        return make_array_from_single_device_arrays(shape, place, given)

    np.testing.assert_array_equal(make(blocks), table(8))
    with pytest.raises(WeftValueError, match="one array for each device") as caught:
        make(blocks[:-1])
    assert str(weft.devices()[7]) in caught.value.got
    full = [
        device_put(np.float32([i]), device)
        for i, device in enumerate(caught.value.fix.data["devices"])
    ]
    np.testing.assert_array_equal(make(full), table(8))
    with pytest.raises(WeftValueError, match="one array for each device"):
        make([*blocks[:-1], blocks[0]])
    with pytest.raises(WeftValueError, match="one array for each device"):
        make([*blocks, blocks[0]])
    with pytest.raises(ShapeError, match=r"arrays\[3\]"):
        make([*blocks[:3], wnp.ones(2), *blocks[4:]])
    with pytest.raises(DTypeError, match=r"arrays\[3\]") as caught:
        make([*blocks[:3], device_put(np.int32([3]), weft.devices()[3]), *blocks[4:]])
    assert caught.value.fix.data["dtype"] == np.float32
    with pytest.raises(WeftTypeError, match=r"arrays\[0\]"):
        make([np.float32([0]), *blocks[1:]])
    with pytest.raises(WeftValueError, match="one array for each device"):
        make([])
    with pytest.raises(ShapeError):
        make(blocks, (7,))
    spread = device_put(table(2), over("j"))
    with pytest.raises((WeftValueError, ShapeError)):
        make([spread, *blocks[1:]])
    gone = device_put(np.float32([0]), weft.devices()[0])
    gone.delete()
    with pytest.raises(DeletedArrayError):
        make([gone, *blocks[1:]])
