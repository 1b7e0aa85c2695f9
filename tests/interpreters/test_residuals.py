"""Residuals: the least bytes are kept, never more than JAX keeps, and derivatives stay the same."""

from __future__ import annotations

import itertools
import json
import pathlib
from types import SimpleNamespace

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from residual_layers import LENGTH, Layer, all_layers, layers, loss_of
from weft import lax, nn
from weft.core.jaxpr import Equation, Jaxpr, Var, eval_jaxpr
from weft.core.types import ArrayType
from weft.interpreters import residuals
from weft.interpreters.linearize import linearize_jaxpr
from weft.ops.elementwise.arithmetic import add_p, exp_p, neg_p, tanh_p
from weft.scipy import special

NAMES = SimpleNamespace(jnp=jnp, nn=nn, lax=lax, random=weft.random, special=special)
DATA = pathlib.Path(__file__).resolve().parents[2] / "tools" / "data" / "residual_bytes.json"
RECORDED = json.loads(DATA.read_text())["bytes"]


def cases():
    return {name: layer for name, layer in all_layers().items() if name in RECORDED}


def kept_bytes(layer):
    loss = loss_of(layer, NAMES)
    struct = weft.ShapeDtypeStruct
    parameters = {k: struct((LENGTH, *v), "float32") for k, v in layer.parameters.items()}
    jaxpr = weft.make_jaxpr(weft.grad(loss, (0, 1)))(parameters, struct(layer.shape, "float32"))
    first = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
    kept = first.outputs[first.params["num_carry"] :]
    return sum(v.type.size * v.type.dtype.itemsize for v in kept) // LENGTH


@pytest.mark.parametrize("name", cases())
def test_never_more_than_jax(name):
    assert kept_bytes(cases()[name]) <= RECORDED[name]


# What is constant inside a jitted function is not known to be so outside.
CONSTANT_INSIDE = {"rotary positions", "dropout"}


@pytest.mark.parametrize("name", sorted(cases().keys() - CONSTANT_INSIDE))
def test_never_more_than_jax_where_layers_are_jitted(name):
    layer = cases()[name]

    def jitted(names, x, **parameters):
        return weft.jit(lambda x, own: layer.apply(names, x, **own))(x, parameters)

    assert kept_bytes(layer._replace(apply=jitted)) <= RECORDED[name]


def test_branches_keep_no_more_than_what_they_compute():
    branch = Layer(
        lambda names, x: lax.cond(jnp.sum(x) > 0, names.nn.relu, names.jnp.abs, x), (8, 64), {}
    )
    assert kept_bytes(branch) <= RECORDED["nn.relu"] + RECORDED["jnp.abs"] + 1


def test_most_layers_keep_less_than_jax():
    ours = {name: kept_bytes(layer) for name, layer in layers().items()}
    less = [name for name, kept in ours.items() if kept < RECORDED[name]]
    assert len(less) >= 20, less


@pytest.mark.parametrize("name", layers())
def test_gradients_of_scans_are_those_of_unrolled_loops(name):
    layer = layers()[name]
    draw = np.random.default_rng(0)
    parameters = {
        k: draw.normal(size=(LENGTH, *v)).astype(np.float32) / 8
        for k, v in layer.parameters.items()
    }
    x, weights = (draw.normal(size=layer.shape).astype(np.float32) for _ in range(2))

    def unrolled(parameters, x):
        for i in range(LENGTH):
            x = layer.apply(NAMES, x, **{k: v[i] for k, v in parameters.items()})
        return jnp.sum(weights * x)

    found = weft.jit(weft.grad(loss_of(layer, NAMES, weights), (0, 1)))(parameters, x)
    wanted = weft.jit(weft.grad(unrolled, (0, 1)))(parameters, x)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(wanted), strict=True):
        scale = float(np.max(np.abs(b))) + 1e-6
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * scale)


# ---- the cut itself ----------------------------------------------------------------------------

sizes = st.integers(1, 9)


@st.composite
def graphs(draw):
    """Values of various sizes, each of one or two earlier ones at a cost or cheaply, with those
    that are wanted and those that exist anyway."""
    count = draw(st.integers(2, 9))
    values = [Var(ArrayType((draw(sizes),), np.int8)) for _ in range(count)]
    makers = {}
    for i in range(1, count):
        if draw(st.booleans()):
            operands = [values[draw(st.integers(0, i - 1))] for _ in range(draw(st.integers(1, 2)))]
            makers[values[i]] = Equation(neg_p, operands, {}, [values[i]])
    wanted = [v for v in values if draw(st.booleans())] or [values[-1]]
    free = {v for v in values if draw(st.integers(0, 4)) == 0}
    return values, makers, [v for v in wanted if v not in free], free


def weight(kept):
    return sum(v.type.size + 1 for v in kept)


def computable(values, makers, available):
    known = set(available)
    for v in values:
        if v in makers and all(x in known for x in makers[v].inputs):
            known.add(v)
    return known


@hypothesis.given(graphs())
def test_the_cut_is_as_small_as_the_best_of_all_choices(graph):
    values, makers, wanted, free = graph
    kept = residuals._minimum_cut(wanted, makers, free)
    assert set(wanted) <= computable(values, makers, kept | free)
    best = min(
        weight(chosen)
        for n in range(len(values) + 1)
        for chosen in itertools.combinations(values, n)
        if set(wanted) <= computable(values, makers, {*chosen, *free})
    )
    assert weight(kept) == best


def test_the_work_is_linear_in_the_length_of_a_chain(monkeypatch):
    """A long chain of cheap and costly steps, each of which wants a residual."""

    def work(length):
        x = first = Var(ArrayType((8,), np.float32))
        eqns = []
        for i in range(length):
            primitive, operands = (tanh_p, [x]) if i % 3 else (add_p, [x, first])
            eqns.append(Equation(primitive, operands, {}, [Var(x.type)]))
            x = eqns[-1].outputs[0]
        makers = {e.outputs[0]: e for e in eqns if e.primitive is add_p}
        count = 0
        original = residuals._Network._push

        def counting(self, *args):
            nonlocal count
            count += 1
            return original(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(residuals._Network, "_push", counting)
            residuals._minimum_cut([e.outputs[0] for e in eqns], makers, {first})
        return count

    assert work(3000) <= 11 * work(300)


def test_equal_values_are_kept_once():
    def f(x):
        return jnp.sin(x) * jnp.exp(x) + jnp.cos(x) * jnp.exp(x)

    jaxpr = weft.make_jaxpr(f)(jnp.ones(3)).jaxpr
    plain = linearize_jaxpr(jaxpr, (True,))
    sparing = residuals.linearize_sparing(jaxpr, (True,))
    assert len(sparing.residual_sources) < len(plain.residual_sources)
    x, t = np.float32([0.1, 0.2, 0.3]), np.float32([1.0, 2.0, 3.0])
    for split in (plain, sparing):
        outs = eval_jaxpr(split.primal, (), x)
        (found,) = eval_jaxpr(split.linear, (), *split.residuals([x], outs), t)
        wide = np.float64(x)
        wanted = t * (
            np.cos(wide) * np.exp(wide) + np.sin(wide) * np.exp(wide)
            - np.sin(wide) * np.exp(wide) + np.cos(wide) * np.exp(wide)
        )  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_result_that_is_a_residual_exists_already():
    x = Var(ArrayType((3,), np.float32))
    y = Var(x.type)
    jaxpr = Jaxpr([x], [Equation(exp_p, [x], {}, [y])], [y])
    assert residuals.linearize_sparing(jaxpr, (True,)).residual_sources == [("output", 0)]
