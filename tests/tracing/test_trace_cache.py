"""Functions made anew are not traced anew: the cache of traces, and `jit` and loops that use it."""

from __future__ import annotations

import contextvars
import datetime
import functools
import gc
import os
import random
import secrets
import threading
import time
import types
import uuid
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.types import ArrayType
from weft.errors import WeftTypeError, WeftValueError
from weft.interpreters.staging import trace_to_jaxpr
from weft.tracing.trace_cache import TraceCache, TracedBody, cached_trace

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

F32 = ArrayType((3,), np.float32)
X = np.arange(3, dtype=np.float32)


def traced_by(cache, function, parts=(), in_types=(F32,), values=()):
    """The trace of a function of arrays to an array, from the cache or new."""

    def trace():
        jaxpr, consts = trace_to_jaxpr(
            lambda *xs: [function(*xs)], in_types, transformation="test", name="f"
        )
        return TracedBody(jaxpr, consts, None)

    return cached_trace(cache, function, (*parts, *in_types), trace, values)


def run(traced, *args):
    return np.asarray(weft.core.jaxpr.eval_jaxpr(traced.jaxpr, traced.consts, *args)[0])


def test_a_function_made_anew_is_traced_once():
    cache = TraceCache()

    def make(k):
        return lambda x: x * k

    first = traced_by(cache, make(2.0))
    for _ in range(300):
        assert traced_by(cache, make(2.0)).jaxpr is first.jaxpr
    assert cache.counts() == (300, 1, 0)
    assert traced_by(cache, make(3.0)).jaxpr is not first.jaxpr
    assert traced_by(cache, make(2)).jaxpr is not first.jaxpr
    np.testing.assert_array_equal(run(traced_by(cache, make(3.0)), X), X * 3)


def test_parts_types_settings_axes_and_values_are_told_apart():
    cache = TraceCache()

    def again(**how):
        return traced_by(cache, lambda *xs: xs[0], **how).jaxpr

    first = again()
    assert again() is first
    others = [
        again(parts=("reverse",)),
        again(in_types=(F32.update(dtype=np.int32),)),
        again(in_types=(F32, F32)),
        again(values=([1],)),
        again(values=([1.0],)),
    ]
    with weft.config.override(default_matmul_precision="highest"):
        others.append(again())
    weft.vmap(lambda _: others.append(again()) or 0.0, axis_name="i")(X)
    assert len({id(jaxpr) for jaxpr in [first, *others]}) == 8
    assert again() is first


def test_closed_over_arrays_are_found_again():
    cache = TraceCache()
    array, other = jnp.ones(3), jnp.ones(3)

    def make(c):
        return lambda x: x + c

    first = traced_by(cache, make(array))
    second = traced_by(cache, make(array))
    assert second.jaxpr is first.jaxpr
    assert second.consts[0] is array
    third = traced_by(cache, make(other))
    assert third.consts[0] is other
    np.testing.assert_array_equal(run(second, X), X + 1)


def test_the_cache_keeps_no_closed_over_array_alive():
    cache = TraceCache()

    def use():
        array = jnp.ones(3)
        box = [jnp.zeros(3)]
        traced = traced_by(cache, lambda x: x + array + box[0])
        assert len(cache) == 1
        return weakref.ref(array), weakref.ref(box[0]), weakref.ref(traced.jaxpr)

    references = use()
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
    assert len(cache) == 0


def test_values_made_while_tracing_are_kept():
    cache = TraceCache()
    numbers = np.array([1.0, 2.0, 3.0], np.float32)

    def make():
        return lambda x: x + numbers

    traced_by(cache, make())
    gc.collect()
    found = traced_by(cache, make())
    assert cache.counts().hits == 1
    np.testing.assert_array_equal(run(found, X), X + [1, 2, 3])
    numbers[0] = 5
    np.testing.assert_array_equal(run(traced_by(cache, make()), X), X + [5, 2, 3])


