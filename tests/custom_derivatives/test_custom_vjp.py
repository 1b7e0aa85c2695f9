"""`custom_vjp`: residuals, zeros, closures, errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from weft import lax
from weft.core.check import check_jaxpr
from weft.custom_derivatives.custom_function import SymbolicZero
from weft.custom_derivatives.custom_vjp_rules import CustomVJPPrimal
from weft.errors import (
    DTypeError,
    LeakedTracerError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
)

pytestmark = pytest.mark.fast
X = np.array([0.3, -0.7, 1.1], np.float32)


def with_rules(function, fwd, bwd, **options):
    f = weft.custom_vjp(function, **options)
    f.defvjp(fwd, bwd)
    return f


def scaled(factor):
    return with_rules(lambda x: x, lambda x: (x, None), lambda _, ct: (factor * ct,))


# ---- the rules are what counts -------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit, lambda f: weft.jit(weft.jit(f))])
def test_the_rules_are_used_in_both_modes(transform):
    f = transform(scaled(10.0))
    assert float(f(2.0)) == 2.0
    assert float(weft.grad(f)(2.0)) == 10.0 and float(weft.jvp(f, (2.0,), (3.0,))[1]) == 30.0
    assert float(weft.linearize(f, 2.0)[1](3.0)) == 30.0
    close(weft.grad(lambda x: weft.vmap(f)(x).sum())(X), [10.0] * 3)
    close(weft.vmap(weft.grad(f))(X), [10.0] * 3)
    close(weft.jvp(weft.vmap(f), (X,), (X,))[1], 10 * X)


def test_the_rules_are_differentiated_by_their_own_operations():
    f = with_rules(lambda x: x, lambda x: (x, x**3), lambda cube, ct: (cube * ct,))
    for g in (f, weft.jit(f)):
        assert float(weft.grad(g)(2.0)) == 8.0 and float(weft.grad(weft.grad(g))(2.0)) == 12.0
        assert float(weft.grad(weft.grad(weft.grad(g)))(2.0)) == 12.0
        assert float(weft.jacfwd(weft.jacrev(weft.jacfwd(g)))(2.0)) == 12.0


def test_clipping_of_gradients():
    f = with_rules(lambda x: x, lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))

    def loss(x):
        return jnp.sum(f(x) ** 2 * jnp.array([1.0, 2.0, 3.0]))

    wanted = np.clip(2 * X * [1, 2, 3], -1, 1)
    for g in (loss, weft.jit(loss), lambda x: lax.cond(True, loss, lambda x: 0.0, x)):
        close(weft.grad(g)(X), wanted)
        close(weft.vmap(weft.grad(g))(np.stack([X, X])), [wanted] * 2)


def test_python_control_flow_in_all_functions():
    @weft.custom_vjp
    def f(x):
        n = 0
        while x > 1.0:
            x, n = x / 2.0, n + 1
        return x

    def fwd(x):
        return f(x), (x, "large" if x > 4.0 else "small")

    def bwd(residuals, ct):
        x, size = residuals
        if ct < 0.0:
            return (ct,)
        return (ct * 7.0 if size == "large" and x < 100.0 else -ct,)

    f.defvjp(fwd, bwd)
    assert float(f(5.0)) == 0.625
    assert float(weft.grad(f)(5.0)) == 7.0 and float(weft.grad(f)(3.0)) == -1.0
    assert float(weft.grad(lambda x: -f(x))(5.0)) == -1.0
    with pytest.raises(WeftTypeError, match="bool"):
        weft.jit(f)(3.0)


def test_forward_mode_sees_values_of_residuals():
    f = with_rules(lambda x: x, lambda x: (x, x), lambda x, ct: ((2.0 if x > 1.0 else 3.0) * ct,))
    assert float(weft.jvp(f, (2.0,), (1.0,))[1]) == 2.0
    assert float(weft.jvp(f, (0.5,), (1.0,))[1]) == 3.0


def test_an_eager_gradient_runs_each_rule_once():
    runs = []

    def note(what, value):
        runs.append(what)
        return value

    f = with_rules(
        lambda x: note("function", x),
        lambda x: note("fwd", (x, None)),
        lambda _, ct: note("bwd", (ct,)),
    )
    weft.grad(f)(1.0)
    assert runs == ["fwd", "bwd"]
    weft.grad(lambda x: x * f(2.0))(1.0)
    assert runs == ["fwd", "bwd", "function"]


def test_residuals_of_every_kind():
    key = weft.random.key(3)

    def fwd(x):
        return x * 2.0, {"key": key, "n": jnp.int32(4), "text": "t", "none": None, "f": jnp.cos,
                         "array": np.array([1.0, 2.0, 3.0], np.float32), "x": [x]}  # fmt: skip

    def bwd(r, ct):
        assert r["text"] == "t" and r["none"] is None
        noise = weft.random.bits(r["key"], (3,)) * 0.0
        return (ct * r["f"](r["x"][0]) * r["array"] * r["n"] + noise,)

    f = with_rules(lambda x: x * 2.0, fwd, bwd)
    wanted = np.cos(X) * np.array([4.0, 8.0, 12.0])
    for g in (f, weft.jit(f)):
        close(weft.grad(lambda x, g=g: g(x).sum())(X), wanted)
        close(weft.jit(weft.grad(lambda x, g=g: g(x).sum()))(X), wanted)
        close(weft.jvp(g, (X,), (X,))[1], wanted * X)
        found = weft.vmap(weft.grad(lambda x, g=g: g(x).sum()))(np.stack([X, X]))
        close(found, [wanted] * 2)


def test_constants_of_the_rules():
    table = jnp.array([1.0, 2.0, 3.0])
    f = with_rules(lambda x: x, lambda x: (x, x * table), lambda r, ct: (r * table * ct,))

    def loss(x):
        return jnp.sum(f(x))

    wanted = X * np.array([1.0, 4.0, 9.0])
    for g in (loss, weft.jit(loss), lambda x: lax.cond(True, loss, loss, x)):
        close(weft.grad(g)(X), wanted)
        close(weft.jvp(g, (X,), (X,))[1], wanted @ X)
        close(weft.jacfwd(weft.grad(g))(X), np.diag([1.0, 4.0, 9.0]))
    check_jaxpr(weft.make_jaxpr(weft.grad(weft.jit(loss)))(X))


def test_integers_among_arguments_and_results():
    seen = []

    def bwd(r, cts):
        seen.append([c.dtype for c in cts])
        return None, 10.0 * cts[0]

    f = with_rules(lambda n, x: (n * x, n), lambda n, x: ((n * x, n), None), bwd)
    for g in (f, weft.jit(f)):
        assert float(weft.grad(lambda x, g=g: g(3, x)[0])(2.0)) == 10.0
        assert seen[-1] == [np.float32, weft.float0]
        out = weft.grad(lambda n, x, g=g: g(n, x)[0], (0, 1), allow_int=True)(3, 2.0)
        assert out[0].dtype == weft.float0 and float(out[1]) == 10.0
        tangent = weft.jvp(lambda x, g=g: g(3, x), (2.0,), (1.0,))[1]
        assert float(tangent[0]) == 10.0 and tangent[1].dtype == weft.float0


@pytest.mark.parametrize(
    "zero", [None, np.zeros((), weft.float0), 0, np.int32(0)], ids=["None", "float0", "0", "int32"]
)
def test_cotangents_of_integers(zero):
    f = with_rules(lambda n, x: n * x, lambda n, x: (n * x, n), lambda n, ct: (zero, n * ct))
    assert float(weft.grad(f, 1)(3, 2.0)) == 3.0
    assert float(weft.grad(weft.jit(f), 1)(3, 2.0)) == 3.0


def test_none_stands_for_zero_anywhere():
    f = with_rules(
        lambda p, x: p["a"][0] * x,
        lambda p, x: (p["a"][0] * x, (p["a"][0], x)),
        lambda r, ct: ({"a": None, "b": 5.0 * ct}, None),
    )
    p = {"a": (2.0, X), "b": 3.0}
    for g in (f, weft.jit(f)):
        dp, dx = weft.grad(g, (0, 1))(p, 4.0)
        assert float(dp["a"][0]) == 0.0 and float(dp["b"]) == 5.0 and float(dx) == 0.0
        close(dp["a"][1], np.zeros(3))
        assert float(weft.jvp(g, (p, 4.0), (p, 4.0))[1]) == 15.0
    mapped = weft.vmap(weft.grad(lambda b: f({"a": (2.0, X), "b": b}, 1.0)))(X)
    close(mapped, [5.0] * 3)


def test_cotangents_of_arguments_that_are_not_mapped_are_summed():
    f = with_rules(
        lambda w, x: w * jnp.sum(x),
        lambda w, x: (w * jnp.sum(x), (w, x)),
        lambda r, ct: (ct * jnp.sum(r[1]), ct * r[0] * jnp.ones_like(r[1])),
    )
    xs = np.stack([X, 2 * X])

    def loss(w, xs):
        return weft.vmap(f, (None, 0))(w, xs).sum()

    def twice(w, xs):
        inner = weft.vmap(f, (None, 0))
        return weft.vmap(inner, (None, 0))(w, jnp.stack([xs, xs])).sum()

    for transform in (lambda g: g, weft.jit):
        dw, dxs = weft.grad(transform(loss), (0, 1))(2.0, xs)
        close(dw, 3 * X.sum())
        close(dxs, np.full((2, 3), 2.0))
        close(weft.grad(transform(twice))(2.0, xs), 6 * X.sum())
        close(weft.jvp(transform(lambda w: loss(w, xs)), (2.0,), (1.0,))[1], 3 * X.sum())
        linear = weft.linearize(transform(lambda w: loss(w, xs)), 2.0)[1]
        close(weft.vmap(linear)(X), 3 * X.sum() * X)


def test_collectives_inside():
    f = with_rules(
        lambda x: lax.psum(x, "i"),
        lambda x: (lax.psum(x, "i"), None),
        lambda _, ct: (2.0 * lax.psum(ct, "i"),),
    )
    for g in (f, weft.jit(f)):
        close(weft.vmap(g, axis_name="i")(X), [X.sum()] * 3)
        close(weft.grad(lambda x, g=g: weft.vmap(g, axis_name="i")(x)[0])(X), [2.0] * 3)
        close(weft.jvp(weft.vmap(g, axis_name="i"), (X,), (X,))[1], [2 * X.sum()] * 3)


# ---- forward mode --------------------------------------------------------------------------------

NOT_LINEAR = {
    "min": lambda _, ct: (jnp.clip(ct, -1.0, 1.0),),
    "select_n": lambda _, ct: (jnp.where(ct > 0.0, ct, 0.0),),
    "mul": lambda _, ct: (ct * ct,),
    "sin": lambda _, ct: (jnp.sin(ct),),
}


@pytest.mark.parametrize("operation", NOT_LINEAR)
@pytest.mark.parametrize("transform", [lambda f: f, weft.jit])
def test_forward_mode_needs_a_backward_rule_that_is_linear(operation, transform):
    f = transform(with_rules(lambda x: x, lambda x: (x, None), NOT_LINEAR[operation]))
    with pytest.raises(WeftTypeError, match="not linear in the cotangent") as caught:
        weft.jvp(f, (2.0,), (1.0,))
    assert caught.value.operation == operation and caught.value.fix.kind == "custom_jvp"
    # The fix, one way and the other:
    value = {"min": 1.0, "select_n": 1.0, "mul": 1.0, "sin": np.sin(1.0)}[operation]
    close(weft.grad(f)(2.0), value)
    g = weft.custom_jvp(lambda x: x)
    g.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    assert float(weft.jvp(g, (2.0,), (1.0,))[1]) == 1.0


def test_a_constant_for_a_cotangent_is_not_linear():
    f = with_rules(lambda x: x, lambda x: (x, None), lambda _, ct: (jnp.ones(()),))
    with pytest.raises(WeftTypeError, match="not linear in the cotangent"):
        weft.jvp(f, (2.0,), (1.0,))


def test_other_errors_of_the_backward_rule_stay_themselves():
    f = with_rules(lambda x: x, lambda x: (x, None), lambda _, ct: (jnp.ones(3) @ jnp.ones(4),))
    for transform in (weft.grad, weft.jacfwd):
        with pytest.raises(ShapeError):
            transform(f)(2.0)


# ---- arguments -----------------------------------------------------------------------------------


def test_keywords_and_defaults_become_positions():
    f = with_rules(
        lambda x, y=2.0: x * y,
        lambda x, y: (x * y, (x, y)),
        lambda r, ct: (10.0 * ct * r[1], 10.0 * ct * r[0]),
    )
    for call in (lambda x: f(x), lambda x: f(x=x), lambda x: f(y=2.0, x=x)):
        assert float(weft.grad(call)(3.0)) == 20.0
        assert float(weft.grad(weft.jit(call))(3.0)) == 20.0
    assert float(weft.grad(lambda y: f(3.0, y=y))(4.0)) == 30.0


@pytest.mark.parametrize(
    "options", [{"nondiff_argnums": (0, 2)}, {"nondiff_argnames": ["fun", "mode"]}]
)
def test_arguments_without_derivatives(options):
    @functools.partial(weft.custom_vjp, **options)
    def f(fun, x, mode):
        assert mode == ["any", object]
        return fun(x)

    def fwd(fun, x, mode):
        return f(fun, x, mode), x

    def bwd(fun, mode, x, ct):
        assert mode == ["any", object]
        return (10.0 * weft.vjp(fun, x)[1](ct)[0],)

    f.defvjp(fwd, bwd)
    for transform in (lambda g: g, weft.jit):
        g = transform(lambda x: f(jnp.sin, x, mode=["any", object]))
        close(g(0.5), np.sin(0.5))
        close(weft.grad(g)(0.5), 10 * np.cos(0.5))
        close(weft.jvp(g, (0.5,), (1.0,))[1], 10 * np.cos(0.5))
        close(weft.grad(weft.grad(g))(0.5), -10 * np.sin(0.5))
        close(weft.vmap(weft.grad(g))(X), 10 * np.cos(X))


def test_traced_arguments_without_derivatives():
    f = with_rules(
        lambda n, x: n * x,
        lambda n, x: (n * x, None),
        lambda n, _, ct: (10.0 * n * ct,),
        nondiff_argnums=(0,),
    )
    close(weft.jit(weft.grad(f, 1))(3.0, 2.0), 30.0)
    close(weft.vmap(weft.grad(f, 1), (0, None))(X, 2.0), 10 * X)
    close(weft.grad(lambda x: weft.vmap(f, (0, None))(X, x).sum())(2.0), 10 * X.sum())
    close(weft.jvp(lambda x: weft.vmap(f, (0, None))(X, x), (2.0,), (1.0,))[1], 10 * X)
    for g in (f, weft.jit(f)):
        with pytest.raises(WeftTypeError, match="declared to have no derivative") as caught:
            weft.grad(g)(3.0, 2.0)
        assert caught.value.fix.kind == "differentiable"
    fixed = with_rules(
        lambda n, x: n * x, lambda n, x: (n * x, (n, x)), lambda r, ct: (r[1] * ct, r[0] * ct)
    )
    assert float(weft.grad(fixed)(3.0, 2.0)) == 2.0


# ---- zeros ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit, lambda f: weft.jit(weft.jit(f))])
def test_symbolic_zeros(transform):
    seen = []
    f = weft.custom_vjp(lambda p, n: (p["x"] * p["y"], p["x"], n))

    def fwd(p, n):
        assert all(type(v) is CustomVJPPrimal for v in (p["x"], p["y"], n))
        seen.append([p["x"].perturbed, p["y"].perturbed, n.perturbed])
        x, y = p["x"].value, p["y"].value
        return (x * y, x, n.value), (x, y)

    def bwd(r, cts):
        seen.append([type(c) is SymbolicZero for c in cts])
        first = r[1] * cts[0] if not seen[-1][0] else 0.0
        return {"x": first, "y": r[0] * cts[0] if not seen[-1][0] else cts[0]}, cts[2]

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    g = transform(f)
    x = weft.grad(lambda x: g({"x": x, "y": 3.0}, 1)[0])(2.0)
    assert float(x) == 3.0
    assert seen[-2:] == [[True, False, False], [False, True, True]]
    y = weft.grad(lambda y: g({"x": 2.0, "y": y}, 1)[0])(3.0)
    assert float(y) == 2.0
    assert seen[-2:] == [[False, True, False], [False, True, True]]
    close(weft.vmap(weft.grad(lambda y: g({"x": 2.0, "y": y}, 1)[0]))(X), [2.0] * 3)
    assert seen[-2:] == [[False, True, False], [False, True, True]]
    mapped = weft.grad(lambda y: weft.vmap(lambda y: g({"x": 2.0, "y": y}, 1)[0])(y).sum())(X)
    close(mapped, [2.0] * 3)
    assert seen[-2:] == [[False, True, False], [False, True, True]]


def test_zeros_are_arrays_by_default():
    seen = []

    def bwd(_, cts):
        seen.append([(c.shape, c.dtype) for c in cts])
        return (cts[0],)

    f = with_rules(lambda x: (x, x), lambda x: ((x, x), None), bwd)
    weft.grad(lambda x: f(x)[0].sum())(X)
    assert seen == [[((3,), np.float32)] * 2]


# ---- closures ------------------------------------------------------------------------------------


def test_closed_over_values_are_differentiated_through_the_function():
    def outer(w, x):
        f = weft.custom_vjp(lambda y: w * w * y)
        f.defvjp(lambda y: (f(y), 10.0 * w), lambda slope, ct: (slope * ct * (w / w),))
        return f(x)

    for g in (outer, weft.jit(outer)):
        # d/dw by ordinary rules: 2 w x; d/dx by the rules: 10 w.
        assert [float(v) for v in weft.grad(g, (0, 1))(3.0, 2.0)] == [12.0, 30.0]
        assert float(weft.jvp(g, (3.0, 2.0), (1.0, 1.0))[1]) == 42.0
        close(weft.grad(weft.grad(g, 1))(3.0, 2.0), 10.0)
        close(weft.vmap(g, (0, None))(X, 2.0), X * X * 2)
        close(weft.vmap(weft.grad(g, 1), (0, None))(X, 2.0), 10 * X)
        close(weft.grad(lambda w, g=g: weft.vmap(g, (None, 0))(w, X).sum())(3.0), 6 * X.sum())
        close(weft.jit(weft.vmap(weft.grad(g), (0, None)))(X, 2.0), 4 * X)


def test_mixed_derivatives_keep_the_rules_of_the_arguments():
    def outer(w, x):
        f = weft.custom_vjp(lambda y: w * y)
        f.defvjp(lambda y: (f(y), None), lambda _, ct: (100.0 * ct,))
        return f(x)

    # The value's derivative in x follows the rule, also where w is differentiated within.
    for g in (outer, weft.jit(outer)):
        both = weft.value_and_grad(g)
        assert float(weft.grad(lambda x, both=both: both(3.0, x)[0])(2.0)) == 100.0
        assert float(weft.grad(lambda x, both=both: both(3.0, x)[1])(2.0)) == 1.0


class Box:
    """Holds a value where nothing looks for it."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("where", ["function", "fwd", "bwd"])
