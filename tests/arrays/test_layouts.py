"""Layouts: classes, arrays that have them, what keeps them, and `jit` with formats."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from layout_cases import COLUMNS, DEVICE, HERE, MESH, memory_of, order_of, orders, over, same, table
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.layout import Format, Layout, with_layout_constraint
from weft.runtime import client
from weft.sharding import NamedSharding, P, SingleDeviceSharding

pytestmark = pytest.mark.fast

X = table(4, 8)


def columns(x=X):
    return weft.device_put(x, COLUMNS)


# ---- the classes ---------------------------------------------------------------------------------


def test_equal_layouts_and_formats_are_one_object():
    assert Layout([1, 0]) is Layout((np.int64(1), 0)) and Layout((0, 1)) is not Layout((1, 0))
    assert Format(Layout((1, 0)), HERE) is Format(Layout((1, 0)), DEVICE) is COLUMNS
    assert Format() is Format(None, None) and Format(Layout.AUTO).sharding is None
    for value in (Layout((1, 0)), Layout((1, 0), ((8, 128),)), Layout.AUTO, Format(Layout.AUTO)):
        assert pickle.loads(pickle.dumps(value)) is value and copy.deepcopy(value) is value
    assert Layout((0, 1)).is_row_major and not Layout((1, 0)).is_row_major
    assert Layout(()).ndim == 0 and not Layout((0, 1), ((8, 128),)).is_row_major
    with pytest.raises(AttributeError, match="cannot be changed"):
        COLUMNS.layout = None
    assert weft.experimental.layout.Layout is Layout is weft.sharding.Layout


def test_repr_names_what_is_not_the_default():
    assert repr(Layout((1, 0))) == "Layout(major_to_minor=(1, 0))"
    assert repr(Layout.AUTO) == "Layout.AUTO"
    assert "tiling=((8, 128),)" in repr(Layout((1, 0), ((8, 128),)))
    small = columns(table(1, 2))
    assert repr(small) == "Array([[0., 1.]], dtype=float32, layout=(1, 0))"
    assert "layout" not in repr(wnp.zeros((2, 2)))
    both = weft.device_put(table(4, 2), over("i", "j", layout=(1, 0)))
    assert repr(both).endswith("layout=(1, 0), sharding=P('i', 'j'))")
    struct = weft.ShapeDtypeStruct((4, 2), "float32", sharding=both.format)
    assert "(1, 0)" in repr(struct) and "P('i', 'j')" in repr(struct)


BAD = [
    (lambda: Layout((0, 2)), WeftValueError, "permutation"),
    (lambda: Layout((0, 0)), WeftValueError, "exactly once"),
    (lambda: Layout((-1, 0)), WeftValueError, "exactly once"),
    (lambda: Layout(5), WeftTypeError, "sequence of integers"),
    (lambda: Layout((0.5, 1)), WeftTypeError, "sequence of integers"),
    (lambda: Layout((1, 0), 8), WeftTypeError, "tiling"),
    (lambda: Format((1, 0), HERE), WeftTypeError, "a layout first"),
    (lambda: Format(HERE), WeftTypeError, "a layout first"),
    (lambda: Format(Layout((1, 0))), WeftValueError, "needs its sharding"),
    (lambda: Format(Layout((1, 0)), "cpu"), WeftTypeError, "a sharding second"),
    (lambda: weft.device_put(X, Layout((1, 0))), WeftTypeError, "together with their shardings"),
    (lambda: weft.device_put(X, Format(Layout.AUTO)), WeftValueError, "compiled function"),
    (lambda: weft.device_put({"a": X[0]}, COLUMNS), ShapeError, r"x\['a'\]"),
    (lambda: wnp.zeros((2, 3, 4), device=COLUMNS), ShapeError, "3 dimensions"),
    (lambda: with_layout_constraint([X, X[0]], Layout((1, 0))), ShapeError, r"x\[1\]"),
    (lambda: with_layout_constraint(X, COLUMNS), WeftTypeError, "no layout"),
    (lambda: with_layout_constraint(X, Layout.AUTO), WeftTypeError, "no layout"),
    (lambda: weft.jit(abs, in_shardings=COLUMNS)(X[0]), ShapeError, "1 dimension"),
    (lambda: weft.jit(lambda a: {"b": a[0]}, out_shardings=COLUMNS)(X), ShapeError, r"\['b'\]"),
    (lambda: weft.jit(abs, relayout="yes"), WeftValueError, "relayout"),
    (
        lambda: weft.ShapeDtypeStruct((2, 3, 4), "float32", sharding=COLUMNS),
        ShapeError,
        "3 dimensions",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_wrong_fails_where_it_is_built_or_used(number):
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()


def test_the_fixes_work():
    with pytest.raises(WeftValueError) as raised:
        Layout((0, 2))
    assert Layout(**raised.value.fix.data).is_row_major
    with pytest.raises(ShapeError) as raised:
        weft.device_put(X[0], COLUMNS)
    order = raised.value.fix.data["major_to_minor"]
    assert order_of(weft.device_put(X[0], Format(Layout(order), HERE))) == (0,)


# ---- arrays that have a layout -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64", "float16"])
@pytest.mark.parametrize("order", orders(3))
def test_memory_is_in_the_order_that_was_asked_for(order, dtype):
    values = table(2, 3, 4).astype(weft.dtypes.parse(dtype))
    x = weft.device_put(values, Format(Layout(order), HERE))
    assert same(x, values) == order
    if dtype in ("float32", "int8"):
        np.testing.assert_array_equal(memory_of(x), values.transpose(order).ravel())
    assert x.format == Format(Layout(order), HERE)


def test_sizes_at_the_edge():
    for shape in [(0, 3), (1, 1), (3, 1), (2, 0)]:
        x = columns(table(*shape))
        assert x.format.layout == Layout((1, 0)) and np.asarray(x).shape == shape
        np.testing.assert_array_equal(np.asarray(x + 1), table(*shape) + 1)
    number = weft.device_put(1.5, Format(Layout(()), HERE))
    assert number == 1.5 and number.format.layout == Layout(())


def test_keys_have_layouts():
    keys = weft.random.split(weft.random.key(0), (3, 4))
    moved = weft.device_put(keys, COLUMNS)
    assert order_of(moved) == (1, 0)
    data = weft.random.key_data(keys)
    np.testing.assert_array_equal(weft.random.key_data(moved), data)
    np.testing.assert_array_equal(weft.random.bits(moved[1, 2]), weft.random.bits(keys[1, 2]))
    bits = weft.device_put(data, Format(Layout((2, 0, 1)), HERE))
    again = weft.random.wrap_key_data(bits)
    np.testing.assert_array_equal(weft.random.key_data(again), data)


def test_dlpack_brings_the_layout_along():
    values = client.backend().host_memory((8, 4), np.dtype(np.float32)).T
    values[...] = X
    assert values.strides == (4, 16)
    x = wnp.from_dlpack(values)
    assert same(x, X) == (1, 0)
    np.testing.assert_array_equal(np.asarray(x * 2), X * 2)
    assert same(wnp.from_dlpack(values.T), X.T) == (0, 1)
    # Memory that is not aligned is copied; what comes of it agrees with itself.
    same(wnp.from_dlpack(np.asfortranarray(table(5, 3))), table(5, 3))


# ---- what keeps a layout -------------------------------------------------------------------------

SHARDED = over("i", "j", layout=(1, 0))
ROWS = over("i")
identity = weft.jit(lambda x: x)
nested = weft.jit(lambda x: identity(x))
whole = weft.shard_map(lambda x: x, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"))

KEEPS = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "x.copy": lambda x: x.copy(),
    "wnp.array": lambda x: wnp.array(x),
    "wnp.asarray": wnp.asarray,
    "device_put nowhere": weft.device_put,
    "device_put to a device": lambda x: weft.device_put(x, weft.devices()[3]),
    "device_put over a mesh": lambda x: weft.device_put(x, ROWS),
    "device_put over a mesh, split anew": lambda x: weft.device_put(x, over(None, ("j", "i"))),
    "device_put without aliasing": lambda x: (
        weft.device_put(x, DEVICE, may_alias=False)
        if x.num_devices == 1
        else weft.device_put(x, SHARDED.sharding, may_alias=False)
    ),
    "device_put, donated": lambda x: weft.device_put(copy.deepcopy(x), over("j"), donate=True),
    "jit of the identity": identity,
    "jit of a jit of the identity": nested,
    "jit of a tree": lambda x: weft.jit(lambda t: t)({"a": x})["a"],
    "jit of the identity, donated": lambda x: weft.jit(lambda y: y, donate_argnums=0)(
        copy.deepcopy(x)
    ),
    "jit with another result": lambda x: weft.jit(lambda y: (y + 1, y))(x)[1],
    "with_sharding_constraint": lambda x: weft.lax.with_sharding_constraint(x, ROWS),
    "with_sharding_constraint in jit": lambda x: weft.jit(
        lambda y: weft.lax.with_sharding_constraint(y, ROWS)
    )(x),
    "out_shardings": weft.jit(lambda x: x, out_shardings=ROWS),
    "eager shard_map": whole,
    "jit of shard_map": weft.jit(whole),
    "checkpoint": weft.jit(weft.checkpoint(lambda x: x)),
    "custom_gradient": weft.jit(weft.custom_gradient(lambda x: (x, lambda ct: ct))),
    "dlpack": lambda x: wnp.from_dlpack(x) if x.num_devices == 1 else x,
    "make_array_from_single_device_arrays": lambda x: weft.make_array_from_single_device_arrays(
        x.shape, x.sharding, [shard.data for shard in x.addressable_shards]
    ),
    "vmap of the identity": weft.vmap(lambda x: x),
    "block_until_ready": lambda x: x.block_until_ready(),
}

WHERE = {
    "nowhere": lambda: with_layout_constraint(wnp.array(X), Layout((1, 0))),
    "on one device": columns,
    "on eight devices": lambda: weft.device_put(X, SHARDED),
}
ON_A_MESH = {
    "with_sharding_constraint in jit",
    "out_shardings",
    "eager shard_map",
    "jit of shard_map",
}

# Operations that compute something give row-major results, whatever the layouts of their operands.
DROPS = {
    "x + 1": (lambda x: x + 1, lambda x: x + 1),
    "x.T": (lambda x: x.T, lambda x: x.T),
    "reshape": (lambda x: x.reshape(8, 4), lambda x: x.reshape(8, 4)),
    "sum": (lambda x: x.sum(0, keepdims=True), lambda x: x.sum(0, keepdims=True)),
    "matmul": (lambda x: x @ x.T, lambda x: x @ x.T),
    "index": (lambda x: x[1:3], lambda x: x[1:3]),
    "index by an array": (lambda x: x[wnp.array([2, 0])], lambda x: x[[2, 0]]),
    "at.set": (lambda x: x.at[0].set(1), lambda x: np.r_[np.ones((1, 8), "f4"), x[1:]]),
    "concatenate": (lambda x: wnp.concatenate([x, x]), lambda x: np.concatenate([x, x])),
    "sort": (lambda x: wnp.sort(-x, axis=1), lambda x: np.sort(-x, axis=1)),
    "cumsum": (lambda x: wnp.cumsum(x, 1), lambda x: np.cumsum(x, 1)),
    "where": (lambda x: wnp.where(x > 3, x, 0), lambda x: np.where(x > 3, x, 0)),
    "astype": (lambda x: x.astype("int32"), lambda x: x.astype("int32")),
    "grad": (weft.grad(lambda x: (x * x).sum()), lambda x: 2 * x),
    "scan": (
        lambda x: weft.lax.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, x)[1],
        lambda x: x * 2,
    ),
    "while": (
        lambda x: weft.lax.while_loop(lambda y: y[0, 0] < 2, lambda y: y + 1, x),
        lambda x: x + 2,
    ),
    "cond": (
        lambda x: weft.lax.cond(x[0, 0] < 1, lambda y: y + 1, lambda y: y, x),
        lambda x: x + 1,
    ),
    "reduce": (
        lambda x: weft.lax.reduce(x, np.float32(0), weft.lax.add, (0,))[None],
        lambda x: x.sum(0)[None],
    ),
    "pure_callback": (
        lambda x: weft.pure_callback(
            lambda y: np.asarray(y) * 3, weft.ShapeDtypeStruct(x.shape, x.dtype), x
        ),
        lambda x: x * 3,
    ),
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", KEEPS)
def test_what_keeps_the_value_keeps_the_layout(name, where):
    if where == "on one device" and name in ON_A_MESH:
        where = "nowhere"  # What was put on one device is no operand of a program over a mesh.
    x = WHERE[where]()
    assert same(KEEPS[name](x), X) == (1, 0) and same(x, X) == (1, 0)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", DROPS)
def test_what_computes_is_row_major(name, where):
    function, reference = DROPS[name]
    x = WHERE[where]()
    for f in (function, weft.jit(function)):
        found = f(x)
        assert order_of(found) == tuple(range(found.ndim))
        np.testing.assert_allclose(np.asarray(found), reference(X), rtol=1e-6)


def test_parts_have_the_layout_of_the_whole():
    x = weft.device_put(X, SHARDED)
    for shard in x.addressable_shards:
        assert same(shard.data, X[shard.index]) == (1, 0)
        np.testing.assert_array_equal(np.asarray(shard.data + 1), X[shard.index] + 1)


def test_blocks_of_other_layouts_are_made_alike():
    shards = weft.device_put(X, over("i")).addressable_shards
    mixed = [
        weft.device_put(s.data, Format(Layout((1, 0) if n % 2 else (0, 1)), s.device))
        for n, s in enumerate(shards)
    ]
    where = NamedSharding(MESH, P("i"))
    assert same(weft.make_array_from_single_device_arrays(X.shape, where, mixed), X) == (0, 1)
    asked = Format(Layout((1, 0)), where)
    assert same(weft.make_array_from_single_device_arrays(X.shape, asked, mixed), X) == (1, 0)
    assert same(weft.make_array_from_callback(X.shape, asked, lambda index: X[index]), X) == (1, 0)
    parts = weft.make_array_from_callback(X.shape, asked, lambda index: wnp.array(X[index]))
    assert same(parts, X) == (1, 0)


def test_everything_that_takes_a_sharding_takes_a_format():
    for where in (COLUMNS, SHARDED):
        for made, wanted in [
            (wnp.zeros((4, 8), device=where), np.zeros((4, 8))),
            (wnp.ones((4, 8), device=where), np.ones((4, 8))),
            (wnp.full((4, 8), 3.0, device=where), np.full((4, 8), 3.0)),
            (wnp.array(X, device=where), X),
            (wnp.asarray(X, device=where), X),
            (wnp.zeros_like(X, device=where), np.zeros((4, 8))),
            (wnp.eye(4, 8, device=where), np.eye(4, 8)),
            (wnp.astype(wnp.array(X), "int32", device=where), X),
            (wnp.array(X).astype("int32", device=where), X),
            (wnp.from_dlpack(wnp.array(X), device=where), X),
            (weft.lax.with_sharding_constraint(X, SHARDED), X),
            (weft.make_array_from_callback(X.shape, where, lambda index: X[index]), X),
        ]:
            assert same(made, wanted) == (1, 0)
    traced = weft.jit(lambda x: wnp.asarray(x * 2, device=COLUMNS))
    assert same(traced(X), X * 2) == (1, 0)
    traced = weft.jit(lambda x: weft.lax.with_sharding_constraint(x * 2, SHARDED))
    assert same(traced(X), X * 2) == (1, 0)
    traced = weft.jit(lambda x: weft.device_put(x * 2, SHARDED))
    assert same(traced(X), X * 2) == (1, 0)


# ---- jit -----------------------------------------------------------------------------------------


def test_arguments_and_results_in_formats():
    f = weft.jit(lambda x, y: (x @ y.T, y), in_shardings=(COLUMNS, None), out_shardings=COLUMNS)
    product, same_y = f(X, X + 1)
    assert order_of(product) == (1, 0) and same(same_y, X + 1) == (1, 0)
    np.testing.assert_allclose(np.asarray(product), X @ (X + 1).T, rtol=1e-6)
    text = f.lower(X, X).as_text()
    assert text.count('mhlo.layout_mode = "{0,1}"') == 3
    rows = weft.jit(lambda x: x, out_shardings=Format(Layout((0, 1)), HERE))
    assert same(rows(columns()), X) == (0, 1)


def test_the_layout_of_an_argument_is_part_of_what_is_compiled_for():
    counted = []

    @weft.jit
    def f(x):
        counted.append(x)
        return x * 2

    for x in (wnp.array(X), columns(), wnp.array(X), columns()):
        np.testing.assert_array_equal(np.asarray(f(x)), X * 2)
    assert len(counted) == 1  # traced once, compiled for each layout


def test_an_argument_put_there_in_another_layout_is_an_error_with_three_ways_out():
    def f(a):
        return a * 2

    x = weft.device_put({"w": X}, DEVICE)
    formats = {"w": COLUMNS}
    g = weft.jit(f and (lambda a: a["w"] * 2), in_shardings=(formats,))
    with pytest.raises(ValueError, match=r"layout of a\['w'\] does not match") as raised:
        g(x)
    data = raised.value.fix.data
    assert same(g({"w": weft.device_put(x["w"], data["device"])}), X * 2) == (0, 1)
    again = weft.jit(lambda a: a["w"] * 2, in_shardings=({"w": data["in_shardings"]},))
    assert same(again(x), X * 2) == (0, 1)
    for relayout in ("auto", "warn"):
        again = weft.jit(lambda a: a["w"] * 2, in_shardings=(formats,), relayout=relayout)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert same(again(x), X * 2) == (0, 1)
        assert [w.filename for w in found] == ([__file__] if relayout == "warn" else [])
    # What was put nowhere on purpose is taken there.
    assert same(g({"w": wnp.array(X)}), X * 2) == same(g({"w": X}), X * 2) == (0, 1)
    assert same(g({"w": columns()}), X * 2) == (0, 1)


def test_donated_arguments_in_layouts():
    f = weft.jit(lambda x: x + 1, donate_argnums=0, in_shardings=COLUMNS, out_shardings=COLUMNS)
    for given in (columns(), wnp.array(X)):
        assert same(f(given), X + 1) == (1, 0)
        assert given.is_deleted()
    # The buffer has another order than the result: it may be given back only if it fits.
    swap = weft.jit(lambda x: x + 1, donate_argnums=0)
    assert same(swap(columns()), X + 1) == (0, 1)
    square = columns(table(4, 4))
    assert same(swap(square), table(4, 4) + 1) == (0, 1)
    g = weft.jit(lambda x: x + 1, donate_argnums=0, in_shardings=SHARDED, out_shardings=SHARDED)
    assert same(g(weft.device_put(X, SHARDED)), X + 1) == (1, 0)


def test_formats_under_transformations():
    f = weft.jit(lambda x: x * x, in_shardings=COLUMNS, out_shardings=COLUMNS)
    np.testing.assert_array_equal(np.asarray(weft.grad(lambda x: f(x).sum())(X)), 2 * X)
    stack = np.stack([X, X + 1])
    found = weft.vmap(f)(stack)
    np.testing.assert_array_equal(np.asarray(found), stack**2)
    outer = weft.jit(lambda x: f(x) + 1)
    np.testing.assert_array_equal(np.asarray(outer(X)), X**2 + 1)
    assert "layout_constraint" in str(weft.make_jaxpr(outer)(X))
    _, tangent = weft.jvp(f, (X,), (np.ones_like(X),))
    np.testing.assert_array_equal(np.asarray(tangent), 2 * X)


# ---- constraints ---------------------------------------------------------------------------------


def test_the_program_of_the_design_note():
    @weft.jit
    def f(x):
        y = with_layout_constraint(x.T, Layout(major_to_minor=(0, 1)))
        return y * 2

    assert same(f(X), 2 * X.T) == (0, 1)


@pytest.mark.parametrize("order", orders(3))
def test_constraints_reach_the_compiled_program(order):
    values = table(2, 3, 4)
    f = weft.jit(lambda x: with_layout_constraint(x * 2, Layout(order)))
    minor_first = ",".join(map(str, reversed(order)))
    assert f"f32[2,3,4]{{{minor_first}}}" in f.lower(values).compile().as_text()
    assert same(f(values), values * 2) == order
    eager = with_layout_constraint(values, Layout(order))
    assert same(eager, values) == order


def test_constraints_under_transformations():
    layout = Layout((1, 0))

    def f(x):
        return with_layout_constraint(x * x, layout)

    primal, tangent = weft.jvp(f, (X,), (X,))
    assert same(primal, X * X) == same(tangent, 2 * X * X) == (1, 0)
    _, pullback = weft.vjp(f, X)
    np.testing.assert_array_equal(np.asarray(pullback(X)[0]), 2 * X * X)
    text = str(weft.make_jaxpr(weft.grad(lambda x: f(x).sum()))(X))
    assert text.count("layout_constraint") >= 1
    stack = np.stack([X, X + 1], axis=2)
    mapped = weft.jit(weft.vmap(f, in_axes=2))
    assert same(mapped(stack), (stack**2).transpose(2, 0, 1)) == (0, 2, 1)
    loop = weft.jit(lambda x: weft.lax.fori_loop(0, 3, lambda i, c: f(c) / X.max(), x))
    np.testing.assert_allclose(np.asarray(loop(X)), ((X**2 / 31) ** 2 / 31) ** 2 / 31, rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_constraints_inside_a_shard_map(compiled):
    def body(x):
        return with_layout_constraint(x * 2, Layout((1, 0)))

    f = weft.shard_map(body, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"))
    f = weft.jit(f) if compiled else f
    assert same(f(X), X * 2) == (1, 0)
    total = weft.grad(lambda x: f(x).sum())(X)
    np.testing.assert_array_equal(np.asarray(total), np.full_like(X, 2))
    with weft.simulate(MESH):
        np.testing.assert_array_equal(np.asarray(f(X)), X * 2)


def test_a_row_major_sharding_of_one_device_is_no_layout():
    x = weft.device_put(X, Format(Layout((0, 1)), SingleDeviceSharding(DEVICE)))
    assert x.signature == weft.device_put(X, DEVICE).signature
    assert weft.device_put(columns(), Format(None, HERE)).format == COLUMNS
    assert same(weft.device_put(columns(), x.format), X) == (0, 1)


# ---- layouts that are chosen ---------------------------------------------------------------------

PRINTED = """\
-- uncommitted with mismatched layout:
x major_to_minor = (0, 1)
y major_to_minor = (0, 1)
-> `apply` called successfully

