"""Layouts and compiled programs as programs of users met them: arguments of changing classes,
places without layouts, arguments that are not read, foreign memory, and what messages call things.
"""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from layout_cases import COLUMNS, HERE, MESH, memory_of, order_of, over, same, table
from weft import ShapeDtypeStruct, lax
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.layout import Format, Layout, with_layout_constraint
from weft.sharding import NamedSharding, P, SingleDeviceSharding

pytestmark = pytest.mark.fast

AUTO = Format(Layout.AUTO)
BY_COLUMNS = Layout((1, 0))


# ---- calls of a compiled program -----------------------------------------------------------------


def test_a_compiled_program_takes_arrays_host_arrays_and_numbers_in_any_sequence():
    compiled = weft.jit(lambda x, s: x * s).lower(np.ones(3, np.float32), 2.0).compile()
    host = np.array([1, 2, 3], np.float32)
    vectors = [wnp.array(host), host]
    numbers = [2.0, np.float32(2), wnp.array(2.0), wnp.float32(2)]
    calls = list(itertools.product(vectors, numbers))
    for before, after in itertools.product(calls, calls):
        for args in (before, before, after, after):  # The second call of a kind is the short one.
            np.testing.assert_array_equal(np.asarray(compiled(*args)), host * 2)


def test_stages_are_copied_by_name_and_are_not_pickled():
    traced = weft.jit(lambda x: x + 1).trace(np.ones(3, np.float32))
    for stage in (traced, traced.lower(), traced.lower().compile()):
        assert copy.deepcopy({"program": stage})["program"] is stage
        assert copy.copy(stage) is stage
        with pytest.raises(WeftTypeError, match="cannot be pickled") as caught:
            pickle.dumps(stage)
        assert "weft.export" in caught.value.fix.text


# ---- layouts that the program chooses ------------------------------------------------------------

CHOSEN = {
    "nowhere": None,
    "device": HERE,
    "another device": SingleDeviceSharding(weft.devices()[3]),
    "rows over devices": over("i"),
    "columns over devices": over(None, "j"),
}


@pytest.mark.parametrize("place", CHOSEN)
def test_a_struct_that_says_where_it_lies_leaves_the_layout_open(place):
    def f(x, y):
        return x[0, :], y[:, 0]

    sharding = CHOSEN[place]
    struct = ShapeDtypeStruct((512, 1024), "float32", sharding=sharding)
    compiled = weft.jit(f, in_shardings=AUTO).lower(struct, struct).compile()
    formats, _ = compiled.input_formats
    assert [how.layout.major_to_minor for how in formats] == [(0, 1), (1, 0)]
    values = table(512, 1024)
    row, column = compiled(*weft.device_put((values, values), formats))
    np.testing.assert_array_equal(np.asarray(row), values[0])
    np.testing.assert_array_equal(np.asarray(column), values[:, 0])
    # What a struct or an array says of its layout stays.
    said = Format(Layout((0, 1)), HERE if sharding is None else sharding)
    for given in (
        ShapeDtypeStruct((512, 1024), "float32", sharding=said),
        weft.device_put(values, said),
    ):
        formats, _ = weft.jit(f, in_shardings=AUTO).lower(given, given).compile().input_formats
        assert formats == (said, said)


def test_arguments_that_are_not_read_have_formats_that_arrays_can_have():
    struct = ShapeDtypeStruct((4, 8), "float32")
    compiled = weft.jit(lambda x, unread: x * 2, in_shardings=AUTO).lower(struct, struct).compile()
    formats, _ = compiled.input_formats
    x, unread = weft.device_put((table(4, 8), table(4, 8)), formats)
    same(compiled(x, unread), 2 * table(4, 8))
    assert unread.format == formats[1]


# ---- what is known of results before there are any -----------------------------------------------

RESULTS = {
    "argument": lambda x: x,
    "constrained": lambda x: with_layout_constraint(x, BY_COLUMNS),
    "constrained to rows": lambda x: with_layout_constraint(x, Layout((0, 1))),
    "placed by jit": weft.jit(lambda x: x * 2, out_shardings=over("i", layout=(1, 0))),
    "inside jit": lambda x: weft.jit(lambda y: (y, y + 1))(x)[0],
    "computed": lambda x: lax.with_sharding_constraint(x + 1, over("i")),
}


@pytest.mark.parametrize("given", [None, (0, 1), (1, 0)])
@pytest.mark.parametrize("name", RESULTS)
def test_structs_of_results_have_the_layouts_that_the_results_have(name, given):
    f = RESULTS[name]
    x = weft.device_put(table(8, 8), over("i", layout=given))
    out = weft.jit(lambda x: f(x))(x)
    for struct in (weft.eval_shape(f, x), weft.jit(lambda x: f(x)).trace(x).out_info):
        assert struct.sharding.is_equivalent_to(out.sharding, 2)
        assert (struct.layout or Layout((0, 1))) == out.format.layout
    order_of(out)


def test_out_shardings_say_more_of_a_result_than_the_program():
    x = weft.device_put(table(8, 8), over("i", layout=(1, 0)))
    for where in (over("i", layout=(0, 1)), over("i", layout=(1, 0)), over("j"), None):
        traced = weft.jit(lambda x: x, out_shardings=where).trace(x)
        found = traced.out_info
        out = traced.lower().compile()(x)
        assert found.sharding.is_equivalent_to(out.sharding, 2)
        assert (found.layout or Layout((0, 1))) == out.format.layout
    open_layout = weft.jit(lambda x: x, out_shardings=Format(Layout.AUTO, over("i"))).trace(x)
    assert open_layout.out_info.layout is None