def test_traced_values_in_attributes_are_explained(where):
    def outer(w, x):
        box = {name: Box(w if name == where else 3.0) for name in ("function", "fwd", "bwd")}
        read = lambda name: box[name].value  # noqa: E731
        f = weft.custom_vjp(lambda y: read("function") * y)
        f.defvjp(lambda y: (read("fwd") * y, None), lambda _, ct: (read("bwd") * ct,))
        return f(x)

    def call():
        if where == "function":
            return weft.vmap(outer, (0, None))(X, 2.0)
        return weft.grad(outer, (0, 1))(3.0, 2.0)

    # The backward rule runs when the function that made the traced value has returned.
    match = "escaped from" if where == "bwd" else "none of its arguments"
    with pytest.raises(LeakedTracerError, match=match) as caught:
        call()
    assert caught.value.fix.kind == ("return_value" if where == "bwd" else "pass_argument")


# ---- vjp as a residual, programs -----------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit])
def test_what_vjp_returns_is_a_residual(transform):
    f = with_rules(
        lambda x, y: jnp.sin(x) * y,
        lambda x, y: weft.vjp(lambda x, y: jnp.sin(x) * y, x, y),
        lambda pullback, ct: pullback(ct),
    )
    g = transform(f)
    found = weft.grad(g, (0, 1))(0.5, 2.0)
    close(found, [2 * np.cos(0.5), np.sin(0.5)])
    close(weft.hessian(g, (0, 1))(0.5, 2.0)[0][0], -2 * np.sin(0.5))
    close(weft.jacrev(weft.jacrev(g))(0.5, 2.0), -2 * np.sin(0.5))
    close(weft.vmap(weft.grad(g), (0, None))(X, 2.0), 2 * np.cos(X))
    close(weft.jvp(g, (0.5, 2.0), (1.0, 0.0))[1], 2 * np.cos(0.5))


