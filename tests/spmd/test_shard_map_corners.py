"""Corners of shard_map: names that clash, casts in derivatives, constants, effects, random keys."""

from __future__ import annotations

import time

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax, shard_map
from weft.errors import AxisError, UnboundAxisError, WeftValueError
from weft.sharding import Mesh
from weft.sharding import PartitionSpec as P
from weft.spmd import eager

X = np.linspace(-1.0, 2.0, 8, dtype=np.float32)
PAIR = np.stack([X, 10 * X])


def jitted_too(f):
    return f, weft.jit(f)


# ---- spmd_axis_name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        lambda a: lax.pmax(a, "j"),
        lambda a: lax.all_gather_invariant(a, "j").sum(0),
        lambda a: lax.psum(a * lax.axis_index("j"), "j"),
        lambda a: lax.psum(lax.pvary(a, "j"), "j"),
    ],
)
def test_a_body_cannot_name_the_axis_that_a_vmap_is_spread_over(mesh, body):
    """It would combine elements of the mapped axis."""
    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    plain = weft.vmap(f)(PAIR)
    assert plain.shape[0] == 2
    for g in jitted_too(weft.vmap(f, spmd_axis_name="j")):
        with pytest.raises((AxisError, UnboundAxisError), match="'j'"):
            g(PAIR)
    with pytest.raises(AxisError, match="do not mention"):
        weft.vmap(weft.jit(f), spmd_axis_name="j")(PAIR)


def test_specs_cannot_name_that_axis_either(mesh):
    f = shard_map(lambda a: lax.pvary(a, "j"), mesh=mesh, in_specs=P("i"), out_specs=P(("i", "j")))
    with pytest.raises((AxisError, UnboundAxisError), match="'j'"):
        weft.vmap(f, spmd_axis_name="j")(PAIR)


def test_an_automatic_axis_is_left_to_the_compiler(mesh):
    f = shard_map(
        lambda a: lax.psum(a, "i"), mesh=mesh, in_specs=P("i"), out_specs=P(), axis_names={"i"}
    )
    want = PAIR.reshape(2, 4, 2).sum(1)
    for g in jitted_too(weft.vmap(f, spmd_axis_name="j")):
        np.testing.assert_allclose(g(PAIR), want, rtol=1e-6)


# ---- nesting -------------------------------------------------------------------------------------


def nested(mesh, inner_mesh):
    def outer(a):
        f = shard_map(lambda b: b * 2, mesh=inner_mesh, in_specs=P("j"), out_specs=P("j"))
        return f(a)

    return shard_map(outer, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})


def test_a_nested_mesh_has_the_same_devices_in_the_same_order(mesh):
    other = Mesh(mesh.devices[::-1].copy(), ("i", "j"))
    for f in jitted_too(nested(mesh, other)):
        with pytest.raises(WeftValueError, match="the same mesh"):
            f(X)


def test_a_nested_mesh_may_be_given_by_its_axes(mesh):
    for f in jitted_too(nested(mesh, mesh.abstract_mesh)):
        np.testing.assert_allclose(f(X), 2 * X)


# ---- explicit casts ------------------------------------------------------------------------------


def explicit(mesh, body):
    return shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), auto_pbroadcast=False)


