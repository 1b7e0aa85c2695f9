"""`while_loop`: values, forward derivatives, `vmap`, programs, errors."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import (
    check_every_split,
    check_every_use,
    equations,
    names,
    unrolled_fori,
    unrolled_while,
)
from weft import lax
from weft.errors import LeakedTracerError, TreeError, WeftTypeError, WeftValueError
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.testing import check_grads

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

X = np.array([0.5, -1.25, 2.0], np.float32)


def grow(x, limit, loop=lax.while_loop):
    """Doubles and shifts until the sum of squares passes a limit; how many steps that took."""

    def goes_on(c):
        return jnp.sum(c[1] * c[1]) < limit

    def step(c):
        n, value, total = c
        return n + 1, jnp.sin(value) * 0.1 + value * 1.7, total * value

    return loop(goes_on, step, (0, x, jnp.ones_like(x)))


unrolled_grow = functools.partial(grow, loop=unrolled_while)


# ---- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0.0, 6.0, 500.0])
def test_values_eager_and_jitted(limit):
    wanted = unrolled_grow(X, limit)
    close(grow(X, limit), wanted, 1e-5)
    close(weft.jit(grow)(X, limit), wanted, 1e-5)


def test_carried_trees_nothing_carried_and_no_step():
    out = lax.while_loop(
        lambda c: c["n"][0] < 5,
        lambda c: {"n": (c["n"][0] + 1,), "none": None},
        {"n": (0,), "none": None},
    )
    assert int(out["n"][0]) == 5 and out["none"] is None
    assert lax.while_loop(lambda c: False, lambda c: c, None) is None
    assert float(lax.while_loop(lambda c: False, lambda c: c * 2, 3.0)) == 3.0
    assert float(lax.while_loop(lambda c: np.bool_(False), lambda c: c * 2, 3.0)) == 3.0


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "float16", "bfloat16", "float64", "complex64"]
)
def test_dtypes(dtype):
    init = jnp.array(1, dtype)
    out = lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1] + c[1]), (0, init))[1]
    assert out.dtype == init.dtype and complex(out) == 64


def test_python_numbers_take_on_what_comes_out_and_the_body_is_traced_once():
    calls = []

    def body(c):
        calls.append(c.dtype)
        return c + np.float32(1.0)

    out = lax.while_loop(lambda c: c < 3, body, 0.0)
    assert not out.weak_type and float(out) == 3.0 and len(calls) == 1
    out = lax.while_loop(lambda c: c < 3, lambda c: c + jnp.array(1, "bfloat16"), 0)
    assert out.dtype == weft.dtypes.bfloat16 and float(out) == 3.0
    assert lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0).weak_type


def test_random_keys_in_the_carry():
    def body(c):
        n, key, _ = c
        key, use = weft.random.split(key)
        return n + 1, key, weft.random.uniform(use)

    def draw(key, loop=lax.while_loop):
        return loop(lambda c: c[2] < 0.8, body, (0, key, 0.0))

    key = weft.random.key(7)
    n, last, value = draw(key)
    wanted_n, wanted_key, wanted = draw(key, unrolled_while)
    assert int(n) == int(wanted_n) > 1
    close(value, wanted)
    np.testing.assert_array_equal(weft.random.key_data(last), weft.random.key_data(wanted_key))
    keys = weft.random.split(key, 4)
    ns, lasts, values = weft.vmap(draw)(keys)
    for i in range(4):
        n, last, value = draw(keys[i], unrolled_while)
        assert int(ns[i]) == int(n) and float(values[i]) == float(value)
        np.testing.assert_array_equal(weft.random.key_data(lasts[i]), weft.random.key_data(last))


# ---- derivatives -------------------------------------------------------------------------------


def values_only(x, limit=40.0, loop=lax.while_loop):
    return grow(x, limit, loop)[1:]


def test_forward_derivatives_of_every_order():
    check_grads(values_only, (jnp.array(X, np.float64),), 2, modes=["fwd"])

    def derivative(f):
        return lambda x: weft.jvp(f, (x,), (1.0,))[1]

    def f(x, loop=lax.while_loop):
        return loop(lambda c: c < 50.0, lambda c: c * c * x + c, x)

    once, twice = derivative(f), derivative(derivative(f))
    third = derivative(twice)
    plain = functools.partial(f, loop=unrolled_while)
    for got, wanted in (
        (once, derivative(plain)),
        (twice, derivative(derivative(plain))),
        (third, derivative(derivative(derivative(plain)))),
        (weft.jit(third), derivative(derivative(derivative(plain)))),
    ):
        close(got(1.1), wanted(1.1), 1e-4)
    _, linear = weft.linearize(f, 1.1)
    close(linear(2.0), 2.0 * once(1.1), 1e-5)
    close(
        weft.jacfwd(values_only)(X),
        weft.jacfwd(functools.partial(values_only, loop=unrolled_while))(X),
        1e-4,
    )
    mapped = weft.vmap(once)(np.array([1.1, 0.7, 60.0], np.float32))
    close(mapped, np.array([float(once(v)) for v in (1.1, 0.7, 60.0)], np.float32), 1e-5)


def test_tangents_of_what_is_closed_over():
    def f(w, limit, loop=lax.while_loop):
        return loop(
            lambda c: c[0] < limit, lambda c: (c[0] * 2.0, jnp.sin(c[1] * w) + w), (1.0, 0.25)
        )[1]

    plain = functools.partial(f, loop=unrolled_while)
    wanted = weft.jvp(plain, (1.5, 20.0), (1.0, 1.0))
    close(weft.jvp(f, (1.5, 20.0), (1.0, 1.0)), wanted)
    close(weft.jit(lambda *a: weft.jvp(f, a, (1.0, 1.0)))(1.5, 20.0), wanted)


def test_reverse_mode_says_what_to_do_and_that_works():
    def by_while(x):
        return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x))[
            1
        ]

    def by_traced_bounds(x, n):
        return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * x, x)

    wanted = weft.grad(lambda x: unrolled_fori(0, 4, lambda i, c: jnp.sin(c) * x, x))(0.8)
    for run in (
        lambda: weft.grad(by_while)(0.8),
        lambda: weft.jit(weft.grad(by_while))(0.8),
        lambda: weft.jit(weft.grad(by_traced_bounds))(0.8, 4),
    ):
        with pytest.raises(WeftValueError, match="reverse-mode") as info:
            run()
        assert info.value.fix.kind == "known_length" and "test_while_loop.py" in str(info.value)
        for word in ("fori_loop", "scan", "jvp", "custom_vjp"):
            assert word in info.value.fix.text
    fixes = [
        weft.grad(lambda x: lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * x, x)),
        weft.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, 4)[0]),
        lambda x: weft.jvp(by_while, (x,), (1.0,))[1],
        weft.jacfwd(by_while),
        weft.grad(lambda x: by_traced_bounds(x, 4)),
    ]
    for fixed in fixes:
        close(fixed(0.8), wanted)


def test_reverse_mode_past_a_loop_that_is_not_differentiated():
    def f(x):
        n, y = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (0, 1.5))
        steps = lax.while_loop(lambda n: n * x < 10.0, lambda n: n + 1, 0)
        return x * x * y * n + steps

    for grad in (weft.grad(f), weft.jit(weft.grad(f)), weft.grad(weft.jit(f))):
        close(grad(2.0), 2 * 2.0 * 12.0 * 3)


# ---- vmap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x_axis", "limit_axis", "w_axis"),
    [axes for axes in itertools.product((0, None), repeat=3) if any(a == 0 for a in axes)],
)
def test_mapped_carries_conditions_and_closures(x_axis, limit_axis, w_axis):
    def f(x, limit, w, loop=lax.while_loop):
        def step(c):
            n, value, still = c
            return n + 1, value * w + 0.5, still

        return loop(lambda c: c[1] + w < limit, step, (0, x, w * 2.0))

    values = [
        np.array(v, np.float32) for v in ([1.0, 3.0, 90.0], [5.0, 80.0, 60.0], [2.0, 3.0, 1.5])
    ]
    axes = (x_axis, limit_axis, w_axis)
    args = [v if a == 0 else v[0] for v, a in zip(values, axes, strict=True)]
    mapped = weft.vmap(f, in_axes=axes)
    for run in (mapped, weft.jit(mapped)):
        got = run(*args)
        for k in range(3):
            one = [v[k] if a == 0 else v for v, a in zip(args, axes, strict=True)]
            close([x[k] for x in got], list(f(*one, loop=unrolled_while)))


def test_elements_that_are_finished_keep_their_values():
    # One step more would make the first element infinite, and its derivative not a number.
    def f(x):
        return lax.while_loop(lambda c: c < 100.0, lambda c: 1.0 / (101.0 - c) + c * c, x)

    xs = np.array([101.0, 2.0, 50.0], np.float32)
    wanted = [
        unrolled_while(lambda c: c < 100.0, lambda c: 1.0 / (101.0 - c) + c * c, x) for x in xs
    ]
    close(weft.vmap(f)(xs), np.array(wanted))
    _, tangents = weft.jvp(weft.vmap(f), (xs,), (np.ones(3, np.float32),))
    close(tangents, np.array([float(weft.jvp(f, (x,), (np.float32(1.0),))[1]) for x in xs]))
    assert float(tangents[0]) == 1.0


def test_a_condition_that_is_not_mapped_stays_a_scalar():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))

    jaxpr = weft.make_jaxpr(weft.vmap(f, out_axes=(None, 0)))(X).jaxpr
    (eqn,) = equations(jaxpr, "while")
    assert "select_n" not in names(jaxpr) and "reduce_or" not in names(jaxpr)
    assert [v.type.shape for v in eqn.outputs] == [(), (3,)]
    n, out = weft.vmap(f, out_axes=(None, 0))(X)
    assert int(n) == 3
    close(out, X**4)


def test_nested_loops():
    def f(x, n, while_loop=lax.while_loop, fori_loop=lax.fori_loop):
        def outer(c):
            i, value = c
            inner = fori_loop(0, i, lambda j, v: jnp.sin(v) + j * x, value)
            return i + 1, while_loop(lambda v: v > 1.5, lambda v: v * 0.75, inner) * x

        return while_loop(lambda c: c[0] < n, outer, (0, x))[1]

    plain = functools.partial(f, while_loop=unrolled_while, fori_loop=unrolled_fori)
    close(f(1.3, 5), plain(1.3, 5))
    slope = weft.jvp(lambda x: plain(x, 5), (1.3,), (1.0,))[1]
    close(weft.jvp(lambda x: f(x, 5), (1.3,), (1.0,))[1], slope)
    ns, xs = np.array([2, 5, 3]), np.array([1.3, 0.9, 2.0], np.float32)
    got = weft.jit(weft.vmap(f))(xs, ns)
    close(got, np.array([float(plain(x, n)) for x, n in zip(xs, ns, strict=True)], np.float32))


# ---- programs ----------------------------------------------------------------------------------


def several(n, a, b, d):
    def step(c):
        i, a, b, d = c
        return i + 1, jnp.sin(a), b + a * X, jnp.tanh(d)

    return lax.while_loop(lambda c: c[0] < n, step, (0, a, b, d))


def test_every_choice_of_used_results_and_of_unknown_inputs():
    args = (3, X, X + 1.0, X * 2.0)
    check_every_use(several, *args)
    check_every_split(several, *args)

    def tangents(a, b):
        return weft.jvp(lambda a, b: several(3, a, b, b)[1:], (a, b), (b, a))

    check_every_use(tangents, X, X + 1.0)
    check_every_split(tangents, X, X + 1.0)


def test_dead_carries_are_removed_and_those_of_the_condition_stay():
    jaxpr = weft.make_jaxpr(several)(3, X, X, X).jaxpr

    def left(*used):
        small, _ = dce_jaxpr(jaxpr, tuple(i in used for i in range(4)))
        found = equations(small, "while")
        return len(found[0].outputs) if found else None, set(names(small))

    assert left(0)[0] == 1 and left(1)[0] == 2 and left(2)[0] == 3 and left(3)[0] == 2
    assert left()[0] is None and "tanh" not in left(2)[1] and not {"sin", "mul"} & left(3)[1]


def test_a_known_loop_beside_an_unknown_one_is_run_early():
    jaxpr = weft.make_jaxpr(several)(3, X, X, X).jaxpr
    n = jaxpr.num_consts
    split = partial_eval_jaxpr(jaxpr, (False,) * n + (False, False, True, False))
    assert split.unknown_out == (False, False, True, False)
    assert "tanh" in names(split.known) and "tanh" not in names(split.unknown)
    by_condition = partial_eval_jaxpr(jaxpr, (False,) * n + (True, False, False, False))
    assert by_condition.unknown_out == (True,) * 4


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "init", "got"),
    [
        (lambda c: c, 1.0, "f32[]"),
        (lambda c: c > 0, X, "bool[3]"),
        (lambda c: (c > 0, c > 1), 1.0, "PyTreeDef"),
        (lambda c: None, 1.0, "PyTreeDef"),
        (lambda c: 1, 1.0, "i32[]"),
    ],
)
def test_a_condition_that_is_no_boolean_scalar(condition, init, got):
    with pytest.raises(WeftTypeError, match="boolean scalar") as info:
        lax.while_loop(condition, lambda c: c * 0.5, init)
    assert got in info.value.got and info.value.fix.kind == "condition"
    assert lax.while_loop(lambda c: (c > 1.0).any(), lambda c: c * 0.5, X)[2] == 1.0


def test_carries_that_change():
    with pytest.raises(TreeError, match="another structure") as info:
        lax.while_loop(lambda c: True, lambda c: [c[0], c[1]], (1.0, 2.0))
    assert "body" not in info.value.fix.text and info.value.fix.kind == "same_structure"
    with pytest.raises(WeftTypeError, match="other types") as info:
        lax.while_loop(
            lambda c: c[0] < 3.0, lambda c: (c[0] + 1.5, c[1][:1], c[2]), (jnp.int32(1), X, 0)
        )
    text = str(info.value)
    assert "carry[0]: i32[] goes in, f32[] comes out" in text and "carry[2]" not in text
    assert "carry[1]: f32[3] goes in, f32[1] comes out" in text
    dtype = info.value.fix.data["dtype"]
    out = lax.while_loop(lambda c: c < 3.0, lambda c: c + 1.5, jnp.array(1, dtype))
    assert float(out) == 4.0


def test_what_is_no_function_or_no_array():
    for args in ((3, lambda c: c, 1.0), (lambda c: False, 3, 1.0)):
        with pytest.raises(WeftTypeError, match="takes a function as its"):
            lax.while_loop(*args)
    with pytest.raises(WeftTypeError, match=r"init_val\[1\] is no array"):
        lax.while_loop(lambda c: False, lambda c: c, (1.0, "text"))
    with pytest.raises(WeftTypeError, match="no array"):
        lax.while_loop(lambda c: False, lambda c: "text", 1.0)


@pytest.mark.parametrize("part", ["body", "condition"])
def test_a_value_that_escapes(part):
    kept = []

    def leaky(c):
        kept.append(c * 2.0)
        return c

    if part == "body":
        lax.while_loop(lambda c: False, leaky, 1.0)
    else:
        lax.while_loop(lambda c: leaky(c) < 0.0, lambda c: c, 1.0)
    with pytest.raises(LeakedTracerError, match="escaped from") as info:
        kept[0] + 1.0
    assert "test_while_loop.py" in str(info.value) and info.value.fix.kind == "return_value"


def test_what_the_steps_of_a_mapped_loop_pass_on_stays_unmapped():
    def f(x, y):
        body = lambda c: (c[0] + c[1], c[1])  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 3, body, (x, y))

    found = weft.vmap(f, in_axes=(0, None), out_axes=(0, None))(np.arange(5), 2)
    assert [x.tolist() for x in found] == [[4, 3, 4, 3, 4], 2]
