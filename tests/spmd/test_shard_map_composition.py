"""shard_map inside and around loops, branches, rematerialisation and custom derivatives.

Each program is compared with the same function of whole arrays on one device: its value, its
gradient and a second derivative; called, jitted, and simulated on one device.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close
from weft import lax, shard_map
from weft.sharding import AbstractMesh
from weft.sharding import PartitionSpec as P

SUMMED = P()
X = np.linspace(0.1, 1.0, 48, dtype=np.float32).reshape(8, 6)
W = np.linspace(-1.0, 1.0, 6, dtype=np.float32)


@weft.custom_vjp
def sine_vjp(a, b):
    return wnp.sin(a * b)


def _sine_fwd(a, b):
    return wnp.sin(a * b), (a, b)


def _sine_bwd(residuals, ct):
    a, b = residuals
    return ct * wnp.cos(a * b) * b, ct * wnp.cos(a * b) * a


sine_vjp.defvjp(_sine_fwd, _sine_bwd)


@weft.custom_jvp
def sine_jvp(a, b):
    return wnp.sin(a * b)


@sine_jvp.defjvp
def _sine_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    return sine_jvp(a, b), wnp.cos(a * b) * (da * b + db * a)


def whole(w):
    return wnp.sin(X * w).sum(0)


def spread(mesh):
    """The function `whole`, with rows over the mesh axis i."""

    def body(x, w):
        return lax.psum(wnp.sin(x * w).sum(0), "i")

    f = shard_map(body, mesh=mesh, in_specs=(P("i"), P()), out_specs=P())
    return lambda w: f(X, w)


def rows(mesh, body, out_specs):
    """A function of w alone: `body(block of X, w)` on every device, summed over them."""

    def summed(x, w):
        out = body(x, w)
        return lax.psum(out, "i") if out_specs == P() else out

    f = shard_map(summed, mesh=mesh, in_specs=(P("i"), P()), out_specs=out_specs)
    return lambda w: f(X, w)


def around(wrap):
    """A case with shard_map inside of something."""
    return lambda mesh: (wrap(spread(mesh)), wrap(whole))


def within(body, reference=whole, out_specs=SUMMED):
    """A case with something inside of shard_map."""
    return lambda mesh: (rows(mesh, body, out_specs), reference)


def steps(f, w):
    return lax.scan(lambda c, _: (c + f(c) * 0.01, f(c).sum()), w, None, length=3)


def nested(mesh):
    def inner(block, w):
        return block * lax.psum(block.sum(), "j") * w.sum()

    def outer(x, w):
        f = shard_map(inner, in_specs=(P(None, "j"), P()), out_specs=P(None, "j"))
        return f(x, w) * (lax.axis_index("i") + 1)

    f = shard_map(outer, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), axis_names={"i"})
    scale = np.repeat(np.arange(1, 5), 2)[:, None]
    sums = X.reshape(4, -1).sum(1).repeat(2)[:, None]
    return lambda w: f(X, w), lambda w: X * sums * w.sum() * scale


def partial(mesh):
    def body(x, w):
        return x * w * lax.psum((x * w).sum(), "i") + lax.axis_index("i")

    f = shard_map(body, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), axis_names={"i"})
    index = np.repeat(np.arange(4), 2)[:, None]
    return lambda w: f(X, w), lambda w: X * w * (X * w).sum() + index


def closed_over(mesh):
    def f(w):
        def body(x):
            return lax.psum(wnp.sin(x * w).sum(0), "i")

        return shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())(X)

    return f, whole


class Model:
    """Parameters in attributes of an object, where no search for traced values goes."""

    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return lax.psum(wnp.sin(x * self.w).sum(0), "i")

    def rows(self, x):
        return lax.scan(lambda c, r: (c + wnp.sin(r * self.w), None), wnp.zeros(6), x)[0]

    def branches(self, x):
        return lax.cond(x.sum() > -99.0, lambda: wnp.sin(x * self.w).sum(0), lambda: self.w)

    def jitted(self, x):
        return weft.jit(lambda x: wnp.sin(x * self.w).sum(0))(x)

    def custom(self, x):
        return weft.vmap(lambda r: sine_jvp(r, self.w))(x).sum(0)


def hidden(method):
    """A case with a method of a model, which reads its parameters."""

    def make(mesh):
        def f(w):
            model = Model(w)

            def body(x):
                return lax.psum(getattr(model, method)(x), "i")

            run = model if method == "__call__" else body
            return shard_map(run, mesh=mesh, in_specs=P("i"), out_specs=P())(X)

        return f, whole

    return make


def loop_in(x, w):
    return lax.scan(lambda c, r: (c + wnp.sin(r * w), r * c), wnp.zeros(6), x)[0]


def branch_in(x, w):
    return lax.cond(x.sum() > 4.0, lambda: wnp.sin(x * w).sum(0), lambda: (x * w).sum(0))


def branches(w):
    # A device holds two rows of four on the mesh of (4, 2), one of eight on the mesh of 8.
    pairs = X.reshape(4, 2, 6)
    chosen = pairs.sum((1, 2))[:, None, None] > 4.0
    return wnp.where(chosen, wnp.sin(pairs * w), pairs * w).sum((0, 1))


def solve_in(x, w):
    def matvec(v):
        return v * (2 + w)

    return lax.custom_linear_solve(matvec, x, lambda _, b: b / (2 + w), symmetric=True).sum(0)


def gradient_in(x, w):
    return weft.grad(lambda x: wnp.sin(x * w).sum())(x)


POLICY = weft.checkpoint_policies.nothing_saveable
CASES = {
    "scan of": around(lambda f: lambda w: steps(f, w)[0]),
    "scan of, stacked": around(lambda f: lambda w: steps(f, w)[1]),
    "fori_loop of": around(
        lambda f: lambda w: lax.fori_loop(0, 3, lambda i, c: c + f(c) * 0.01, w)
    ),
    "map of": around(lambda f: lambda w: lax.map(f, wnp.stack([w, w * 2]))),
    "cond of": around(lambda f: lambda w: lax.cond(w.sum() > -5, f, lambda w: w, w)),
    "checkpoint of": around(lambda f: weft.checkpoint(lambda w: wnp.sin(f(w)))),
    "checkpoint with a policy of": around(
        lambda f: weft.checkpoint(lambda w: wnp.sin(f(w)), policy=POLICY)
    ),
    "vmap of scan of": around(
        lambda f: lambda w: weft.vmap(lambda w: steps(f, w)[0])(wnp.stack([w, w * 2]))
    ),
    "jacfwd of": around(weft.jacfwd),
    "jacrev of": around(weft.jacrev),
    "jit of": around(weft.jit),
    "nested": nested,
    "partially manual": partial,
    "closed-over": closed_over,
    "hidden": hidden("__call__"),
    "hidden in scan": hidden("rows"),
    "hidden in cond": hidden("branches"),
    "hidden in jit": hidden("jitted"),
    "hidden in custom_jvp": hidden("custom"),
    "scan in": within(loop_in),
    "cond in": within(branch_in, branches),
    "custom_vjp in": within(lambda x, w: weft.vmap(lambda r: sine_vjp(r, w))(x).sum(0)),
    "custom_jvp in": within(lambda x, w: sine_jvp(x, w).sum(0)),
    "custom_linear_solve in": within(solve_in, lambda w: (X / (2 + w)).sum(0)),
    "checkpoint in": within(weft.checkpoint(lambda x, w: wnp.sin(x * w).sum(0))),
    "vmap in": within(lambda x, w: weft.vmap(lambda r: wnp.sin(r * w))(x).sum(0)),
    "associative_scan in": within(
        lambda x, w: lax.associative_scan(wnp.add, x * w, axis=1),
        lambda w: wnp.cumsum(X * w, 1),
        P("i"),
    ),
    "grad in": within(
        gradient_in, lambda w: weft.grad(lambda x: wnp.sin(x * w).sum())(wnp.asarray(X)), P("i")
    ),
}


def value(f):
    return f


def gradient(f):
    return weft.grad(lambda w: (f(w) ** 2).sum())


def second(f):
    return weft.grad(lambda w: (weft.grad(lambda w: (f(w) ** 3).sum())(w) ** 2).sum())


@pytest.mark.parametrize("order", [value, gradient, second], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CASES)
def test_equals_one_device(name, order, mesh):
    f, reference = CASES[name](mesh)
    want = np.asarray(order(reference)(W))
    close(order(f)(W), want, 1e-3, 1e-3)
    close(weft.jit(order(f))(W), want, 1e-3, 1e-3)
    with weft.simulate(mesh):
        close(order(f)(W), want, 1e-3, 1e-3)
        close(weft.jit(lambda w: order(f)(w))(W), want, 1e-3, 1e-3)


def test_a_simulated_mesh_needs_no_devices():
    mesh = AbstractMesh((512, 3), ("i", "j"))
    f = shard_map(
        lambda x: lax.pmean(x * lax.axis_index("j"), ("i", "j")),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P(),
    )
    x = np.arange(1024.0, dtype=np.float32)
    with weft.simulate(mesh):
        np.testing.assert_allclose(f(x), x.reshape(512, 2).mean(0), rtol=1e-6)
    with pytest.raises(ValueError, match="no devices to run on"):
        f(x)


def test_a_simulated_program_is_refused_like_another():
    mesh = weft.make_mesh((8,), ("i",))
    f = shard_map(lambda x: x, mesh=mesh, in_specs=P("i"), out_specs=P())
    with weft.simulate(), pytest.raises(weft.errors.AxisError, match="may differ"):
        f(X)


def test_what_is_jitted_before_is_not_what_is_simulated(mesh):
    f = weft.jit(shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    assert len(f(X).devices()) == 8
    with weft.simulate(mesh):
        assert len(f(X).devices()) == 1
    assert len(f(X).devices()) == 8


def test_casts_are_listed_with_their_lines(mesh):
    def body(x, w):
        scaled = x * w
        return lax.psum(scaled + w, "i")

    f = shard_map(body, mesh=mesh, in_specs=(P("i"), P()), out_specs=P())
    (cast,) = weft.debug.casts(f)(X, W)
    assert (str(cast.type), cast.axes) == ("f32[6]", ("i",))
    assert "test_shard_map_composition.py" in cast.line
    f = shard_map(lambda x: x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    assert weft.debug.casts(f)(X) == []


def test_what_is_broadcast_is_summed_before_it_is_communicated(mesh):
    """One all-reduce of each parameter, in its own shape, however often it is used."""

    def body(x, w, b):
        y = x * w + b
        return lax.psum((y * w + b + w.reshape(2, 3).reshape(6)).sum(), "i")

    def reference(x, w, b):
        return ((x * w + b) * w + b + w).sum()

    f = shard_map(body, mesh=mesh, in_specs=(P("i"), P(), P()), out_specs=P())
    jaxpr = weft.make_jaxpr(weft.grad(f, argnums=(1, 2)))(X, W, W).jaxpr
    backward = jaxpr.eqns[-1].params["jaxpr"]
    sums = [eqn.inputs[0].type for eqn in backward.eqns if eqn.primitive.name == "psum"]
    assert [str(of) for of in sums] == ["f32[6]{i}"] * 2
    for got, want in zip(
        weft.grad(f, argnums=(1, 2))(X, W, W),
        weft.grad(reference, argnums=(1, 2))(X, W, W),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_blocks_are_printed_inside_other_transformations(mesh, capsys):
    def body(x):
        print(x)
        return lax.psum(x * x, "i")

    f = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    x = np.arange(4.0, dtype=np.float32)
    for g in (
        weft.grad(lambda x: f(x).sum()),
        lambda x: weft.jvp(f, (x,), (x,)),
        lambda x: weft.vmap(f)(np.stack([x, x])),
    ):
        g(x)
        text = capsys.readouterr().out
        assert text.startswith("Traced<f32[1]{i}>")
        assert [f"i={i}: " in text for i in range(4)] == [True] * 4


def test_hidden_values_under_other_transformations(mesh):
    f, reference = hidden("__call__")(mesh)
    ws = np.stack([W, 2 * W])
    np.testing.assert_allclose(weft.vmap(f)(ws), weft.vmap(reference)(ws), rtol=1e-5, atol=1e-6)
    for got, want in zip(weft.jvp(f, (W,), (W,)), weft.jvp(reference, (W,), (W,)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weft.hessian(f)(W), weft.hessian(reference)(W), rtol=1e-4, atol=1e-4)


def test_a_hidden_value_may_be_the_result(mesh):
    class Box:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return self.w

    def f(w):
        return shard_map(Box(w), mesh=mesh, in_specs=P("i"), out_specs=P())(X)

    np.testing.assert_allclose(weft.grad(lambda w: (f(w) ** 2).sum())(W), 2 * W)
