"""`scan` under derivatives of both modes, `vmap`, transposition and their compositions."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import equations, names, unrolled_scan
from weft import lax
from weft.testing import check_grads, check_linearize

generator = np.random.default_rng(7)
W = (generator.normal(size=(3, 3)) * 0.6).astype(np.float32)
C = generator.normal(size=3).astype(np.float32)
XS = generator.normal(size=(4, 3)).astype(np.float32)


def double(*arrays):
    return tuple(jnp.array(x, np.float64) for x in arrays)


def network(w, c, xs, scan=lax.scan, **options):
    """A recurrent step with every kind of operand, and a result of every kind."""

    def step(c, x):
        state, total = c
        new = jnp.tanh(w @ state + x)
        total = total + jnp.sum(new * new)
        return (new, total), (jnp.sin(new) * total, x * 2.0)

    (state, total), (ys, doubled) = scan(step, (c, 0.0), xs, **options)
    return state, total, ys, doubled


def loss(w, c, xs, scan=lax.scan, **options):
    state, total, ys, doubled = network(w, c, xs, scan, **options)
    return jnp.sum(state * C) + total + jnp.sum(ys * ys) + jnp.sum(doubled)


unrolled_loss = functools.partial(loss, scan=unrolled_scan)
every = (0, 1, 2)


# ---- first derivatives -------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 3}, {"unroll": True}])
def test_derivatives_against_finite_differences(options):
    check_grads(functools.partial(network, **options), double(W, C, XS), 1)


def test_second_derivatives_in_all_four_combinations_of_modes():
    # Order two checks forward over forward, forward over reverse, and both of the others.
    check_grads(network, double(W, C, XS[:2]), 2)


def test_gradients_are_those_of_the_unrolled_loop():
    wanted = weft.grad(unrolled_loss, every)(W, C, XS)
    for run in (
        weft.grad(loss, every),
        weft.jit(weft.grad(loss, every)),
        weft.grad(weft.jit(loss), every),
        weft.grad(functools.partial(loss, unroll=3), every),
    ):
        close(run(W, C, XS), wanted, 1e-4, 1e-5)
    turned = weft.grad(functools.partial(loss, reverse=True), every)(W, C, XS)
    wanted = weft.grad(functools.partial(unrolled_loss, reverse=True), every)(W, C, XS)
    close(turned, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("argnums", [0, 1, 2, (0, 2)])
def test_each_operand_alone(argnums):
    wanted = weft.grad(unrolled_loss, argnums)(W, C, XS)
    close(weft.grad(loss, argnums)(W, C, XS), wanted, 1e-4, 1e-5)
    chosen = [argnums] if isinstance(argnums, int) else argnums

    def some(*values):
        args = [W, C, XS]
        for i, value in zip(chosen, values, strict=True):
            args[i] = value
        return loss(*args)

    primals = tuple((W, C, XS)[i] for i in chosen)
    tangents = tuple(np.cos(p) for p in primals)
    gradients = wanted if isinstance(wanted, tuple) else (wanted,)
    slope = sum(float(np.vdot(g, t)) for g, t in zip(gradients, tangents, strict=True))
    close(weft.jvp(some, primals, tangents)[1], np.float32(slope), 1e-4, 1e-4)


def test_hessians_and_third_derivatives():
    def f(c, scan=lax.scan):
        return scan(lambda s, x: (jnp.sin(s) * x + s * c, s * s * c), c, XS[:, 0])[0]

    def g(c, scan=lax.scan):
        return jnp.sum(scan(lambda s, x: (jnp.sin(s) * x + s * c, s * s * c), c, XS[:, 0])[1])

    def forward(h):
        return lambda x: weft.jvp(h, (x,), (1.0,))[1]

    for h in (f, g):
        plain = functools.partial(h, scan=unrolled_scan)
        for first, second in itertools.product((forward, weft.grad), repeat=2):
            close(first(second(h))(0.4), forward(forward(plain))(0.4), 1e-4)
            close(weft.jit(first(second(h)))(0.4), forward(forward(plain))(0.4), 1e-4)
        wanted = forward(forward(forward(plain)))(0.4)
        close(weft.grad(forward(weft.grad(h)))(0.4), wanted, 1e-4)


def test_linearize_does_no_work_of_the_primal_again():
    def f(w, c):
        return lax.scan(lambda s, x: (jnp.sin(w @ s) + x, jnp.exp(s)), c, XS)

    check_linearize(f, (W, C))
    _, linear = weft.linearize(f, W, C)
    found = names(weft.make_jaxpr(linear)(W, C).jaxpr)
    assert not {"sin", "cos", "exp"} & set(found)
    # The product of the tangent of w with s, and of w with the tangent of s: no primal product.
    assert found.count("dot_general") == 2
    transposed = names(weft.make_jaxpr(weft.vjp(f, W, C)[1])(f(W, C)).jaxpr)
    assert not {"sin", "cos", "exp"} & set(transposed) and transposed.count("dot_general") == 2


def test_no_steps_and_results_that_are_not_read():
    def f(w, c, xs):
        carry, ys = lax.scan(lambda s, x: (s * w + x, s * w), c, xs)
        return jnp.sum(carry) + jnp.sum(ys)

    gradients = weft.grad(f, every)(2.0 * np.ones(3, np.float32), C, XS[:0])
    close(gradients, (np.zeros(3), np.ones(3), np.zeros((0, 3))))
    close(weft.jit(weft.grad(f, every))(np.ones(3, np.float32), C, XS[:0]), gradients)
    still = weft.jvp(lambda c: lax.scan(lambda s, x: (s * 2.0, s), c, None, 0), (C,), (-C,))
    close(still, ((C, np.zeros((0, 3))), (-C, np.zeros((0, 3)))))
    only_carry = weft.grad(lambda c: jnp.sum(lax.scan(lambda s, x: (s * x, s), c, XS)[0]))(C)
    close(only_carry, XS.prod(0))
    only_ys = weft.grad(lambda c: jnp.sum(lax.scan(lambda s, x: (s * x, s), c, XS)[1]))(C)
    close(only_ys, 1 + XS[0] + XS[0] * XS[1] + XS[0] * XS[1] * XS[2])


def test_counters_keys_and_flags_beside_values_being_differentiated():
    key = weft.random.key(0)

    def f(x, scan=lax.scan):
        def body(c, _):
            n, key, flip, value = c
            key, use = weft.random.split(key)
            value = jnp.where(flip, value * x, value + x * n) * weft.random.uniform(use)
            return (n + 1, key, ~flip, value), value * n

        carry, ys = scan(body, (1, key, jnp.array(True), x), None, 4)
        return carry[3] + jnp.sum(ys)

    wanted = weft.grad(functools.partial(f, scan=unrolled_scan))(1.5)
    for run in (weft.grad(f), weft.jit(weft.grad(f)), lambda x: weft.jvp(f, (x,), (1.0,))[1]):
        close(run(1.5), wanted)
    with_n, tangents = weft.jvp(
        lambda n, x: lax.scan(lambda c, _: ((c[0] + 1, c[1] * x), c[0]), (n, x), None, 2),
        (3, 2.0),
        (np.zeros((), weft.float0), 1.0),
    )
    assert tangents[0][0].dtype == weft.float0 and tangents[1].dtype == weft.float0
    assert tangents[1].shape == (2,) and float(tangents[0][1]) == 12.0
    assert int(with_n[0][0]) == 5


@pytest.mark.parametrize("dtype", [np.complex64, np.float16])
def test_gradients_in_other_dtypes(dtype):
    c, xs = jnp.array(0.5, dtype), jnp.array([0.5, -1.0, 2.0], dtype)
    if dtype is np.complex64:
        c, xs = c + 0.25j, xs * (1 + 1j)

    def f(c, xs, scan=lax.scan):
        carry, ys = scan(lambda s, x: (s * x + s * s, jnp.sin(s)), c, xs)
        return jnp.sum(ys) + carry

    for mode in ("fwd", "rev"):
        tolerance = 2e-2 if dtype is np.float16 else 1e-4
        if mode == "fwd":
            got = weft.jvp(f, (c, xs), (c, xs))
            wanted = weft.jvp(functools.partial(f, scan=unrolled_scan), (c, xs), (c, xs))
        else:
            got = weft.vjp(f, c, xs)[1](jnp.array(1, dtype))
            wanted = weft.vjp(functools.partial(f, scan=unrolled_scan), c, xs)[1](
                jnp.array(1, dtype)
            )
        close(got, wanted, tolerance, tolerance)


def test_bfloat16_gradients():
    xs = jnp.array([0.5, -1.0, 2.0], "bfloat16")
    gradient = weft.grad(lambda xs: lax.scan(lambda c, x: (c + x * x, None), 0.0, xs)[0])(xs)
    assert gradient.dtype == weft.dtypes.bfloat16
    np.testing.assert_array_equal(np.asarray(gradient, np.float32), [1.0, -2.0, 4.0])


# ---- transposition -----------------------------------------------------------------------------


def test_linear_loops_transpose():
    def f(c, xs):
        return lax.scan(lambda s, x: (W @ s + x, s - x * 2.0), c, xs)

    cts = (np.cos(C), np.sin(XS))
    got = weft.linear_transpose(f, C, XS)(cts)
    wanted = weft.linear_transpose(
        lambda c, xs: unrolled_scan(lambda s, x: (W @ s + x, s - x * 2.0), c, xs), C, XS
    )(cts)
    close(got, wanted, 1e-4)
    out = f(C, XS)
    left = sum(float(np.vdot(a, b)) for a, b in zip(cts, out, strict=True))
    right = sum(float(np.vdot(a, b)) for a, b in zip(got, (C, XS), strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-5)
    back = weft.linear_transpose(lambda cts: weft.linear_transpose(f, C, XS)(cts), cts)((C, XS))
    close(back, (out,), 1e-4)


def test_a_linear_loop_that_counts():
    """The carried counter depends on nothing linear, and the body needs it at each step."""

    def f(x, y):
        def body(c, _):
            n, factor, s = c
            return (n + 1, jnp.sin(factor), s * factor + y * n), s * n

        (_, _, s), ys = lax.scan(body, (2, 0.5, x), None, 4)
        return s, ys

    def matrix(g):
        columns = [g(*unit) for unit in ((1.0, 0.0), (0.0, 1.0))]
        return np.array([[float(c[0]), *map(float, c[1])] for c in columns]).T

    forward = matrix(f)
    for run in (weft.linear_transpose(f, 1.0, 1.0), weft.jit(weft.linear_transpose(f, 1.0, 1.0))):
        rows = []
        for i in range(5):
            ct = np.zeros(5, np.float32)
            ct[i] = 1.0
            rows.append([float(v) for v in run((ct[0], ct[1:]))])
        np.testing.assert_allclose(np.array(rows), forward, rtol=1e-5)


# ---- vmap --------------------------------------------------------------------------------------

DIMS = [d for d in itertools.product((None, 0, 1), repeat=3) if d != (None, None, None)]


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_every_choice_of_mapped_operands(dims):
    whole = [np.stack([x, x * 0.5]) for x in (W, C, XS)]
    args = [
        x if d is None else np.moveaxis(both, 0, d)
        for x, both, d in zip((W, C, XS), whole, dims, strict=True)
    ]

    def f(w, c, xs):
        return lax.scan(lambda s, x: (jnp.tanh(w @ s + x), (jnp.sum(s), x * 2.0)), c, xs)

    got = weft.vmap(f, in_axes=dims)(*args)
    for k in range(2):
        one = [
            x if d is None else both[k] for x, both, d in zip((W, C, XS), whole, dims, strict=True)
        ]
        close(weft.tree.map(lambda x, k=k: x[k], got), f(*one))


def test_values_that_no_mapped_operand_reaches_stay_unmapped():
    def f(c, xs):
        def body(s, x):
            return (s[0] * x, s[1] + 1.0), s[1]

        return lax.scan(body, (c, 0.0), xs)

    both = np.stack([C, C])
    mapped = weft.vmap(f, in_axes=(0, None), out_axes=((0, None), None))
    (carry, count), ys = mapped(both, XS)
    close(carry[0], C * XS.prod(0))
    assert float(count) == 4.0
    close(ys, np.arange(4.0))
    (eqn,) = equations(weft.make_jaxpr(mapped)(both, XS).jaxpr, "scan")
    assert [v.type.shape for v in eqn.outputs] == [(2, 3), (), (4,)]
    out = weft.vmap(f, in_axes=(0, None), out_axes=((1, 0), 1))(both, XS)
    assert out[0][0].shape == (3, 2) and out[0][1].shape == (2,) and out[1].shape == (4, 2)


def test_vmap_of_grad_and_grad_of_vmap():
    cs = np.stack([C, C * 0.5, -C])
    wanted = [weft.grad(unrolled_loss, every)(W, c, XS) for c in cs]
    stacked = tuple(np.stack([np.asarray(w[i]) for w in wanted]) for i in every)
    mapped = weft.vmap(weft.grad(loss, every), in_axes=(None, 0, None))
    close(mapped(W, cs, XS), stacked, 1e-4, 1e-5)
    close(weft.jit(mapped)(W, cs, XS), stacked, 1e-4, 1e-5)

    def total(w, cs, xs):
        return jnp.sum(weft.vmap(loss, in_axes=(None, 0, None))(w, cs, xs))

    summed = (stacked[0].sum(0), stacked[1], stacked[2].sum(0))
    close(weft.grad(total, every)(W, cs, XS), summed, 1e-4, 1e-4)
    close(weft.jit(weft.grad(total, every))(W, cs, XS), summed, 1e-4, 1e-4)


def test_a_scan_inside_a_scan():
    def f(w, c, xs, scan=lax.scan):
        def outer(s, x):
            inner, sums = scan(lambda t, y: (jnp.sin(t) * w + y * s, t * y), s, x)
            return inner, jnp.sum(sums)

        carry, ys = scan(outer, c, xs)
        return carry + jnp.sum(ys)

    args = (0.7, 0.3, XS)
    plain = functools.partial(f, scan=unrolled_scan)
    close(f(*args), plain(*args))
    wanted = weft.grad(plain, every)(*args)
    close(weft.grad(f, every)(*args), wanted, 1e-4)
    close(weft.jit(weft.grad(f, every))(*args), wanted, 1e-4)


@pytest.mark.parametrize("reverse", [False, True])
def test_switch_over_a_traced_index_inside_the_loop(reverse):
    branches = [lambda s, x: s * x, lambda s, x: jnp.sin(s) + x, lambda s, x: s - x * x]
    which = np.array([0, 2, 1, 7], np.int32)

    def f(c, xs, scan=lax.scan):
        def body(s, xi):
            x, i = xi
            new = lax.switch(i, branches, s, x)
            return new, new * s

        return scan(body, c, (xs, which), reverse=reverse)

    def summed(c, xs, scan=lax.scan):
        carry, ys = f(c, xs, scan)
        return jnp.sum(carry) + jnp.sum(ys)

    close(f(C, XS), f(C, XS, unrolled_scan))
    wanted = weft.grad(functools.partial(summed, scan=unrolled_scan), (0, 1))(C, XS)
    close(weft.grad(summed, (0, 1))(C, XS), wanted)
    close(weft.jit(weft.vmap(weft.grad(summed), (0, None)))(np.stack([C, C]), XS)[1], wanted[0])
