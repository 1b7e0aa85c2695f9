"""`weft.extend.sharding`: what XLA is told about an array, and back."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.extend.sharding import XlaSharding, from_xla, to_xla
from weft.runtime.jaxlib.native import hlo_library
from weft.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding, TiledSharding
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

NAMES = "ijk"
MESH_SHAPES = [(1,), (2,), (8,), (2, 4), (4, 2), (2, 2, 2), (1, 4), (2, 1, 4)]


@st.composite
def meshes(draw):
    """Meshes of one to eight devices, which stand in any order."""
    shape = draw(st.sampled_from(MESH_SHAPES))
    devices = draw(st.permutations(weft.devices()[: math.prod(shape)]))
    return Mesh(np.array(devices).reshape(shape), tuple(NAMES[: len(shape)]))


@st.composite
def named(draw):
    """A sharding by a spec over such a mesh, and a number of dimensions that it fits."""
    mesh = draw(meshes())
    ndim = draw(st.integers(0, 3))
    names = draw(st.permutations(mesh.axis_names))
    used = names[: draw(st.integers(0, len(names)))] if ndim else []
    entries = [[] for _ in range(ndim)]
    for name in used:
        entries[draw(st.integers(0, ndim - 1))].append(name)
    return NamedSharding(mesh, P(*(tuple(entry) or None for entry in entries))), ndim


@st.composite
def tiled(draw):
    """Tiles in any order of devices, with any number of copies."""
    counts = draw(st.sampled_from([(2, 1), (4, 2), (2, 2, 2), (1, 8, 1), (8, 1), (3, 2), (5, 1)]))
    devices = draw(st.permutations(weft.devices()))[: math.prod(counts)]
    numbers = draw(st.permutations(range(len(devices))))
    return TiledSharding(devices, np.reshape(numbers, counts)), len(counts) - 1


def blocks(sharding, ndim):
    """Which part of an array each device holds."""
    return sharding.devices_indices_map((120,) * ndim)


@given(named())
def test_a_spec_goes_there_and_back(case):
    sharding, ndim = case
    told = to_xla(sharding, ndim)
    back = from_xla(told, sharding.mesh)
    assert isinstance(back, NamedSharding) and back.mesh is sharding.mesh
    assert blocks(back, ndim) == blocks(sharding, ndim)
    assert to_xla(back, ndim) == told
    assert from_xla(told.text, sharding.mesh) is from_xla(told.proto, sharding.mesh) is back
    if all(size > 1 for size in sharding.mesh.axis_sizes):
        shortest = list(sharding.spec)
        while shortest and not sharding.spec.entry_axes(len(shortest) - 1):
            shortest.pop()
        assert back.spec == P(*shortest) or back.is_fully_replicated


@given(st.one_of(named(), tiled()))
def test_over_devices_without_a_mesh(case):
    sharding, ndim = case
    told = to_xla(sharding, ndim)
    back = from_xla(told, sharding.device_list)
    assert blocks(back, ndim) == blocks(sharding, ndim)
    assert to_xla(back, ndim) == told


@given(named(), st.data())
def test_partitions_are_numbered_by_the_devices_that_are_given(case, data):
    sharding, ndim = case
    order = data.draw(st.permutations(sharding.device_list))
    told = to_xla(sharding, ndim, devices=order)
    assert blocks(from_xla(told, order), ndim) == blocks(sharding, ndim)


@given(st.one_of(named(), tiled()))
def test_text_bytes_and_parts_say_the_same(case):
    told = to_xla(*case)
    assert XlaSharding.parse(told.text) == XlaSharding.parse(told.proto) == told
    assert pickle.loads(pickle.dumps(told)) == told
    assert hash(XlaSharding(told.kind, told.tile_shape, told.partitions, told.subgroups)) == hash(
        told
    )


@given(named())
def test_the_assignment_says_where_every_tile_lies(case):
    sharding, ndim = case
    told = to_xla(sharding, ndim)
    shape = (120,) * ndim
    if told.assignment is None:
        assert all(s == slice(None) for b in blocks(sharding, ndim).values() for s in b)
        return
    order = told.assignment.reshape(*told.tile_shape[:ndim], -1)
    whole = np.arange(math.prod(shape)).reshape(shape)
    found = sharding.devices_indices_map(shape)
    for tile in itertools.product(*map(range, order.shape[:-1])):
        cut = tuple(
            slice(i * 120 // n, (i + 1) * 120 // n)
            for i, n in zip(tile, order.shape[:-1], strict=True)
        )
        for number in order[tile]:
            held = whole[found[sharding.device_list[number]]]
            np.testing.assert_array_equal(held, whole[cut])


@given(tiled())
def test_over_a_mesh_a_spec_is_found_where_there_is_one(case):
    sharding, ndim = case
    mesh = Mesh(np.array(sharding.device_list), ("i",))
    back = from_xla(to_xla(sharding, ndim), mesh)
    assert blocks(back, ndim) == blocks(sharding, ndim)
    fits = any(
        blocks(NamedSharding(mesh, P(*(None,) * d, "i")), ndim) == blocks(sharding, ndim)
        for d in range(ndim)
    )
    assert isinstance(back, NamedSharding) == (fits or sharding.is_fully_replicated)


def test_what_an_array_says_is_what_xla_says_of_it():
    mesh = weft.make_mesh((4, 2), ("i", "j"))
    x = weft.device_put(jnp.zeros((8, 6)), NamedSharding(mesh, P("i", "j")))
    text = to_xla(x).text
    assert text == "{devices=[4,2]0,1,2,3,4,5,6,7}"
    # The same of the compiled program's parameter: what XLA prints is read back to the same.
    compiled = weft.jit(lambda y: y * 2).lower(x).compile()
    (said,) = compiled.runtime_executable().get_parameter_shardings()
    assert XlaSharding.parse(str(hlo_library.HloSharding.from_proto(said))) == to_xla(x)


def test_an_array_on_one_device_and_keys():
    x = jnp.ones((2, 3))
    assert to_xla(x) == XlaSharding("replicated")
    assert from_xla(to_xla(x), [x.device]) == SingleDeviceSharding(x.device)
    mesh = weft.make_mesh((8,), ("i",))
    keys = weft.device_put(weft.random.split(weft.random.key(0), 8), NamedSharding(mesh, P("i")))
    assert to_xla(keys).tile_shape == (8, 1)
    assert to_xla(weft.random.key_data(keys)).tile_shape == (8, 1)


def test_a_mesh_without_devices_is_enough_to_say_it():
    sharding = NamedSharding(AbstractMesh((2, 2), ("i", "j")), P(None, ("j", "i")))
    assert to_xla(sharding, 2).text == "{devices=[1,4]0,2,1,3}"


def test_what_xla_can_say_beyond_that():
    manual = XlaSharding.parse("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}")
    assert manual.subgroups == ("manual", "replicated")
    assert manual.assignment.tolist() == np.arange(8).reshape(2, 2, 2).tolist()
    assert XlaSharding.parse("{maximal device=3}").partitions == (3,)
    for kind in ("manual", "unknown", "unreduced", "replicated"):
        assert XlaSharding.parse(f"{{{kind}}}") == XlaSharding(kind)
        assert XlaSharding.parse(XlaSharding(kind).proto) == XlaSharding(kind)
    one = from_xla("{maximal device=3}", weft.devices())
    assert one == SingleDeviceSharding(weft.devices()[3])
    with pytest.raises((ValueError, AttributeError)):
        manual.assignment[0] = 1


MESH = AbstractMesh((4, 2), ("i", "j"))
WRONG = {
    "no sharding": (lambda: to_xla("{replicated}"), WeftTypeError, "an array or a sharding"),
    "a tracer": (lambda: weft.jit(to_xla)(1.0), WeftTypeError, "an array or a sharding"),
    "no ndim": (lambda: to_xla(NamedSharding(MESH, P("i"))), WeftTypeError, "how many dimensions"),
    "another ndim": (lambda: to_xla(jnp.ones(3), 2), WeftTypeError, "has 1 dimension"),
    "too few dimensions": (
        lambda: to_xla(NamedSharding(MESH, P("i", "j")), 1), ShapeError, "more entries",
    ),
    "left open": (
        lambda: to_xla(NamedSharding(MESH, P(P.UNCONSTRAINED)), 1), WeftValueError, "compiler",
    ),
    "other devices": (
        lambda: to_xla(
            NamedSharding(weft.make_mesh((4,), ("i",)), P("i")), 1, devices=weft.devices()
        ),
        WeftValueError,
        "not the devices",
    ),
    "no text": (lambda: XlaSharding.parse("devices"), WeftValueError, "XLA knows"),
    "no message": (lambda: XlaSharding.parse(b"\xff\xfe"), WeftValueError, "XLA knows"),
    "a tuple": (
        lambda: XlaSharding.parse("{{replicated},{manual}}"), WeftValueError, "several values",
    ),
    "no source": (lambda: XlaSharding.parse(3), WeftTypeError, "a text or bytes"),
    "manual": (lambda: from_xla("{manual}", weft.devices()), WeftValueError, "what part"),
    "in part manual": (
        lambda: from_xla("{devices=[2,4]<=[8] last_tile_dims={manual}}", weft.devices()),
        WeftValueError,
        "what part",
    ),
    "too few devices": (
        lambda: from_xla("{devices=[8]<=[8]}", weft.devices()[:4]), ShapeError, "as many devices",
    ),
    "no such device": (
        lambda: from_xla("{maximal device=9}", weft.devices()), ShapeError, "as many devices",
    ),
    "no devices": (lambda: from_xla("{replicated}", []), WeftTypeError, "devices of the part"),
    "a number": (lambda: from_xla("{replicated}", 3), WeftTypeError, "devices of the partitions"),
    "an abstract mesh": (lambda: from_xla("{replicated}", MESH), WeftTypeError, "devices"),
    "no kind": (lambda: XlaSharding("split"), WeftValueError, "no kind 'split'"),
    "tiles of a copy": (lambda: XlaSharding("replicated", (2,), (0, 1)), WeftValueError, "tiles"),
    "twice": (lambda: XlaSharding("tiled", (2,), (0, 0)), WeftValueError, "once"),
    "only subgroups": (
        lambda: XlaSharding("tiled", (2,), (0, 1), ("replicated",)), WeftValueError, "dimension",
    ),
    "no subgroup": (
        lambda: XlaSharding("tiled", (2, 2), (0, 1, 2, 3), ("tiled",)), WeftValueError, "subgroups",
    ),
    "two maximal": (lambda: XlaSharding("maximal", (), (0, 1)), WeftValueError, "one partition"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    call, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        call()


def test_fixes_apply():
    with pytest.raises(WeftValueError) as info:
        XlaSharding("tiled", (2,), (0, 0))
    assert XlaSharding.parse(info.value.fix.data["text"]).subgroups == ("replicated",)
    sharding = NamedSharding(weft.make_mesh((4,), ("i",)), P("i"))
    with pytest.raises(WeftTypeError) as info:
        to_xla(sharding)
    assert to_xla(sharding, **{info.value.fix.data["argument"]: 1}).tile_shape == (4,)
    with pytest.raises(ShapeError) as info:
        from_xla("{devices=[8]<=[8]}", weft.devices()[:4])
    assert from_xla("{devices=[8]<=[8]}", weft.devices()[: info.value.fix.data["number"]])
