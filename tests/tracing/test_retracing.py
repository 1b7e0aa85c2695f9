"""Misses of the caches say what changed and what it cost; unasked too, where a loop loses time."""

from __future__ import annotations

import functools
import gc
import logging
import re
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import retracing_warnings
from weft.dispatch import jitted as jitted_module

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

F32 = np.float32


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
            "the static argument f is another object: <lambda> (made at",
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


def remade():
    """Name -> what makes a function of a number, and what is said of it."""

    class Model:
        def __init__(self, scale):
            self.scale = scale

        def apply(self, x):
            return x * self.scale

        def __call__(self, x):
            return x * self.scale

    return {
        "closure": (lambda k: lambda x: x * k, "<lambda> (made at"),
        "partial": (lambda k: functools.partial(lambda x, k: x * k, k=k), "partial (made at"),
        "method": (lambda k: Model(k).apply, "apply (made at"),
        "object": (Model, "Model (made at"),
        "grad": (lambda k: weft.grad(lambda x: (x * k).sum()), "(made at"),
    }


@pytest.mark.parametrize("name", remade())
def test_a_function_made_anew_is_named_with_its_line(asked, name):
    make, said = remade()[name]
    for k in (2.0, 3.0, 3.0):
        asked.clear()
        weft.jit(make(k))(x())
    message = asked.messages[-1]
    assert said in message and "again: " in message and "is a new object" in message
    assert "test_retracing.py:" in message.partition("(made at")[2].partition(")")[0]
    # What tracing it again has cost, and that nothing else had to be done.
    assert re.search(r"; tracing \d+\.\d ms, its program was found\)$", message)


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
        weft.jit(lambda x: x * 7.125 - 1, inline=True)(x())
        assert "its program was found" in asked.messages[-1]
        f.clear_cache()
        weft.clear_caches()
        f(x())
    assert "finding it compiled" in asked.messages[-1] and "compiling" not in asked.messages[-1]


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


def test_what_a_recorded_program_traces_is_no_loss(unasked):
    layer = weft.jit(lambda x: x * 1.75)

    @weft.jit
    def model(*sizes):
        return [layer(size).sum() for size in sizes]

    model(x(1), x(2), x(3), x(4))
    assert not unasked.messages


# ---- what it must not do -------------------------------------------------------------------------


class Held:
    def __init__(self, scale):
        self.scale = scale


def test_nothing_is_kept_alive():
    def use():
        array, held = jnp.ones(3), Held(jnp.ones(3))
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