# ---- classes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(True, False), (1.0, 0), (1.0, 0.0), (np.bool_(1), 0)])
def test_what_equals_a_number_is_no_dimension_whatever_was_made_before(order):
    known = Layout((1, 0))
    with pytest.raises(WeftTypeError, match="sequence of integers"):
        Layout(order)
    assert Layout((np.int64(1), 0)) is known
    assert [type(d) for d in known.major_to_minor] == [int, int]


@pytest.mark.parametrize(
    ("wrong", "wanted"), [(COLUMNS, (1, 0)), (Layout.AUTO, (0, 1)), (AUTO, (0, 1)), ("C", (0, 1))]
)
def test_the_fix_of_what_is_no_layout_works(wrong, wanted):
    x = table(4, 8)
    with pytest.raises(WeftTypeError, match="no layout") as caught:
        with_layout_constraint({"a": x}, wrong)
    fixed = with_layout_constraint({"a": x}, **caught.value.fix.data)
    assert same(fixed["a"], x) == wanted


TILED = Layout((1, 0), ((2, 2),))
TILED_USES = {
    "device_put": lambda x, layout: weft.device_put(x, Format(layout, HERE)),
    "in_shardings": lambda x, layout: weft.jit(lambda x: x, in_shardings=Format(layout, HERE))(x),
    "out_shardings": lambda x, layout: weft.jit(lambda x: x, out_shardings=Format(layout, HERE))(x),
    "with_layout_constraint": with_layout_constraint,
    "in a program": lambda x, how: weft.jit(lambda x: with_layout_constraint(x, how))(x),
    "device": lambda x, layout: wnp.asarray(x, device=Format(layout, HERE)),
    "struct": lambda x, layout: (
        weft.jit(lambda x: x)
        .lower(ShapeDtypeStruct((4, 8), "float32", sharding=Format(layout, HERE)))
        .compile()(x)
    ),
}


@pytest.mark.parametrize("name", TILED_USES)
def test_no_array_says_that_it_lies_in_tiles_where_it_does_not(name):
    with pytest.raises(WeftValueError, match="CPUs do not store arrays in tiles") as caught:
        TILED_USES[name](table(4, 8), TILED)
    assert same(TILED_USES[name](table(4, 8), caught.value.fix.data["layout"]), table(4, 8)) == (
        1,
        0,
    )


# ---- what messages call arguments ----------------------------------------------------------------


def test_the_first_way_out_can_be_copied_from_the_message():
    p = {"w": weft.device_put(table(4, 8), HERE)}
    x = weft.device_put(table(4, 8), COLUMNS)
    f = weft.jit(lambda p, x: p["w"] + x, in_shardings=(COLUMNS, COLUMNS))
    compiled = f.lower({"w": x}, x).compile()
    for call in (f, compiled):
        with pytest.raises(WeftValueError, match=r"p\['w'\].* does not match") as caught:
            call(p, x)
        text = caught.value.fix.text.removeprefix("pass ").partition(";")[0]
        names = {"weft": weft, "Format": Format, "Layout": Layout, "p": p, "x": x}
        same(call({"w": eval(text, names)}, x), 2 * table(4, 8))


def test_arguments_on_different_devices_are_named():
    one, other = (weft.device_put(table(8, 4), d) for d in weft.devices()[1:3])

    def f(a, b, *rest):
        return a + b["k"] + rest[0]

    for run in (weft.jit(f), weft.jit(f).lower):
        with pytest.raises(WeftValueError, match=r"different devices: b\['k'\] and") as caught:
            run(table(8, 4), {"k": one}, other)
        assert "b['k'] on cpu:1 and " in caught.value.got
    with pytest.raises(WeftValueError, match="a closed-over array and a") as caught:
        weft.jit(lambda a: a + other)(one)
    assert "closed-over" not in caught.value.fix.text

    mesh = weft.make_mesh((4,), ("i",))
    rows = NamedSharding(mesh, P("i"))
    f = weft.jit(lambda p: lax.with_sharding_constraint(p["w"] + 1, rows))
    with pytest.raises(WeftValueError, match=r"and p\['w'\] was put on other devices") as caught:
        f({"w": weft.device_put(table(8, 4), NamedSharding(MESH, P("i")))})
    fixed = weft.device_put(table(8, 4), caught.value.fix.data["device"])
    same(f({"w": fixed}), table(8, 4) + 1)


# ---- foreign memory ------------------------------------------------------------------------------


def memory_at(offset, shape, order):
    """A NumPy array in an order, `offset` bytes after an address that devices like."""
    count = int(np.prod(shape))
    raw = np.zeros(4 * count + 192, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    flat = raw[start : start + 4 * count].view(np.float32)
    flat[:] = range(count)
    return flat.reshape([shape[d] for d in order]).transpose(np.argsort(order))


@pytest.mark.parametrize("offset", [0, 4, 16, 32])
@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_foreign_memory_keeps_its_order_wherever_it_lies(order, writeable, offset):
    values = memory_at(offset, (3, 4, 5), order)
    values.flags.writeable = writeable
    x = wnp.from_dlpack(values)
    assert same(x, values.copy()) == order
    np.testing.assert_array_equal(memory_of(x), range(60))


def test_what_numpy_sees_of_an_array_comes_back():
    for x in (weft.device_put(table(3, 4), COLUMNS), wnp.array(table(3, 4)), wnp.ones((0, 2))):
        again = wnp.from_dlpack(np.from_dlpack(x))
        same(again, np.asarray(x))
        assert again.format.layout == x.format.layout or x.size < 2
    flat = memory_at(4, (1, 5, 1), (2, 1, 0))
    same(wnp.from_dlpack(flat), flat.copy())
    with pytest.raises(ShapeError):
        wnp.from_dlpack(np.ones((2, 3)), device=Format(Layout((0,)), HERE))
