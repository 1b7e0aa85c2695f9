"""`with_sharding_constraint`, and `in_shardings` and `out_shardings` over several devices."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_to_rounding as close
from compilations import counted_compilations
from weft import lax, random
from weft.core.axes import extend_mesh
from weft.errors import AxisError, ShapeError, TreeError, WeftTypeError, WeftValueError
from weft.lax import with_sharding_constraint
from weft.sharding import Mesh, NamedSharding, P, SingleDeviceSharding, TiledSharding, use_mesh
from weft.testing import check_grads

DEVICES = np.array(weft.devices()[:8], object)
MESH = Mesh(DEVICES.reshape(4, 2), ("i", "j"))
ROWS = NamedSharding(MESH, P("i"))
COLUMNS = NamedSharding(MESH, P(None, "j"))
BOTH = NamedSharding(MESH, P("i", "j"))
COPIES = NamedSharding(MESH, P())
X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)


def constraints(jaxpr):
    """The shardings that a program names, those of programs inside included."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if "sharding" in eqn.params:
            found.append(eqn.params["sharding"])
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    found += constraints(inner)
    return found


# ---- with_sharding_constraint ------------------------------------------------------------------


def test_outside_of_programs_it_brings_the_array_there():
    x = with_sharding_constraint(X, ROWS)
    assert x.sharding is ROWS
    close(x, X)
    assert with_sharding_constraint(x, ROWS) is x
    assert with_sharding_constraint(x, COLUMNS).sharding is COLUMNS
    assert with_sharding_constraint(wnp.float32(3), COPIES).sharding is COPIES


def test_a_sharding_over_axes_is_over_the_devices_of_the_mesh_in_force():
    axes = NamedSharding(MESH.abstract_mesh, P("i"))
    with use_mesh(MESH):
        x = with_sharding_constraint(X, axes)
        assert x.sharding is ROWS and weft.device_put(X, axes).sharding is ROWS
        assert weft.jit(wnp.sin, out_shardings=axes)(X).sharding is ROWS
        assert weft.jit(lambda x: with_sharding_constraint(x * 2, axes))(X).sharding is ROWS
    # Without one, the array says which devices.
    assert with_sharding_constraint(weft.device_put(X, COLUMNS), axes).sharding is ROWS
    with pytest.raises(WeftValueError, match="no devices"):
        with_sharding_constraint(X, axes)


def test_inside_of_programs_the_compiler_splits_so():
    f = weft.jit(lambda x: with_sharding_constraint(x * 2, COLUMNS))
    for argument in (X, weft.device_put(X, ROWS)):
        got = f(argument)
        assert got.sharding is COLUMNS
        close(got, 2 * X)
    assert "sdy.sharding_constraint" in f.lower(X).as_text()


def test_trees_prefixes_and_none():
    tree = {"a": X, "b": (X, X[0])}
    got = with_sharding_constraint(tree, {"a": COLUMNS, "b": ROWS})
    assert got["a"].sharding is COLUMNS and got["b"][0].sharding is got["b"][1].sharding is ROWS
    got = weft.jit(lambda t: with_sharding_constraint(t, {"a": None, "b": (BOTH, None)}))(tree)
    assert got["b"][0].sharding is BOTH
    left = with_sharding_constraint(tree, None)
    assert left["a"] is tree["a"]
    with pytest.raises(TreeError, match="shardings"):
        with_sharding_constraint(tree, {"a": COLUMNS})


def test_specs_take_the_mesh_in_force():
    f = weft.jit(lambda x: with_sharding_constraint(x + 1, P("i")))
    with use_mesh(MESH):
        assert with_sharding_constraint(X, P("i")).sharding is ROWS
        assert f(X).sharding is ROWS
    other = Mesh(DEVICES, ("i",))
    with use_mesh(other):
        assert f(X).sharding == NamedSharding(other, P("i"))
    with pytest.raises(WeftValueError, match="no mesh") as caught:
        f(X)
    with use_mesh(MESH):
        spec = caught.value.fix.data["spec"]
        assert with_sharding_constraint(X, spec).sharding is ROWS


def test_dimensions_left_to_the_compiler():
    open_rows = NamedSharding(MESH, P(P.UNCONSTRAINED, "j"))
    x = weft.device_put(X, ROWS)
    assert with_sharding_constraint(x, open_rows).sharding is BOTH
    assert with_sharding_constraint(X, open_rows).sharding == NamedSharding(MESH, P(None, "j"))
    close(weft.jit(lambda a: with_sharding_constraint(a, open_rows))(x), X)
    clash = NamedSharding(MESH, P(P.UNCONSTRAINED, "i"))
    assert with_sharding_constraint(x, clash).sharding == NamedSharding(MESH, P(None, "i"))


