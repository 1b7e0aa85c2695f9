"""`checkpoint`: values and derivatives of the plain function, and what is computed again."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from checkpoint_cases import POLICIES, W, X, layer, policies, remat
from closeness import close_trees as close
from loop_cases import unrolled_scan
from weft import lax
from weft.errors import ConcretizationError, LeakedTracerError, WeftTypeError, WeftValueError
from weft.testing import check_grads, exact_array

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
some_policies = pytest.mark.parametrize(
    "policy", [POLICIES[name] for name in ("none", "dots", "names")], ids=("none", "dots", "names")
)


def loss(w, x, wrap=lambda f: f):
    f = wrap(layer)
    return jnp.sum(f(w, f(w, x)))


# ---- values and derivatives --------------------------------------------------------------------


gradients = weft.jit(weft.grad(loss, (0, 1)))


@every_policy
def test_values_and_gradients_are_those_of_the_plain_function(policy):
    f = functools.partial(loss, wrap=remat(policy))
    close(weft.jit(weft.value_and_grad(f, (0, 1)))(W, X), (loss(W, X), gradients(W, X)), 1e-4)


@some_policies
def test_eager_gradients_and_those_that_the_compiler_may_simplify(policy):
    close(
        weft.grad(functools.partial(loss, wrap=remat(policy)), (0, 1))(W, X), gradients(W, X), 1e-4
    )
    loose = functools.partial(loss, wrap=remat(policy, prevent_cse=False))
    close(weft.jit(weft.grad(loose, (0, 1)))(W, X), gradients(W, X), 1e-4)


def other_derivatives(x, wrap):
    """Forward mode, linearization, vmap of the gradient, second derivatives in three ways."""

    def f(x):
        return loss(W, x, wrap)

    along = jnp.cos(X)
    return {
        "jvp": weft.jvp(f, (x,), (along,)),
        "linearize": weft.linearize(f, x)[1](along),
        "vmap": weft.vmap(weft.grad(f))(jnp.stack([x, -x])),
        "forward over reverse": weft.jvp(weft.grad(f), (x,), (along,))[1],
        "reverse over forward": weft.grad(lambda x: weft.jvp(f, (x,), (along,))[1])(x),
        "reverse over reverse": weft.grad(lambda x: jnp.sum(weft.grad(f)(x) * along))(x),
    }


@some_policies
def test_forward_mode_vmap_and_second_derivatives(policy):
    run = weft.jit(other_derivatives, static_argnums=1)
    wanted = run(X, lambda f: f)
    got = run(X, remat(policy))
    close(got, wanted, 1e-3, 1e-4)
    close(got["forward over reverse"], got["reverse over reverse"], 1e-3, 1e-4)


def test_derivatives_against_finite_differences():
    x = jnp.array([0.5, -1.0], np.float64)
    check_grads(weft.checkpoint(lambda x: jnp.sin(x * jnp.exp(x))), (x,), 2)
    inner = weft.checkpoint(lambda x: jnp.sin(x) * x)
    check_grads(weft.checkpoint(lambda x: inner(inner(x)) + x), (x,), 2)


def test_linear_functions_transpose():
    f = weft.checkpoint(lambda x, y: (x @ W["first"]) * 2.0 - y)
    ct = np.linspace(-1.0, 1.0, 8).reshape(2, 4).astype(np.float32)
    close(weft.linear_transpose(f, X, ct)(ct), (2.0 * ct @ W["first"].T, -ct))


INSIDE = {
    "cond": lambda g, x: lax.cond(x > 0, g, lambda y: y, x),
    "scan": lambda g, x: lax.scan(lambda c, _: (g(c), None), x, None, 3)[0],
    "jit": lambda g, x: weft.jit(g)(x),
    "checkpoint": lambda g, x: weft.checkpoint(g)(x),
}


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
def test_a_derivative_taken_forwards_is_transposed(inside):
    """What is inside gives values that are not linear beside tangents, and both are read."""

    def f(x, w):
        return jnp.sin(inside(lambda y: jnp.sin(y) * w, x))

    def by_rule(x, w):
        g = weft.checkpoint(lambda y: f(y, w))
        custom = weft.custom_jvp(g)
        custom.defjvp(lambda xs, dxs: (custom(*xs), weft.jvp(g, xs, dxs)[1]))
        return custom(x)

    for x, w in ((0.5, 0.7), (exact_array(0.5), exact_array(0.7))):
        slope, in_w = weft.grad(f, (0, 1))(x, w)
        close(weft.grad(by_rule, (0, 1))(x, w), (slope, in_w))
        close(weft.jit(weft.grad(by_rule))(x, w), slope)
        g = weft.checkpoint(lambda y, w=w: f(y, w))
        along = weft.linear_transpose(lambda dx, x=x, g=g: weft.jvp(g, (x,), (dx,))[1], x)
        close(along(x), (slope * x,))
        rows = np.array([0.3, -0.2, 0.9], np.float32)
        close(
            weft.vmap(weft.grad(by_rule), (0, None))(rows, 0.7),
            weft.vmap(weft.grad(f), (0, None))(rows, 0.7),
        )


@some_policies
def test_inside_scan_and_around_scan(policy):
    def run(x, wrap_step=lambda f: f, wrap_all=lambda f: f, scan=lax.scan):
        def step(c, s):
            c = layer(W, c) * s
            return c, jnp.sum(jnp.sin(c))

        def whole(x):
            carry, ys = scan(wrap_step(step), x, np.array([0.5, -1.0, 0.25], np.float32))
            return jnp.sum(carry) + jnp.sum(ys)

        return wrap_all(whole)(x)

    wanted = weft.grad(functools.partial(run, scan=unrolled_scan))(X)
    for options in (
        {"wrap_step": remat(policy, prevent_cse=False)},
        {"wrap_all": remat(policy)},
        {"wrap_step": remat(policy), "wrap_all": remat(policy)},
    ):
        close(weft.jit(weft.grad(functools.partial(run, **options)))(X), wanted, 1e-4)


def test_inside_branches_and_while_loops():
    f = weft.checkpoint(lambda x: jnp.sin(x) * x)

    def branching(p, x):
        return lax.cond(p, f, lambda x: x * 3.0, x)

    for p, wanted in ((True, np.sin(0.5) + 0.5 * np.cos(0.5)), (False, 3.0)):
        close(weft.jit(weft.grad(branching, 1))(p, 0.5), np.float32(wanted))
    held = weft.checkpoint(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))
    close(weft.grad(held, 1)(True, 0.5), np.float32(np.cos(0.5)))
    close(
        weft.vmap(weft.grad(held, 1))(np.array([True, False]), np.array([0.5, 0.5], np.float32)),
        np.array([np.cos(0.5), -np.sin(0.5)]),
    )
    looped = weft.checkpoint(lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * x, x))
    close(weft.jvp(looped, (2.0,), (1.0,)), (np.float32(16.0), np.float32(32.0)))
    with pytest.raises(WeftValueError, match="reverse-mode"):
        weft.grad(looped)(2.0)


# ---- forms of arguments ------------------------------------------------------------------------


def test_keywords_trees_integers_keys_and_no_arguments():
    @weft.checkpoint
    def f(d, *rest, scale, key=None):
        noise = weft.random.uniform(key) if key is not None else 0.0
        return {"out": jnp.sin(d["x"]) * scale[0] + noise * d["x"], "n": d["n"] + 1, "none": None}

    out = f({"x": 0.5, "n": 3}, scale=[2.0])
    assert int(out["n"]) == 4 and out["none"] is None and out["n"].dtype == np.int32
    close(out["out"], np.float32(2 * np.sin(0.5)))
    key = weft.random.key(1)
    noise = float(weft.random.uniform(key))

    def through(x, scale):
        return f({"x": x, "n": 3}, 7, scale=[scale], key=key)["out"]

    for grad in (weft.grad(through, (0, 1)), weft.jit(weft.grad(through, (0, 1)))):
        wanted = (2 * np.cos(0.5) + noise, np.sin(0.5))
        close(grad(0.5, 2.0), weft.tree.map(np.float32, wanted))
    assert float(weft.checkpoint(lambda: 3.0)()) == 3.0
    assert weft.checkpoint(lambda x: ())(1.0) == ()
    assert weft.checkpoint(lambda x: None)(1.0) is None
    same = weft.checkpoint(lambda x: x)
    assert float(weft.grad(same)(2.0)) == 1.0 and f.__name__ == "f"
    assert float(weft.grad(weft.checkpoint(lambda x: 5.0))(2.0)) == 0.0


@pytest.mark.parametrize("static_argnums", [1, (1,), -2, (1, 2), (-1, -2)])
def test_static_arguments(static_argnums):
    calls = []

    def f(x, n, name):
        calls.append(n)
        for _ in range(n):
            x = getattr(jnp, name)(x)
        return x

    numbers = static_argnums
    if numbers in (1, (1,), -2):
        g = functools.partial(weft.checkpoint, static_argnums=numbers)(
            lambda x, n, name: f(x, n, "sin")
        )
        name = 0.0
    else:
        g, name = weft.checkpoint(f, static_argnums=numbers), "sin"
    close(g(0.5, 2, name), np.sin(np.sin(np.float32(0.5))))
    close(weft.grad(g)(0.5, 2, name), np.cos(np.sin(0.5)) * np.cos(0.5))
    close(g(0.5, 1, name), np.sin(np.float32(0.5)))
    assert {1, 2} == set(calls)


def test_closing_over_arrays_and_over_values_being_transformed():
    def f(w, xs, wrap=weft.checkpoint):
        def under_vmap(x):
            return wrap(lambda y: jnp.sum(jnp.sin(y * w * x) * X[0]))(x)

        return jnp.sum(weft.vmap(under_vmap)(xs))

    wanted = weft.grad(functools.partial(f, wrap=lambda g: g), (0, 1))(1.5, X[0])
    close(weft.grad(f, (0, 1))(1.5, X[0]), wanted)
    close(weft.jit(weft.grad(f, (0, 1)))(1.5, X[0]), wanted)
    hessian = weft.hessian(functools.partial(f, wrap=lambda g: g))(1.5, X[0])
    close(weft.hessian(f)(1.5, X[0]), hessian, 1e-4)


def test_as_a_decorator_with_options_and_under_its_other_name():
    @functools.partial(weft.remat, policy=policies.dots_saveable)
    def f(x):
        """Says what it does."""
        return jnp.sin(x)

    assert f.__doc__ == "Says what it does." and weft.remat is weft.checkpoint
    close(weft.grad(f)(0.5), np.cos(np.float32(0.5)))


# ---- errors ------------------------------------------------------------------------------------


def test_bad_arguments():
    with pytest.raises(WeftTypeError, match="takes a function first, not int"):
        weft.checkpoint(3)
    with pytest.raises(WeftTypeError, match="function as its policy") as info:
        weft.checkpoint(jnp.sin, policy="dots_saveable")
    assert info.value.fix.kind == "policy"
    weft.grad(weft.checkpoint(jnp.sin, policy=policies.dots_saveable))(0.5)
    with pytest.raises(WeftValueError, match="static_argnums names argument 2 of 1") as info:
        weft.checkpoint(jnp.sin, static_argnums=2)(0.5)
    assert info.value.fix.kind == "static_argnums"
    with pytest.raises(WeftTypeError, match="no array"):
        weft.checkpoint(lambda x: "text")(0.5)
    with pytest.raises(WeftTypeError):
        weft.checkpoint(lambda x: 1.0)("text")


def test_a_branch_on_an_argument_and_its_fix():
    def f(x, up):
        return jnp.sin(x) if up else jnp.cos(x)

    with pytest.raises(ConcretizationError, match="under checkpoint of f") as info:
        weft.checkpoint(f)(0.5, True)
    assert "test_checkpoint.py" in str(info.value)
    close(weft.grad(weft.checkpoint(f, static_argnums=1))(0.5, True), np.cos(np.float32(0.5)))


def test_a_value_that_escapes():
    kept = []

    @weft.checkpoint
    def leaky(x):
        kept.append(x * 2.0)
        return x

    weft.grad(leaky)(0.5)
    with pytest.raises(LeakedTracerError, match="escaped from checkpoint of leaky") as info:
        kept[0] + 1.0
    assert "test_checkpoint.py" in str(info.value) and info.value.fix.kind == "return_value"
