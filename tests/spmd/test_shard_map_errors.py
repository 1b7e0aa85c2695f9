"""Wrong shard_map programs: each raises an error that names the user's line and suggests a fix, and
with that fix applied it runs and gives the right number. Here: specs, meshes, axis names, and
results that may differ; what is wrong inside of functions stands in test_shard_map_body_errors.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lax, shard_map
from weft.errors import (
    AxisError,
    ShapeError,
    TreeError,
    UnboundAxisError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import AbstractMesh, Mesh
from weft.sharding import PartitionSpec as P
from wrong_programs import Table, check, marked

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((4, 2), ("i", "j"))
PAIR = weft.make_mesh((2,), ("i",))
OTHER_PAIR = weft.make_mesh((2,), ("i",), devices=weft.devices()[2:4])
X = np.arange(8, dtype=np.float32)
M = np.arange(32, dtype=np.float32).reshape(8, 4)
AWAY = weft.device_put(X, weft.devices()[7])
SUM_I = X.reshape(4, 2).sum(0)  # X summed over blocks along "i"


BY_I = P("i")


def mapped(f, in_specs=BY_I, out_specs=BY_I, **how):
    return shard_map(f, **{"mesh": MESH, "in_specs": in_specs, "out_specs": out_specs, **how})


def same(v):
    return v


case = CASES = Table()


# ---- B3: what may differ between devices -------------------------------------------------------


def doubled(v):
    return v * 2  # varies


def both(v):
    total = lax.psum(v, "i")
    own = v + lax.axis_index("j")  # varies
    return {"total": total, "own": [v, own]}


USES = {
    "eager": lambda f, x: f(x),  # here
    "jit": lambda f, x: weft.jit(f)(x),  # here
    "grad": lambda f, x: weft.grad(lambda v: f(v).sum())(x),  # here
    "jitted grad": lambda f, x: weft.jit(weft.grad(lambda v: f(v).sum()))(x),  # here
    "jvp": lambda f, x: weft.jvp(f, (x,), (x,))[1],  # here
    "vmap": lambda f, x: weft.vmap(f)(np.stack([x, x]))[1],  # here
    "jitted vmap": lambda f, x: weft.jit(weft.vmap(f))(np.stack([x, x]))[1],  # here
    "scan": lambda f, x: lax.scan(lambda c, _: (c, f(x)), 0, None, length=2)[1][1],  # here
    "checkpoint": lambda f, x: weft.checkpoint(f)(x),  # here
}


@pytest.mark.parametrize("use", USES)
def test_a_result_that_may_differ(use):
    """In every transformation the error says the same, and each of its fixes works."""

    def run(out, spec):
        f = mapped(lambda v: out(doubled(v)), P("i"), spec)
        return USES[use](f, X)

    with pytest.raises(AxisError) as caught:
        run(lambda v: v, P())
    error = caught.value
    assert error.message.startswith("shard_map of <lambda>: the result may differ")
    assert "'i'" in error.message and "f32[2]{i}" in error.got and "P()" in error.got
    assert marked(error.got, "# varies"), str(error)
    assert "in_specs split over 'i'" in error.got
    assert marked(error.location, "# here"), str(error)
    assert error.fix.kind == "reduce_or_mention" and error.fix.data["axes"] == ("i",)
    for way in ("lax.psum", "lax.pmean", "lax.all_gather_invariant", "mention the axis"):
        assert way in error.fix.text
    assert "check" not in error.fix.text
    (axis,) = error.fix.data["axes"]
    sums = {"grad": X * 0 + 2, "jitted grad": X * 0 + 2}
    expected = sums.get(use, SUM_I * 2)
    got = run(lambda v: lax.psum(v, axis), P())
    np.testing.assert_allclose(got, expected)
    got = run(lambda v: lax.pmean(v, axis), P())
    np.testing.assert_allclose(got, expected / 4)
    got = run(lambda v: lax.all_gather_invariant(v, axis, tiled=True), P())
    np.testing.assert_allclose(got, sums.get(use, X * 2))
    np.testing.assert_allclose(run(lambda v: v, P(axis)), sums.get(use, X * 2))


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("specs", [P("i"), {"total": P(), "own": [P("i"), P("i")]}], ids=str)
def test_the_result_that_differs_is_named_by_its_path(wrap, specs):
    with pytest.raises(AxisError) as caught:
        wrap(mapped(both, P("i"), specs))(X)  # here
    error = caught.value
    assert "the result['own'][1] may differ between devices along 'j'" in error.message
    assert "since axis_index at" in error.got and marked(error.got, "# varies")
    assert marked(error.location, "# here") and error.fix.data["axes"] == ("j",)
    fixed = {"total": P(), "own": [P("i"), P(("i", "j"))]}
    out = wrap(mapped(both, P("i"), fixed))(X)
    own = (X.reshape(4, 1, 2) + np.arange(2).reshape(1, 2, 1)).reshape(16)
    np.testing.assert_array_equal(out["own"][1], own)
    np.testing.assert_array_equal(out["total"], SUM_I)


case(
    "results differ along two axes",
    AxisError,
    "along ('i', 'j')",
    "in_specs split over 'i'",
    "psum",
)(
    wrong=lambda: mapped(lambda v: v.sum(), P(("i", "j")), P())(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.psum(v.sum(), fix.data["axes"]), P(("i", "j")), P())(X),
    value=28.0,
)
case("sums of groups differ", AxisError, "may differ between devices along 'i'")(
    wrong=lambda: mapped(  # here
        lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1], [2, 3]]), P("i"), P()
    )(X),
    fixed=lambda fix: mapped(lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1], [2, 3]]))(X),
    value=[2, 4, 2, 4, 10, 12, 10, 12],
)
case(
    "a spec sums what is equal",
    AxisError,
    "the result is equal on all devices along 'j'",
    "P('i', sum='j')",
    "lax.pbroadcast(x, 'j')",
)(
    wrong=lambda: mapped(same, P("i"), P("i", sum="j"))(X),  # here
    fixed=lambda fix: mapped(same, P("i"), fix.data["spec"])(X),
    value=X,
)


# ---- B4: specs ---------------------------------------------------------------------------------


case(
    "a length that does not divide",
    ShapeError,
    "dimension 0 of v, of length 6",
    "(6,)",
    "P('i')",
    "4 equal blocks",
)(
    wrong=lambda: mapped(same)(X[:6]),  # here
    fixed=lambda fix: mapped(same)(np.resize(X[:6], fix.data["shape"])),
    value=[0, 1, 2, 3, 4, 5, 0, 1],
)
case("a leaf that does not divide", ShapeError, "dimension 1 of v['w'][1], of length 3")(
    wrong=lambda: mapped(lambda p, v: v["w"][0], (P(), {"w": [P(), P(None, "i")]}), P())(  # here
        X, {"w": [X, np.ones((2, 3), np.float32)]}
    ),
    fixed=lambda fix: mapped(
        lambda p, v: v["w"][1], (P(), {"w": [P(), fix.data["spec"]]}), fix.data["spec"]
    )(X, {"w": [X, np.ones((2, 3), np.float32)]}),
    value=np.ones((2, 3)),
)
case(
    "an argument of too small a rank",
    ShapeError,
    "the spec P(None, 'i') of v has more entries",
    "(8,)",
)(
    wrong=lambda: mapped(same, P(None, "i"))(X),  # here
    fixed=lambda fix: mapped(same, fix.data["spec"], P())(X),
    value=X,
)
case(
    "a result of too small a rank",
    ShapeError,
    "the result has too few dimensions",
    "f32[]{i}",
    "P('i')",
)(
    wrong=lambda: mapped(lambda v: v.sum())(X),  # here
    fixed=lambda fix: mapped(lambda v: v.sum()[None])(X),
    value=[1, 5, 9, 13],
)
case("an axis twice", AxisError, "'i' is mentioned twice")(
    wrong=lambda: mapped(same, P("i", "i"))(M),  # here
    fixed=lambda fix: mapped(same, fix.data["spec"])(M),
    value=M,
)
case("an axis twice in one entry", AxisError, "'j' is mentioned twice")(
    wrong=lambda: mapped(same, P("i"), P(("i", "j", "j")))(X),  # here
    fixed=lambda fix: mapped(lambda v: v[:1], P("i"), fix.data["spec"])(X),
    value=[0, 0, 2, 2, 4, 4, 6, 6],
)
case(
    "an unknown axis in in_specs",
    AxisError,
    "in_specs[0]['a'] mentions 'k', which is no axis of the mesh",
)(
    wrong=lambda: shard_map(  # here
        lambda v: v["a"], mesh=MESH, in_specs=({"a": P("k")},), out_specs=P()
    ),
    fixed=lambda fix: mapped(lambda v: v["a"], ({"a": P(fix.data["axes"][0])},))({"a": X}),
    value=X,
)
case("an unknown axis in out_specs", AxisError, "out_specs mentions 'k'", "['i', 'j']")(
    wrong=lambda: shard_map(lambda v: v, mesh=MESH, in_specs=P("i"), out_specs=P("k")),  # here
    fixed=lambda fix: mapped(same, P("i"), P(fix.data["axes"][0]))(X),
    value=X,
)
case("an axis that is not manual", AxisError, "mentions 'j', which is not among axis_names")(
    wrong=lambda: shard_map(  # here
        lambda v: v, mesh=MESH, in_specs=P("j"), out_specs=P("j"), axis_names={"i"}
    ),
    fixed=lambda fix: mapped(
        same, P("j"), P("j"), axis_names={*fix.data["axes"], fix.data["name"]}
    )(X),
    value=X,
)
case("a dimension left to the compiler", AxisError, "in_specs leaves a dimension to the compiler")(
    wrong=lambda: shard_map(  # here
        lambda v: v, mesh=MESH, in_specs=P(P.UNCONSTRAINED), out_specs=P()
    ),
    fixed=lambda fix: mapped(same, fix.data["spec"], P())(X),
    value=X,
)
case("a sum in in_specs", AxisError, "in_specs has a sum")(
    wrong=lambda: shard_map(lambda v: v, mesh=MESH, in_specs=P(sum="i"), out_specs=P()),  # here
    fixed=lambda fix: mapped(same, P(), P())(X),
    value=X,
)
case(
    "a tree of in_specs that does not fit",
    TreeError,
    "in_specs is not a prefix",
    "[0][0]",
    "['a', 'c']",
    "['a', 'b']",
)(
    wrong=lambda: mapped(lambda p: p["a"], ({"a": P("i"), "c": P()},))(  # here
        {"a": X, "b": X}
    ),
    fixed=lambda fix: mapped(lambda p: p["a"], ({"a": P("i"), "b": P()},))({"a": X, "b": X}),
    value=X,
)
case(
    "a tree of out_specs that does not fit",
    TreeError,
    "out_specs is not a prefix",
    "a tuple of length 3",
    "length 2",
)(
    wrong=lambda: mapped(lambda v: (v, v), P("i"), (P("i"),) * 3)(X),  # here
    fixed=lambda fix: mapped(lambda v: (v, v), P("i"), (P("i"),) * 2)(X)[1],
    value=X,
)
case("too few in_specs", TreeError, "in_specs has 1 entry and the call has 2 arguments")(
    wrong=lambda: mapped(lambda a, b: a + b, (P("i"),))(X, X),  # here
    fixed=lambda fix: mapped(lambda a, b: a + b, (P("i"),) * fix.data["count"])(X, X),
    value=X * 2,
)
case("a list for an argument each", TreeError, "the call has 1 argument")(
    wrong=lambda: mapped(lambda v: v[0] + v[1], [P("i"), P("i")])([X, X]),  # here
    fixed=lambda fix: mapped(lambda v: v[0] + v[1], ([P("i"), P("i")],))([X, X]),
    value=X * 2,
)
case("no entry for a name", TreeError, "in_specs has no entry for 'b'")(
    wrong=lambda: mapped(lambda a, b: a + b, {"a": P("i")})(X, X[:2]),  # here
    fixed=lambda fix: mapped(
        lambda a, b: a + b, {"a": P("i"), **dict.fromkeys(fix.data["missing"], P())}
    )(X, X[:2]),
    value=[0, 2, 2, 4, 4, 6, 6, 8],
)
case("an entry for no argument", TreeError, "in_specs has an entry for 'c', which is no argument")(
    wrong=lambda: mapped(lambda a: a, {"a": P("i"), "c": P()})(X),  # here
    fixed=lambda fix: mapped(lambda a: a, {"a": P("i")})(X),
    value=X,
)
case("no in_specs", WeftTypeError, "in_specs is missing")(
    wrong=lambda: shard_map(lambda v: v, mesh=MESH, out_specs=P()),  # here
    fixed=lambda fix: mapped(same, P(), P())(X),
    value=X,
)
case("no out_specs", WeftTypeError, "out_specs is missing")(
    wrong=lambda: shard_map(mesh=MESH, in_specs=P("i"))(lambda v: v),  # here
    fixed=lambda fix: mapped(same, P(), P())(X),
    value=X,
)
case(
    "names in place of a spec", WeftTypeError, "in_specs[0] is no PartitionSpec", "'i' of class str"
)(
    wrong=lambda: shard_map(lambda v: v, mesh=MESH, in_specs=("i",), out_specs=P()),  # here
    fixed=lambda fix: mapped(same, (P("i"),))(X),
    value=X,
)


# ---- meshes and axis names ---------------------------------------------------------------------


case("no mesh", WeftValueError, "there is no mesh")(
    wrong=lambda: shard_map(lambda v: v, in_specs=P("i"), out_specs=P("i"))(X),  # here
    fixed=lambda fix: in_mesh(lambda: shard_map(lambda v: v, in_specs=P("i"), out_specs=P("i"))(X)),
    value=X,
)
case("a tuple for a mesh", WeftTypeError, "mesh is no mesh")(
    wrong=lambda: shard_map(lambda v: v, mesh=(4, 2), in_specs=P(), out_specs=P()),  # here
    fixed=lambda fix: mapped(same, P(), P(), mesh=weft.make_mesh((8,), ("i",)))(X),
    value=X,
)
case("no function", WeftTypeError, "takes a function first")(
    wrong=lambda: shard_map(MESH, in_specs=P(), out_specs=P()),  # here
    fixed=lambda fix: mapped(same, P(), P())(X),
    value=X,
)
case("a device twice in a mesh", WeftValueError, "more than once")(
    wrong=lambda: Mesh(np.array([weft.devices()[0]] * 2), ("i",)),  # here
    fixed=lambda fix: mapped(same, mesh=Mesh(np.array([weft.devices()[0]]), ("i",)))(X),
    value=X,
)
case(
    "a mesh over too many devices", WeftValueError, "not enough devices", "WEFT_NUM_CPU_DEVICES=16"
)(
    wrong=lambda: weft.make_mesh((16,), ("i",)),  # here
    fixed=lambda fix: mapped(same, mesh=weft.make_mesh(fix.data["axis_shapes"], ("i",)))(X),
    value=X,
)
case("an abstract mesh", WeftValueError, "an abstract mesh has no devices to run on")(
    wrong=lambda: mapped(  # here
        same, mesh=AbstractMesh((4, 2), ("i", "j"))
    )(X),
    fixed=lambda fix: mapped(same, mesh=weft.make_mesh(fix.data["axis_shapes"], ("i", "j")))(X),
    value=X,
)
case("an abstract mesh in jit", WeftValueError, "abstract mesh", "1 of 8 devices")(
    wrong=lambda: weft.jit(  # here
        mapped(same, mesh=AbstractMesh((4, 2), ("i", "j")))
    )(X),
    fixed=lambda fix: weft.jit(mapped(same, mesh=weft.make_mesh(*fix.data.values())))(X),
    value=X,
)


def in_mesh(run):
    with weft.use_mesh(MESH):
        return run()


def after_other_mesh(wrap, place):
    """One shard_map over two devices, and on its result another one over two others."""

    def both_of_them(v):
        v = mapped(lambda u: u * 2, mesh=PAIR)(v)
        v = weft.device_put(v, place) if place is not None else v
        return mapped(lambda u: u + 1, mesh=OTHER_PAIR)(v)  # here

    return wrap(both_of_them)(X)  # here


for how, wrap in {"eager": lambda f: f, "jit": weft.jit}.items():
    case(
        f"an argument put elsewhere, {how}",
        WeftValueError,
        "cpu:7",
        "cpu:0, cpu:1",
        "weft.device_put",
    )(
        wrong=lambda wrap=wrap: wrap(mapped(lambda v: v * 2, mesh=PAIR))(  # here
            AWAY
        ),
        fixed=lambda fix, wrap=wrap: wrap(mapped(lambda v: v * 2, mesh=PAIR))(
            weft.device_put(AWAY, fix.data["device"])
        ),
        value=X * 2,
    )
    case(f"a closed-over array put elsewhere, {how}", WeftValueError, "cpu:7")(
        wrong=lambda wrap=wrap, y=AWAY: wrap(  # here
            mapped(lambda v: v + y[:4], mesh=PAIR)  # here
        )(X),
        fixed=lambda fix, wrap=wrap, y=AWAY: wrap(
            mapped(lambda v: v + weft.device_put(y, fix.data["device"])[:4], mesh=PAIR)
        )(X),
        value=[0, 2, 4, 6, 4, 6, 8, 10],
    )
case("results of one mesh for another, eager", WeftValueError, "cpu:0, cpu:1", "cpu:2, cpu:3")(
    wrong=lambda: after_other_mesh(lambda f: f, None),
    fixed=lambda fix: after_other_mesh(lambda f: f, fix.data["device"]),
    value=X * 2 + 1,
)
case(
    "two meshes in one program",
    WeftValueError,
    "meshes over different devices",
    "cpu:0, cpu:1",
    "cpu:2, cpu:3",
)(
    wrong=lambda: after_other_mesh(weft.jit, None),
    fixed=lambda fix: weft.jit(mapped(lambda u: u * 2 + 1, mesh=fix.data["meshes"][0]))(X),
    value=X * 2 + 1,
)
case(
    "a nested shard_map over the same axis",
    AxisError,
    "'i' is an axis of a shard_map around this one already",
    "{'j'}",
)(
    wrong=lambda: mapped(
        lambda v: mapped(lambda u: u * 2, P(), P(), axis_names={"i"})(v),  # here
        P("i"),
        P("i"),
        axis_names={"i"},
    )(X),
    fixed=lambda fix: mapped(
        lambda v: mapped(lambda u: u * 2, P(), P(), axis_names=fix.data["axis_names"])(v),
        axis_names={"i"},
    )(X),
    value=X * 2,
)
case(
    "a nested shard_map with no axis left",
    AxisError,
    "no axis of the mesh is left",
    "call the function itself",
)(
    wrong=lambda: mapped(lambda v: mapped(lambda u: u, P(), P())(v))(X),  # here
    fixed=lambda fix: mapped(lambda v: (lambda u: u)(v))(X),
    value=X,
)
case("a nested shard_map over another mesh", WeftValueError, "over the same mesh")(
    wrong=lambda: mapped(
        lambda v: mapped(lambda u: u, P(), P(), mesh=PAIR)(v),  # here
        P("i"),
        P("i"),
        axis_names={"i"},
    )(X),
    fixed=lambda fix: mapped(
        lambda v: mapped(lambda u: u, P(), P(), mesh=fix.data["mesh"])(v), axis_names={"i"}
    )(X),
    value=X,
)
case("an unknown axis in axis_names", AxisError, "'k' is no axis of the mesh", "{'i', 'j'}")(
    wrong=lambda: shard_map(  # here
        lambda v: v, mesh=MESH, in_specs=P(), out_specs=P(), axis_names={"k"}
    ),
    fixed=lambda fix: mapped(same, P(), P(), axis_names=fix.data["axis_names"])(X),
    value=X,
)
case("an axis name that nothing binds", UnboundAxisError, "'k' is not bound", "'i', 'j'")(
    wrong=lambda: mapped(lambda v: lax.psum(v, "k"), P("i"), P())(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.psum(v, "i"), P("i"), P())(X),
    value=SUM_I,
)
case("a collective over an automatic axis", UnboundAxisError, "'j' is not bound")(
    wrong=lambda: mapped(lambda v: lax.psum(v, "j"), P(), P(), axis_names={"i"})(X),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.psum(v, fix.data["axis_name"]), P("j"), P(), axis_names={"i", "j"}
    )(X),
    value=X[:4] + X[4:],
)
case(
    "a vmap inside that takes the name of a mesh axis",
    AxisError,
    "the axis name 'i' is that of a mesh axis here",
)(
    wrong=lambda: mapped(
        lambda v: weft.vmap(lambda u: lax.psum(u, "i"), axis_name="i")(v),  # here
        P("i"),
        P(),
    )(X),
    fixed=lambda fix: mapped(
        lambda v: weft.vmap(lambda u: lax.psum(u, ("i", "k")), axis_name="k")(v), P("i"), P()
    )(X),
    value=[28, 28],
)
case(
    "a vmap outside that takes the name of a mesh axis",
    AxisError,
    "the axis name 'i' is that of a vmap here",
)(
    wrong=lambda: weft.vmap(
        lambda u: mapped(lambda v: lax.psum(v, "i"), P("i"), P())(u),  # here
        axis_name="i",
    )(M.T),
    fixed=lambda fix: weft.vmap(
        lambda u: mapped(lambda v: lax.psum(v, "i"), P("i"), P())(u), axis_name="k"
    )(M.T),
    value=M.T.reshape(4, 4, 2).sum(1),
)
case("spmd_axis_name of an axis in use", AxisError, "spmd_axis_name='i'", "['j']")(
    wrong=lambda: weft.vmap(mapped(same), spmd_axis_name="i")(M.T),  # here
    fixed=lambda fix: weft.vmap(mapped(same), spmd_axis_name="j")(M.T),
    value=M.T,
)
case("spmd_axis_name and a length that does not divide", WeftValueError, "length 3 over ('j',)")(
    wrong=lambda: weft.vmap(mapped(same), spmd_axis_name="j")(  # here
        M.T[:3]
    ),
    fixed=lambda fix: weft.vmap(mapped(same), spmd_axis_name="j")(
        np.pad(M.T[:3], ((0, -3 % fix.data["multiple"]), (0, 0)))
    ),
    value=np.pad(M.T[:3], ((0, 1), (0, 0))),
)


@pytest.mark.parametrize("name", CASES)
def test_wrong_program(name):
    check(CASES[name])


def test_there_are_at_least_forty_of_them():
    assert len(CASES) >= 40