def test_sharded_like_another_array():
    tiles = TiledSharding(DEVICES, [[[3], [1], [0], [2]], [[7], [6], [5], [4]]])
    got = weft.jit(lambda x: with_sharding_constraint(x * 2, tiles))(X)
    assert got.sharding.is_equivalent_to(tiles, 2)
    close(got, 2 * X)
    batched = weft.vmap(lambda x: with_sharding_constraint(x * 2, tiles))(np.stack([X, X]))
    close(batched, np.stack([2 * X, 2 * X]))


@pytest.mark.parametrize(
    ("shape", "spec", "message"),
    [((8,), P("i", "j"), "more entries"), ((6, 8), P("i"), "dimension 0"), ((), P("i"), "entries")],
)
def test_specs_that_do_not_fit_name_the_leaf_and_the_fix_works(shape, spec, message):
    def f(tree):
        return with_sharding_constraint(tree, NamedSharding(MESH, spec))

    tree = {"weights": [np.ones((8, 8), np.float32), np.ones(shape, np.float32)]}
    for way in (f, weft.jit(f)):
        with pytest.raises(ShapeError, match=message) as caught:
            way(tree)
        assert "x['weights'][1]" in str(caught.value)
    fixed = NamedSharding(MESH, caught.value.fix.data["spec"])
    assert with_sharding_constraint(tree["weights"][1], fixed).sharding is fixed


@pytest.mark.parametrize("place", [weft.devices()[1], "rows", SingleDeviceSharding(DEVICES[1])])
def test_what_is_no_sharding_over_a_mesh_is_refused(place):
    with pytest.raises(WeftTypeError, match="with_sharding_constraint"):
        with_sharding_constraint(X, place)


def test_an_axis_that_is_manual_is_refused_and_the_fix_works():
    with extend_mesh(MESH, ("i",)):
        with pytest.raises(AxisError, match="shard_map") as caught:
            weft.make_jaxpr(lambda x: with_sharding_constraint(x, BOTH))(X)
        spec = caught.value.fix.data["spec"]
        assert spec == P(None, "j")
        weft.make_jaxpr(lambda x: with_sharding_constraint(x, NamedSharding(MESH, spec)))(X)


# ---- its rules ---------------------------------------------------------------------------------


def squared(x):
    return with_sharding_constraint(x * x, BOTH)


@pytest.mark.parametrize("way", [lambda f: f, weft.jit])
def test_derivatives_keep_the_constraint(way):
    primal, tangent = way(lambda x, t: weft.jvp(squared, (x,), (t,)))(X, X)
    close(tangent, 2 * X * X)
    assert primal.sharding is BOTH and tangent.sharding is BOTH
    gradient = way(weft.grad(lambda x: squared(x).sum()))(X)
    close(gradient, 2 * X)
    out, pullback = weft.vjp(squared, X)
    assert out.sharding is BOTH
    close(pullback(X)[0], 2 * X * X)
    close(way(weft.grad(lambda x: weft.grad(lambda y: squared(y).sum())(x).sum()))(X), 2 + 0 * X)
    out, tangent_of = weft.linearize(squared, X)
    close(tangent_of(X), 2 * X * X)


def test_constraints_in_the_programs_of_derivatives():
    jvp = weft.make_jaxpr(lambda x, t: weft.jvp(squared, (x,), (t,)))(X, X)
    assert constraints(jvp) == [BOTH, BOTH]
    transposed = weft.linear_transpose(lambda x: with_sharding_constraint(2 * x, ROWS), X)
    assert constraints(weft.make_jaxpr(transposed)(X)) == [ROWS]
    twice = weft.linear_transpose(lambda ct: transposed(ct)[0], X)
    assert constraints(weft.make_jaxpr(twice)(X)) == [ROWS]
    close(twice(X)[0], 2 * X)
    check_grads(weft.jit(squared), (X,), order=2)


def test_integers_and_keys():
    integers = np.arange(16).reshape(8, 2)
    _, tangent = weft.jvp(
        lambda x: with_sharding_constraint(x, ROWS),
        (integers,),
        (np.zeros((8, 2), weft.dtypes.float0),),
    )
    assert tangent.dtype == weft.dtypes.float0
    keys = random.split(random.key(0), 8)
    for way in (lambda f: f, weft.jit):
        got = way(lambda k: with_sharding_constraint(k, ROWS))(keys)
        assert got.sharding is ROWS
        np.testing.assert_array_equal(
            np.asarray(random.key_data(got)), np.asarray(random.key_data(keys))
        )