-- uncommitted with matching layout:
x major_to_minor = (0, 1)
y major_to_minor = (1, 0)
-> `apply` called successfully

-- committed with matching layout:
x major_to_minor = (0, 1)
y major_to_minor = (1, 0)
-> `apply` called successfully

-- committed with mismatched layout:
x major_to_minor = (0, 1)
y major_to_minor = (0, 1)
-> error: mismatched input layouts

"""


def test_the_example_of_the_design_note_prints_what_the_note_prints(capsys):
    shape = (4 * 128, 8 * 128)
    duck = weft.ShapeDtypeStruct(shape, wnp.float32)
    apply_exe = (
        weft.jit(
            lambda x, y: (x[0, :], y[:, 0]),
            in_shardings=Format(Layout.AUTO),
            out_shardings=Format(Layout.AUTO),
        )
        .trace(duck, duck)
        .lower()
        .compile()
    )
    arg_formats, kwarg_formats = apply_exe.input_formats
    assert len(kwarg_formats) == 0
    assert [f.layout.major_to_minor for f in arg_formats] == [(0, 1), (1, 0)]
    init = weft.jit(lambda x, y: (x * 2, y * 3), out_shardings=arg_formats)
    init_exe = init.trace(duck, duck).lower().compile()
    assert init_exe.output_formats == arg_formats

    def try_it(x, y, message):
        print(f"-- {message}:")
        print("x major_to_minor =", x.format.layout.major_to_minor)
        print("y major_to_minor =", y.format.layout.major_to_minor)
        try:
            row, column = apply_exe(x, y)
            np.testing.assert_array_equal(row, np.asarray(x)[0])
            np.testing.assert_array_equal(column, np.asarray(y)[:, 0])
            print("-> `apply` called successfully")
        except ValueError as error:
            assert "does not match" in str(error)
            print("-> error: mismatched input layouts")
        print()

    x1 = y1 = wnp.ones(shape)
    try_it(x1, y1, "uncommitted with mismatched layout")
    x2, y2 = init_exe(x1, y1)
    try_it(x2, y2, "uncommitted with matching layout")
    for message, order in (("matching", (1, 0)), ("mismatched", (0, 1))):
        y = weft.device_put(np.ones(shape), Format(Layout(major_to_minor=order), HERE))
        try_it(wnp.ones(shape), y, f"committed with {message} layout")
    assert capsys.readouterr().out == PRINTED


def test_automatic_layouts_of_a_call():
    f = weft.jit(lambda x, y: (x[0], y[:, 0]), in_shardings=Format(Layout.AUTO))
    x, y = table(64, 64), table(64, 64) + 1
    for arguments in (
        (x, y),
        (wnp.array(x), wnp.array(y)),
        (columns(x), columns(y)),
        (weft.device_put(x, DEVICE), weft.device_put(y, DEVICE)),
    ):
        row, column = f(*arguments)
        np.testing.assert_array_equal(row, x[0])
        np.testing.assert_array_equal(column, y[:, 0])
    # Arrays that were put there on purpose are read as they are.
    assert 'layout_mode = "{0,1}"' not in f.lower(weft.device_put(x, DEVICE), x[:1]).as_text()
    assert f.lower(columns(x), columns(y)).as_text().count('mhlo.layout_mode = "{0,1}"') == 2


def test_automatic_layouts_of_results():
    f = weft.jit(lambda x: (x.T, x), out_shardings=Format(Layout.AUTO))
    turned, whole = f(X)
    assert same(turned, X.T) == (1, 0) and same(whole, X) == (0, 1)
    on_mesh = weft.jit(
        lambda x: x[:, 0] * 2,
        in_shardings=Format(Layout.AUTO, NamedSharding(MESH, P("i"))),
        out_shardings=Format(Layout.AUTO),
    )
    np.testing.assert_array_equal(np.asarray(on_mesh(table(64, 64))), table(64, 64)[:, 0] * 2)
    compiled = on_mesh.lower(table(64, 64)).compile()
    assert compiled.input_formats[0] == (Format(Layout((1, 0)), NamedSharding(MESH, P("i"))),)


def test_a_constraint_on_a_value_over_devices_communicates_nothing():
    f = weft.jit(lambda x: with_layout_constraint(x * 2, Layout((1, 0))) + 1)
    for entries in (("i", "j"), (None, "j"), (("j", "i"), None)):
        x = weft.device_put(table(8, 8), over(*entries))
        text = f.lower(x).compile().as_text()
        assert not re.search("all-(gather|to-all|reduce)|collective", text)
        assert same(f(x), table(8, 8) * 2 + 1) == (0, 1)
        shape = ",".join(map(str, x.sharding.shard_shape(x.shape)))
        assert f"f32[{shape}]{{0,1}}" in text
    partly = weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    assert same(weft.jit(partly)(x), table(8, 8) * 2 + 1) == (0, 1)
    keys = weft.random.split(weft.random.key(0), (8, 8))
    spread = weft.jit(
        lambda k: with_layout_constraint(k, Layout((1, 0))), in_shardings=over("i", "j")
    )
    assert order_of(spread(keys)) == (1, 0)
    for dtype in ("bfloat16", "bool", "int4", "complex64", "float8_e4m3fn"):
        values = wnp.asarray(table(8, 8) % 2, dtype=dtype)
        again = weft.jit(
            lambda x: with_layout_constraint(x, Layout((1, 0))), in_shardings=over("i", "j")
        )(values)
        assert again.format.layout == Layout((1, 0))
        np.testing.assert_array_equal(np.asarray(again), np.asarray(values))


def test_stages_show_layouts_and_shardings():
    f = weft.jit(lambda x: (x * 2, x[0]), in_shardings=over("i", layout=(1, 0)))
    traced = f.trace(X)
    assert repr(traced).startswith("Traced(<lambda>: (f32[4,8] {layout=(1, 0), sharding=P('i')})")
    compiled = traced.lower().compile()
    assert "(f32[4,8] {layout=(1, 0), sharding=P('i')}) -> (f32[4,8] {sharding=" in repr(compiled)
    assert repr(weft.jit(lambda x: x).trace(X)) == "Traced(<lambda>: (f32[4,8]) -> (f32[4,8]))"
    auto = weft.jit(lambda x: x, in_shardings=Format(Layout.AUTO)).trace(X)
    assert "layout=Layout.AUTO" in repr(auto)
