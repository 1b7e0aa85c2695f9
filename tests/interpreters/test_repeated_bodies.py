"""Bodies that are compiled once: which are found, what is called, and that values stay the same."""

import os
import re

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from processes import python_output
from weft import config, lax
from weft.core.jaxpr import Var
from weft.experimental.xla_metadata import set_xla_metadata
from weft.interpreters import repeated_bodies
from weft.interpreters.repeated_bodies import body_p, tokens_of, with_called_bodies
from weft.layout import Format, Layout
from weft.lowering import called_bodies
from weft.lowering.called_bodies import REPEATS
from weft.sharding import NamedSharding, P, SingleDeviceSharding

WIDTH = 4


@pytest.fixture(autouse=True)
def small_bodies(monkeypatch):
    """Bodies of the size of these tests are worth calling."""
    monkeypatch.setattr(called_bodies, "LEAST", called_bodies.Size(12, 2, 0))


def weights(layers, seed=0):
    rng = np.random.default_rng(seed)
    shape = (WIDTH, WIDTH)
    return [
        [rng.normal(size=shape).astype(np.float32) / 2 for _ in range(2)] for _ in range(layers)
    ]


def layer(x, pair):
    h = x - jnp.mean(x, axis=-1, keepdims=True)
    h = h / jnp.sqrt(jnp.mean(h * h, axis=-1, keepdims=True) + 1e-3)
    h = jnp.tanh(h @ pair[0]) * 0.5 + h
    return x + jnp.maximum(h @ pair[1], 0.0) * 0.25


def network(step=layer):
    def loss(pairs, x):
        for pair in pairs:
            x = step(x, pair)
        return jnp.sum(x * x)

    return loss


X = np.random.default_rng(9).normal(size=(3, WIDTH)).astype(np.float32)


def calls_in(lowered):
    """(calls that are not inlined, functions that they call)."""
    found = re.findall(r'call @(\w+)\(.*inlineable = "false"', lowered.as_text())
    return len(found), len(set(found))


def results(function, setting, *args):
    with config.override(repeated_bodies=setting):
        return weft.tree.leaves(weft.jit(function)(*args))


def test_layers_of_a_python_loop_become_calls_of_one_function_forward_and_backward():
    assert calls_in(weft.jit(network()).lower(weights(6), X)) == (6, 1)
    calls, functions = calls_in(weft.jit(weft.grad(network())).lower(weights(6), X))
    assert functions == 2 and calls >= 10


def test_functions_that_are_called_often_are_compiled_once():
    step = weft.jit(layer)
    gradient = weft.jit(weft.grad(network(step)))
    # Those of the first layer, whose operand has no tangent, are functions of their own.
    assert calls_in(gradient.lower(weights(5), X)) == (8, 2)
    assert calls_in(weft.jit(network(step)).lower(weights(REPEATS - 1), X)) == (0, 0)
    with config.override(repeated_bodies="inline"):
        assert calls_in(gradient.lower(weights(5), X)) == (0, 0)


def test_small_bodies_and_those_with_convolutions_are_inlined(monkeypatch):
    def filtered(x, pair):
        kernel = pair[0][None, None, :3, 0]
        return layer(x, pair) + lax.conv(x[:, None], kernel[:, :, :3], (1,), "SAME")[:, 0]

    assert calls_in(weft.jit(network(filtered)).lower(weights(5), X)) == (0, 0)
    monkeypatch.setattr(called_bodies, "LEAST", called_bodies.Size(48, 2, 0))
    assert calls_in(weft.jit(network()).lower(weights(5), X)) == (0, 0)
    assert calls_in(weft.jit(network(weft.jit(layer))).lower(weights(5), X)) == (0, 0)


