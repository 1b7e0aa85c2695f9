"""Specs and shardings: which device holds which block, compared with a count by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import tree
from weft.api.meshes import make_mesh
from weft.errors import AxisError, ShapeError, WeftTypeError, WeftValueError
from weft.runtime import client
from weft.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    P,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    TiledSharding,
    named_sharding,
)

pytestmark = pytest.mark.fast


# ---- specs -------------------------------------------------------------------------------------


def test_a_spec_is_like_the_tuple_of_its_entries():
    spec = P("i", None, ("j", "k"))
    assert P is PartitionSpec
    assert list(spec) == ["i", None, ("j", "k")] and len(spec) == 3 and tuple(spec) == spec
    assert spec[0] == "i" and spec[-1] == ("j", "k") and spec[1:] == (None, ("j", "k"))
    assert "i" in spec and "j" not in spec
    assert spec.index(None) == 1 and spec.count("i") == 1
    assert spec == P("i", None, ("j", "k")) and hash(spec) == hash(P("i", None, ["j", "k"]))
    assert hash(spec) == hash(tuple(spec)) and {spec: 1}[tuple(spec)] == 1
    assert P("i") + P("j") == P("i") + ("j",) == ("i",) + P("j") == P("i", "j")
    with pytest.raises(TypeError):
        _ = P("i") + "j"
    with pytest.raises(IndexError):
        _ = spec[3]
    # And it is no tuple for pytrees: a spec is a leaf.
    assert tree.leaves({"x": spec, "y": (spec,)}) == [spec, spec]


def test_short_forms_of_entries():
    assert P(("i",), [], ()) == P("i", None, None) and P() == () and not list(P())


def test_specs_that_differ():
    assert len({P(), P(None), P("i"), P("i", None), P(("i", "j")), P(("j", "i")), P("i", "j")}) == 7
    assert P("i", sum="j") != P("i") != P("i", sum="j") and P("i", sum="j") != ("i",)
    assert P(sum="i") == P(sum=("i",)) and P("i") != ["i"] and P("i") != "i"


def test_what_a_spec_says_of_dimensions():
    spec = P(("k", "j"), None, "i", sum=("a", "b"))
    assert spec.axes() == ("k", "j", "i") and spec.sum == ("a", "b")
    assert [spec.entry_axes(i) for i in range(5)] == [("k", "j"), (), ("i",), (), ()]
    free = P(P.UNCONSTRAINED, "i")
    assert free.axes() == ("i",) and free.entry_axes(0) == ()
    assert [free.is_open(i) for i in range(3)] == [True, False, False]


def test_how_specs_are_shown():
    assert (
        repr(P("i", None, ("j", "k")))
        == str(P("i", None, ("j", "k")))
        == ("P('i', None, ('j', 'k'))")
    )
    assert repr(P()) == "P()" and repr(P(None)) == "P(None)"
    assert repr(P("i", sum="j")) == "P('i', sum='j')"
    assert repr(P(sum=("j", "k"))) == "P(sum=('j', 'k'))"
    assert repr(P(P.UNCONSTRAINED)) == "P(UNCONSTRAINED)"
    for spec in (P("i", None, ("j", "k")), P("i", sum="j"), P(sum=("j", "k"))):
        assert eval(repr(spec)) == spec


def test_update_makes_another_spec():
    spec = P("i", sum="j")
    assert spec.update(sum=()) == P("i") and spec.update(partitions=[None, "k"]) == P(
        None, "k", sum="j"
    )
    assert spec == P("i", sum="j")
    with pytest.raises(AttributeError, match="cannot be changed"):
        spec.sum = ()
    with pytest.raises(AttributeError, match="cannot be changed"):
        del spec.sum


@pytest.mark.parametrize(
    ("entries", "summed", "fixed"),
    [
        (("i", "i"), (), P("i", None)),
        (("i", None, ("j", "i")), (), P("i", None, "j")),
        ((("i", "i"),), (), P("i")),
        (("i",), "i", P("i")),
        ((), ("i", "i"), P(sum="i")),
    ],
)
def test_an_axis_is_mentioned_once(entries, summed, fixed):
    with pytest.raises(AxisError, match="'i' is mentioned twice") as caught:
        P(*entries, sum=summed)
    assert caught.value.fix.data["spec"] == fixed


@pytest.mark.parametrize("entry", [0, 1.5, "", ("i", None), ("i", ("j",)), {"i"}, b"i", ("",)])
def test_what_is_no_entry(entry):
    with pytest.raises(WeftTypeError, match="entry 1 is no name") as caught:
        P("k", entry)
    assert P(*caught.value.fix.data["entries"]) == P("k", None)


def test_what_is_no_sum():
    for summed in (3, ("i", None), {"i"}):
        with pytest.raises(WeftTypeError, match="sum takes the names"):
            P("k", sum=summed)


# ---- drawing meshes, specs and shapes ----------------------------------------------------------

SIZES = [
    sizes
    for rank in (1, 2, 3)
    for sizes in itertools.product(range(1, 9), repeat=rank)
    if math.prod(sizes) <= 8
]


@st.composite
def meshes(draw):
    sizes = draw(st.sampled_from(SIZES))
    order = draw(st.permutations(range(8)))[: math.prod(sizes)]
    there = np.array(client.devices(), object)[list(order)].reshape(sizes)
    names = draw(st.permutations(["i", "j", "k"]))[: len(sizes)]
    return Mesh(there, names)


@st.composite
def specs_over(draw, mesh, ndim):
    """A spec for `ndim` dimensions; each axis goes to one of them or to none."""
    entries = [[] for _ in range(ndim)]
    for name in draw(st.permutations(mesh.axis_names)):
        where = draw(st.integers(-1, ndim - 1))
        if where >= 0:
            entries[where].append(name)
    while entries and not entries[-1] and draw(st.booleans()):
        entries.pop()
    return P(*map(tuple, entries))


@st.composite
def cases(draw):
    """A sharding and a shape that fits it."""
    mesh = draw(meshes())
    ndim = draw(st.integers(0, 4))
    spec = draw(specs_over(mesh, ndim))
    shape = tuple(
        draw(st.integers(0, 3)) * math.prod(mesh.shape[name] for name in spec.entry_axes(i))
        for i in range(ndim)
    )
    return NamedSharding(mesh, spec), shape


def blocks_by_hand(mesh, spec, shape):
    """The elements that each device holds, by their numbers in the whole array."""
    whole = np.arange(math.prod(shape)).reshape(shape)
    held = {}
    for coordinates in np.ndindex(*mesh.devices.shape):
        at = dict(zip(mesh.axis_names, coordinates, strict=True))
        block = whole
        for dimension, entry in enumerate(spec):
            names = (entry,) if isinstance(entry, str) else entry or ()
            # Splitting over the first axis, and each part over the next one.
            for name in names:
                parts = np.split(block, mesh.devices.shape[mesh.axis_names.index(name)], dimension)
                block = parts[at[name]]
        held[mesh.devices[coordinates]] = block
    return held


@given(cases())
def test_devices_hold_the_blocks_that_splitting_by_hand_gives(case):
    sharding, shape = case
    whole = np.arange(math.prod(shape)).reshape(shape)
    held = sharding.devices_indices_map(shape)
    wanted = blocks_by_hand(sharding.mesh, sharding.spec, shape)
    assert list(held) == list(sharding.device_list) and held.keys() == wanted.keys()
    for device, index in held.items():
        np.testing.assert_array_equal(whole[index], wanted[device])
        assert whole[index].shape == sharding.shard_shape(shape) == wanted[device].shape
    assert sharding.addressable_devices_indices_map(shape) == held


@given(cases())
def test_every_element_has_as_many_copies_as_every_other(case):
    sharding, shape = case
    copies = np.zeros(shape, int)
    for index in sharding.devices_indices_map(shape).values():
        copies[index] += 1
    blocks = math.prod(sharding.block_counts(len(shape)))
    assert blocks * (sharding.num_devices // blocks) == sharding.num_devices
    assert (copies == sharding.num_devices // blocks).all()
    assert sharding.is_fully_replicated == (blocks == 1)


@given(cases())
def test_an_assignment_deals_out_blocks_in_order(case):
    sharding, shape = case
    assignment = sharding.assignment(len(shape))
    if assignment is None:
        assert sharding.is_fully_replicated
        return
    assert assignment.shape[:-1] == sharding.block_counts(len(shape))
    assert sorted(assignment.ravel()) == list(range(sharding.num_devices))
    lengths = sharding.shard_shape(shape)
    held = sharding.devices_indices_map(shape)
    whole = np.arange(math.prod(shape)).reshape(shape)
    for block in np.ndindex(*assignment.shape[:-1]):
        index = tuple(slice(n * k, (n + 1) * k) for n, k in zip(block, lengths, strict=True))
        for position in assignment[block]:
            device = sharding.device_list[position]
            np.testing.assert_array_equal(whole[index], whole[held[device]])
    with pytest.raises(ValueError, match="read-only"):
        assignment[...] = 0


@given(cases(), st.data())
def test_the_spec_of_an_assignment_is_found_again(case, data):
    sharding, shape = case
    ndim = len(shape)
    # The same layout, told with positions in another list of the devices.
    order = data.draw(st.permutations(range(sharding.num_devices)))
    listed = [sharding.device_list[position] for position in order]
    place = np.argsort(order)
    assignment = sharding.assignment(ndim)
    found = named_sharding(
        sharding.mesh, None if assignment is None else place[assignment], listed, ndim
    )
    assert isinstance(found, NamedSharding) and found.mesh is sharding.mesh
    assert found.is_equivalent_to(sharding, ndim) and sharding.is_equivalent_to(found, ndim)
    assert found.devices_indices_map(shape) == sharding.devices_indices_map(shape)
    assert not len(found.spec) or found.spec[-1] is not None
    assert all(sharding.mesh.shape[name] > 1 for name in found.spec.axes())


@given(meshes(), st.data())
def test_any_assignment_is_found_as_some_sharding(mesh, data):
    """Most are no spec's: devices keep their blocks all the same."""
    counts = data.draw(st.sampled_from([s for s in SIZES if mesh.size % math.prod(s) == 0]))
    order = np.array(data.draw(st.permutations(range(mesh.size)))).reshape(*counts, -1)
    tiled = TiledSharding(mesh.device_list, order)
    found = named_sharding(mesh, order, mesh.device_list, len(counts))
    shape = tuple(2 * count for count in counts)
    assert found.devices_indices_map(shape) == tiled.devices_indices_map(shape)
    assert found.is_equivalent_to(tiled, len(counts))
    # It is the spec's if there is one: all of them are tried.
    specs = []
    for places in itertools.product(range(-1, len(counts)), repeat=len(mesh.axis_names)):
        for names in itertools.permutations(range(len(mesh.axis_names))):
            entries = [[] for _ in counts]
            for axis in names:
                if places[axis] >= 0:
                    entries[places[axis]].append(mesh.axis_names[axis])
            specs.append(P(*map(tuple, entries)))
    expressible = any(
        NamedSharding(mesh, spec).is_equivalent_to(tiled, len(counts)) for spec in set(specs)
    )
    assert isinstance(found, NamedSharding) == expressible


