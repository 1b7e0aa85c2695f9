"""Misses of the caches say what changed and what it cost; unasked too, where a loop loses time."""

from __future__ import annotations

import functools
import gc
import logging
import re
import types
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations, retracing_warnings
from weft import lax
from weft.dispatch import jitted as jitted_module

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

F32 = np.float32
rate = 0.5


@pytest.fixture
def asked(caplog):
    """The explanations of all misses."""
    with caplog.at_level(logging.WARNING, "weft"), weft.config.override(explain_cache_misses=True):
        yield caplog


@pytest.fixture
def unasked(monkeypatch):
    """What is said of lost time where nobody asked."""
    with retracing_warnings(monkeypatch) as warned:
        yield warned


def x(n=3):
    return np.arange(n, dtype=F32)


# ---- what changed --------------------------------------------------------------------------------


def changes():
    """Name -> two calls of one function, the second of which misses, and what is said of it."""
    step = weft.jit(lambda batch, n=1, *rest: batch["x"] * n)
    power = weft.jit(lambda x, n: x**n, static_argnames="n")
    applied = weft.jit(lambda f, x: f(x), static_argnums=0)
    plain = weft.jit(lambda x: x + 1)
    mesh = weft.make_mesh((8,), ("a",))
    split = weft.sharding.NamedSharding(mesh, weft.sharding.PartitionSpec("a"))

    def times(k):
        return lambda x: x * k

    def in_x64(f):
        with weft.enable_x64():
            return f()

    def in_mesh(f):
        with mesh:
            return f()

    return {
        "shape": (
            lambda: step({"x": x(4)}),
            lambda: step({"x": x(3)}),
            "batch['x'] is f32[3] instead of f32[4]",
        ),
        "dtype": (
            lambda: step({"x": x(5)}),
            lambda: step({"x": np.arange(5, dtype=np.int32)}),
            "batch['x'] is i32[5] instead of f32[5]",
        ),
        "weak type": (
            lambda: step({"x": x(6)}, 2.0),
            lambda: step({"x": x(6)}, F32(2.0)),
            "n is f32[] instead of f32[]~ (~ marks a Python number",
        ),
        "another leaf": (
            lambda: step({"x": x(7)}),
            lambda: step({"x": x(7), "mask": 1.0}),
            "batch['mask'] was not given before",
        ),
        "a leaf less": (
            lambda: step({"x": x(8), "mask": 1.0}, 1.0),
            lambda: step({"x": x(8)}, 1.0),
            "batch['mask'] is not given now",
        ),
        "structure": (
            lambda: step({"x": x(9)}),
            lambda: step({"x": x(9), "none": None}),
            "the arguments have the structure",
        ),
        "static": (
            lambda: power(2.0, n=2),
            lambda: power(2.0, n=3),
            "the static argument n is 3 instead of 2",
        ),
        "static function": (
            lambda: applied(times(2.0), 1.0),
            lambda: applied(times(3.0), 1.0),
            "k, which <lambda> closes over, is 3.0 instead of 2.0",
        ),
        "setting": (
            lambda: plain(x(10)),
            lambda: in_x64(lambda: plain(x(10))),
            "the setting enable_x64 is True instead of False",
        ),
        "mesh": (
            lambda: plain(x(11)),
            lambda: in_mesh(lambda: plain(x(11))),
            "the mesh in force (Mesh('a': 8), frozenset()) instead of None",
        ),
        "device": (
            lambda: plain(x(12)),
            lambda: plain(weft.device_put(x(12), weft.devices()[3])),
            "compiling <lambda> again: x lies on cpu:3 instead of on the default device",
        ),
        "sharding": (
            lambda: plain(x(16)),
            lambda: plain(weft.device_put(x(16), split)),
            "x lies on NamedSharding(Mesh('a': 8), P('a')) instead of on the default device",
        ),
        "placed": (
            lambda: weft.jit(lambda x: x + 2, in_shardings=split)(x(8)),
            lambda: weft.jit(lambda x: x + 2, out_shardings=split)(x(16)),
            "",
        ),
    }


@pytest.mark.parametrize("name", changes())
def test_what_changed(asked, name):
    first, second, said = changes()[name]
    first()
    asked.clear()
    second()
    (message,) = asked.messages
    assert said in message
    asked.clear()
    second() if name not in ("static function", "placed") else None
    assert not asked.messages