def test_what_vjp_returns_leaves_a_jitted_function():
    value, pullback = weft.jit(lambda x: weft.vjp(jnp.sin, x))(0.5)
    close(value, np.sin(0.5))
    close(pullback(2.0)[0], 2 * np.cos(0.5))
    mapped = weft.vmap(lambda x: weft.vjp(jnp.sin, x)[1])(X)
    close(weft.vmap(lambda pullback: pullback(1.0)[0])(mapped), np.cos(X))


def test_the_program_shows_the_call_with_its_body():
    f = with_rules(lax.sin, lambda x: (lax.sin(x), x), lambda x, ct: (lax.cos(x) * ct,))
    assert str(weft.make_jaxpr(lambda x: f(x))(X)) == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = custom_vjp[\n"
        "      jaxpr={ lambda ; c:f32[3]. let\n"
        "          d:f32[3] = sin c\n"
        "        in (d,) }\n"
        "      name=sin\n"
        "      rule=<lambda>\n"
        "    ] a\n"
        "  in (b,) }"
    )
    linear = weft.linearize(f, X)[1]
    assert "custom_vjp_tangents[active=(True,) out_types=(f32[3],) pullback=<lambda>]" in str(
        linear.jaxpr
    )


# ---- errors --------------------------------------------------------------------------------------