def test_layouts_that_no_spec_describes():
    mesh = make_mesh((4, 2), ("i", "j"))
    listed = mesh.device_list
    halves = np.arange(8).reshape(2, 2, 2)  # dimensions share the axis "i"
    for assignment, ndim in (
        (halves, 2),
        (np.arange(8)[::-1].reshape(8, 1), 1),
        (np.arange(8).reshape(2, 4), 1),  # half of "i"
    ):
        found = named_sharding(mesh, assignment, listed, ndim)
        assert found is TiledSharding(listed, assignment)
    # Over other axes, or over other devices:
    split = make_mesh((2, 2, 2), ("a", "b", "c"))
    assert named_sharding(split, halves, listed, 2).spec == P("a", "b")
    fewer = make_mesh((2, 2), ("a", "b"))
    found = named_sharding(fewer, np.arange(8).reshape(8, 1), listed, 1)
    assert isinstance(found, TiledSharding) and found.num_devices == 8
    assert isinstance(named_sharding(fewer, None, listed, 1), TiledSharding)
    assert named_sharding(fewer, None, fewer.device_list, 3) is NamedSharding(fewer, P())


# ---- shardings ---------------------------------------------------------------------------------


def test_a_named_sharding():
    mesh = make_mesh((4, 2), ("i", "j"))
    sharding = NamedSharding(mesh, P("j", "i"))
    assert sharding is NamedSharding(mesh, P("j", "i")) and isinstance(sharding, Sharding)
    assert sharding is not NamedSharding(mesh, P("j", "i", None))
    assert sharding.device_list == mesh.device_list and sharding.num_devices == 8
    assert sharding.device_set == frozenset(client.devices()) == sharding.addressable_devices
    assert sharding.is_fully_addressable and not sharding.is_fully_replicated
    assert NamedSharding(mesh, P(None)).is_fully_replicated
    assert NamedSharding(make_mesh((1, 2), ("a", "b")), P("a")).is_fully_replicated
    assert sharding.with_spec(P("i")) is sharding.update(spec=P("i")) is NamedSharding(mesh, P("i"))
    assert sharding.update(mesh=make_mesh((2, 2), ("i", "j"))).num_devices == 4
    assert repr(sharding) == "NamedSharding(Mesh('i': 4, 'j': 2), P('j', 'i'))"
    with pytest.raises(AttributeError, match="cannot be changed"):
        sharding.spec = P()