def test_a_function_that_counts_its_traces():
    cache = TraceCache()
    # Counters are told apart while they live; one that takes a dead one's place is taken for it.
    alive = []

    def loop():
        calls, number = [], 0
        for _ in range(5):

            def body(x):
                nonlocal number
                calls.append(1)
                number += 1
                return x

            alive.append(body)
            traced_by(cache, body)
        return len(calls), number

    # Each loop has its own counters, and each counts.
    assert [loop(), loop(), loop()] == [(1, 1)] * 3


def test_a_function_that_changes_an_attribute_is_traced_each_time():
    # Another method may read it: what the next trace gives is not known.
    cache = TraceCache()

    class Model:
        def __init__(self):
            self.traces = 0

        def step(self, x):
            self.traces += 1
            return x

    for model in (Model(), Model()):
        for _ in range(5):
            traced_by(cache, model.step)
        assert model.traces == 5


def test_a_function_that_keeps_traced_values_is_traced_each_time():
    cache = TraceCache()
    kept = []

    def make():
        return lambda x: kept.append(x) or x

    for _ in range(3):
        kept.clear()
        traced_by(cache, make())
        assert len(kept) == 1


def test_traced_values_are_not_remembered():
    cache = TraceCache()
    box = {}

    def inner(x):
        return x * box["k"]

    def outer(k):
        box["k"] = k
        try:
            return weft.core.jaxpr.eval_jaxpr(*closed(traced_by(cache, inner)), jnp.array(X))[0]
        finally:
            del box["k"]

    def closed(traced):
        return traced.jaxpr, traced.consts

    for k in (2.0, 3.0):
        np.testing.assert_array_equal(weft.jit(outer)(k), X * k)
        np.testing.assert_array_equal(weft.jvp(outer, (k,), (1.0,))[1], X)
    assert len(cache) == 0


def stale_cases():
    numbers, table, array = [1.0, 2.0], {"k": 1.0}, np.ones(3, np.float32)
    layer, config = types.SimpleNamespace(k=1.0), types.ModuleType("config")
    config.k = 1.0
    variable = contextvars.ContextVar("k", default=1.0)
    names = {"config": config, "k": 1.0}
    exec("def of_module(x): return x * config.k\ndef of_global(x): return x * k", names)
    return {
        "list": (lambda x: x * numbers[0], lambda k: numbers.__setitem__(0, k)),
        "dict": (lambda x: x * table["k"], lambda k: table.update(k=k)),
        "array": (lambda x: x * array, lambda k: array.fill(k)),
        "object": (lambda x: x * layer.k, lambda k: setattr(layer, "k", k)),
        "module": (names["of_module"], lambda k: setattr(config, "k", k)),
        "global": (names["of_global"], lambda k: names.update(k=k)),
        "context": (lambda x: x * variable.get(), variable.set),
    }


@pytest.mark.parametrize("name", stale_cases())
def test_no_result_is_stale(name):
    cache = TraceCache()
    function, change = stale_cases()[name]

    def anew():
        return types.FunctionType(
            function.__code__, function.__globals__, "anew", None, function.__closure__
        )

    for k in (1.0, 2.0, 3.0, 1.0):
        change(k)
        for _ in range(2):
            np.testing.assert_array_equal(run(traced_by(cache, anew()), X), X * np.float32(k))
    assert cache.counts().hits >= 4


def test_the_least_recently_used_is_dropped():
    cache = TraceCache(limit=3)

    def make(k):
        return lambda x: x * k

    for k in (1, 2, 3, 1, 4):
        traced_by(cache, make(k))
    assert len(cache) == 3
    before = cache.counts()
    for k in (1, 3, 4):
        traced_by(cache, make(k))
    assert cache.counts().hits == before.hits + 3
    traced_by(cache, make(2))
    assert cache.counts().misses == before.misses + 1


def test_clearing_and_discarding():
    cache = TraceCache()
    first, second = (traced_by(cache, lambda x, k=k: x * k) for k in (1, 2))
    cache.discard([first])
    assert len(cache) == 1
    cache.clear()
    assert len(cache) == 0 and cache.counts() == (0, 0, 0)