def test_vmap_leaves_its_axis_to_the_compiler_or_lays_it_out():
    def f(row):
        return with_sharding_constraint(row + 1, NamedSharding(MESH, P("j")))

    for dim, axes in ((0, P(P.UNCONSTRAINED, "j")), (1, P("j", P.UNCONSTRAINED))):
        mapped = weft.vmap(f, in_axes=dim, out_axes=dim)
        assert constraints(weft.make_jaxpr(mapped)(X)) == [NamedSharding(MESH, axes)]
        close(mapped(X), X + 1)
        close(weft.jit(mapped)(weft.device_put(X, ROWS)), X + 1)
    laid_out = weft.vmap(f, spmd_axis_name="i")
    assert constraints(weft.make_jaxpr(laid_out)(X)) == [BOTH]
    assert weft.jit(laid_out)(X).sharding is BOTH
    twice = weft.vmap(weft.vmap(f, spmd_axis_name="i"))
    close(twice(np.stack([X, X])), np.stack([X, X]) + 1)
    with pytest.raises(AxisError, match="spmd_axis_name"):
        weft.vmap(f, spmd_axis_name="j")(X)
    with pytest.raises(ShapeError, match="under vmap"):
        weft.vmap(f, spmd_axis_name="i")(X[:3])


def test_inside_of_loops_branches_and_checkpoints():
    def step(carry, row):
        carry = with_sharding_constraint(carry + row, NamedSharding(MESH, P("j")))
        return carry, carry * 2

    def f(x):
        carry, rows = lax.scan(weft.checkpoint(step), x[0], x)
        return lax.cond(carry.sum() > 1e9, lambda v: v, squared, rows)

    sums = X[0] + np.cumsum(X, axis=0)
    for way in (lambda g: g, weft.jit):
        close(way(f)(X), (2 * sums) ** 2, 1e-5)
        close(way(f)(weft.device_put(X, ROWS)), (2 * sums) ** 2, 1e-5)
    check_grads(weft.jit(lambda x: f(x).sum()), (X,), order=1, rtol=2e-2, atol=2e-1)


# ---- in_shardings and out_shardings ------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, wnp.array], ids=["numpy", "array"])
def test_arguments_are_taken_there_and_results_left_there(make):
    f = weft.jit(lambda x: x * 2, in_shardings=ROWS, out_shardings=COLUMNS)
    for _ in range(3):
        got = f(make(X))
        assert got.sharding is COLUMNS
        close(got, 2 * X)


def test_numbers_are_copied_to_all_devices():
    f = weft.jit(lambda x, y: x * y, in_shardings=(ROWS, COPIES))
    for number in (2, 2.0, np.float32(2), wnp.float32(2)):
        close(f(X, number), 2 * X)


def test_prefixes_static_arguments_keywords_and_the_decorator_form():
    @weft.jit(static_argnums=1, in_shardings=({"w": ROWS, "b": None}, COPIES))
    def f(p, n, x, *, scale):
        return {"out": (p["w"] * n + p["b"]) @ x * scale}

    p = {"w": X, "b": X[0]}
    got = f(p, 3, X, scale=2.0)
    close(got["out"], ((3 * X + X[0]) @ X) * 2, 1e-5)
    assert got["out"].sharding.device_set == BOTH.device_set
    g = weft.jit(lambda x: {"a": x, "b": (x + 1, x.sum())}, out_shardings={"a": ROWS, "b": COPIES})
    out = g(X)
    assert out["a"].sharding is ROWS and out["b"][1].sharding is COPIES
    assert weft.jit(lambda x, y: x + y, in_shardings=[ROWS, COLUMNS])(X, X).shape == (8, 8)


def test_specs_in_jit_take_the_mesh_in_force():
    f = weft.jit(lambda x: x * 2, in_shardings=P("i"), out_shardings=P(None, "j"))
    with use_mesh(MESH):
        assert f(X).sharding is COLUMNS
    line = Mesh(DEVICES.reshape(8, 1), ("i", "j"))
    with use_mesh(line):
        assert f(X).sharding == NamedSharding(line, P(None, "j"))
    with pytest.raises(WeftValueError, match="no mesh"):
        f(X)


def test_what_was_put_elsewhere_is_refused_and_the_fix_works():
    f = weft.jit(lambda x, y: x["a"] + y, in_shardings=(ROWS, COPIES))
    for place in (COLUMNS, weft.devices()[1]):
        x = weft.device_put(X, place)
        with pytest.raises(WeftValueError, match="in_shardings") as caught:
            f({"a": x}, 1.0)
        assert "x['a']" in str(caught.value) and str(place) in str(caught.value)
        close(f({"a": weft.device_put(x, caught.value.fix.data["device"])}, 1.0), X + 1)
    alike = weft.device_put(X, NamedSharding(MESH, P("i", None)))
    close(f({"a": alike}, 1.0), X + 1)