def test_the_second_of_two_axes_varies_fastest():
    mesh = make_mesh((4, 2), ("i", "j"))
    first = NamedSharding(mesh, P(("i", "j"))).devices_indices_map((8,))
    other = NamedSharding(mesh, P(("j", "i"))).devices_indices_map((8,))
    assert [index[0].start for index in first.values()] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [index[0].start for index in other.values()] == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_sharding_on_one_device():
    device = client.devices()[2]
    sharding = SingleDeviceSharding(device)
    assert sharding is SingleDeviceSharding(device) and sharding.device is device
    assert sharding.device_list == (device,) and sharding.device_set == {device}
    assert sharding.is_fully_replicated and sharding.is_fully_addressable
    assert sharding.assignment(3) is None and sharding.shard_shape((3, 0)) == (3, 0)
    assert sharding.devices_indices_map((3, 2)) == {device: (slice(None), slice(None))}
    assert sharding.devices_indices_map(()) == {device: ()}


def test_equivalent_shardings():
    mesh, turned = make_mesh((4, 2), ("i", "j")), make_mesh((2, 4), ("a", "b"))
    rows = NamedSharding(mesh, P(("i", "j")))
    assert rows.is_equivalent_to(NamedSharding(turned, P(("a", "b"), None)), 2)
    assert not rows.is_equivalent_to(NamedSharding(turned, P(("b", "a"))), 2)
    assert not rows.is_equivalent_to(NamedSharding(turned, P(None, ("a", "b"))), 2)
    # The same blocks on the same devices in another order run another program.
    backwards = Mesh(mesh.devices[::-1], ("i", "j"))
    assert not NamedSharding(mesh, P()).is_equivalent_to(NamedSharding(backwards, P()), 1)
    one = make_mesh((1,), ("i",))
    assert NamedSharding(one, P("i")).is_equivalent_to(SingleDeviceSharding(client.devices()[0]), 1)
    assert not rows.is_equivalent_to(SingleDeviceSharding(client.devices()[0]), 1)