class Model:
    def __init__(self, scale):
        self.scale = scale

    def apply(self, x):
        return x * self.scale


def remade():
    """Name -> what makes a function for a value, and what is said of another value."""

    def closure(k):
        return lambda x: x * k

    def nested(k):
        def inner(x):
            return x * k

        return lambda x: inner(x) + 1

    def in_containers(k):
        options = {"rates": [0.5, k]}
        return lambda x: x * options["rates"][1]

    def in_object(k):
        options = types.SimpleNamespace(k=k)
        model = Model(options)
        return lambda x: x * model.scale.k

    def default(k):
        def f(x, *, k=k):
            return x * k

        return f

    def of_global(k):
        global rate
        rate = k
        return lambda x: x * rate

    return {
        "closure": (closure, "k, which <lambda> closes over, is 3.0 instead of 2.0"),
        "nested": (nested, "k, which inner closes over, is 3.0 instead of 2.0"),
        "containers": (
            in_containers,
            "options['rates'][1], which <lambda> closes over, is 3.0 instead of 2.0",
        ),
        "object": (
            in_object,
            "model.scale.k, which <lambda> closes over, is 3.0 instead of 2.0; "
            "model, which <lambda> closes over, is another object of class Model",
        ),
        "default": (default, "k, a default of f, is 3.0 instead of 2.0"),
        "global": (of_global, "the global rate is 3.0 instead of 2.0"),
        "partial": (
            lambda k: functools.partial(lambda x, k: x * k, k=k),
            "k, which the partial binds, is 3.0 instead of 2.0",
        ),
        "method": (lambda k: Model(k).apply, "self.scale, which the method reads, is 3.0 instead"),
        "array": (
            lambda k: closure(jnp.full(3, k)),
            "k, which <lambda> closes over, is another float32[3]",
        ),
        "grad": (
            lambda k: weft.grad(lambda x: (x * k).sum()),
            "k, which <lambda> closes over, is 3.0 instead of 2.0",
        ),
    }


@pytest.mark.parametrize("name", remade())
def test_what_a_function_made_anew_has_changed(asked, name):
    make, said = remade()[name]
    for k in (2.0, 3.0):
        asked.clear()
        weft.jit(make(k))(x())
    assert said in asked.messages[-1] and "again: " in asked.messages[-1]


def test_a_function_without_a_key_says_why(asked):
    def make(generator):
        return weft.jit(lambda x: x * generator.normal())

    for _ in range(2):
        make(np.random.default_rng(0))(x())
    assert "generator, which <lambda> closes over, has no key" in asked.messages[-1]
    assert "an object of class Generator, which can change unseen" in asked.messages[-1]


def test_the_closest_earlier_call_is_compared(asked):
    @weft.jit
    def f(a, b, c):
        return a.sum() + b.sum() + c.sum()

    f(x(2), x(3), x(4))
    f(x(5), x(6), x(7))
    f(x(8), x(9), x(10))
    asked.clear()
    f(x(5), x(6), x(1))
    assert "again: c is f32[1] instead of f32[7] (" in asked.messages[-1]


def test_loops_are_explained(asked):
    for k in (2.0, 3.0):
        lax.scan(lambda c, x: (c * k + x, None), 1.0, x())  # noqa: B023
    assert "for a loop again: k, which <lambda> closes over, is 3.0 instead of 2.0" in " ".join(
        asked.messages
    )


# ---- where, and what it cost ---------------------------------------------------------------------


def test_the_line_and_the_cost(asked):
    f = weft.jit(lambda x: x * 3.25)
    f(x())
    (message,) = asked.messages
    assert re.search(
        r"^tracing <lambda> for the first time \(at .*test_retracing\.py:\d+ in test_the_line_and"
        r"_the_cost; tracing \d+\.\d ms, lowering \d+\.\d ms, compiling \d+\.\d ms\)$",
        message,
    )