def test_functions_without_a_key_and_parts_without_a_hash():
    cache = TraceCache()
    large = np.ones(2_000_000, np.float32)
    for _ in range(2):
        traced_by(cache, lambda x: x * large[0])
    assert cache.counts() == (0, 0, 2)
    traced_by(cache, lambda x: x, parts=([],))
    assert len(cache) == 0


def test_a_failing_trace_is_not_remembered():
    cache = TraceCache()

    def fails(x):
        raise KeyError("from the user's code")

    for _ in range(2):
        with pytest.raises(KeyError):
            traced_by(cache, fails)
    assert len(cache) == 0


def test_threads():
    cache = TraceCache(limit=8)
    arrays = [jnp.full(3, float(i)) for i in range(6)]
    wrong, start = [], threading.Barrier(4)

    def work(seed):
        start.wait()
        for i in np.random.default_rng(seed).integers(0, 6, 100):
            own = jnp.ones(3) if i == 5 else arrays[i]
            k = int(i) % 3
            traced = traced_by(cache, lambda x, own=own, k=k: x * k + own)
            want = X * k + np.asarray(own)
            if not np.array_equal(run(traced, X), want):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.counts().hits > 200
    del threads
    gc.collect()
    assert len(cache) <= 8


# ---- jit ---------------------------------------------------------------------------------------


def counted(make, times=300):
    """How often functions made anew are traced."""
    calls = []
    for _ in range(times):
        make(lambda: calls.append(1))
    return len(calls)


def test_jit_of_functions_made_anew():
    c = jnp.ones(3)

    def of_lambda(count):
        f = weft.jit(lambda x: (count(), x + c)[1])
        np.testing.assert_array_equal(f(X), X + 1)

    def of_partial(count):
        def scaled(k, x):
            count()
            return x * k

        np.testing.assert_array_equal(weft.jit(functools.partial(scaled, 2.0))(X), X * 2)

    def of_gradient(count):
        def loss(x):
            count()
            return jnp.sum(x * x)

        np.testing.assert_array_equal(weft.jit(weft.grad(loss))(X), 2 * X)

    def under_transformation(count):
        f = weft.jit(lambda x: (count(), jnp.sin(x))[1])
        np.testing.assert_allclose(weft.vmap(weft.grad(f))(X), np.cos(X), rtol=1e-6)

    for make in (of_lambda, of_partial, of_gradient, under_transformation):
        assert counted(make, 20) == 1
    assert counted(of_lambda) == 1


def test_jit_of_a_bound_method():
    class Model:
        def __init__(self):
            self.k = 2.0

        def step(self, x):
            traces.append(1)
            return x * self.k

    traces = []
    model = Model()
    for _ in range(10):
        np.testing.assert_array_equal(weft.jit(model.step)(X), X * 2)
    assert len(traces) == 1
    model.k = 3.0
    np.testing.assert_array_equal(weft.jit(model.step)(X), X * 3)
    np.testing.assert_array_equal(weft.jit(Model().step)(X), X * 2)


def test_jit_tells_options_static_arguments_and_closures_apart():
    def make(k, **options):
        return weft.jit(lambda x, n: (x * k, n), **options)

    for _ in range(2):
        for k in (1, 1.0, True):
            out, n = make(k, static_argnums=1)(X, 2)
            assert n.dtype == np.int32
            np.testing.assert_array_equal(out, X * k)
        assert make(1, static_argnums=1)(X, 2.0)[1].dtype == np.float32
        assert make(1, static_argnames="n")(X, n=True)[1].dtype == np.bool_
        assert make(1)(X, 2)[0].shape == (3,)


def test_a_nested_jit_made_anew_is_one_program():
    def outer(x):
        for _ in range(3):
            x = weft.jit(lambda y: jnp.sin(y) * 2.0)(x)
        return x

    jaxpr = weft.make_jaxpr(outer)(X).jaxpr
    programs = {id(eqn.params["jaxpr"]) for eqn in jaxpr.eqns}
    assert len(jaxpr.eqns) == 3 and len(programs) == 1