def test_tiled_shardings():
    listed = client.devices()[:4]
    sharding = TiledSharding(listed, [[[3, 1]], [[0, 2]]])
    assert sharding is TiledSharding(tuple(listed), np.array([[[1, 3]], [[2, 0]]]))
    assert sharding is not TiledSharding(listed, [[[0, 1]], [[2, 3]]])
    assert sharding.shard_shape((6, 5)) == (3, 5) and not sharding.is_fully_replicated
    held = sharding.devices_indices_map((6, 5))
    assert [held[device][0].start for device in listed] == [3, 0, 3, 0]
    assert repr(sharding) == "TiledSharding(4 devices, blocks (2, 1), 2 copies each)"
    whole = TiledSharding(listed, np.arange(4).reshape(1, 1, 4))
    assert whole is TiledSharding(listed, None) and whole.is_fully_replicated
    assert whole.assignment(1) is None and whole.assignment(5) is None
    assert repr(whole) == "TiledSharding(4 devices, replicated)"
    assert repr(TiledSharding(listed, np.arange(4).reshape(4, 1))) == (
        "TiledSharding(4 devices, blocks (4,))"
    )


# ---- what does not fit -------------------------------------------------------------------------


def test_an_axis_that_the_mesh_does_not_have():
    mesh = make_mesh((4, 2), ("batch", "model"))
    with pytest.raises(AxisError, match="no axis 'bacth'") as caught:
        NamedSharding(mesh, P("bacth", "model"))
    data = caught.value.fix.data
    assert data == {"from": "bacth", "to": "batch"}
    assert NamedSharding(mesh, P(data["to"], "model")).num_devices == 8
    with pytest.raises(AxisError, match="no axis 'x'") as caught:
        NamedSharding(mesh, P(None, ("batch", "x")))
    assert caught.value.fix.data["to"] == "model"
    with pytest.raises(AxisError, match="no axis 'x'") as caught:
        NamedSharding(mesh, P("batch", "model", "x"))
    assert caught.value.fix.data["to"] is None