@pytest.mark.parametrize("what", ["in_shardings", "out_shardings"])
def test_shapes_that_cannot_be_split_name_the_leaf(what):
    f = weft.jit(lambda tree: tree, **{what: ROWS})
    with pytest.raises(ShapeError, match=what) as caught:
        f({"a": X, "b": [X[:6]]})
    assert ("tree['b'][0]" if what == "in_shardings" else "the result['b'][0]") in str(caught.value)
    with pytest.raises(TreeError, match=what):
        weft.jit(lambda x: (x, x), **{what: (ROWS, ROWS, ROWS)})(X)


def test_devices_of_arguments_and_results():
    half = NamedSharding(Mesh(DEVICES[:4], ("i",)), P("i"))
    with pytest.raises(WeftValueError, match="different devices"):
        weft.jit(lambda x: x, in_shardings=ROWS, out_shardings=half)(X)
    to_one = weft.jit(lambda x: x * 2, in_shardings=ROWS, out_shardings=DEVICES[3])
    assert to_one(X).device == DEVICES[3]
    closed = weft.device_put(X, half)
    with pytest.raises(WeftValueError, match="devices"):
        weft.jit(lambda x: x + closed, in_shardings=ROWS)(X)


def test_donation():
    f = weft.jit(
        lambda x, y: x + y, in_shardings=(ROWS, None), out_shardings=ROWS, donate_argnums=0
    )
    there = weft.device_put(X, ROWS)
    close(f(there, X), 2 * X)
    assert there.is_deleted()
    loose = wnp.array(X)
    close(f(loose, X), 2 * X)
    assert loose.is_deleted()
    close(f(X, X), 2 * X)
    there = f(X, X)
    pointers = [shard.data.unsafe_buffer_pointer() for shard in there.addressable_shards]
    out = f(there, X)
    assert pointers == [shard.data.unsafe_buffer_pointer() for shard in out.addressable_shards]


def test_unused_arguments():
    for keep in (False, True):
        f = weft.jit(lambda x, y: x * 2, in_shardings=(None, ROWS), keep_unused=keep)
        close(f(X, X), 2 * X)
    with pytest.raises(WeftValueError, match="in_shardings"):
        f(X, weft.device_put(X, COLUMNS))


def placed(x):
    return wnp.sin(x) * x


def test_every_transformation_of_a_placed_function():
    f = weft.jit(placed, in_shardings=ROWS, out_shardings=BOTH)
    slope = np.cos(X) * X + np.sin(X)
    for way in (lambda g: g, weft.jit):
        close(way(weft.grad(lambda x: f(x).sum()))(X), slope)
        out, tangent = way(lambda x: weft.jvp(f, (x,), (x,)))(X)
        assert out.sharding is BOTH
        close(tangent, slope * X)
        close(way(weft.vmap(f))(np.stack([X, X])), np.sin(X) * X + np.zeros((2, 1, 1)))
        close(way(weft.checkpoint(f))(X), np.sin(X) * X)
        close(way(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0])(X),
              np.sin(X) * X)  # fmt: skip
    assert constraints(weft.make_jaxpr(f)(X)) == [ROWS, BOTH]
    outer = weft.jit(lambda x: f(x + 1), in_shardings=COLUMNS, out_shardings=COPIES)
    got = outer(X)
    close(got, np.sin(X + 1) * (X + 1))
    assert got.sharding is COPIES
    check_grads(f, (X,), order=2)


def test_a_device_under_transformations():
    second, third = DEVICES[1:3]
    f = weft.jit(lambda x: x * x, in_shardings=second)
    assert weft.grad(f)(3.0) == 6.0 and weft.grad(f)(3.0).device == second
    inside = weft.jit(lambda x: f(x) + 1)(3.0)
    assert inside == 10.0 and inside.device == second
    assert weft.vmap(f)(X[0]).device == second
    two = weft.jit(lambda x: x * x, in_shardings=second, out_shardings=third)
    assert two(3.0).device == third
    with pytest.raises(WeftValueError, match="different devices"):
        weft.grad(two)(3.0)


def test_functions_made_anew_are_not_compiled_anew(monkeypatch):
    compiled = counted_compilations(monkeypatch)

    def call(place):
        got = weft.jit(lambda x: x * 2 - 7, in_shardings=place, out_shardings=place)(X)
        assert got.sharding is place

    for place in (ROWS, COLUMNS, ROWS, COLUMNS):
        call(place)
    assert len(compiled) == 2


