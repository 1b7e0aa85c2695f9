"""Meshes: what they say, what they refuse, how they are made, kept, and put in force."""

from __future__ import annotations

import contextvars
import copy
import gc
import os
import pickle
import threading
import weakref

import numpy as np
import pytest

from at_once import together
from processes import python_output
from weft.api.meshes import make_mesh
from weft.core.types import type_of
from weft.errors import (
    AxisError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.backends.fake import FakeBackend, FakeDevice
from weft.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    TiledSharding,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_mesh,
)

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


def devices(*shape):
    count = int(np.prod(shape))
    return np.array(client.devices()[:count], object).reshape(shape)


# ---- what a mesh says --------------------------------------------------------------------------


def test_a_mesh_describes_its_axes_and_devices():
    grid = devices(4, 2)[::-1]
    mesh = Mesh(grid, ("i", "j"))
    assert mesh.axis_names == ("i", "j") and mesh.axis_sizes == (4, 2) and mesh.size == 8
    assert mesh.shape == {"i": 4, "j": 2} and list(mesh.shape) == ["i", "j"]
    assert mesh.shape_tuple == (("i", 4), ("j", 2))
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    assert mesh.auto_axes == mesh.axis_names and mesh.are_all_axes_auto
    assert mesh.explicit_axes == mesh.manual_axes == ()
    assert not (mesh.are_all_axes_explicit or mesh.are_all_axes_manual)
    assert mesh.device_ids.tolist() == [[6, 7], [4, 5], [2, 3], [0, 1]]
    assert mesh.device_list == tuple(grid.ravel()) and mesh.local_devices == list(grid.ravel())
    np.testing.assert_array_equal(mesh.devices, grid)
    assert mesh.abstract_mesh is AbstractMesh((4, 2), ("i", "j"))
    assert not mesh.empty and not mesh.is_multi_process
    assert (mesh.axis_size("i"), mesh.axis_size(("i", "j")), mesh.axis_size(())) == (4, 8, 1)
    assert repr(mesh) == str(mesh) == "Mesh('i': 4, 'j': 2)"


def test_devices_may_come_as_an_array_as_lists_or_alone():
    grid = devices(2, 2)
    mesh = Mesh(grid, ("i", "j"))
    assert Mesh(grid.tolist(), ["i", "j"]) is mesh
    assert Mesh(tuple(map(tuple, grid)), ("i", "j")) is mesh
    assert Mesh(grid[:1, 0], "i") is Mesh([grid[0, 0]], ("i",))


def test_equal_meshes_are_one_object_and_different_ones_are_not():
    mesh = Mesh(devices(4, 2), ("i", "j"))
    assert mesh is Mesh(devices(4, 2).copy(), ("i", "j"))
    others = [
        Mesh(devices(4, 2), ("j", "i")),
        Mesh(devices(2, 4), ("i", "j")),
        Mesh(devices(4, 2)[::-1], ("i", "j")),
        AbstractMesh((4, 2), ("i", "j")),
    ]
    assert len({mesh, *others}) == 5 and all(mesh != other for other in others)


def test_a_mesh_lives_no_longer_than_what_refers_to_it():
    mesh = Mesh(devices(2, 1, 1), ("only", "in", "here"))
    reference = weakref.ref(mesh)
    del mesh
    gc.collect()
    assert reference() is None


def test_meshes_made_in_many_threads_are_one_object():
    made = together(lambda _: Mesh(devices(3, 2), ("a", "thread")), 8)
    assert len(made) == 8 and len(set(map(id, made))) == 1