@pytest.mark.parametrize("spec", [("i",), ["i", None], "i", None])
def test_what_is_no_spec(spec):
    mesh = make_mesh((4, 2), ("i", "j"))
    with pytest.raises(WeftTypeError, match="is a PartitionSpec") as caught:
        NamedSharding(mesh, spec)
    fixed = NamedSharding(mesh, P(*caught.value.fix.data["entries"]))
    assert fixed.is_fully_replicated == (spec is None)


@pytest.mark.parametrize("mesh", [None, {"i": 4}])
def test_what_is_no_mesh(mesh):
    with pytest.raises(WeftTypeError, match="first argument is a mesh"):
        NamedSharding(mesh, P())


def test_a_sharding_over_a_mesh_without_axes_asks_for_nothing():
    x = weft.numpy.arange(6.0).reshape(2, 3)
    nothing = weft.typeof(x).sharding
    assert nothing.without_axes and nothing.mesh.empty and nothing.is_fully_replicated
    assert nothing.spec == P(None, None) and nothing is NamedSharding(
        AbstractMesh((), ()), P(None, None)
    )
    assert not NamedSharding(make_mesh((8,), ("i",)), P()).without_axes
    assert weft.numpy.tensordot(x, x, 2, out_sharding=nothing) == 55.0
    assert weft.lax.reshape(x, (6,), out_sharding=nothing).shape == (6,)
    drawn = weft.random.normal(weft.random.key(0), (2, 3), out_sharding=nothing)
    assert drawn.shape == (2, 3)
    assert weft.ShapeDtypeStruct((2, 3), "float32", sharding=nothing).sharding is None
    assert weft.typeof(x).update(sharding=nothing) is weft.typeof(x)


def test_a_sum_is_no_layout():
    mesh = make_mesh((4, 2), ("i", "j"))
    with pytest.raises(WeftValueError, match="sums") as caught:
        NamedSharding(mesh, P("i", sum="j"))
    assert NamedSharding(mesh, caught.value.fix.data["spec"]).spec == P("i")


def test_a_dimension_that_does_not_divide():
    mesh = make_mesh((4, 2), ("i", "j"))
    sharding = NamedSharding(mesh, P(None, ("j", "i")))
    sharding.check_shape("f", "x", (3, 16))
    with pytest.raises(ShapeError, match="dimension 1 of x, of length 10") as caught:
        sharding.check_shape("f", "x", (3, 10))
    error = caught.value
    assert error.operation == "f" and "'j', 'i'" in error.message and "8" in error.wanted
    sharding.check_shape("f", "x", error.fix.data["shape"])
    sharding.with_spec(error.fix.data["spec"]).check_shape("f", "x", (3, 10))
    for ask in (sharding.shard_shape, sharding.devices_indices_map):
        with pytest.raises(ShapeError, match="dimension 1"):
            ask((3, 10))
    tiled = TiledSharding(client.devices()[:2], [[0], [1]])
    with pytest.raises(ShapeError, match="2 equal blocks") as caught:
        tiled.shard_shape((5,))
    assert tiled.shard_shape(caught.value.fix.data["shape"]) == (3,)