def test_nan_checks_see_placed_programs():
    with weft.debug_nans():
        f = weft.jit(lambda x: wnp.log(x), in_shardings=ROWS)
        close(f(np.ones((8, 8), np.float32)), np.zeros((8, 8)))
        with pytest.raises(weft.errors.NonFiniteError, match="log"):
            f(-np.ones((8, 8), np.float32))


# ---- stages ------------------------------------------------------------------------------------


def test_stages_say_where_arguments_and_results_lie():
    f = weft.jit(lambda x, *, y: {"sum": x + y}, in_shardings=ROWS, out_shardings=BOTH)
    compiled = f.lower(X, y=X).compile()
    (args, kwargs) = compiled.input_shardings
    assert args == (ROWS,) and isinstance(kwargs["y"], NamedSharding)
    assert compiled.output_shardings == {"sum": BOTH}
    close(compiled(X, y=X)["sum"], 2 * X)
    close(compiled(weft.device_put(X, ROWS), y=wnp.array(X))["sum"], 2 * X)
    with pytest.raises(WeftValueError, match="compiled for") as caught:
        compiled(weft.device_put(X, COLUMNS), y=X)
    close(compiled(weft.device_put(X, caught.value.fix.data["device"]), y=X)["sum"], 2 * X)
    one = weft.jit(lambda x: x + 1).lower(X).compile()
    assert one.output_shardings == SingleDeviceSharding(DEVICES[0])
    assert one.input_shardings == ((SingleDeviceSharding(DEVICES[0]),), {})


def test_shapes_with_shardings_are_lowered_for_them():
    struct = weft.ShapeDtypeStruct((8, 8), np.float32, sharding=ROWS)
    lowered = weft.jit(lambda x: x @ x).lower(struct)
    assert "sdy.sharding" in lowered.as_text() and "num_partitions = 8" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.input_shardings[0] == (ROWS,)
    close(compiled(weft.device_put(X, ROWS)), X @ X, 1e-5)
    close(compiled(X), X @ X, 1e-5)
    with pytest.raises(ShapeError, match="dimension 0 of the array"):
        weft.jit(lambda x: x).lower(weft.ShapeDtypeStruct((6,), np.float32, sharding=ROWS))
    with pytest.raises(WeftValueError, match="in_shardings"):
        weft.jit(lambda x: x, in_shardings=COLUMNS).lower(struct)
    on_a_device = weft.ShapeDtypeStruct(
        (8, 8), np.float32, sharding=SingleDeviceSharding(DEVICES[2])
    )
    assert weft.jit(lambda x: x + 1).lower(on_a_device).compile()(X).device == DEVICES[2]


def test_arrays_are_lowered_for_where_they_lie():
    weights = wnp.array(X)
    f = weft.jit(lambda x: x @ weights, donate_argnums=0)
    x = weft.device_put(X, ROWS)
    compiled = f.lower(x).compile()
    close(compiled(weft.device_put(X, ROWS)), X @ X, 1e-5)
    close(compiled(x), X @ X, 1e-5)
    assert x.is_deleted()
    second = weft.device_put(X, DEVICES[1])
    assert weft.jit(lambda x: x + 1).lower(second).compile()(second).device == DEVICES[1]


def test_results_of_a_function_without_arguments_are_left_somewhere():
    made = weft.jit(lambda: wnp.arange(8.0), out_shardings=DEVICES[3])
    for _ in range(2):
        assert made().device == DEVICES[3]
    spread = weft.jit(lambda: wnp.arange(8.0), out_shardings=NamedSharding(MESH, P("i")))
    for _ in range(2):
        assert spread().sharding.is_equivalent_to(NamedSharding(MESH, P("i")), 1)
    assert made.lower().compile()().device == DEVICES[3]


def test_a_device_or_backend_stands_for_all_shardings():
    f = weft.jit(lambda x, y: {"sum": x + y, "pair": (x, 1.0)}, device=DEVICES[2])
    for x in (wnp.ones(3), weft.device_put(np.ones(3), DEVICES[1])):
        for call in (f, weft.jit(lambda x, y: f(x, y), device=DEVICES[2])):
            for leaf in weft.tree.leaves(call(x, 2.0)):
                assert leaf.device == DEVICES[2]
    np.testing.assert_array_equal(weft.jit(wnp.sin, backend="cpu")(X), wnp.sin(X))
    with pytest.raises(WeftTypeError, match="not both"):
        weft.jit(wnp.sin, device=DEVICES[1], out_shardings=ROWS)
