"""Eight threads trace, compile and run at once; none sees another's traces or settings."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from at_once import THREADS, together
from weft import lax
from weft.core.trace import bottom_trace, current_trace


def test_different_functions_at_once():
    def work(k):
        def f(x):
            for _ in range(k + 2):
                x = jnp.sin(x) * 1.1 + 0.1 * k
            return jnp.sum(x)

        x = np.linspace(0, 1, 4 + k).astype(np.float32)
        value = weft.jit(f)(x)
        gradient = weft.jit(weft.grad(f))(x)
        rows = weft.vmap(weft.grad(f))(np.stack([x, x]))
        host, slope = x.astype(np.float64), np.ones(4 + k)
        for _ in range(k + 2):
            host, slope = np.sin(host) * 1.1 + 0.1 * k, slope * np.cos(host) * 1.1
        np.testing.assert_allclose(value, host.sum(), rtol=2e-4)
        np.testing.assert_allclose(gradient, slope, rtol=2e-3, atol=1e-3)
        np.testing.assert_allclose(rows[1], slope, rtol=2e-3, atol=1e-3)
        return True

    assert all(together(work))


def test_one_function_at_once():
    traces = []

    @weft.jit
    def f(x, y):
        traces.append(1)
        return jnp.tanh(x) @ y

    x, y = np.eye(3, dtype=np.float32), np.arange(3, dtype=np.float32)
    for outs in (together(lambda k: f(x * k, y)), together(lambda k: f(x * k, y))):
        for k, out in enumerate(outs):
            np.testing.assert_allclose(out, np.tanh(x * k) @ y, rtol=1e-5)
    before = len(traces)
    together(lambda k: f(x, y))
    assert len(traces) == before <= THREADS


def test_one_function_under_different_transformations_at_once():
    inner = weft.jit(lambda x: lax.cond(jnp.sum(x) > 0, jnp.sin, jnp.cos, x) * x)

    def loss(x):
        return jnp.sum(inner(x))

    x = np.array([0.5, 1.0, 1.5], np.float32)
    gradient = np.sin(x) + x * np.cos(x)
    runs = [
        lambda: loss(x),
        lambda: weft.grad(loss)(x),
        lambda: weft.jit(weft.grad(loss))(x),
        lambda: weft.vmap(weft.grad(loss))(np.stack([x, x]))[0],
        lambda: weft.jvp(loss, (x,), (np.ones_like(x),))[1],
        lambda: weft.linearize(loss, x)[1](np.ones_like(x)),
        lambda: weft.jacrev(inner)(x),
        lambda: weft.make_jaxpr(weft.grad(loss))(x)(x)[0],
    ]
    wanted = [
        np.sum(np.sin(x) * x), gradient, gradient, gradient,
        gradient.sum(), gradient.sum(), np.diag(gradient), gradient,
    ]  # fmt: skip
    for out, want in zip(together(lambda k: runs[k]()), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(out), want, rtol=1e-4, atol=1e-5)


def test_eager_operations_at_once():
    def work(k):
        x = jnp.array(np.full((3, k + 1), k, np.float32))
        for _ in range(20):
            x = x * 0.5 + 1.0
        return np.asarray(x)

    for k, out in enumerate(together(work)):
        assert out.shape == (3, k + 1)
        want = np.float32(k)
        for _ in range(20):
            want = want * np.float32(0.5) + np.float32(1.0)
        np.testing.assert_allclose(out, want, rtol=1e-6)


def test_a_trace_is_seen_by_its_own_thread_only():
    entered, go_on = threading.Event(), threading.Event()
    seen = []

    def slow(x):
        seen.append(current_trace().name)
        entered.set()
        assert go_on.wait(30)
        return x * 2.0

    thread = threading.Thread(target=lambda: seen.append(float(weft.jit(slow)(3.0))))
    thread.start()
    assert entered.wait(30)
    try:
        assert current_trace() is bottom_trace()
        assert float(jnp.sum(jnp.ones(3) * 2.0)) == 6.0
        assert float(weft.grad(lambda x: x * x)(3.0)) == 6.0
    finally:
        go_on.set()
        thread.join()
    assert seen == ["jit", 6.0]


def test_settings_of_one_thread_are_not_those_of_another():
    def work(k):
        if k % 2:
            with weft.enable_x64():
                return weft.jit(lambda: 1.0)().dtype
        return weft.jit(lambda: 1.0)().dtype

    assert together(work) == [np.float32, np.float64] * (THREADS // 2)


def test_a_thread_started_while_tracing_evaluates():
    results = []

    @weft.jit
    def f(x):
        thread = threading.Thread(target=lambda: results.append(jnp.ones(2) + 1.0))
        thread.start()
        thread.join()
        return x

    f(1.0)
    np.testing.assert_array_equal(results[0], [2.0, 2.0])


def test_a_tracer_that_reaches_a_thread_without_its_trace_is_refused():
    results = []

    def use(x):
        try:
            results.append(x + 1.0)
        except weft.errors.LeakedTracerError as error:
            results.append(error)

    @weft.jit
    def f(x):
        thread = threading.Thread(target=use, args=(x,))
        thread.start()
        thread.join()
        return x

    f(1.0)
    assert isinstance(results[0], weft.errors.LeakedTracerError)


def test_a_copied_context_carries_the_trace_along():
    def f(x):
        context = contextvars.copy_context()
        found = []
        thread = threading.Thread(target=lambda: context.run(lambda: found.append(x * 3.0)))
        thread.start()
        thread.join()
        return found[0]

    assert float(weft.grad(f)(2.0)) == 3.0


@pytest.mark.parametrize("repetition", range(3))
def test_caches_of_operations_are_filled_by_many_threads(repetition):
    def work(k):
        out = []
        for n in range(1, 12):
            x = jnp.array(np.ones(100 * repetition + n, np.float32))
            out.append(float(jnp.sum(jnp.exp(x * 0.0) + x)))
        return out

    for out in together(work):
        assert out == [2.0 * (100 * repetition + n) for n in range(1, 12)]