def test_other_platforms_layouts_and_several_devices_have_no_bodies():
    pairs = weights(5)
    traced = weft.jit(weft.grad(network())).trace(pairs, X)
    assert "repeated_body" in traced.lower().as_text()
    assert "repeated_body" not in traced.lower(lowering_platforms="cuda").as_text()
    columns = weft.device_put(X, Format(Layout((1, 0)), SingleDeviceSharding(weft.devices()[0])))
    assert "repeated_body" not in weft.jit(network()).lower(pairs, columns).as_text()
    mesh = weft.make_mesh((8,), ("i",))
    spread = weft.device_put(np.ones((8, WIDTH), np.float32), NamedSharding(mesh, P("i")))
    assert "repeated_body" not in weft.jit(network()).lower(pairs, spread).as_text()


def test_a_function_without_products_is_inlined():
    wave = weft.jit(lambda x: jnp.sin(x) * jnp.cos(x) + jnp.exp(-x * x))
    lowered = weft.jit(lambda x: wave(wave(wave(wave(x))))).lower(X)
    assert calls_in(lowered) == (0, 0)


@pytest.mark.parametrize(
    "transformed",
    [
        network(),
        network(weft.jit(layer)),
        weft.value_and_grad(network()),
        weft.value_and_grad(network(weft.jit(layer))),
        weft.value_and_grad(network(weft.checkpoint(layer))),
        weft.vmap(weft.grad(network()), in_axes=(None, 0)),
        weft.hessian(network(weft.jit(layer)), argnums=1),
        lambda pairs, x: lax.scan(lambda c, _: (c + network()(pairs, c), None), x, None, length=3),
    ],
)
def test_values_are_those_of_the_inlined_program(transformed):
    pairs = weights(4)
    plain = results(transformed, "inline", pairs, X)
    for a, b in zip(results(transformed, "call", pairs, X), plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_the_setting_is_part_of_the_key_of_programs():
    function = weft.jit(network())
    pairs = weights(4)
    function(pairs, X)
    with config.override(repeated_bodies="inline"):
        function(pairs, X)
    assert function._cache_size() == 2


def test_effects_stay_outside():
    seen = []

    def noting(x, pair):
        weft.debug.callback(lambda value: seen.append(float(value)), pair[0][0, 0], ordered=True)
        return layer(x, pair)

    pairs = weights(4)
    for step in (noting, weft.jit(noting)):
        weft.block_until_ready(weft.jit(network(step))(pairs, X))
        weft.effects_barrier()
        assert seen == [float(pair[0][0, 0]) for pair in pairs]
        seen.clear()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x + 0.0, lambda x: x + -0.0),
        (lambda x: x * 2.0, lambda x: x * 3.0),
        (lambda x: jnp.sum(x, axis=0), lambda x: jnp.sum(x, axis=1)),
        (lambda x: x.astype(jnp.float16), lambda x: x.astype(jnp.bfloat16)),
        (lambda x: lax.cumsum(x, reverse=True), lambda x: lax.cumsum(x, reverse=False)),
    ],
)
def test_equations_that_differ_in_anything_have_tokens_of_their_own(first, second):
    eqns = [weft.make_jaxpr(f)(X[:, :3]).jaxpr.eqns[-1] for f in (first, second, first)]
    a, b, c = tokens_of(eqns)
    assert a == c != b


def test_metadata_for_xla_is_part_of_an_equation():
    def marked(x, value):
        with set_xla_metadata(kind=value):
            return lax.sin(x)

    eqns = [weft.make_jaxpr(marked, static_argnums=1)(X, kind).jaxpr.eqns[-1] for kind in "aba"]
    a, b, c = tokens_of([*eqns, *weft.make_jaxpr(lax.sin)(X).jaxpr.eqns])[:3]
    assert a == c != b