@pytest.mark.parametrize(
    "body",
    {
        "max": lambda a: a * a.max(),
        "softmax": lambda a: weft.nn.softmax(a),
        "logsumexp": lambda a: a + weft.nn.logsumexp(a),
        "median": lambda a: a * wnp.median(a),
        "where": lambda a: wnp.where(a > 0.5, a * a, 0.0),
        "index": lambda a: a[wnp.array([1, 0])] * a,
        "closed-over": lambda a: a * X[:2] + wnp.asarray(X[2:4]),
        "pmax": lambda a: a * lax.pbroadcast(lax.pmax(a, "i"), "i"),
        "scan": lambda a: lax.scan(lambda c, r: (c * r, None), a * 0 + 1, wnp.stack([a, a]))[0],
    }.items(),
    ids=lambda pair: pair[0],
)
def test_rules_of_weft_need_no_casts_of_the_users(mesh, body):
    """With auto_pbroadcast=False: values and derivatives are those of the automatic mode."""
    f = explicit(mesh, body[1])
    g = shard_map(body[1], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_allclose(f(X), g(X), rtol=1e-6)
    np.testing.assert_allclose(weft.jit(f)(X), g(X), rtol=1e-5, atol=1e-6)
    want = weft.grad(lambda a: (g(a) ** 2).sum())(X)
    for h in jitted_too(weft.grad(lambda a: (f(a) ** 2).sum())):
        np.testing.assert_allclose(h(X), want, rtol=1e-5, atol=1e-6)
    _, tangent = weft.jvp(f, (X,), (X,))
    np.testing.assert_allclose(tangent, weft.jvp(g, (X,), (X,))[1], rtol=1e-5, atol=1e-6)


def test_explicit_mode_refuses_what_would_sum_in_reverse(mesh):
    f = shard_map(
        lambda a, w: a * (w + 1.0),
        mesh=mesh,
        in_specs=(P("i"), P()),
        out_specs=P("i"),
        auto_pbroadcast=False,
    )
    for g in (*jitted_too(f), weft.grad(lambda a, w: f(a, w).sum(), argnums=1)):
        with pytest.raises(AxisError, match="casts are explicit"):
            g(X, np.float32(2))


def test_finding_out_whether_a_value_is_constant_costs_no_more_than_the_program(mesh):
    def body(a):
        c = wnp.zeros(2) + 1.5
        for _ in range(60):
            c = c + c
        return a + c * 1e-18

    start = time.perf_counter()
    weft.make_jaxpr(explicit(mesh, body))(X)
    assert time.perf_counter() - start < 5


# ---- effects, keys, constants --------------------------------------------------------------------


def test_a_checkpoint_of_a_body_that_prints(mesh, capfd):
    def body(a):
        weft.debug.print("{}", a.sum())
        return lax.psum(wnp.sin(a), "i")

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    for g in jitted_too(weft.grad(lambda a: weft.checkpoint(f)(a).sum())):
        np.testing.assert_allclose(g(X), np.cos(X), rtol=1e-5)
        assert len(capfd.readouterr().out.splitlines()) == 8


def test_effects_without_operands_happen_once_per_device(mesh, capfd):
    def body(a):
        weft.debug.print("a")
        weft.jit(lambda: weft.debug.print("b"))()
        return a

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for g in jitted_too(f):
        weft.block_until_ready(g(X))
        assert sorted(capfd.readouterr().out.split()) == ["a"] * 8 + ["b"] * 8


def test_callbacks_get_keys(mesh):
    seen = []

    def body(keys):
        weft.debug.callback(lambda k: seen.append((k.dtype, k.shape)), keys)
        return keys

    keys = weft.random.split(weft.random.key(0), 8)
    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for g in jitted_too(f):
        seen.clear()
        weft.block_until_ready(g(keys))
        weft.effects_barrier()
        assert seen == [(keys.dtype, (2,))] * 8


def test_the_result_of_a_callback_says_why_it_varies(mesh):
    def body(a):
        out = weft.ShapeDtypeStruct(a.shape, a.dtype)
        return weft.pure_callback(np.sin, out, a)

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    with pytest.raises(AxisError, match="the argument a, which in_specs split over 'i'"):
        f(X)


def test_means_of_numbers(mesh):
    def body(a):
        numbers = [np.int32(3), 3, np.float32(3), True]
        return a + sum(lax.pmean(n, "i") for n in numbers) + lax.psum(np.int32(3), "i")

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for g in jitted_too(f):
        np.testing.assert_allclose(g(X), X + 10 + 12, rtol=1e-6)


def test_an_array_from_outside_is_taken_to_the_devices_once(mesh, monkeypatch):
    moved = []
    to_place = eager.to_place
    monkeypatch.setattr(
        eager, "to_place", lambda array, *rest: moved.append(array) or to_place(array, *rest)
    )
    w = wnp.asarray(X[:2])

    def body(a):
        for _ in range(5):
            a = a * w
        return a

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_allclose(f(X), X * np.tile(X[:2], 4) ** 5, rtol=1e-5)
    assert sum(array is w for array in moved) == 1


@pytest.mark.parametrize("jitted", [False, True])
def test_a_spec_of_none_hands_on_what_is_no_array(mesh, jitted):
    class Mode:
        factor = 3

    def f(rows, how, x):
        size, mode, function, weights = how["size"], how["mode"], how["f"], how["w"]
        assert type(size) is int and how["name"] == "plain" and type(mode) is Mode
        return rows * function(x + wnp.ones(size)) * mode.factor + weights.sum()

    def run(x, w):
        how = {"size": 2, "mode": Mode(), "f": wnp.sin, "w": w, "name": "plain"}
        specs = P(), None, P("i")
        return shard_map(f, mesh=mesh, in_specs=specs, out_specs=P("i"))(2, how, x)

    w = wnp.arange(3.0)
    wrap = weft.jit if jitted else lambda f: f
    np.testing.assert_allclose(wrap(run)(X, w), 2 * np.sin(X + 1) * 3 + 3, rtol=1e-5)
    slopes = wrap(weft.grad(lambda x, w: run(x, w).sum(), (0, 1)))(X, w)
    np.testing.assert_allclose(slopes[0], 6 * np.cos(X + 1), rtol=1e-5)
    np.testing.assert_allclose(slopes[1], [8.0, 8.0, 8.0])