def test_a_mesh_cannot_be_changed():
    grid = devices(2, 2)
    mesh = Mesh(grid, ("i", "j"))
    first = grid[0, 0]
    grid[0, 0] = grid[1, 1]
    assert mesh.devices[0, 0] is first
    for array in (mesh.devices, mesh.device_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = array[1, 1]
    with pytest.raises(AttributeError, match="cannot be changed"):
        mesh.axis_names = ("a", "b")
    with pytest.raises(AttributeError, match="cannot be changed"):
        del mesh.axis_names
    mesh.shape["i"] = 17
    assert mesh.shape == {"i": 2, "j": 2}


def test_update_changes_a_part():
    mesh = Mesh(devices(2, 2), ("i", "j"))
    assert mesh.update(axis_names=("a", "b")) is Mesh(devices(2, 2), ("a", "b"))
    assert mesh.update(devices=devices(4, 2)) is Mesh(devices(4, 2), ("i", "j"))


def test_a_mesh_over_two_processes():
    there = [FakeDevice(number, process_index=number // 2) for number in range(4)]
    mesh = Mesh(np.array(there, object), "i")
    assert mesh.is_multi_process and mesh.local_devices == there[:2]
    sharding = NamedSharding(mesh, P("i"))
    assert not sharding.is_fully_addressable
    assert sharding.addressable_devices == frozenset(there[:2])
    assert sharding.addressable_devices_indices_map((8,)) == {
        there[0]: (slice(0, 2),),
        there[1]: (slice(2, 4),),
    }


def test_an_abstract_mesh_has_axes_and_no_devices():
    mesh = AbstractMesh((4, 2), ("i", "j"))
    assert mesh.shape == {"i": 4, "j": 2} and mesh.size == 8 and mesh.abstract_mesh is mesh
    assert mesh is AbstractMesh([4, 2], ["i", "j"]) and AbstractMesh(3, "k").shape == {"k": 3}
    assert AbstractMesh((), ()).empty and not mesh.empty
    assert NamedSharding(mesh, P("i")).shard_shape((8, 3)) == (2, 3)
    for what in ("devices", "device_list", "device_ids"):
        with pytest.raises(WeftValueError, match="no devices") as caught:
            getattr(mesh, what)
        assert make_mesh(**caught.value.fix.data).abstract_mesh is mesh
    with pytest.raises(WeftValueError, match="no devices"):
        _ = NamedSharding(mesh, P("i")).device_set


# ---- what a mesh refuses -----------------------------------------------------------------------


@pytest.mark.parametrize("names", ["i", ("i",), ("i", "j", "k")])
def test_as_many_names_as_dimensions(names):
    with pytest.raises(ShapeError, match="axis names") as caught:
        Mesh(devices(4, 2), names)
    fixed = Mesh(devices(4, 2), **caught.value.fix.data)
    assert fixed.axis_sizes == (4, 2) and fixed.axis_names[0] == "i"
    with pytest.raises(ShapeError, match="axis names") as caught:
        AbstractMesh((4, 2), names)
    assert AbstractMesh((4, 2), **caught.value.fix.data).axis_names == fixed.axis_names


def test_names_that_stand_there_twice():
    with pytest.raises(AxisError, match="different names") as caught:
        Mesh(devices(2, 2, 2), ("i", "j", "i"))
    assert Mesh(devices(2, 2, 2), **caught.value.fix.data).axis_names == ("i", "j", "i_1")
    with pytest.raises(AxisError, match="different names") as caught:
        AbstractMesh((1, 1, 1), ("i_1", "i", "i"))
    assert caught.value.fix.data["axis_names"] == ("i_1", "i", "i_2")


@pytest.mark.parametrize("names", [(0, "j"), (None, "j"), (("a", "b"), "j"), ("", "j"), 5])
def test_what_is_no_name(names):
    shape = (4, 2) if names != 5 else (8,)
    with pytest.raises(WeftTypeError, match="a text that is not empty") as caught:
        Mesh(devices(*shape), names)
    assert Mesh(devices(*shape), **caught.value.fix.data).axis_sizes == shape


def test_devices_that_are_there_twice():
    there = client.devices()
    with pytest.raises(WeftValueError, match="more than once") as caught:
        Mesh([there[0], there[1], there[0]], "i")
    assert Mesh(caught.value.fix.data["devices"], "i").device_ids.tolist() == [0, 1]


def test_what_is_no_device():
    with pytest.raises(WeftTypeError, match="3 is no device") as caught:
        Mesh(np.arange(3, 5), "i")
    assert caught.value.fix.data == {"devices": "weft.devices()"}
    with pytest.raises(WeftTypeError, match="None is no device"):
        Mesh(None, ())
    with pytest.raises(WeftTypeError, match="is no device"):
        SingleDeviceSharding("cpu")


def test_a_mesh_of_no_devices_or_without_axes():
    with pytest.raises(WeftValueError, match="there are no devices"):
        Mesh(np.empty((2, 0), object), ("i", "j"))
    with pytest.raises(WeftValueError, match="there are no devices"):
        Mesh([], "i")
    for sizes in ((2, 0), (2, -1)):
        with pytest.raises(WeftValueError, match="at least one device") as caught:
            AbstractMesh(sizes, ("i", "j"))
        assert AbstractMesh(caught.value.fix.data["sizes"], ("i", "j")).size == 2
    # For XLA, a mesh without axes is one device: another kind of thing.
    with pytest.raises(WeftValueError, match="without axes") as caught:
        Mesh(devices(1).reshape(()), ())
    assert Mesh(**caught.value.fix.data).size == 1


def test_lists_of_different_lengths():
    there = client.devices()
    for nested in ([there[:2], there[2:3]], [there[:2], there[2]]):
        with pytest.raises(ShapeError, match="different lengths"):
            Mesh(nested, ("i", "j"))


def test_devices_of_different_platforms():
    mixed = [FakeDevice(0), FakeDevice(1, platform="gpu"), FakeDevice(2)]
    with pytest.raises(WeftValueError, match="platforms") as caught:
        Mesh(np.array(mixed, object), "i")
    assert Mesh(caught.value.fix.data["devices"], "i").device_ids.tolist() == [0, 2]


def test_axis_types_are_auto():
    auto = (AxisType.Auto,) * 2
    assert make_mesh((4, 2), ("i", "j"), auto) is make_mesh((4, 2), ("i", "j"))
    mesh = make_mesh((4, 2), ("i", "j"))
    assert Mesh(mesh.devices, ("i", "j"), auto) is mesh.update(None, None, auto) is mesh
    assert AbstractMesh((4, 2), ("i", "j"), auto) is mesh.abstract_mesh
    assert make_mesh((4, 2), ("i", "j"), axis_types=auto) is make_mesh((4, 2), ("i", "j"))
    assert AbstractMesh((2,), ("i",), axis_types=AxisType.Auto) is AbstractMesh(2, "i")
    for make in (make_mesh, AbstractMesh):
        with pytest.raises(WeftNotImplementedError, match="Auto"):
            make((4, 2), ("i", "j"), axis_types=(AxisType.Auto, AxisType.Explicit))
        with pytest.raises(ShapeError, match="differ in number"):
            make((4, 2), ("i", "j"), axis_types=(AxisType.Auto,))
        for names in ("Auto", ("auto", "auto")):
            with pytest.raises(WeftTypeError, match="an AxisType for each axis"):
                make((4, 2), ("i", "j"), axis_types=names)


def test_the_axes_of_a_type():
    mesh = make_mesh((4, 2), ("i", "j"))
    for of in (mesh, mesh.abstract_mesh):
        assert (of.auto_axes, of.explicit_axes, of.manual_axes) == (("i", "j"), (), ())
        assert of.are_all_axes_auto and not (of.are_all_axes_explicit or of.are_all_axes_manual)
    assert not AbstractMesh((), ()).are_all_axes_auto


def test_the_length_of_an_unknown_axis():
    mesh = make_mesh((4, 2), ("i", "j"))
    with pytest.raises(AxisError, match="no axis 'k'") as caught:
        mesh.axis_size("k")
    assert mesh.axis_size(caught.value.fix.data["names"]) == 8


# ---- make_mesh ---------------------------------------------------------------------------------


def test_make_mesh_takes_devices_in_the_order_of_their_numbers():
    assert make_mesh((4, 2), ("i", "j")).device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert make_mesh(3, "i").device_ids.tolist() == [0, 1, 2]
    assert make_mesh((np.int64(2), np.uint8(1)), ["i", "j"]).axis_sizes == (2, 1)


def test_make_mesh_keeps_the_order_of_devices_that_it_is_given():
    chosen = client.devices()[5:1:-1]
    assert make_mesh((2, 2), ("i", "j"), devices=chosen).device_ids.tolist() == [[5, 4], [3, 2]]


@pytest.mark.parametrize("there", [1, 3])
def test_make_mesh_with_too_few_devices_given(there):
    with pytest.raises(WeftValueError, match="number of devices") as caught:
        make_mesh((2, 2), ("i", "j"), devices=client.devices()[:there])
    fixed = make_mesh(axis_names=("i", "j"), **caught.value.fix.data)
    assert fixed.size <= there


def test_make_mesh_with_too_many_devices_given():
    with pytest.raises(WeftValueError, match="number of devices") as caught:
        make_mesh((2, 2), ("i", "j"), devices=client.devices())
    fixed = make_mesh((2, 2), ("i", "j"), **caught.value.fix.data)
    assert fixed is make_mesh((2, 2), ("i", "j"))


def test_make_mesh_with_more_devices_than_there_are():
    with pytest.raises(WeftValueError, match="not enough devices") as caught:
        make_mesh((8, 3), ("i", "j"))
    data = caught.value.fix.data
    assert "WEFT_NUM_CPU_DEVICES=24" in str(caught.value)
    assert make_mesh(data["axis_shapes"], ("i", "j")).axis_sizes == (8, 1)
    program = "import weft.api.meshes as m; print(m.make_mesh((8, 3), ('i', 'j')))"
    out = python_output("-c", program, env=os.environ | data["environment"])
    assert out == "Mesh('i': 8, 'j': 3)\n"


def test_make_mesh_of_lengths_that_are_none():
    with pytest.raises(WeftTypeError, match="is an integer"):
        make_mesh((4.0, 2), ("i", "j"))
    with pytest.raises(WeftTypeError, match="is an integer"):
        make_mesh(None, "i")
    with pytest.raises(ShapeError, match="axis names"):
        make_mesh((4, 2), "i")
    with pytest.raises(WeftValueError, match="positive lengths"):
        make_mesh((4, 0), ("i", "j"))


# ---- copies and other processes ----------------------------------------------------------------


def everything():
    mesh = make_mesh((4, 2), ("i", "j"))
    return [
        mesh,
        make_mesh((2, 2), ("a", "b"), devices=client.devices()[:3:-1]),
        mesh.abstract_mesh,
        P("i", None, ("j", "k")),
        P(P.UNCONSTRAINED, sum=("i", "j")),
        NamedSharding(mesh, P(("j", "i"))),
        NamedSharding(mesh.abstract_mesh, P("i")),
        SingleDeviceSharding(client.devices()[3]),
        TiledSharding(client.devices(), np.arange(8).reshape(4, 2)),
        TiledSharding(client.devices()[:2], None),
        AxisType.Auto,
    ]


@pytest.mark.parametrize("number", range(11))
def test_copies_and_pickles_are_the_same_again(number):
    value = everything()[number]
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value and hash(again) == hash(value) and repr(again) == repr(value)
        assert again is value or isinstance(value, P)


def test_a_pickled_mesh_needs_its_devices():
    mesh = make_mesh((4, 2), ("i", "j"))
    for value in (mesh, NamedSharding(mesh, P("i")), SingleDeviceSharding(client.devices()[7])):
        stored = pickle.dumps(value)
        with (
            client.use_backend(FakeBackend(num_devices=4)),
            pytest.raises(WeftValueError, match="does not have") as caught,
        ):
            pickle.loads(stored)
        count = int(caught.value.fix.data["environment"]["WEFT_NUM_CPU_DEVICES"])
        with client.use_backend(FakeBackend(num_devices=count)):
            assert pickle.loads(stored).__class__ is value.__class__


# ---- the mesh in force -------------------------------------------------------------------------


def test_without_a_mesh_in_force():
    assert get_mesh() is None
    assert get_abstract_mesh().empty and get_abstract_mesh() is AbstractMesh((), ())


def test_a_mesh_is_in_force_within_a_block():
    outer, inner = make_mesh((4, 2), ("i", "j")), make_mesh((2,), ("k",))
    with outer as entered:
        assert entered is outer and get_mesh() is outer
        assert get_abstract_mesh() is outer.abstract_mesh
        with use_mesh(inner) as entered:
            assert entered is inner and get_mesh() is inner
            with outer:
                assert get_mesh() is outer
            assert get_mesh() is inner
        assert get_mesh() is outer
        with pytest.raises(KeyError), inner:
            raise KeyError
        assert get_mesh() is outer
    assert get_mesh() is None


def test_one_mesh_may_be_entered_again():
    mesh = make_mesh((2,), ("i",))
    with mesh, mesh:
        with mesh:
            pass
        assert get_mesh() is mesh
    assert get_mesh() is None


def test_an_abstract_mesh_in_force():
    mesh = AbstractMesh((4,), ("i",))
    with use_mesh(mesh):
        assert get_mesh() is None and get_abstract_mesh() is mesh


def test_set_mesh_as_a_block():
    first, second = make_mesh((2,), ("i",)), make_mesh((3,), ("i",))
    with set_mesh(first) as entered:
        assert entered is first and get_mesh() is first
        with set_mesh(second):
            assert get_mesh() is second
        with set_mesh(None):
            assert get_mesh() is None and get_abstract_mesh().empty
        assert get_mesh() is first
    assert get_mesh() is None


def test_set_mesh_for_good():
    first, second = make_mesh((2,), ("i",)), make_mesh((3,), ("i",))

    def program():
        set_mesh(first)
        assert get_mesh() is first
        set_mesh(second)
        assert get_mesh() is second
        with use_mesh(first):
            set_mesh(second)
            assert get_mesh() is second
        # What was set within a block ends with the block.
        assert get_mesh() is second
        set_mesh(None)
        assert get_mesh() is None
        set_mesh(first)

    contextvars.copy_context().run(program)
    assert get_mesh() is None


def test_threads_begin_without_a_mesh():
    found = []

    def look():
        found.append(get_mesh())
        with make_mesh((3,), ("k",)):
            found.append(get_mesh())

    mesh = make_mesh((2,), ("i",))
    with mesh:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert get_mesh() is mesh
    assert found == [None, make_mesh((3,), ("k",))]


@pytest.mark.parametrize("what", ["i", ("i",), 8])
def test_what_is_no_mesh_cannot_be_in_force(what):
    for put in (use_mesh, set_mesh):
        with pytest.raises(WeftTypeError, match="takes a mesh"):
            put(what)
    with pytest.raises(WeftTypeError, match="takes a mesh"):
        use_mesh(None)
    assert get_mesh() is None


# ---- beside the rest of the library ------------------------------------------------------------


@pytest.mark.parametrize("name", ["a b", "\\", "α", '"', "\n", "\0", "%5c", "\ud800", "@{x}:(1)2"])
def test_any_text_is_the_name_of_an_axis_in_a_program(name):
    mesh = make_mesh((2, 2), (name, "other"))
    x = np.arange(8, dtype=np.float32)
    module = stablehlo.Module("named", num_partitions=4)
    symbol = stablehlo.mesh(module, mesh.shape_tuple)
    kind = stablehlo.array_type_to_ir(type_of(x))
    split = stablehlo.sharding(symbol, ((name,),))
    with module.function(
        "main",
        [kind],
        [kind],
        public=True,
        arg_attributes=[{"sdy.sharding": split}],
        result_attributes=[{"sdy.sharding": split}],
    ) as main:
        block = stablehlo.tensor_type((4,), x.dtype)
        results = stablehlo.manual_computation(
            main.arguments, [split], [split], mesh.axis_names, [block], [kind],
            lambda blocks: [stablehlo.add(*blocks, *blocks)],
        )  # fmt: skip
        main.return_(results)
    assignment = NamedSharding(mesh, P(name)).assignment(1)
    place = client.backend().tiled(mesh.device_list, assignment)
    options = CompileOptions(num_partitions=4)
    executable = client.backend().compile(module.ir, options, [type_of(x)], None, [place])
    blocks = [x[:4].copy(), x[:4].copy(), x[4:].copy(), x[4:].copy()]
    argument = client.backend().put_shards(blocks, type_of(x), place, mesh.device_list)
    parts = [
        client.backend().to_numpy(part)
        for part in client.backend().shards(executable.run([argument])[0])
    ]
    np.testing.assert_array_equal(parts, [[0, 2, 4, 6]] * 2 + [[8, 10, 12, 14]] * 2)
