"""How often Python runs the body of a loop, a branch or a checkpointed function."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

pytestmark = pytest.mark.fast

calls: list[str] = []


def loop(factor):
    def body(c, x):
        calls.append("body")
        return c * factor + x, None

    return lax.scan(body, 0.5, jnp.arange(3.0))[0]


def unbounded(factor):
    def body(c):
        calls.append("body")
        return c[0] + 1, c[1] * factor

    return lax.while_loop(lambda c: c[0] < 3, body, (0, 0.5))[1]


def branch(factor):
    def taken(x):
        calls.append("body")
        return x * factor

    return lax.cond(True, taken, lambda x: x + factor, 0.5)


def rematerialized(factor):
    def f(x):
        calls.append("body")
        return jnp.sin(x * factor)

    return weft.checkpoint(f)(0.5)


def mapped(factor):
    def f(x):
        calls.append("body")
        return x * factor

    return lax.map(f, jnp.arange(3.0)).sum()


REVERSIBLE = [loop, branch, rematerialized, mapped]
ALL = [*REVERSIBLE, unbounded]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_a_body_made_anew_300_times_is_traced_once(f):
    calls.clear()
    for _ in range(300):
        f(1.25)
    assert len(calls) == 1
    f(1.5)  # another number in the closure
    assert len(calls) == 2


@pytest.mark.parametrize("f", REVERSIBLE, ids=lambda f: f.__name__)
def test_a_body_that_closes_over_what_is_differentiated_is_traced_once(f):
    gradient = weft.grad(f)
    step = 1e-3
    wanted = [(f(x + step) - f(x - step)) / (2 * step) for x in (1.25, 1.5)]
    calls.clear()
    found = [gradient(jnp.float32(x)) for x in (1.25, 1.5)]
    np.testing.assert_allclose(found, wanted, rtol=1e-2)
    assert len(calls) == 1


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_a_body_that_closes_over_what_is_mapped_is_traced_once(f):
    factors = jnp.array([1.25, 1.5])
    wanted = [f(x) for x in factors]
    calls.clear()
    np.testing.assert_allclose(weft.vmap(f)(factors), wanted, rtol=1e-6)
    weft.vmap(f)(2.0 * factors)
    assert len(calls) <= 1  # 0 where the program is that of an earlier test


def test_a_carry_that_is_widened_is_traced_once():
    calls.clear()

    def body(c, x):
        calls.append("body")
        return c + x, c

    total, before = lax.scan(body, 0.0, jnp.arange(3.0))  # a Python number meets float32
    assert len(calls) == 1 and not total.weak_type and not before.weak_type


def test_a_carry_that_takes_another_dtype_is_traced_again():
    calls.clear()

    def body(c, x):
        calls.append("body")
        return c + x, c

    total, _ = lax.scan(body, 0.0, jnp.arange(3, dtype=jnp.bfloat16))
    assert total.dtype == jnp.bfloat16 and len(calls) == 2


def test_a_body_may_look_at_the_number_that_is_differentiated():
    def f(w):
        def body(c, _):
            return (c * w if float(w) > 0 else c - w), None

        return lax.scan(body, 2.0, None, 3)[0]

    np.testing.assert_allclose([weft.grad(f)(1.5), weft.grad(f)(-1.5)], [2 * 3 * 1.5**2, -3.0])


def test_a_container_of_ones_own_that_refuses_stand_ins():
    @weft.tree_util.register_dataclass
    @dataclasses.dataclass
    class Strict:
        value: object

        def __post_init__(self):
            if type(self.value).__name__ == "ClosedOver":
                raise ValueError("arrays only")

    def f(w):
        held = Strict(w)
        return lax.scan(lambda c, _: (c * held.value, None), 2.0, None, 3)[0]

    np.testing.assert_allclose(weft.grad(f)(1.5), 2 * 3 * 1.5**2)
