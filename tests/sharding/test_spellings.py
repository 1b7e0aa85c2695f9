"""Spellings of one sharding: whichever an array has, and however it came, one program serves it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from weft import lax
from weft.errors import ShapeError, WeftValueError
from weft.sharding import Mesh, NamedSharding, P

VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)

# Spellings of one meaning for matrices, over axes of lengths 4, 2 and 1; the first is the shortest.
SPELLINGS = {
    "rows": [
        P("model"),
        P("model", None),
        P(("model",), None),
        P(("model", "one")),
        P("model", "one"),
    ],
    "columns": [P(None, "data"), P("one", "data"), P((), ("data",)), P(None, ("one", "data"))],
    "both": [P(("model", "data")), P(("model", "data"), None), P(("model", "one", "data"), None)],
    "whole": [P(), P(None), P(None, None), P("one"), P(None, "one"), P((), ())],
}


@pytest.fixture(scope="module")
def mesh():
    grid = np.array(weft.devices()[:8]).reshape(4, 2, 1)
    return Mesh(grid, ("model", "data", "one"))


def _jitted(how):
    return weft.jit(lambda x: x * 1, out_shardings=how)(VALUES)


def _carried(how):
    x = weft.device_put(VALUES, how)
    return lax.scan(lambda c, _: (lax.with_sharding_constraint(c + 0, how), None), x, None, 2)[0]


def _from_blocks(how):
    blocks = [
        weft.device_put(VALUES[index], device)
        for device, index in how.devices_indices_map(VALUES.shape).items()
    ]
    return weft.make_array_from_single_device_arrays(VALUES.shape, how, blocks)


def _mapped(how, wrap=lambda f: f):
    specs = {"in_specs": (how.spec,), "out_specs": how.spec, "mesh": how.mesh}
    return wrap(weft.shard_map(lambda x: x * 1, **specs))(VALUES)


def _donated(how):
    return weft.device_put(weft.device_put(VALUES, NamedSharding(how.mesh, P())), how, donate=True)


WAYS = {
    "device_put of NumPy": lambda how: weft.device_put(VALUES, how),
    "device_put of an array": lambda how: weft.device_put(jnp.asarray(VALUES), how),
    "device_put of a sharded array": lambda how: weft.device_put(
        weft.device_put(VALUES, NamedSharding(how.mesh, P("data", "model"))), how
    ),
    "device_put that donates": _donated,
    "device_put under a mesh": lambda how: _under(how, lambda: weft.device_put(VALUES, how.spec)),
    "make_array_from_callback": lambda how: weft.make_array_from_callback(
        VALUES.shape, how, lambda index: VALUES[index]
    ),
    "make_array_from_single_device_arrays": _from_blocks,
    "out_shardings": _jitted,
    "in_shardings": lambda how: weft.jit(lambda x: x * 1, in_shardings=how)(VALUES),
    "a jitted constraint": lambda how: weft.jit(lambda x: lax.with_sharding_constraint(x * 1, how))(
        VALUES
    ),
    "an eager constraint": lambda how: lax.with_sharding_constraint(VALUES, how),
    "a result of jit": lambda how: weft.jit(lambda x: x * 1)(weft.device_put(VALUES, how)),
    "an eager result": lambda how: weft.device_put(VALUES, how) * 1,
    "a carry": _carried,
    "a jitted carry": weft.jit(_carried, static_argnums=0),
    "shard_map": _mapped,
    "a jitted shard_map": lambda how: _mapped(how, weft.jit),
    "a compiled function": lambda how: (
        weft.jit(lambda x: x * 1)
        .lower(weft.ShapeDtypeStruct(VALUES.shape, "float32", sharding=how))
        .compile()(VALUES)
    ),
    "a gradient": lambda how: weft.grad(lambda x: (x * x).sum())(weft.device_put(VALUES, how)),
    "a copy": lambda how: copy.deepcopy(weft.device_put(VALUES, how)),
}


def _under(how, make):
    with how.mesh:
        return make()


@pytest.mark.parametrize("meaning", SPELLINGS)
def test_one_program_serves_every_way_and_every_spelling(monkeypatch, mesh, meaning):
    step = weft.jit(lambda x, y: (x @ y, x * 2))
    first = weft.device_put(VALUES, NamedSharding(mesh, SPELLINGS[meaning][0]))
    step(first, VALUES), first + first, jnp.sin(first), first[1:3]
    again = {}
    for way, make in WAYS.items():
        for spec in SPELLINGS[meaning]:
            how = NamedSharding(mesh, spec)
            x = make(how)
            assert x.sharding.is_equivalent_to(how, 2), (way, spec)
            with monkeypatch.context() as patch:
                compiled = counted_compilations(patch)
                product, double = step(x, VALUES)
                x + x, jnp.sin(x), x[1:3]
            if compiled:
                again[way, spec] = len(compiled)
    assert not again
    assert step._cache_size() == 1


@pytest.mark.parametrize("meaning", SPELLINGS)
def test_functions_made_anew_with_other_spellings_of_in_shardings_share_a_program(
    monkeypatch, mesh, meaning
):
    def double(x):
        return x * 2

    first, *others = [NamedSharding(mesh, spec) for spec in SPELLINGS[meaning]]
    want = weft.jit(double, in_shardings=first)(VALUES)
    compiled = counted_compilations(monkeypatch)
    for how in others:
        np.testing.assert_array_equal(weft.jit(double, in_shardings=how)(VALUES), want)
    assert not compiled
    # A spelling with more entries than the argument has dimensions is an error all the same.
    weft.jit(double, in_shardings=NamedSharding(mesh, P("model")))(VALUES[0])
    with pytest.raises(ShapeError, match="in_shardings"):
        weft.jit(double, in_shardings=NamedSharding(mesh, P("model", None)))(VALUES[0])


@pytest.mark.parametrize("spec", [spec for specs in SPELLINGS.values() for spec in specs])
def test_an_array_shows_the_sharding_that_it_was_given(mesh, spec):
    how = NamedSharding(mesh, spec)
    for way in (
        "device_put of NumPy",
        "device_put of a sharded array",
        "out_shardings",
        "an eager constraint",
        "a copy",
        "make_array_from_callback",
        "shard_map",
    ):
        assert WAYS[way](how).sharding is how, way
    both = weft.jit(lambda x: (x, x + 1), out_shardings=(how, None))(VALUES)
    assert both[0].sharding is how
    assert weft.eval_shape(lambda x: x, both[0]).sharding is how
    assert str(spec) in repr(both[0])


def test_a_training_step_compiles_once(monkeypatch, mesh):
    """The state comes in by different ways than it comes back; its count is a plain number."""

    @weft.jit
    def step(state, x):
        slopes = weft.grad(lambda w: ((x @ w["in"]) @ w["out"]).sum())(state["weights"])
        moments = weft.tree.map(lambda m, g: 0.9 * m + g, state["moments"], slopes)
        weights = weft.tree.map(lambda w, m: w - 0.1 * m, state["weights"], moments)
        return {"weights": weights, "moments": moments, "count": state["count"] + 1}

    specs = {"in": P(None, "model"), "out": P("model", None)}
    place = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    weights = weft.device_put({"in": VALUES, "out": VALUES}, place)
    state = {"weights": weights, "moments": weft.device_put(weights, place), "count": 0}
    x = weft.device_put(VALUES, NamedSharding(mesh, P("data", None)))
    compiled = counted_compilations(monkeypatch)
    for _ in range(3):
        state = step(state, x)
    assert len(compiled) == 1


def _permuted(mesh):
    return Mesh(mesh.devices[::-1], mesh.axis_names)


OPERATIONS = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y,
    "where": lambda x, y: jnp.where(x > 0, x, y),
    "concatenate": lambda x, y: jnp.concatenate([x, y]),
    "jit": weft.jit(lambda x, y: (x * 2, y + x)),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_arrays_over_devices_in_different_orders_do_not_meet(mesh, operation):
    x, y = (weft.device_put(VALUES, NamedSharding(m, P("model"))) for m in (mesh, _permuted(mesh)))
    with pytest.raises(WeftValueError, match="in different orders") as caught:
        OPERATIONS[operation](x, y)
    assert caught.value.fix.data["device"] == x.sharding
    OPERATIONS[operation](x, weft.device_put(y, x.sharding))


def test_a_mesh_in_another_order_inside_a_program_splits_its_values(mesh):
    other = NamedSharding(_permuted(mesh), P("model"))
    x = weft.device_put(VALUES, NamedSharding(mesh, P("model")))
    made = weft.jit(lambda x: lax.with_sharding_constraint(x * 2, other))(x)
    assert not made.is_fully_replicated
    np.testing.assert_array_equal(made, VALUES * 2)
