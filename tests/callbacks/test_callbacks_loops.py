"""Effects inside loops: how often, in which order, with which derivatives, and what fails there."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from callback_cases import SCALAR, Boom, Log
from ways import WAYS
from weft import errors
from weft.callbacks.primitives import io_callback, pure_callback

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"unroll": 2}, {"unroll": True}])
def test_scan(way, how):
    log = Log()

    def f(x):
        def step(c, k):
            log.note("a", k)
            log.note("b", c)
            return c + 1, c

        log.note("before", x)
        out, _ = weft.lax.scan(step, x, wnp.arange(5), **how)
        log.note("after", out)
        return out

    assert float(way(f)(0.0)) == 5
    order = range(4, -1, -1) if how.get("reverse") else range(5)
    steps = [(t, v) for c, k in enumerate(order) for t, v in (("a", k), ("b", c))]
    assert log.take() == [("before", 0), *steps, ("after", 5)]


@pytest.mark.parametrize("way", WAYS)
def test_while(way):
    log = Log()

    def f(x):
        def test(c):
            log.note("test", c)
            return c < 3

        def step(c):
            log.note("step", c)
            return c + 1

        out = weft.lax.while_loop(test, step, x)
        log.note("after", out)
        return out

    assert float(way(f)(0.0)) == 3
    pairs = [(t, v) for v in range(3) for t in ("test", "step")]
    assert log.take() == [*pairs, ("test", 3), ("after", 3)]


@pytest.mark.parametrize("way", WAYS)
def test_loops_in_loops_and_branches(way):
    log, seen = Log(), []

    def inner(i, c):
        def even(c):
            log.note("even", c)
            return c + 1

        def odd(c):
            weft.jit(lambda c: log.note("odd", c))(c)
            return c + 2

        return weft.lax.cond(i % 2 == 0, even, odd, c)

    def f(x, n):
        def step(c, _):
            log.note("outer", c)
            return weft.lax.fori_loop(0, n, inner, c), None

        return weft.lax.scan(step, x, None, length=2)[0]

    def reference(x, n):
        for _ in range(2):
            seen.append(("outer", x))
            for i in range(n):
                seen.append(("odd" if i % 2 else "even", x))
                x += 2 if i % 2 else 1
        return x

    assert float(way(f)(0.0, 3)) == reference(0.0, 3)
    assert log.take() == seen


def test_unordered_effects_of_one_program_are_in_order():
    log = Log()

    def f(x):
        for k in range(20):
            log.note(k, k, ordered=False)  # reads nothing that the program computes
        weft.lax.cond(x > 0, lambda: log.note("cond", 1, False), lambda: None)
        weft.lax.scan(lambda c, k: (c, log.note("scan", k, False)), x, wnp.arange(2))
        log.note("last", x, False)

    weft.jit(f)(1.0)
    expected = [(k, k) for k in range(20)] + [("cond", 1), ("scan", 0), ("scan", 1), ("last", 1)]
    assert log.take() == expected


def test_unordered_effects_happen_as_often():
    log = Log()
    f = weft.jit(
        lambda x: weft.lax.scan(lambda c, _: (c, log.note("n", c, False)), x, None, length=7)[0]
    )
    f(1.0)
    assert log.take() == [("n", 1.0)] * 7


@pytest.mark.parametrize("way", WAYS)
def test_a_derivative_prints_once(way):
    log = Log()

    def f(x):
        def step(c, k):
            log.note("c", c)
            return wnp.sin(c) * k, c

        out, ys = weft.lax.scan(step, x, wnp.arange(1.0, 4.0))
        return out + ys.sum()

    def unrolled(x):
        total = 0.0
        for k in (1.0, 2.0, 3.0):
            total, x = total + x, np.sin(x) * k
        return x + total

    values = [0.5]
    for k in (1.0, 2.0):
        values.append(np.sin(values[-1]) * k)
    difference = (unrolled(0.5 + 1e-6) - unrolled(0.5 - 1e-6)) / 2e-6
    second = weft.grad(weft.grad(f))
    for derive in (
        weft.grad(f),
        weft.jit(weft.grad(f)),
        lambda x: weft.jvp(f, (x,), (1.0,))[1],
        weft.grad(weft.jit(f)),
    ):
        assert float(way(derive)(0.5)) == pytest.approx(difference, rel=1e-4)
        seen = log.take()
        assert [tag for tag, _ in seen] == ["c"] * 3
        np.testing.assert_allclose([v for _, v in seen], values, rtol=1e-5)
    way(second)(0.5)
    assert len(log.take()) == 3


@pytest.mark.parametrize("way", WAYS)
def test_vmap_of_loops(way):
    log = Log()

    def scan(x):
        return weft.lax.scan(lambda c, _: (c + 1, log.note("s", c)), x, None, length=2)[0]

    assert way(weft.vmap(scan))(wnp.array([0.0, 10.0])).tolist() == [2, 12]
    assert log.take() == [("s", 0), ("s", 10), ("s", 1), ("s", 11)]

    def loop(x):
        def step(c):
            log.note("w", c)
            return c + 1

        return weft.lax.while_loop(lambda c: c < 3, step, x)

    assert way(weft.vmap(loop))(wnp.array([1.0, 2.0, 5.0])).tolist() == [3, 3, 5]
    assert log.take() == [("w", 1), ("w", 2), ("w", 2)]


@pytest.mark.parametrize("way", WAYS)
def test_reading_from_outside(way):
    stream = iter(range(100))

    def f(x):
        def step(c, _):
            n = io_callback(lambda: np.float32(next(stream)), SCALAR, ordered=True)
            return c + n, n

        return weft.lax.scan(step, x, None, length=4)

    total, read = way(f)(0.0)
    assert float(total) == 6 and read.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("way", WAYS)
def test_a_pure_callback_in_a_loop(way):
    def f(x):
        def step(c, k):
            s = pure_callback(np.sin, SCALAR, c * k, vmap_method="expand_dims")
            return c + s, s

        return weft.lax.scan(step, x, wnp.arange(3.0))

    def reference(x):
        found = []
        for k in range(3):
            found.append(np.sin(x * k))
            x = x + found[-1]
        return x, found

    out, ys = way(f)(0.7)
    expected, found = reference(0.7)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(ys, found, rtol=1e-5, atol=1e-7)
    out, _ = way(weft.vmap(f))(wnp.array([0.7, 0.2]))
    np.testing.assert_allclose(out, [expected, reference(0.2)[0]], rtol=1e-6)


def test_no_derivative_in_a_loop():
    def f(x):
        return weft.lax.fori_loop(0, 3, lambda i, c: pure_callback(np.sin, SCALAR, c), x)

    for way in (lambda f: f, weft.jit):
        with pytest.raises(errors.WeftValueError, match="no derivative"):
            way(weft.grad(f))(1.0)


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_ends_the_loop(way):
    seen = []

    def host(v):
        seen.append(float(v))
        if v == 2:
            raise Boom("at two")

    def step(c):
        io_callback(host, None, c)
        return c + 1

    def loops(x):
        def scan():
            return weft.lax.scan(lambda c, _: (step(c), None), x, None, length=9)

        def loop():
            return weft.lax.while_loop(lambda c: c < 9, step, x)

        return scan, loop

    for k in range(2):
        seen.clear()
        with pytest.raises(Boom, match="at two") as caught:
            way(lambda x, k=k: loops(x)[k]())(0.0)
        assert seen == [0, 1, 2]
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "host"


def test_rematerialised_steps_print_once():
    log = Log()

    @weft.checkpoint
    def block(c):
        log.note("block", c)
        return wnp.sin(c)

    def f(x):
        return weft.lax.scan(lambda c, _: (block(c), None), x, None, length=3)[0]

    for way in (lambda f: f, weft.jit):
        way(weft.grad(f))(0.5)
        assert len(log.take()) == 3


def test_dead_code_around_an_effect():
    log = Log()

    def f(x):
        def step(carry, k):
            kept, dropped = carry
            log.note("k", k)
            return (kept + k, dropped * 2), dropped

        (kept, _), _ = weft.lax.scan(step, (x, x), wnp.arange(3.0))
        weft.lax.while_loop(lambda c: c < 2, lambda c: (log.note("w", c), c + 1)[1], x)
        return kept

    assert float(weft.jit(f)(0.0)) == 3
    assert log.take() == [("k", 0), ("k", 1), ("k", 2), ("w", 0), ("w", 1)]