def failing(fwd, bwd, function=lambda x: x, args=(2.0,), error=None, match=None):
    """The error of rules that return something wrong, the same eager and recorded."""
    f = with_rules(function, fwd, bwd)
    kinds = set()
    for g in (f, weft.jit(f)):
        with pytest.raises(error, match=match) as caught:
            weft.vjp(g, *args)[1](1.0)
        kinds.add(caught.value.fix.kind if caught.value.fix else None)
    assert len(kinds) == 1
    return caught.value


def plain_fwd(*args):
    return args[0], None


def test_called_without_rules():
    f = weft.custom_vjp(lambda x: x)
    with pytest.raises(WeftTypeError, match="no rule for its derivative") as caught:
        f(1.0)
    getattr(f, caught.value.fix.kind)(plain_fwd, lambda _, ct: (ct,))
    assert float(weft.grad(f)(1.0)) == 1.0


@pytest.mark.parametrize("bad", [None, 3, (1.0, 2.0, 3.0), {"a": 1}])
def test_a_forward_rule_that_returns_no_pair(bad):
    error = failing(lambda x: bad, lambda _, ct: (ct,), error=WeftTypeError, match="no pair")
    assert error.fix.kind == "pair" and type(bad).__name__ in error.got


def test_a_forward_rule_with_another_result():
    for result, error, match in [
        ({"b": 1.0}, TreeError, "another structure than the function"),
        ({"a": np.ones(3, np.float32)}, ShapeError, r"result\['a'\] of the fwd rule"),
        ({"a": np.int32(3)}, DTypeError, r"result\['a'\] of the fwd rule"),
    ]:
        f = with_rules(lambda x: {"a": x}, lambda x, r=result: (r, None), lambda _, ct: (ct["a"],))
        with pytest.raises(error, match=match):
            weft.vjp(weft.jit(f), 1.0)