def test_programs_that_were_compiled_before_are_told_apart(asked, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    with weft.config.override(cache_dir=str(tmp_path / "cache")):
        f = weft.jit(lambda x: x * 7.125 - 1)
        f(x())
        assert "compiling" in asked.messages[-1] and "finding it" not in asked.messages[-1]
        weft.jit(lambda x: x * 7.125 - 1, inline=True)(x())  # an equal module, while that is there
        shared = asked.messages[-1]
        f.clear_cache()
        weft.clear_caches()
        f(x())
    for message in (shared, asked.messages[-1]):
        assert "finding it compiled" in message and "compiling" not in message


def test_misses_under_transformations(asked):
    f = weft.jit(lambda x: (x * 4.5).sum())
    weft.grad(f)(x())
    asked.clear()
    weft.grad(f)(x(4))
    (message,) = [text for text in asked.messages if "<lambda>" in text]
    assert "x is f32[4] instead of f32[3]" in message and "compiling" in message


# ---- unasked -------------------------------------------------------------------------------------


def test_the_third_miss_of_a_line_is_explained_once(unasked):
    f = weft.jit(lambda x, step: x * step, static_argnums=1)
    for step in range(6):
        f(x(), step)
        assert len(unasked.messages) == (step >= 2)
    (message,) = unasked.messages
    assert message == (
        "weft: tracing <lambda> again, number 3 for equal types: the static argument step is 2 "
        "instead of 1"
    )


def test_lines_and_functions_are_counted_apart(unasked):
    f = weft.jit(lambda x: x * 5.5)
    f(x(1))
    f(x(2))
    f(x(3))
    for g in [weft.jit(lambda x: x + 1), weft.jit(lambda x: x + 2), weft.jit(lambda x: x + 3)]:
        g(x())
    assert not unasked.messages


def test_a_rebuilt_function_that_changes_is_explained(unasked):
    for k in range(4):
        sizes = [k, 2]
        weft.jit(lambda x: x * sizes[0])(x())  # noqa: B023
    (message,) = unasked.messages
    assert "sizes[0], which <lambda> closes over, is 2 instead of 1" in message


def test_a_loop_that_changes_is_explained(unasked):
    for k in range(4):
        lax.fori_loop(0, 3, lambda i, c: c * k, 1.0)  # noqa: B023
    (message,) = unasked.messages
    assert "for a loop again, number 3 for equal types: k, which <lambda> closes over" in message


def test_what_a_recorded_program_traces_is_no_loss(unasked):
    layer = weft.jit(lambda x: x * 1.75)

    @weft.jit
    def model(*sizes):
        return [layer(size).sum() for size in sizes]

    model(x(1), x(2), x(3), x(4))
    assert not unasked.messages


def test_equal_functions_are_no_misses(unasked, asked, monkeypatch):
    def use(k):
        return weft.jit(lambda x: x * k + 0.125)(x())

    use(2.0)
    compiled = counted_compilations(monkeypatch)
    asked.clear()
    for _ in range(5):
        use(2.0)
    assert not unasked.messages and not asked.messages and not compiled


# ---- what it must not do -------------------------------------------------------------------------


def test_nothing_is_kept_alive():
    def use():
        array, held = jnp.ones(3), Model(jnp.ones(3))
        f = weft.jit(lambda f, x: f(x) * array * held.scale, static_argnums=0)
        f(lambda x: x * held.scale, 1.0)
        f(lambda x: x + array, jnp.ones(3))
        return [weakref.ref(a) for a in (array, held, held.scale)]

    references = use()
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_hits_pay_nothing(monkeypatch):
    f = weft.jit(lambda x, n: x * n, static_argnums=1)
    f(x(), 2)

    def refuse(*args):
        raise AssertionError("a hit looks for an explanation")

    monkeypatch.setattr(jitted_module, "Miss", refuse)
    for _ in range(2):
        np.testing.assert_array_equal(f(x(), 2), x() * 2)


def test_objects_that_cannot_be_looked_at(asked):
    class Odd:
        k = 2.0

        def __getattribute__(self, name):
            if name in ("shape", "__dict__", "__wrapped__"):
                raise RuntimeError("not for you")
            return object.__getattribute__(self, name)

    odd = Odd()
    for n in (3, 4):
        np.testing.assert_array_equal(weft.jit(lambda x: x * odd.k)(x(n)), x(n) * 2)


def test_failed_traces_are_not_compared(asked):
    @weft.jit
    def f(x):
        if x.ndim == 0:
            raise KeyError("not that")
        return x

    with pytest.raises(KeyError):
        f(1.0)
    assert not asked.messages
    f(x())
    assert "for the first time" in asked.messages[-1]
