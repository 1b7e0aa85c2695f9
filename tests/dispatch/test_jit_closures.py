"""Jitted functions that close over values being differentiated, mapped, staged or split among
devices: they are compiled once, also where they are made anew at every call."""

from __future__ import annotations

import copy
import functools
import gc
import logging
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_after_sums as close
from compilations import counted_compilations
from weft import lax, shard_map
from weft.errors import ConcretizationError, LeakedTracerError, WeftTypeError, WeftValueError
from weft.sharding import PartitionSpec as P
from weft.sharding import SingleDeviceSharding

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

X = np.array([0.3, -0.7, 1.1], np.float32)
traced: list[str] = []


@pytest.fixture
def compiled(monkeypatch):
    """One entry for each program that has been compiled."""
    return counted_compilations(monkeypatch)


def numbers(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


# ---- equal functions share traces and compiled programs ----------------------------------------


def multiply(v):
    """c * v, by a jitted function that is made anew and closes over v."""

    def product(c):
        traced.append("product")
        return c * v

    return weft.jit(product)


def in_a_gradient(x):
    return weft.grad(lambda v: multiply(v)(v).sum())(x)


def in_a_block(x):
    mesh = weft.make_mesh((8,), ("i",))
    body = shard_map(lambda v: multiply(v)(v + 1), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return body(wnp.tile(x, 8))[: x.size]


def in_a_gradient_of_a_block(x):
    mesh = weft.make_mesh((8,), ("i",))
    body = shard_map(lambda v: multiply(v)(v), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return weft.grad(lambda v: body(v).sum())(wnp.tile(x, 8))[: x.size]


def in_a_second_derivative(x):
    def f(v):
        return multiply(v * v)(v).sum()

    return weft.grad(lambda v: weft.grad(f)(v).sum())(x)


def in_forward_mode(x):
    return weft.jvp(lambda v: multiply(v)(v), (x,), (wnp.ones_like(x),))[1]


def in_a_linearized_function(x):
    return weft.linearize(lambda v: multiply(v)(v), x)[1](wnp.ones_like(x))


def in_a_map(x):
    return weft.vmap(lambda v: multiply(v)(v))(x)


def in_a_map_of_a_gradient(x):
    return weft.vmap(weft.grad(lambda v: multiply(v)(v)))(x)


def in_a_loop(x):
    def f(v):
        return lax.scan(lambda c, _: (multiply(v)(c), None), v, None, length=2)[0].sum()

    return weft.grad(f)(x)


def in_another(x):
    """The inner function closes over the value that the outer one closes over."""

    def f(v):
        return weft.jit(lambda c: multiply(v)(c) * v)(v).sum()

    return weft.grad(f)(x)


def around_another(x):
    """The outer function closes over an inner one, which closes over the value."""

    def f(v):
        inner = multiply(v)
        return weft.jit(lambda c: inner(c) + 1.0)(v).sum()

    return weft.grad(f)(x)


def with_a_static_function(x):
    def f(v):
        def apply(g, c):
            traced.append("apply")
            return g(c)

        return weft.jit(apply, static_argnums=0)(lambda c: c * v, v).sum()

    return weft.grad(f)(x)


def with_a_named_static_function(x):
    def f(v):
        outer = weft.jit(lambda c, *, g: g(c) * v, static_argnames="g")
        return outer(v, g=functools.partial(lambda w, c: w + c, v)).sum()

    return weft.grad(f)(x)


def over_a_tree(x):
    def f(params):
        return weft.jit(lambda c: c * params["w"] + params["b"][0])(params["w"]).sum()

    found = weft.grad(f)({"w": x, "b": [wnp.ones_like(x), None]})
    return found["w"] + found["b"][0]


def over_a_value_that_is_not_read(x):
    def f(v):
        held = (v, v * 3)
        return weft.jit(lambda c: c * held[0])(v).sum()

    return weft.grad(f)(x)


def inlined(x):
    def f(v):
        return weft.jit(lambda c: (traced.append("inline"), c * v)[1], inline=True)(v).sum()

    return weft.grad(f)(x)


def donating(x):
    def f(v):
        return weft.jit(lambda c, d: c * v + d, donate_argnums=0)(v * 1, v).sum()

    return weft.grad(f)(x)


def with_shardings(x):
    place = SingleDeviceSharding(weft.devices()[0])

    def f(v):
        def product(c):
            traced.append("placed")
            return c * v

        return weft.jit(product, in_shardings=place, out_shardings=place)(v).sum()

    return weft.grad(f)(x)


def around_one_with_shardings(x):
    place = SingleDeviceSharding(weft.devices()[0])

    def f(v):
        inner = weft.jit(lambda c: c * v, in_shardings=place, out_shardings=place)
        return weft.jit(lambda c: (traced.append("outer"), inner(c))[1])(v).sum()

    return weft.grad(f)(x)


PROGRAMS = {
    in_a_gradient: lambda x: 2 * x,
    in_a_block: lambda x: x * (x + 1),
    in_a_gradient_of_a_block: lambda x: 2 * x,
    in_a_second_derivative: lambda x: 6 * x,
    in_forward_mode: lambda x: 2 * x,
    in_a_linearized_function: lambda x: 2 * x,
    in_a_map: lambda x: x * x,
    in_a_map_of_a_gradient: lambda x: 2 * x,
    in_a_loop: lambda x: 3 * x * x,
    in_another: lambda x: 3 * x * x,
    around_another: lambda x: 2 * x,
    with_a_static_function: lambda x: 2 * x,
    with_a_named_static_function: lambda x: 4 * x,
    over_a_tree: lambda x: 2 * x + 1,
    over_a_value_that_is_not_read: lambda x: 2 * x,
    inlined: lambda x: 2 * x,
    donating: lambda x: 2 * x + 1,
    with_shardings: lambda x: 2 * x,
    around_one_with_shardings: lambda x: 2 * x,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_second_call_compiles_nothing(program, compiled):
    wanted = PROGRAMS[program]
    close(program(wnp.asarray(X)), wanted(X))
    compiled.clear()
    other = numbers(3, seed=1)
    close(program(wnp.asarray(other)), wanted(other))  # of the new values, not of the first
    assert compiled == []


def test_the_counters_count(compiled):
    traced.clear()
    in_a_gradient(wnp.asarray(numbers(37)))
    assert traced == ["product"]
    assert compiled


def test_what_the_trace_depends_on():
    """Types and number of the closed-over values, and what else the function closes over."""

    def f(k, *vs):
        def total(c):
            for v in vs:
                c = c * v
            return k * c

        return weft.jit(total)(2.0).sum()

    for _ in range(2):
        close(weft.grad(f, 1)(3.0, X), np.full(3, 6.0))
        close(weft.grad(f, 1)(3.0, np.float32(1.0)), 6.0)
        close(weft.grad(f, 1)(3.0, X, X), 6.0 * X)
        close(weft.grad(lambda v: f(5.0, v))(X), np.full(3, 10.0))
        close(weft.grad(lambda v: f(7.0, v))(X), np.full(3, 14.0))
        # Which of two values stands where: one twice, or each once.
        close(weft.grad(lambda v, w: f(1.0, v, v, w))(X, X + 1), 4 * X * (X + 1))
        close(weft.grad(lambda v, w: f(1.0, v, w, w))(X, X + 1), 2 * (X + 1) ** 2)


def test_one_function_reads_what_it_closes_over_at_each_call():
    def f(v):
        factor = v

        def product(c):
            return c * factor

        product = weft.jit(product)
        first = product(v)  # v v
        factor = v * v
        return (first + product(v)).sum()  # + v v v

    close(weft.grad(f)(X), 2 * X + 3 * X * X)


def test_derivatives_of_all_orders_and_both_modes():
    def f(v):
        return weft.jit(lambda c: wnp.sin(c) * v)(v * v)  # v sin(v v)

    x = 0.7
    s, c = np.sin(x * x), np.cos(x * x)
    first = s + 2 * x * x * c
    second = 6 * x * c - 4 * x**3 * s
    forward = lambda g: lambda x: weft.jvp(g, (x,), (1.0,))[1]  # noqa: E731
    for one in (weft.grad, forward):
        close(one(f)(x), first)
        close(weft.jit(one(f))(x), first)
        for two in (weft.grad, forward):
            close(two(one(f))(x), second)
            close(weft.vmap(two(one(f)))(wnp.full(2, x)), [second, second])
    weft.testing.check_grads(f, (np.float64(x),), order=2)


def test_a_map_of_some_closed_over_values():
    def f(v, w):
        return weft.jit(lambda c: c * v + w)(w)

    v, w = numbers(3, 1), numbers(4, 2)
    wanted = w[None] * v[:, None] + w[None]
    found = weft.vmap(weft.vmap(f, (None, 0)), (0, None))(v, w)
    close(found, wanted)
    close(weft.vmap(weft.vmap(f, (0, None)), (None, 0), 1)(v, w), wanted)
    close(weft.vmap(weft.grad(f), (0, None))(v, np.float32(3.0)), np.full(3, 3.0))


def test_a_collective_of_a_closed_over_block():
    mesh = weft.make_mesh((8,), ("i",))
    x = numbers(8)

    def body(v):
        return weft.jit(lambda c: lax.psum(v * c, "i"))(v)

    total = shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    close(total(x), [(x * x).sum()])
    close(weft.grad(lambda x: total(x).sum())(x), 2 * x)
    close(weft.jit(weft.grad(lambda x: total(x).sum()))(x), 2 * x)


# ---- types, options, messages ------------------------------------------------------------------


def test_weak_types_are_kept():
    def result(v):
        found = []
        weft.grad(lambda v: found.append(multiply(v)(1.0)) or v)(v)
        return found[0].weak_type, found[0].dtype

    for _ in range(2):
        assert result(2.0) == (True, np.float32)
        assert result(np.float32(2.0)) == (False, np.float32)
    assert multiply(2.0)(1.0).weak_type


def test_closed_over_integers_have_no_derivative():
    def f(v, n):
        return weft.jit(lambda c: c[n] * v[n])(v)

    close(weft.grad(lambda v: weft.vmap(f, (None, 0))(v, np.arange(3)).sum())(X), 2 * X)


def test_donated_arguments_stay_donated():
    """In the programs; closed-over values, which come before the arguments, are not."""

    def f(v, x):
        return weft.jit(lambda c, d: c * v + d, donate_argnums=1)(x, x * 2)

    (eqn,) = [
        eqn
        for eqn in weft.make_jaxpr(f)(X, X).jaxpr.eqns
        if eqn.primitive.name == "jit" and any(eqn.params["donated"])
    ]
    assert eqn.params["donated"] == (False, False, True)
    assert [x.type.shape for x in eqn.inputs] == [(3,)] * 3
    close(f(X, X), X * X + 2 * X)


def test_the_program_counts_them_as_closed_over():
    def f(v):
        traced = weft.jit(lambda c: c * v).trace(2.0)
        assert traced.jaxpr.consts == [v] and traced.jaxpr.jaxpr.num_consts == 1
        assert len(traced.jaxpr.jaxpr.in_avals) == 1
        return weft.jit(lambda c: c * v)(3.0)

    assert float(weft.grad(f)(1.0)) == 3.0


def test_max_traces_counts_programs_not_calls():
    box = []
    inner = weft.jit(lambda x: x * box[0] * box[1], max_traces=2)

    def outer(v, k=1.0):
        box[:] = v, k
        return inner(2.0).sum()

    for value in (1.0, 2.0, 3.0):
        assert float(weft.grad(outer)(value)) == 2.0
    assert inner._cache_size() == 1
    close(weft.grad(outer)(X), np.full(3, 2.0))
    assert inner._cache_size() == 2
    with pytest.raises(WeftValueError, match="max_traces=2") as info:
        weft.grad(outer)(X[:2])
    assert "it closes over traced values [f32[2]] instead of [f32[" in info.value.got
    with pytest.raises(WeftValueError, match="max_traces=2") as info:
        weft.grad(outer)(X, 5.0)
    assert float(weft.grad(outer)(4.0)) == 2.0  # served by the first
    inner.clear_cache()
    assert inner._cache_size() == 0
    close(weft.grad(outer)(X[:2]), np.full(2, 2.0))


def test_clearing_the_cache_forgets_programs_over_traced_values():
    traced.clear()
    x = numbers(47)

    def f(v):
        product = multiply(v)
        found = product(v).sum()
        product.clear_cache()
        return found

    for _ in range(2):
        close(weft.grad(f)(x), 2 * x)
    assert len(traced) == 2


def test_retracing_is_explained(caplog):
    box = []

    def scaled(x, *, power=1):
        return x * box[0] ** power

    scaled = weft.jit(scaled, static_argnames="power")

    def outer(v, **options):
        box[:] = [v]
        return scaled(1.0, **options).sum()

    with caplog.at_level(logging.WARNING, "weft"), weft.config.override(explain_cache_misses=True):
        weft.grad(outer)(2.0)
        weft.grad(outer)(3.0)
        weft.grad(outer)(X)
        weft.grad(lambda v: outer(v, power=2))(X)
    lines = [r.message for r in caplog.records if "scaled" in r.message]
    assert len(lines) == 4 and "for the first time" in lines[0]
    assert "again: it closes over values of an enclosing transformation" in lines[1]
    assert "again: it closes over traced values [f32[3]] instead of" in lines[2]
    assert "again: the static argument power is 2, and was not given before" in lines[3]


def test_no_traced_value_is_kept_alive():
    inner = weft.jit(lambda g, x: g(x), static_argnums=0)
    found = []

    def outer(v):
        found.append(weakref.ref(v))
        return inner(lambda x: x * v, 2.0) + multiply(v)(2.0)

    assert float(weft.grad(outer)(1.0)) == 4.0
    gc.collect()
    assert found[0]() is None


def with_vjp(held):
    f = weft.custom_vjp(lambda x: (held, 2 * x)[1])
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (2 * ct,))
    return f


def with_jvp(held):
    f = weft.custom_jvp(lambda x: (held, 2 * x)[1])
    f.defjvps(lambda t, ans, x: 2 * t)
    return f


def with_vmap(held):
    f = weft.custom_batching.custom_vmap(lambda x: (held, 2 * x)[1])
    f.def_vmap(lambda size, mapped, x: (f(x), True))
    return f


@pytest.mark.parametrize("make", [with_vjp, with_jvp, with_vmap])
def test_a_jitted_function_with_rules_is_freed(make):
    """Its jaxprs refer to it, as a parameter of an equation."""

    def use():
        held = Held()
        f = make(held)
        assert float(weft.jit(f)(3.0)) == 6.0
        again = copy.copy(f)
        assert float(weft.jit(again)(4.0)) == 8.0 and again._traces is not f._traces
        calls = f._traces.calls
        weft.jit(f)(3.0)
        assert f._traces.calls is calls and len(calls) == 1
        return weakref.ref(held)

    freed = use()
    gc.collect()
    assert freed() is None
    kept = make(None)
    weft.jit(kept)(3.0)
    weft.clear_caches()
    assert not kept._traces and not kept._traces.calls


class Held:
    """An object that can be watched."""


def test_a_function_may_look_at_the_number_that_is_differentiated():
    def f(v):
        return weft.jit(lambda c: c * v if float(v) > 0 else c - v)(3.0)

    for _ in range(2):
        assert float(weft.grad(f)(2.0)) == 3.0 and float(weft.grad(f)(-2.0)) == -1.0


def test_errors_name_the_closed_over_value():
    def f(v):
        return weft.jit(lambda c: c if float(v) > 0 else -c)(v)

    with pytest.raises(ConcretizationError, match="under vmap") as info:
        weft.vmap(f)(X)
    assert info.value.__context__ is None or info.value.__suppress_context__
    with pytest.raises(WeftTypeError, match="jit of <lambda> returned a value that is no array"):
        weft.grad(lambda v: weft.jit(lambda c: (c * v, "text"))(v)[0])(1.0)
    kept = []
    weft.grad(lambda v: kept.append(v) or v)(1.0)
    with pytest.raises(LeakedTracerError):
        weft.grad(lambda v: multiply(kept[0])(v))(1.0)


def test_an_error_of_the_function_leaves_nothing_behind():
    def f(v, bad):
        def g(c):
            if bad:
                raise ZeroDivisionError("of the user")
            return c * v

        return weft.jit(g)(v)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="of the user"):
            weft.grad(f)(2.0, True)
        assert float(weft.grad(lambda v: f(v, False))(2.0)) == 4.0