@pytest.mark.parametrize("count", [1, 2])
def test_a_backward_rule_that_returns_no_tuple_of_the_length(count):
    args = (2.0, 3.0)[:count]
    for bad in (lambda _, ct: ct, lambda _, ct: (ct, ct, ct), lambda _, ct: None):
        error = failing(
            plain_fwd, bad, lambda *xs: xs[0], args, TreeError, "one cotangent per argument"
        )
        assert error.fix.kind == "tuple"
        length = error.fix.data["length"]
        f = with_rules(lambda *xs: xs[0], plain_fwd, lambda _, ct, n=length: (ct,) * n)
        assert float(weft.grad(f)(*args)) == 1.0


def test_a_backward_rule_with_another_structure():
    error = failing(
        lambda p: (p["a"][0], None),
        lambda _, ct: ({"a": [ct, ct], "b": None},),
        lambda p: p["a"][0],
        ({"a": (1.0, 2.0), "b": (3.0, 4.0)},),
        TreeError,
        "another structure than the arguments",
    )
    assert "[0]['a']: a list of length 2 instead of a tuple of length 2" in error.got
    failing(
        lambda p: (p[0], None),
        lambda _, ct: (ct,),
        lambda p: p[0],
        ([1.0, 2.0],),
        TreeError,
        "another structure than the arguments",
    )