@hypothesis.given(st.lists(st.integers(0, 5), min_size=3, max_size=9), st.integers(0, 2**16))
@hypothesis.settings(max_examples=15)
def test_random_loops_of_layers_that_differ_a_little(kinds, seed):
    """Layers that are wired in several ways: another operand, number, order, or older values."""
    pairs = weights(len(kinds), seed)

    def program(pairs, x):
        older = x
        for kind, (a, b) in zip(kinds, pairs, strict=True):
            new = layer(x, (b, a) if kind == 1 else (a, b))
            if kind == 2:
                new = new * 0.5
            if kind == 3:
                new = layer(older, (a, b)) + 0.1 * x
            if kind == 4:
                new = layer(x, (a, a))
            x, older = new, x
        return x, older

    plain = results(program, "inline", pairs, X)
    for a, b in zip(results(program, "call", pairs, X), plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_the_backward_pass_reads_the_least_of_what_the_forward_pass_computes():
    """As many residuals for each layer as for a jitted function, and all are there when read."""
    jaxpr = weft.make_jaxpr(weft.grad(network()))(weights(6), X).jaxpr
    called = with_called_bodies(jaxpr)
    bodies = [eqn for eqn in called.eqns if eqn.primitive is body_p]
    functions = list(dict.fromkeys(eqn.params["jaxpr"] for eqn in bodies))
    assert len(functions) == 2
    assert called.inputs == jaxpr.inputs and called.outputs == jaxpr.outputs
    known = set(called.inputs)
    for eqn in called.eqns:
        assert known.issuperset(atom for atom in eqn.inputs if isinstance(atom, Var))
        known.update(eqn.outputs)
    jitted = weft.make_jaxpr(weft.grad(network(weft.jit(layer))))(weights(6), X).jaxpr
    inner = [eqn.params["jaxpr"] for eqn in jitted.eqns if eqn.primitive.name == "jit"]
    widest = max(len(one.outputs) for one in inner)
    assert len(functions[0].outputs) <= widest + 1


# ---- programs that are too long for the compiler -----------------------------------------------


def long_program(x):
    """Some 300 equations that do not repeat, some with effects, some held by a jitted function."""
    rng = np.random.default_rng(4)
    inner = weft.jit(lambda x: jnp.sin(x) * jnp.cos(x) + 0.5)
    first = x
    for i, c in enumerate(rng.uniform(0.8, 1.2, 90)):
        x = (jnp.sin(x) * c, x * c - x * x * 0.125, inner(x) + 0.25 * first)[i % 3]
        if i == 40:
            weft.debug.callback(lambda _: None, x)
    return x, first + x


def test_a_long_program_is_cut_into_calls_that_compute_the_same(monkeypatch):
    monkeypatch.setattr(repeated_bodies, "LONGEST", 60)
    monkeypatch.setattr(repeated_bodies, "PIECE", 20)
    monkeypatch.setattr(repeated_bodies, "CROSSING", 6)
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    calls, functions = calls_in(weft.jit(long_program).lower(x))
    assert calls >= 5 and functions >= 5
    assert calls_in(weft.jit(lambda x: long_program(x)[0]).lower(x))[0] >= 5
    for function in (
        long_program,
        lambda x: weft.jvp(long_program, (x,), (x,)),
        weft.grad(lambda x: jnp.sum(long_program(x)[1])),
        weft.vmap(long_program),
    ):
        for one, other in zip(
            results(function, "call", x), results(function, "inline", x), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=2e-6)


def test_a_chain_that_overflows_the_stack_of_the_compiler_compiles():
    code = """
import numpy as np, weft, weft.numpy as jnp
def chain(x, sin):
    for _ in range(26_000):
        x = sin(x)
    return x
found = weft.jit(lambda x: chain(x, jnp.sin))(jnp.ones(()))
np.testing.assert_allclose(found, chain(np.float64(1), np.sin), rtol=1e-5)
"""
    environment = {**os.environ, "WEFT_CACHE_DIR": "", "WEFT_COMPILE_EFFORT": "full"}
    for name in ("WEFT_NUM_CPU_DEVICES", "XLA_FLAGS"):
        environment.pop(name, None)
    python_output("-c", code, env=environment)
