"""`disable_jit`: programs run step by step, and give what they give compiled."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.trace import Tracer

pytestmark = pytest.mark.fast

X = np.linspace(0.5, 2.0, 4).astype(np.float32)


def running_sum(x):
    return lax.scan(lambda c, row: (c + row, c * row), 0.0, x)


def reverse_scan(x):
    return lax.scan(lambda c, row: ((c[0] + row, c[1] + 1), row), (0.0, 0), x, reverse=True)


def newton(x):
    return lax.while_loop(lambda s: abs(s * s - 2.0) > 1e-3, lambda s: (s + 2.0 / s) / 2, x[0])


def choose(x):
    return lax.cond(x[0] > 0.7, lambda y: y * 2, lambda y: -y, x)


def switched(x):
    return lax.switch(2, [lambda y: y, lambda y: y + 1, lambda y: y * y], x)


def powers(x):
    return lax.fori_loop(0, 3, lambda i, y: y * x + i, x)


def inner_jits(x):
    return weft.jit(lambda y: weft.jit(jnp.sin)(y) + 1)(x)


PROGRAMS = [running_sum, reverse_scan, newton, choose, switched, powers, inner_jits]


ONE = jnp.asarray(X)
ROWS = jnp.stack([ONE, ONE + 0.1, ONE - 0.3])
WAYS = {
    "jit": (weft.jit, ONE),
    "vmap": (weft.vmap, ROWS),
    "jvp": (lambda f: lambda x: weft.jvp(lambda y: weft.tree.leaves(f(y))[0], (x,), (x,)), ONE),
    "jit of vmap": (lambda f: weft.jit(weft.vmap(f)), ROWS),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("transform", "x"), WAYS.values(), ids=WAYS)
def test_step_by_step_is_the_same(program, transform, x):
    wanted = transform(program)(x)
    with weft.disable_jit():
        found = transform(program)(x)
    weft.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, wanted)


@pytest.mark.parametrize("program", [running_sum, choose, switched, powers, inner_jits])
def test_gradients_step_by_step(program):
    def loss(x):
        return sum(leaf.sum() for leaf in weft.tree.leaves(program(x)))

    wanted = weft.grad(loss)(jnp.asarray(X))
    with weft.disable_jit():
        np.testing.assert_allclose(weft.grad(loss)(jnp.asarray(X)), wanted, rtol=1e-5)


def test_values_are_known_and_bodies_run_each_time():
    seen = []

    @weft.jit
    def f(x):
        seen.append(float(x))
        return lax.fori_loop(0, 3, lambda i, y: seen.append((i, float(y))) or y + 1, x)

    with weft.disable_jit():
        f(1.0)
        f(1.0)
    assert seen == [1.0, (0, 1.0), (1, 2.0), (2, 3.0)] * 2
    with weft.disable_jit(), weft.disable_jit(False):
        assert isinstance(weft.jit(lambda x: seen.append(x) or x)(1.0), weft.Array)
    assert isinstance(seen[-1], Tracer)


def test_only_the_chosen_branch_runs():
    ran = []
    with weft.disable_jit():
        assert lax.cond(False, lambda: ran.append(1), lambda: ran.append(2) or 5) == 5
        assert lax.switch(9, [lambda: 1, lambda: 2]) == 2
        assert lax.switch(-3, [lambda: 1, lambda: 2]) == 1
    assert ran == [2]


def test_what_is_not_known_is_traced():
    with weft.disable_jit():
        out = weft.vmap(lambda p, x: lax.cond(p, lambda y: y, lambda y: -y, x))(
            jnp.array([True, False]), jnp.array([1.0, 2.0])
        )
        assert out.tolist() == [1.0, -2.0]
        ends = weft.vmap(lambda x: lax.while_loop(lambda c: c < 5, lambda c: c + 2, x))(
            jnp.arange(2)
        )
        assert ends.tolist() == [6, 5]
        text = str(weft.make_jaxpr(lambda x: lax.while_loop(lambda c: c < 5, jnp.sin, x))(1.0))
    assert "while" in text


def test_no_steps_and_nothing_stacked():
    with weft.disable_jit():
        carry, ys = lax.scan(lambda c, x: (c + x, c), 0.0, jnp.zeros((0,)))
        assert float(carry) == 0.0 and ys.shape == (0,)
        assert lax.scan(lambda c, _: (c + 1, None), 0, None, length=3) == (3, None)
        assert lax.map(lambda x: x * 2, jnp.arange(3)).tolist() == [0, 2, 4]
        with pytest.raises(TypeError, match="pair"):
            lax.scan(lambda c, x: c, 0.0, jnp.zeros(2))
        with pytest.raises(TypeError, match="different structures"):
            lax.scan(lambda c, x: (c, (c,) if float(x) else c), 0.0, jnp.arange(2.0))


def test_a_jaxpr_has_no_calls():
    f = weft.jit(lambda x: weft.jit(jnp.cos)(x) * 2)
    with weft.disable_jit():
        assert "jit" not in str(weft.make_jaxpr(f)(1.0))
    assert "jit" in str(weft.make_jaxpr(f)(1.0))
    assert f.lower(1.0).compile()(1.0) == f(1.0)