@pytest.mark.parametrize("entries", [("i", "j"), ("i", None), (None, None, None)])
def test_a_spec_with_more_entries_than_dimensions(entries):
    mesh = make_mesh((4, 2), ("i", "j"))
    sharding = NamedSharding(mesh, P(*entries))
    for ask in (
        lambda how: how.check_shape("f", "x", (8,)),
        lambda how: how.assignment(1),
        lambda how: how.shard_shape((8,)),
        lambda how: how.devices_indices_map((8,)),
        lambda how: how.block_counts(1),
        lambda how: how.is_equivalent_to(NamedSharding(mesh, P("j")), 1),
    ):
        with pytest.raises(ShapeError, match="more entries than") as caught:
            ask(sharding)
        ask(sharding.with_spec(caught.value.fix.data["spec"]))


def test_a_dimension_left_to_the_compiler_is_no_place():
    mesh = make_mesh((4, 2), ("i", "j"))
    sharding = NamedSharding(mesh, P(P.UNCONSTRAINED, "j"))
    sharding.check_shape("f", "x", (3, 4))
    with pytest.raises(WeftValueError, match="left to the compiler") as caught:
        sharding.assignment(2)
    assert sharding.with_spec(caught.value.fix.data["spec"]).shard_shape((3, 4)) == (3, 2)


def test_a_layout_belongs_to_one_number_of_dimensions():
    tiled = TiledSharding(client.devices()[:2], [[0], [1]])
    with pytest.raises(ShapeError, match="layout of arrays of 1 dimension"):
        tiled.assignment(2)


@pytest.mark.parametrize(
    "assignment", [[[0], [0]], [[0], [2]], [[0]], [[0], [1], [2]], [[0, 1], [0, 1]], [[0], [-1]]]
)
def test_each_device_stands_in_an_assignment_once(assignment):
    with pytest.raises(WeftValueError, match="exactly once") as caught:
        TiledSharding(client.devices()[:2], assignment)
    assert TiledSharding(client.devices()[:2], **caught.value.fix.data).is_fully_replicated


@pytest.mark.parametrize("assignment", [[[0.0], [1.0]], 0, "01", [[0], [1, 2]], [[False], [True]]])
def test_what_is_no_assignment(assignment):
    with pytest.raises(WeftTypeError, match="array of integers"):
        TiledSharding(client.devices()[:2], assignment)


@pytest.mark.parametrize("shape", [8, (8, -1), ("8",), (8.0,), None])
def test_what_is_no_shape(shape):
    mesh = make_mesh((4, 2), ("i", "j"))
    sharding = NamedSharding(mesh, P("i"))
    for ask in (sharding.shard_shape, sharding.devices_indices_map):
        with pytest.raises(WeftTypeError, match="a shape is a sequence"):
            ask(shape)


def test_devices_of_a_tiled_sharding_are_checked():
    first = client.devices()[0]
    with pytest.raises(WeftValueError, match="more than once"):
        TiledSharding([first, first], None)
    with pytest.raises(WeftValueError, match="no devices"):
        TiledSharding([], None)


def test_arrays_lie_in_the_memory_of_their_devices():
    mesh = make_mesh((2,), ("i",))
    sharding = NamedSharding(mesh, P("i"))
    assert NamedSharding(mesh, P("i"), sharding.memory_kind) is sharding
    assert NamedSharding(mesh, P("i"), memory_kind=None) is sharding
    assert NamedSharding(mesh, P("i"), memory_kind="pinned_host").canonical is sharding
    with pytest.raises(WeftValueError, match="no memory of the kind") as caught:
        NamedSharding(mesh, P("i"), memory_kind="disk")
    fix = caught.value.fix.data
    assert NamedSharding(mesh, P("i"), **{fix["keyword"]: fix["value"]}) is sharding