def test_a_cotangent_of_another_shape_or_dtype():
    def case(bad, error, match):
        return failing(
            lambda x, p: (p["w"] * x, None),
            lambda _, ct: (ct, {"w": bad}),
            lambda x, p: p["w"] * x,
            (1.0, {"w": 2.0}),
            error,
            match,
        )

    error = case(np.ones(3, np.float32), ShapeError, r"cotangent of p\['w'\]")
    assert error.fix.data["shape"] == ()
    error = case(np.int32(3), DTypeError, r"cotangent of p\['w'\]")
    assert error.fix.kind == "convert" and error.fix.data["dtype"] == np.float32
    error = case(np.zeros((), weft.float0), DTypeError, r"cotangent of p\['w'\]")
    assert error.fix.kind == "none"
    case("three", WeftTypeError, "no array")
    f = with_rules(lambda x: x, plain_fwd, lambda _, ct: (np.float32(3),))  # the fix
    assert float(weft.grad(f)(1.0)) == 3.0
    f = with_rules(lambda x: x, plain_fwd, lambda _, ct: (None,))
    assert float(weft.grad(f)(1.0)) == 0.0


def test_a_cotangent_for_an_integer():
    error = failing(
        lambda n, x: (x, None),
        lambda _, ct: (ct, ct),
        lambda n, x: x,
        (3, 2.0),
        DTypeError,
        "cotangent of n",
    )
    assert error.fix.kind == "none"


