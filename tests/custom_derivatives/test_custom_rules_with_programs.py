"""Rules of custom derivatives that apply jit, conditionals and loops to primals and tangents at
once: reverse mode separates the two."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import WeftTypeError

pytestmark = pytest.mark.fast


def jitted(p, t):
    return weft.jit(lambda x, v: (jnp.sin(x), jnp.cos(x) * v))(p[0], t[0])


def conditional(p, t):
    def branch(x, v):
        return jnp.sin(x), jnp.cos(x) * v

    return lax.cond(p[0] > 0, branch, branch, p[0], t[0])


def loop(p, t):
    def step(carry, _):
        x, v = carry
        return (jnp.sin(x), jnp.cos(x) * v), None

    return lax.scan(step, (p[0], t[0]), None, 1)[0]


def unknown_length(p, t):
    def step(carry):
        i, x, v = carry
        return i + 1, jnp.sin(x), jnp.cos(x) * v

    return lax.while_loop(lambda c: c[0] < 1, step, (0, p[0], t[0]))[1:]


def nested(p, t):
    return weft.jit(lambda p, t: weft.jvp(jnp.sin, p, t))(p, t)


def rematerialized(p, t):
    return weft.checkpoint(lambda x, v: (jnp.sin(x), jnp.cos(x) * v))(p[0], t[0])


REVERSIBLE = [jitted, conditional, loop, nested, rematerialized]


def function_with(rule):
    @weft.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(rule)
    return f


@pytest.mark.parametrize("rule", REVERSIBLE, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("outer", [lambda g: g, weft.jit], ids=["eager", "jit"])
def test_reverse_mode(rule, outer):
    f = function_with(rule)
    value, slope = outer(weft.value_and_grad(f))(0.7)
    np.testing.assert_allclose([value, slope], [np.sin(0.7), np.cos(0.7)], rtol=1e-6)
    np.testing.assert_allclose(outer(weft.grad(weft.grad(f)))(0.7), -np.sin(0.7), rtol=1e-6)
    rows = np.linspace(-1, 1, 5, dtype=np.float32)
    np.testing.assert_allclose(
        outer(weft.vmap(weft.grad(f)))(rows), np.cos(rows), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("rule", [*REVERSIBLE, unknown_length], ids=lambda rule: rule.__name__)
def test_forward_mode(rule):
    f = function_with(rule)
    out, tangent = weft.jvp(f, (0.7,), (2.0,))
    np.testing.assert_allclose([out, tangent], [np.sin(0.7), 2 * np.cos(0.7)], rtol=1e-6)
    np.testing.assert_allclose(weft.linearize(f, 0.7)[1](2.0), 2 * np.cos(0.7), rtol=1e-6)


# Computing primal work again is what checkpoint is for: all rules but that one.
@pytest.mark.parametrize("rule", REVERSIBLE[:-1], ids=lambda rule: rule.__name__)
def test_the_linear_part_computes_no_primal_work(rule):
    _, linear = weft.linearize(function_with(rule), 0.7)
    assert "sin" not in str(linear.jaxpr) and "cos" not in str(linear.jaxpr)


def test_a_result_that_depends_on_tangents_is_refused():
    f = function_with(lambda p, t: (jnp.sin(p[0]) + t[0], t[0]))
    with pytest.raises(WeftTypeError, match="depends on tangents") as info:
        weft.grad(f)(0.7)
    assert info.value.fix.kind == "separate"
    fixed = function_with(lambda p, t: (jnp.sin(p[0]), jnp.cos(p[0]) * t[0]))
    np.testing.assert_allclose(weft.grad(fixed)(0.7), np.cos(0.7), rtol=1e-6)
