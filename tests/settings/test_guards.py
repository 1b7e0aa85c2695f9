"""What settings forbid: transfers, traces, executions, leaked tracers."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import GuardError, LeakedTracerError

pytestmark = pytest.mark.fast

HOST = np.ones((2, 3), np.float32)
X = jnp.asarray(HOST)
increment = weft.jit(lambda x: x + 1)
increment(X)

# What copies a value by itself, and what a program asks for: as JAX 0.10.2 tells them apart.
IMPLICIT = {
    "an operand of NumPy": lambda: jnp.sin(HOST),
    "a number": lambda: X + 1,
    "another operand": lambda: X * HOST,
    "an argument": lambda: increment(HOST),
    "a scalar argument": lambda: increment(1.5),
    "array": lambda: jnp.array(HOST),
    "asarray of a list": lambda: jnp.asarray([1.0, 2.0]),
}
EXPLICIT = {
    "device_put": lambda: weft.device_put(HOST),
    "to another device": lambda: weft.device_put(X, weft.devices()[1]),
}
FREE = {
    "a jitted call": lambda: increment(X),
    "values on a CPU": lambda: np.asarray(X * X),
    "device_get": lambda: weft.device_get(X),
}


@pytest.mark.parametrize("way", IMPLICIT.values(), ids=IMPLICIT)
def test_implicit_transfers(way, caplog):
    way()
    for level in ("disallow", "disallow_explicit"):
        with weft.transfer_guard(level), pytest.raises(GuardError, match="host to a device"):
            way()
    with weft.transfer_guard("log"), caplog.at_level("WARNING", "weft"):
        way()
    assert "a copy from the host to a device" in caplog.text


@pytest.mark.parametrize("way", EXPLICIT.values(), ids=EXPLICIT)
def test_explicit_transfers(way):
    with weft.transfer_guard("disallow"):
        way()
    with weft.transfer_guard("disallow_explicit"), pytest.raises(RuntimeError, match="not allowed"):
        way()


@pytest.mark.parametrize("way", FREE.values(), ids=FREE)
def test_no_transfers(way):
    with weft.transfer_guard("disallow_explicit"):
        way()


def test_transfers_among_devices():
    moved = weft.jit(lambda x: x, device=weft.devices()[1])
    with weft.transfer_guard_device_to_device("disallow"):
        with pytest.raises(GuardError, match="from one device to another"):
            moved(X)
    with weft.transfer_guard("disallow"), weft.transfer_guard_device_to_device("allow"):
        moved(X)
    with pytest.raises(ValueError, match="transfer_guard"), weft.transfer_guard("perhaps"):
        pass


def test_no_tracing():
    increment(X)
    with weft.no_tracing():
        increment(X)
        for way in (
            lambda: weft.jit(lambda x: x + 2)(X),
            lambda: lax.scan(lambda c, x: (c * 2, x), 0.0, X),
            lambda: weft.make_jaxpr(lambda x: x)(X),
        ):
            with pytest.raises(GuardError, match="no_tracing"):
                way()


def test_no_execution():
    fresh = weft.jit(lambda x: x * 3)
    with weft.no_execution():
        for way in (
            lambda: fresh(X),
            lambda: increment(X),
            lambda: jnp.sin(X),
            lambda: jnp.median(X),
            lambda: weft.random.normal(weft.random.key(0), (3,)),
        ):
            for _ in range(2):
                with pytest.raises(GuardError, match="no_execution"):
                    way()
        assert weft.eval_shape(fresh, X).shape == (2, 3)
    assert fresh(X).shape == (2, 3)


kept: list[object] = []


@pytest.mark.parametrize(
    "leaking",
    [
        lambda: weft.jit(lambda x: kept.append(x * 2) or x)(1.0),
        lambda: weft.vmap(lambda x: kept.append(x * 2) or x)(X),
        lambda: weft.grad(lambda x: kept.append(x * 2) or x)(1.0),
        lambda: lax.scan(lambda c, x: kept.append(x * 2) or (c, x), 0.0, X[0]),
    ],
    ids=["jit", "vmap", "grad", "scan"],
)
def test_leaks(leaking, young_heap):
    with weft.checking_leaks():
        with pytest.raises(LeakedTracerError, match="escaped from"):
            leaking()
    kept.clear()


def test_no_leaks(young_heap):
    with weft.check_tracer_leaks():
        x = X[0]
        weft.hessian(lambda y: (jnp.sin(y) ** 2).sum())(x)
        weft.vmap(weft.jit(weft.grad(lambda y: lax.fori_loop(0, 3, lambda i, c: c * y, y))))(x)
        weft.jit(lambda y: lax.cond(y.sum() > 0, jnp.median, jnp.linalg.norm, y))(x)
        weft.linearize(weft.checkpoint(jnp.exp), x)[1](x)
