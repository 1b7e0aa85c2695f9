"""What programs with a `scan` look like: what is stacked, what stays outside, what is dropped."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import check_every_split, check_every_use, equations, names
from weft import lax
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr

pytestmark = pytest.mark.fast

W = np.array([[0.5, -0.25], [0.125, 1.5]], np.float32)
C = np.array([0.3, -0.7], np.float32)
XS = np.array([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6], [0.7, 0.8], [1.0, -1.0]], np.float32)
LENGTH = len(XS)


def scans(f, *args):
    return equations(weft.make_jaxpr(f)(*args).jaxpr, "scan")


def stacked(eqn):
    """How many results of a scan are stacked."""
    return len(eqn.outputs) - eqn.params["num_carry"]


def parts(eqn):
    """The types of the constants, the carried values and the scanned arrays of a scan."""
    types = [x.type for x in eqn.inputs]
    n = eqn.params["num_consts"]
    m = n + eqn.params["num_carry"]
    return types[:n], types[n:m], types[m:]


# ---- residuals ---------------------------------------------------------------------------------


def test_what_is_computed_from_constants_stays_outside_the_loop():
    def f(w):
        return jnp.sum(lax.scan(lambda c, x: (jnp.sin(w) @ c + x, None), C, XS)[0])

    program = weft.make_jaxpr(weft.grad(f))(W).jaxpr
    forward, backward = equations(program, "scan")
    # Neither sin(w) nor cos(w) is stacked: the second loop takes them as they are.
    assert all(t.shape != (LENGTH, 2, 2) for t in (v.type for v in forward.outputs))
    consts, _, xs = parts(backward)
    assert [t.shape for t in consts].count((2, 2)) == 2
    assert all(t.ndim == 2 for t in xs)
    assert not {"sin", "cos"} & set(names(backward.params["jaxpr"]))
    outside = [eqn for eqn in program.eqns if eqn.primitive.name != "scan"]
    found = [name for eqn in outside for j in [eqn.params.get("jaxpr")] if j for name in names(j)]
    assert found.count("sin") == 1 and found.count("cos") == 1


def test_scanned_arrays_are_not_stacked_a_second_time():
    def f(c, xs):
        return jnp.sum(lax.scan(lambda c, x: (c * x, None), c, xs)[0])

    jaxpr = weft.make_jaxpr(weft.grad(f))(C, XS).jaxpr
    forward, backward = equations(jaxpr, "scan")
    assert stacked(forward) == 0  # the derivative reads x only
    assert forward.inputs[-1] is backward.inputs[-1] is jaxpr.inputs[-1]


def test_stacked_results_serve_as_residuals():
    def f(c):
        carry, ys = lax.scan(lambda c, x: ((y := jnp.exp(c)) * x, y), c, XS)
        return jnp.sum(carry) + jnp.sum(ys * ys)

    forward, backward = scans(weft.grad(f), C)
    assert stacked(forward) == 1  # exp(c) is its own derivative, and is stacked already
    assert forward.outputs[1] in backward.inputs


def test_each_residual_is_stacked_once():
    def f(c):
        return jnp.sum(lax.scan(lambda c, x: (c * c * c * x, None), c, XS)[0])

    forward, _ = scans(weft.grad(f), C)
    outputs = forward.params["jaxpr"].outputs
    assert len(set(outputs[1:])) == len(outputs[1:])


def test_carried_values_without_tangents_are_not_carried_by_the_linear_loop():
    def f(x):
        def body(c, _):
            n, untouched, value = c
            return (n + 1, untouched * 2.0, value * x * untouched), None

        return lax.scan(body, (0, 1.5, x), None, LENGTH)[0][2]

    (forward, linear) = scans(weft.grad(f), 1.1)
    assert forward.params["num_carry"] == 3
    # The cotangent of the value, and the sum for the constant x.
    assert linear.params["num_carry"] == 2
    (both,) = scans(lambda x: weft.jvp(f, (x,), (1.0,)), 1.1)
    assert both.params["num_carry"] == 4
    _, linear = scans(lambda x: weft.linearize(f, x)[1](x), 1.1)
    assert linear.params["num_carry"] == 1


def test_a_tangent_that_begins_in_the_loop():
    def f(x):
        def body(c, _):
            a, b, c = c
            return (x * 2.0, a * 3.0, b * x), c

        return jnp.sum(lax.scan(body, (0.0, 1.0, 2.0), None, LENGTH)[1])

    def reference(x):
        a, b, c, total = 0.0, 1.0, 2.0, 0.0
        for _ in range(LENGTH):
            total += c
            a, b, c = x * 2.0, a * 3.0, b * x
        return total

    wanted = (reference(1.3 + 1e-4) - reference(1.3 - 1e-4)) / 2e-4
    for run in (weft.grad(f), weft.jit(weft.grad(f)), lambda x: weft.jvp(f, (x,), (1.0,))[1]):
        np.testing.assert_allclose(float(run(1.3)), wanted, rtol=1e-5)


def test_unrolling_survives_the_transformations():
    def f(c):
        return jnp.sum(lax.scan(lambda c, x: (jnp.sin(c) * x, None), c, XS, unroll=2)[0])

    found = scans(weft.grad(f), C) + scans(lambda c: weft.jvp(f, (c,), (c,)), C)
    found += scans(weft.vmap(f), np.stack([C, C]))
    assert [eqn.params["unroll"] for eqn in found] == [2] * 4
    assert [eqn.params["reverse"] for eqn in scans(weft.grad(f), C)] == [False, True]


def test_a_loop_is_one_program_whatever_its_length():
    texts = [
        weft.jit(lambda xs: lax.scan(lambda c, x: (jnp.sin(c) + x, c), C, xs)).lower(xs).as_text()
        for xs in (np.ones((5, 2), np.float32), np.ones((500, 2), np.float32))
    ]
    assert [text.count("stablehlo.while") for text in texts] == [1, 1]
    assert texts[0].count("\n") == texts[1].count("\n")


# ---- dead code ---------------------------------------------------------------------------------


def several(c, xs):
    def body(c, x):
        a, b, d, e = c
        return (a * x, b + a, jnp.tanh(d), e + jnp.exp(d)), (jnp.cos(b), x * 2.0, jnp.sin(d))

    return lax.scan(body, (c, c + 1.0, c * 2.0, c), xs)


def test_dead_carries_and_dead_results_are_removed():
    jaxpr = weft.make_jaxpr(several)(C, XS).jaxpr

    def left(*used):
        small, _ = dce_jaxpr(jaxpr, tuple(i in used for i in range(7)))
        found = equations(small, "scan")
        return (found[0].params["num_carry"], stacked(found[0])) if found else None, names(small)

    a, b, d, e, cos_b, double_x, sin_d = range(7)
    assert left(a)[0] == (1, 0)
    assert left(b)[0] == (2, 0)  # b reads a
    assert left(d)[0] == (1, 0) and left(e)[0] == (2, 0)
    assert left(cos_b)[0] == (2, 1) and left(double_x)[0] == (0, 1) and left(sin_d)[0] == (1, 1)
    assert left()[0] is None
    assert not {"tanh", "exp", "sin"} & set(left(a, b, cos_b)[1])
    assert "cos" not in left(a, b, d, e)[1]


def test_dead_code_is_gone_from_what_jit_compiles():
    def f(c, xs):
        (a, *_), _ = several(c, xs)
        return a

    text = weft.jit(f).lower(C, XS).as_text()
    for gone in ("tanh", "exponential", "cosine", "sine"):
        assert f"stablehlo.{gone}" not in text
    close(weft.jit(f)(C, XS), C * XS.prod(0))


def test_a_carry_that_only_feeds_itself_goes():
    def f(c):
        return lax.scan(lambda c, x: ((c[0] + x, jnp.sin(c[1])), None), (c, c), XS)[0][0]

    jaxpr = weft.make_jaxpr(f)(C).jaxpr
    small, _ = dce_jaxpr(jaxpr, (True,))
    assert "sin" not in names(small)


@pytest.mark.parametrize("reverse", [False, True])
def test_every_choice_of_used_results(reverse):
    def f(c, xs):
        def body(c, x):
            a, b, n = c
            return (a * x, b + jnp.sin(a), n + 1), (b * W[0], n * 2)

        return lax.scan(body, (c, c * 2.0, 0), xs, reverse=reverse)

    check_every_use(f, C, XS)

    def real(c, xs):
        (a, b, _), (y, _) = f(c, xs)
        return a, b, y

    check_every_use(lambda c, xs: weft.jvp(real, (c, xs), (c, xs)), C, XS)


# ---- partial evaluation ------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_every_choice_of_unknown_inputs(reverse):
    def f(w, a, b, xs, zs):
        def body(c, row):
            a, b, n = c
            x, z = row
            return (jnp.sin(w) * a + x, b * a + z, n + 1), (jnp.cos(w) * a, z * n, jnp.exp(b))

        return lax.scan(body, (a, b, 0), (xs, zs), reverse=reverse)

    check_every_split(f, C * 2.0, C, C + 1.0, XS, XS * 0.5)


def test_known_work_is_not_left_for_later():
    def f(known, unknown):
        def body(c, x):
            return (jnp.tanh(c[0]) + x, c[1] * jnp.tanh(c[0]) * jnp.sin(known)), None

        return lax.scan(body, (known, unknown), XS)[0]

    jaxpr = weft.make_jaxpr(f)(C, C).jaxpr
    n = jaxpr.num_consts
    split = partial_eval_jaxpr(jaxpr, (False,) * n + (False, True))
    assert not {"tanh", "sin"} & set(names(split.unknown))
    (known,), (unknown,) = equations(split.known, "scan"), equations(split.unknown, "scan")
    assert known.params["num_carry"] == unknown.params["num_carry"] == 1
    assert "sin" not in names(known.params["jaxpr"])  # of a constant: once, before the loop
    assert "sin" in names(split.known)
    assert stacked(known) == 1


def test_nested_loops_and_branches_are_split_and_pruned():
    def f(a, b, p, xs):
        def outer(c, x):
            def inner(d, y):
                s, t = d
                return (jnp.sin(s) * y, t + s * c[1]), t

            (s, t), ys = lax.scan(inner, c, x * a)
            t = lax.cond(p, lambda t: t * s, lambda t: t - b, t)
            return (s, t), (jnp.sum(ys), s)

        return lax.scan(outer, (a, b), xs)

    args = (np.float32(0.5), np.float32(1.5), True, XS)
    check_every_split(f, *args)
    check_every_use(f, *args)
