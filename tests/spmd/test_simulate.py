"""`weft.simulate` is a mesh in all but the devices: what it refuses and how it says so, what
shardings mean under it, how often callbacks are called, and pmap without devices."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax, random, shard_map
from weft.errors import AxisError, ShapeError, TracerBoolConversionError
from weft.sharding import AbstractMesh, NamedSharding
from weft.sharding import PartitionSpec as P
from weft.sharding.context import is_simulated

pytestmark = pytest.mark.fast

X = np.arange(8, dtype=np.float32)


def outcome(run):
    """What a call gives, or the class and text of its error."""
    try:
        return run()
    except weft.errors.WeftError as error:
        return type(error), str(error)


def equally_refused(run, kind):
    """The error of a call, which is the same on the mesh and simulated."""
    on_mesh = outcome(run)
    with weft.simulate():
        simulated = outcome(run)
    assert on_mesh[0] is kind
    assert simulated == on_mesh
    return on_mesh[1]


# ---- casts that are to be written --------------------------------------------------------------


def explicit(body, mesh, *args, specs):
    f = shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("i"), auto_pbroadcast=False)
    return f(*args)


def test_a_missing_cast_is_refused(mesh):
    w = np.ones(2, np.float32)
    run = lambda: explicit(lambda x, w: x * w, mesh, X, w, specs=(P("i"), P()))  # noqa: E731
    text = equally_refused(run, AxisError)
    assert "casts are explicit" in text and "lax.pbroadcast(x, ('i',))" in text
    with weft.simulate():
        fixed = explicit(
            lambda x, w: x * lax.pbroadcast(w, ("i",)), mesh, X, w, specs=(P("i"), P())
        )
    np.testing.assert_array_equal(fixed, X)


def test_a_cast_is_missed_also_where_the_operand_was_computed_from_blocks(mesh):
    body = lambda x: x - lax.pmean(x, "i")  # noqa: E731
    text = equally_refused(lambda: explicit(body, mesh, X, specs=P("i")), AxisError)
    assert text.startswith("sub: the operands vary along different mesh axes")


def test_a_cast_is_missed_by_an_operation_that_holds_a_program(mesh):
    def body(x, w):
        return lax.cond(x.sum() > 3, lambda a, b: a * b, lambda a, b: a, x, w)

    w = np.ones(2, np.float32)
    equally_refused(lambda: explicit(body, mesh, X, w, specs=(P("i"), P())), AxisError)


@pytest.mark.parametrize(
    "constant",
    [lambda: 3.0, lambda: np.float32([1, 2]), lambda: wnp.arange(2.0) * 2 + wnp.ones(2)],
    ids=["number", "NumPy", "computed"],
)
def test_constants_need_no_cast(constant, mesh):
    with weft.simulate():
        found = explicit(lambda x: x * constant(), mesh, X, specs=P("i"))
    np.testing.assert_array_equal(found, (X.reshape(4, 2) * np.asarray(constant())).reshape(8))


def test_the_number_of_a_device_is_no_constant(mesh):
    def body(x):
        return x + lax.psum(1.0, "i") * lax.axis_index("i")

    with weft.simulate():
        found = explicit(body, mesh, X, specs=P("i"))
    np.testing.assert_array_equal(found, X + 4 * np.repeat(np.arange(4), 2))


# ---- why values vary ---------------------------------------------------------------------------


def doubled_on_the_host(x):
    return weft.pure_callback(lambda v: 2 * v, x, x)


VARYING = {
    "operand": (lambda x, w: x * w, "the argument x, which in_specs split over 'i'"),
    "second operand": (lambda w, x: w - x, "the argument x, which in_specs split over 'i'"),
    "axis_index": (lambda x, w: w * lax.axis_index("j"), "varies along 'j' since axis_index at"),
    "callback": (lambda x, w: doubled_on_the_host(x), "the argument x, which in_specs split"),
    "callback of index": (
        lambda x, w: doubled_on_the_host(lax.axis_index("i")),
        "varies along 'i' since axis_index at",
    ),
    "jit": (lambda x, w: weft.jit(lambda x: x + 1)(x) * w, "the argument x, which in_specs split"),
}


@pytest.mark.parametrize("name", VARYING)
def test_errors_say_why_a_value_varies(name, mesh):
    body, why = VARYING[name]
    specs = (P(), P("i")) if name == "second operand" else (P("i"), P())
    args = (X[:2], X) if name == "second operand" else (X, X[:2])
    f = shard_map(body, mesh=mesh, in_specs=specs, out_specs=P())
    assert why in equally_refused(lambda: f(*args), AxisError)


def test_errors_say_why_inside_a_nested_shard_map(mesh):
    def body(x):
        return shard_map(lambda y: y + 1, in_specs=P("j"), out_specs=P(), axis_names={"j"})(x)

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    assert "the argument y, which in_specs split over 'j'" in equally_refused(
        lambda: f(X), AxisError
    )


# ---- what Python reads -------------------------------------------------------------------------


def signed(x):
    if x.sum() > 5:
        return x
    return -x


def test_a_branch_on_blocks_that_differ_says_how_they_differ(mesh):
    f = shard_map(signed, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    text = equally_refused(lambda: f(X), TracerBoolConversionError)
    assert "bool() needs one value, and this one differs between devices over 'i'" in text
    assert [f"i={i}: {i > 1}" in text for i in range(4)] == [True] * 4
    assert "static" not in text


def test_a_branch_inside_another_transformation(mesh):
    f = shard_map(signed, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    text = equally_refused(lambda: weft.grad(lambda x: f(x).sum())(X), TracerBoolConversionError)
    assert "differs between devices over 'i'" in text


def test_python_branches_on_what_is_equal_on_all_devices(mesh):
    def body(x):
        return x if lax.psum(x.sum(), ("i",)) > 5 else -x

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    with weft.simulate():
        np.testing.assert_array_equal(f(X), X)
        np.testing.assert_array_equal(f(X / 10), -X / 10)


def test_blocks_are_shown_as_on_a_mesh(mesh):
    texts = []

    def body(x, k):
        values = (
            x,
            x.T,
            lax.psum(x, ("i", "j")),
            lax.axis_index(("i", "j")),
            k,
            wnp.ones(2),
            x[:0],
        )
        texts.append([repr(v) for v in values])
        return x

    x, keys = X.reshape(4, 2), random.split(random.key(0), 4)
    f = shard_map(body, mesh=mesh, in_specs=(P("i", "j"), P("i")), out_specs=P("i", "j"))
    f(x, keys)
    with weft.simulate():
        f(x, keys)
    assert texts[0] == texts[1] and "i=1, j=1: [[3.]]" in texts[0][0]


# ---- shardings ---------------------------------------------------------------------------------

BIG = AbstractMesh((32, 3), ("a", "b"))


def test_shardings_over_a_mesh_without_devices_mean_nothing():
    x = np.arange(96, dtype=np.float32)
    where = NamedSharding(BIG, P(("a", "b")))
    with weft.simulate(BIG):
        jitted = weft.jit(lambda x: 2 * x, in_shardings=where, out_shardings=where)
        np.testing.assert_array_equal(jitted(x), 2 * x)
        np.testing.assert_array_equal(jitted.lower(x).compile()(x), 2 * x)
        np.testing.assert_array_equal(
            weft.grad(lambda x: jitted(x).sum())(x), np.full(96, 2, np.float32)
        )
        for given in (x, wnp.asarray(x)):
            for options in ({}, {"donate": False, "may_alias": False}):
                np.testing.assert_array_equal(weft.device_put(given, where, **options), x)
        np.testing.assert_array_equal(wnp.asarray(x, device=where), x)
        made = weft.make_array_from_callback(x.shape, where, lambda index: x[index])
        np.testing.assert_array_equal(made, x)


def test_shardings_over_the_devices_of_a_mesh_mean_nothing(mesh):
    where = NamedSharding(mesh, P("i"))
    takes = weft.jit(lambda x: 2 * x, in_shardings=where)
    leaves = weft.jit(lambda x: 2 * x, out_shardings=where)
    uses = [
        takes,
        leaves,
        lambda x: takes(wnp.asarray(x)),
        lambda x: 2 * weft.device_put(x, where),
        lambda x: 2 * wnp.asarray(x, device=where),
        lambda x: weft.jit(lambda x: 2 * weft.device_put(x, where))(x),
    ]
    for use in uses:
        assert len(use(X).devices()) == 8
        with weft.simulate(mesh):
            found = use(X)
        assert len(found.devices()) == 1
        np.testing.assert_array_equal(found, 2 * X)
        assert len(use(X).devices()) == 8


def test_shardings_of_other_meshes_stay(mesh):
    where = NamedSharding(mesh, P("i"))
    with weft.simulate(BIG):
        assert len(weft.device_put(X, where).devices()) == 8
        assert len(weft.jit(lambda x: x + 1, in_shardings=where)(X).devices()) == 8


def test_a_sharding_that_does_not_fit_is_refused(mesh):
    where = NamedSharding(mesh, P("i"))
    for run in (
        lambda: weft.device_put(X[:6], where),
        lambda: weft.jit(lambda x: x, in_shardings=where)(X[:6]),
        lambda: weft.jit(lambda x: x, out_shardings=where)(X[:6]),
        lambda: wnp.zeros(6, device=where),
        lambda: weft.make_array_from_callback((6,), where, lambda index: X[:6][index]),
    ):
        equally_refused(run, ShapeError)


def test_an_array_that_was_spread_before_can_be_used(mesh):
    x = weft.device_put(X, NamedSharding(mesh, P("j")))
    f = shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    jitted = weft.jit(f, in_shardings=NamedSharding(mesh, P("i")))
    with weft.simulate(mesh):
        for g in (f, jitted):
            np.testing.assert_array_equal(g(x), X.reshape(4, 2).sum(0))


# ---- pmap --------------------------------------------------------------------------------------


def test_pmap_of_more_slices_than_devices():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    f = weft.pmap(lambda x, w: x / lax.psum(x, "n") * w, axis_name="n", in_axes=(0, None))
    with pytest.raises(ValueError, match="fewer devices than slices"):
        f(x, 2.0)
    with weft.simulate():
        np.testing.assert_allclose(f(x, 2.0), 2 * x / x.sum(0), rtol=1e-4)
        derivative = weft.grad(lambda w: f(x, w)[:, 0].sum())(2.0)
        np.testing.assert_allclose(derivative, 1, rtol=1e-4)
        moved = weft.pmap(lambda x: x * x, out_axes=1)(x)
        np.testing.assert_allclose(moved, (x * x).T, rtol=1e-6)
    with pytest.raises(ValueError, match="fewer devices than slices"):
        f(x, 2.0)


def test_pmap_of_a_named_mesh_is_simulated_with_it():
    x = np.arange(12, dtype=np.float32)
    f = weft.pmap(lambda x: lax.psum(x, "n"), axis_name="n", out_axes=None)
    with weft.simulate(AbstractMesh((12,), ("n",))):
        assert float(f(x)) == 66
    with weft.simulate(AbstractMesh((12,), ("m",))), pytest.raises(ValueError, match="fewer"):
        f(x)


def test_pmap_of_few_slices_uses_one_device_too():
    f = weft.pmap(lambda x: x + 1)
    with weft.simulate():
        assert len(f(X).devices()) == 1
    assert len(f(X).devices()) == 8


def test_pmap_of_no_slices_is_refused_alike():
    equally_refused(lambda: weft.pmap(lambda x: x)(np.zeros((0, 2), np.float32)), ShapeError)


# ---- blocks inside one another -----------------------------------------------------------------


def total(mesh, x):
    (axis,) = mesh.axis_names
    f = shard_map(lambda x: lax.psum(x, axis), mesh=mesh, in_specs=P(axis), out_specs=P())
    return np.asarray(f(x))


def test_simulations_nest():
    three, five = AbstractMesh((3,), ("i",)), AbstractMesh((5,), ("k",))
    with weft.simulate(three):
        with weft.simulate(five):
            assert is_simulated(three) and is_simulated(five)
            assert total(three, X[:3]) == 3 and total(five, X[:5]) == 10
            with weft.simulate():
                assert is_simulated(BIG)
                with weft.simulate(three):
                    assert is_simulated(BIG)
            assert not is_simulated(BIG)
        assert is_simulated(three) and not is_simulated(five)
        assert total(three, X[:3]) == 3
        with pytest.raises(ValueError, match="no devices to run on"):
            total(five, X[:5])
    assert not is_simulated(three)


def test_the_order_of_simulations_compiles_nothing_anew():
    three, five = AbstractMesh((3,), ("i",)), AbstractMesh((5,), ("k",))
    f = weft.jit(lambda x: x + 1, max_traces=1)
    with weft.simulate(three), weft.simulate(five):
        f(X)
    with weft.simulate(five), weft.simulate(three), weft.simulate(five):
        f(X)


def test_a_mesh_entered_inside_stays_simulated(mesh):
    with weft.simulate(mesh), mesh:
        with mesh, weft.simulate(BIG):
            assert is_simulated(mesh) and is_simulated(BIG)
        assert is_simulated(mesh) and not is_simulated(BIG)
        f = shard_map(lambda x: x, in_specs=P("i"), out_specs=P("i"))
        assert len(f(X).devices()) == 1


# ---- callbacks ---------------------------------------------------------------------------------

SEEN = []


def see(*values):
    weft.debug.callback(lambda *found: SEEN.append(tuple(map(float, found))), *values)


def bare(x):
    see()
    return x


def in_scan(x):
    return lax.scan(lambda c, v: (bare(c), v), 0.0, x)[1]


def in_while(x):
    return lax.while_loop(lambda c: c[0] < 2, lambda c: (bare(c[0]) + 1, c[1]), (0, x))[1]


def with_value(x):
    see(x[0])
    return x


def ordered(x):
    def effect():
        SEEN.append(())
        return np.float32(1)

    return x + weft.io_callback(effect, weft.ShapeDtypeStruct((), "float32"), ordered=True)


EFFECTS = {
    "bare": bare,
    "jit": weft.jit(bare),
    "jit of nothing": lambda x: weft.jit(lambda: see())() or x,
    "value": with_value,
    "jit of value": weft.jit(with_value),
    "equal value": lambda x: see(lax.psum(x[0], "i")) or x,
    "scan": in_scan,
    "while": in_while,
    "cond": lambda x: lax.cond(x.sum() > 5, with_value, lambda x: x, x),
    "bare in cond": lambda x: lax.cond(x.sum() > 5, bare, lambda x: x, x),
    "ordered": ordered,
    "checkpoint": weft.checkpoint(bare),
}


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", EFFECTS)
def test_every_device_has_the_effects(name, staged, mesh):
    f = shard_map(EFFECTS[name], mesh=mesh, in_specs=P("i"), out_specs=P("i"))

    def run():
        SEEN.clear()
        (weft.jit(f) if staged else f)(X)
        weft.effects_barrier()
        return sorted(SEEN)

    on_mesh = run()
    with weft.simulate():
        assert run() == on_mesh
    assert len(on_mesh) == {"scan": 16, "while": 16, "cond": 4, "bare in cond": 4}.get(name, 8)


def test_each_device_calls_a_function_with_its_block(mesh):
    shapes = []

    def host(x):
        shapes.append(x.shape)
        return x + x.sum()

    def body(x):
        return weft.pure_callback(host, x, x)  # No vmap_method: nothing is mapped.

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    blocks = X.reshape(4, 2)
    want = (blocks + blocks.sum(1, keepdims=True)).reshape(8)
    with weft.simulate():
        np.testing.assert_array_equal(f(X), want)
        np.testing.assert_array_equal(weft.jit(f)(X), want)
    assert set(shapes) == {(2,)}


def test_vmap_of_a_callback_without_method_is_refused_in_both(mesh):
    body = weft.vmap(lambda x: weft.pure_callback(np.sin, x, x))
    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    text = equally_refused(lambda: f(X), weft.errors.WeftNotImplementedError)
    assert re.search("does not say how it can be batched", text)


def test_effects_outside_of_a_mesh_happen_once():
    with weft.simulate():
        SEEN.clear()
        weft.vmap(bare)(X)
        weft.jit(weft.vmap(bare))(X)
        assert len(SEEN) == 2


# ---- shard_maps inside programs ----------------------------------------------------------------


def test_a_jitted_shard_map_inside_another(mesh):
    inner = shard_map(lambda x: lax.psum(x, "j"), in_specs=P("j"), out_specs=P(), axis_names={"j"})

    def body(x):
        return weft.jit(inner)(x)

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    want = X.reshape(4, 2).sum(1)
    with weft.simulate():
        np.testing.assert_array_equal(f(X), want)
        np.testing.assert_array_equal(weft.jit(f)(X), want)