def test_an_array_that_jit_closed_over_dies_with_the_function():
    def use():
        c = jnp.ones(3)
        weft.jit(lambda x: x + c)(X)
        return weakref.ref(c)

    reference = use()
    gc.collect()
    assert reference() is None


def test_clear_cache_reaches_equal_functions():
    calls = []

    def make():
        return weft.jit(lambda x: (calls.append(1), x)[1])

    make()(X)
    f = make()
    f(X)
    assert len(calls) == 1
    f.clear_cache()
    make()(X)
    assert len(calls) == 2


# ---- max_traces --------------------------------------------------------------------------------


def test_one_trace_too_many_says_what_changed():
    @weft.jit(max_traces=2)
    def step(state, rate):
        return state["w"] * rate

    step({"w": X}, 1.0)
    step({"w": X}, 2.0)
    step({"w": X}, np.float32(1.0))
    with pytest.raises(WeftValueError, match="max_traces=2") as info:
        step({"w": np.zeros(4, np.float32)}, 1.0)
    assert "state['w'] is f32[4] instead of f32[3]" in info.value.got
    with pytest.raises(WeftValueError, match="max_traces=2") as info:
        step({"w": X, "b": 1.0}, 1.0)
    assert "state['b'] was not given before" in info.value.got
    # What was traced before still runs, under transformations too.
    np.testing.assert_array_equal(step({"w": X}, 3.0), X * 3)
    fixed = weft.jit(step._function, max_traces=info.value.fix.data["max_traces"])
    for arguments in (({"w": X}, 1.0), ({"w": X}, np.float32(1)), ({"w": X, "b": 1.0}, 1.0)):
        np.testing.assert_array_equal(fixed(*arguments), X)
    step.clear_cache()
    step({"w": np.zeros(4, np.float32)}, 1.0)


def test_max_traces_counts_what_equal_functions_traced():
    def make():
        return weft.jit(lambda x: x * 5, max_traces=1)

    for _ in range(2):
        f = make()
        f(X)
        with pytest.raises(WeftValueError):
            f(1)


def test_max_traces_counts_traces_that_cannot_be_remembered():
    class Box:  # An attribute, which is not searched for traced values.
        k = None

    box = Box()
    inner = weft.jit(lambda x: x * box.k, max_traces=2)

    def outer(k):
        box.k = k
        return inner(3.0)

    assert float(weft.grad(outer)(1.0)) == 3.0
    assert float(weft.grad(outer)(2.0)) == 3.0
    with pytest.raises(WeftValueError, match="max_traces") as info:
        weft.grad(outer)(2.0)
    assert "enclosing transformation" in info.value.got


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, WeftValueError), (-1, WeftValueError), (1.0, WeftTypeError), (True, WeftTypeError)],
)
def test_max_traces_takes_a_number_of_traces(value, error):
    with pytest.raises(error) as info:
        weft.jit(lambda x: x, max_traces=value)
    weft.jit(lambda x: x, **info.value.fix.data)(1.0)


# ---- loops -------------------------------------------------------------------------------------


def test_loop_bodies_made_anew():
    xs = jnp.ones((4, 3))
    k = 2.0

    def scanned(count):
        out, _ = lax.scan(lambda c, x: (count(), (c + x * k, None))[1], jnp.zeros(3), xs)
        np.testing.assert_array_equal(out, np.full(3, 8.0))

    def repeated(count):
        out = lax.while_loop(lambda c: c < 10.0, lambda c: (count(), c * k)[1], 1.0)
        assert float(out) == 16.0

    assert counted(scanned) == 1
    assert counted(repeated, 20) == 1