def test_arguments_that_are_no_arrays():
    f = with_rules(lambda x, mode: x, lambda x, mode: (x, None), lambda _, ct: (ct, None))
    for call in (lambda: f(1.0, "fast"), lambda: weft.grad(f)(1.0, "fast")):
        with pytest.raises(WeftTypeError, match="mode is no array") as caught:
            call()
    places = caught.value.fix.data["nondiff_argnums"]
    f = with_rules(
        lambda x, mode: x,
        lambda x, mode: (x, None),
        lambda mode, _, ct: (2.0 * ct,),
        nondiff_argnums=places,
    )
    assert float(weft.grad(f)(1.0, "fast")) == 2.0


def test_bad_declarations():
    with pytest.raises(WeftValueError, match="there are 2 arguments"):
        weft.custom_vjp(lambda x, y: x, nondiff_argnums=(2,))
    with pytest.raises(WeftValueError, match="'z'"):
        weft.custom_vjp(lambda x, y: x, nondiff_argnames="z")
    with pytest.raises(WeftTypeError, match="takes functions"):
        weft.custom_vjp(lambda x: x).defvjp(3, lambda _, ct: (ct,))
    with pytest.raises(WeftTypeError, match="takes functions"):
        weft.custom_vjp(lambda x: x).defvjp(lambda x: (x, None), None)
    with pytest.raises(WeftTypeError, match="takes a function"):
        weft.custom_vjp(3)