def test_loop_bodies_over_changing_values():
    xs = jnp.ones((4, 3))

    def total(box, c):
        return lax.scan(lambda a, x: (a + x * box[0] + c, None), jnp.zeros(3), xs)[0]

    for k in (1.0, 2.0, 1.0):
        box = [k]
        for c in (jnp.ones(3), jnp.zeros(3)):
            np.testing.assert_array_equal(total(box, c), 4 * (k + np.asarray(c)))
            box[0] += 1
            np.testing.assert_array_equal(total(box, c), 4 * (k + 1 + np.asarray(c)))
            box[0] -= 1


def test_an_array_that_a_loop_body_closed_over_dies_with_it():
    def use():
        c = jnp.ones(3)
        lax.scan(lambda a, _: (a + c, None), jnp.zeros(3), length=2)
        lax.while_loop(lambda a: a[0] < c[0], lambda a: a + c, jnp.zeros(3))
        weft.grad(lambda x: weft.checkpoint(lambda y: jnp.sum(jnp.sin(y) * c))(x))(c)
        return weakref.ref(c)

    reference = use()
    gc.collect()
    assert reference() is None


# ---- what a trace changes, and what comes from outside -----------------------------------------


def results(make, times=3):
    """What loops around functions made anew give."""
    return [float(lax.fori_loop(0, 1, make(), 0.0)) for _ in range(times)]


class Register:
    def __init__(self):
        self.count, self.names = 0, []

    def next(self):
        self.count += 1
        self.names.append(self.count)
        return float(self.count)


total = 0


def test_state_that_tracing_changes_and_reads_is_not_stale():
    queue = [1.0, 10.0, 100.0]
    assert results(lambda: lambda i, c: c + queue.pop(0)) == [1.0, 10.0, 100.0]
    cell, table, register = [0], {"k": 0}, Register()

    def reading_a_list():
        def body(i, c):
            cell[0] += 1
            return c + cell[0]

        return body

    def reading_a_dict():
        def body(i, c):
            table["k"] += 1
            return c + table["k"]

        return body

    def reading_a_global():
        def body(i, c):
            global total
            total += 1
            return c + total

        return body

    for make in (reading_a_list, reading_a_dict, reading_a_global):
        assert results(make) == [1.0, 2.0, 3.0]
    assert results(lambda: lambda i, c: c + register.next()) == [1.0, 2.0, 3.0]
    assert [float(weft.jit(lambda x: x * register.next())(1.0)) for _ in range(2)] == [4.0, 5.0]
    assert register.names == [1, 2, 3, 4, 5]


def test_what_is_only_counted_up_costs_no_trace():
    cell, table, seen = [0], {"k": 0}, set()

    def make():
        count = 0

        def body(i, c):
            global total
            nonlocal count
            total += 1
            cell[0] += 1
            table["k"] += 1
            seen.add("body")
            return c + 1.0

        return body

    before = total
    body = make()
    assert results(lambda: body) == [1.0] * 3
    assert (total - before, cell, table) == (1, [1], {"k": 1})


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.default_rng().random(),
        lambda: np.random.RandomState().rand(),
        lambda: random.Random().random(),
        lambda: time.perf_counter() % 1e-3,
        lambda: time.time_ns() % 1_000_003,
        lambda: datetime.datetime.now().microsecond,
        lambda: uuid.uuid4().int % 1_000_003,
        lambda: secrets.randbelow(1_000_003),
        lambda: int.from_bytes(os.urandom(3), "big"),
    ],
    ids=lambda draw: "-".join(draw.__code__.co_names[:2]),
)
def test_what_comes_from_outside_is_asked_each_time(draw):
    assert len(set(results(lambda: lambda i, c: c + draw(), 5))) > 1


def test_the_environment_and_files_are_read_each_time(tmp_path, monkeypatch):
    path = str(tmp_path / "x.txt")
    found = []
    for value in ("1", "2"):
        monkeypatch.setenv("WEFT_TEST_VALUE", value)
        np.savetxt(path, [float(value)])
        found += results(lambda: lambda i, c: c + float(os.getenv("WEFT_TEST_VALUE")), 1)
        found += results(lambda: lambda i, c: c + float(np.loadtxt(path)), 1)
    assert found == [1.0, 1.0, 2.0, 2.0]
