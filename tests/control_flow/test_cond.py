"""`cond` and `switch` under every transformation."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from weft import lax
from weft.core.check import check_jaxpr
from weft.core.jaxpr import Jaxpr, Literal, eval_jaxpr, jaxprs_in
from weft.errors import TreeError, WeftTypeError, WeftValueError
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.testing import check_grads

X = np.array([0.5, -1.5, 2.0], dtype=np.float32)
TABLE = jnp.array([1.0, 2.0, 3.0])
OTHER = jnp.array([-1.0, 0.5, 4.0])


def choose(p, x):
    """Branches with different constants, residuals and closed-over numbers."""
    return lax.cond(
        p, lambda y: jnp.sin(y) * TABLE * jnp.exp(y * 0.5), lambda y: y * OTHER + jnp.cos(y * y), x
    )


def reference(p, x):
    x = np.asarray(x, np.float64)
    if p:
        return np.sin(x) * np.asarray(TABLE, float) * np.exp(x * 0.5)
    return x * np.asarray(OTHER, float) + np.cos(x * x)


def derivative(p, x):
    x = np.asarray(x, np.float64)
    if p:
        return np.asarray(TABLE, float) * np.exp(x * 0.5) * (np.cos(x) + 0.5 * np.sin(x))
    return np.asarray(OTHER, float) - 2 * x * np.sin(x * x)


def second(p, x):
    x = np.asarray(x, np.float64)
    if p:
        return np.asarray(TABLE, float) * np.exp(x * 0.5) * (np.cos(x) - 0.75 * np.sin(x))
    return -2 * np.sin(x * x) - 4 * x * x * np.cos(x * x)


def total(p, x):
    return jnp.sum(choose(p, x))


both = pytest.mark.parametrize("p", [True, False])


# ---- values ------------------------------------------------------------------------------------


@both
def test_value_eager_jitted_and_with_a_traced_predicate(p):
    close(choose(p, X), reference(p, X))
    close(weft.jit(choose, static_argnums=0)(p, X), reference(p, X))
    close(weft.jit(choose)(p, X), reference(p, X))
    close(weft.jit(choose)(jnp.array(p), X), reference(p, X))


@both
def test_only_the_chosen_branch_is_evaluated_eagerly(p):
    primitives = []
    counter = weft.extend.core.Primitive("observed_branch")
    counter.def_abstract_eval(lambda x, which: x)
    counter.def_impl(lambda x, which: primitives.append(which) or x)
    lax.cond(p, lambda x: counter.bind(x, which=True), lambda x: counter.bind(x, which=False), 1.0)
    assert primitives == [p]


@pytest.mark.parametrize("pred", [1, 0, 2.5, np.int32(3), np.bool_(False), np.float32(0.0), np.nan])
def test_numbers_serve_as_predicates(pred):
    assert float(lax.cond(pred, lambda: 1.0, lambda: 2.0)) == (1.0 if pred else 2.0)


def test_operands_may_be_none_many_or_given_by_keyword():
    assert float(lax.cond(True, lambda: 3, lambda: 4)) == 3
    assert float(lax.cond(True, lambda x, y: x + y, lambda x, y: x - y, 1.0, 2.0)) == 3.0
    assert float(lax.cond(False, lambda x: x, lambda x: -x, operand=2.0)) == -2.0
    assert float(lax.cond(False, lambda _: 1.0, lambda _: 2.0, operand=None)) == 2.0
    assert float(lax.switch(1, [lambda _: 1.0, lambda _: 2.0], operand=None)) == 2.0
    assert lax.cond(
        True, lambda d: {"s": d["a"] + d["b"][0]}, lambda d: {"s": d["a"]}, {"a": 1, "b": [2]}
    ) == {"s": 3}


def test_results_are_arrays_whatever_the_branches_return():
    for p in (True, False):
        out = lax.cond(p, lambda: (3, 1.5, None), lambda: (4, 2.5, None))
        assert out[2] is None and isinstance(out[0], weft.Array) and out[0].dtype == np.int32
        traced = weft.jit(lambda p: lax.cond(p, lambda: (3, 1.5, None), lambda: (4, 2.5, None)))(p)
        assert [x.type for x in out[:2]] == [x.type for x in traced[:2]]


def test_eager_and_jitted_results_have_one_type():
    def f(p):
        return lax.cond(p, lambda: 1.0, lambda: np.float32(2.0))

    for p in (True, False):
        assert f(p).type is weft.jit(f)(p).type


def test_no_results():
    assert lax.cond(True, lambda x: (), lambda x: (), 1.0) == ()
    assert weft.jit(lambda p, x: lax.cond(p, lambda x: [], lambda x: [], x))(True, 1.0) == []


def test_branches_that_return_their_operand_or_a_constant():
    def f(p, x):
        return lax.cond(p, lambda y: y, lambda y: TABLE, x)

    for p in (True, False):
        wanted = X if p else TABLE
        close(f(p, X), wanted)
        close(weft.jit(f)(p, X), wanted)
        close(weft.grad(lambda x, p=p: jnp.sum(f(p, x)))(X), np.full(3, float(p)))
        close(weft.vmap(f, in_axes=(None, 0))(p, np.stack([X, X]))[1], wanted)


@pytest.mark.parametrize("index", [-5, -1, 0, 1, 2, 3, 100])
def test_switch_clamps_its_index(index):
    branches = [lambda x: x, lambda x: x * 10, lambda x: x * 100]
    wanted = 2.0 * 10 ** min(max(index, 0), 2)
    assert float(lax.switch(index, branches, 2.0)) == wanted
    assert float(weft.jit(lambda i, x: lax.switch(i, branches, x))(index, 2.0)) == wanted
    assert float(weft.grad(lambda x: lax.switch(index, branches, x))(2.0)) == wanted / 2.0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.int32])
def test_switch_takes_any_integer(dtype):
    top = np.iinfo(dtype).max
    for index, wanted in ((0, 1.0), (1, 2.0), (top, 2.0)):
        got = lax.switch(jnp.array(index, dtype), [lambda: 1.0, lambda: 2.0])
        assert float(got) == wanted


def test_switch_with_one_branch():
    assert float(lax.switch(7, [lambda x: x + 1], 1.0)) == 2.0
    assert float(weft.jit(lambda i: lax.switch(i, [lambda: 3.0]))(5)) == 3.0


# ---- derivatives -------------------------------------------------------------------------------


@both
def test_first_and_second_derivatives_in_every_mode(p):
    grad = weft.grad(total, argnums=1)
    for pred in (p, jnp.array(p)):
        close(
            weft.jvp(functools.partial(choose, pred), (X,), (np.ones(3, "f"),))[1], derivative(p, X)
        )
        close(grad(pred, X), derivative(p, X))
        close(weft.jit(grad)(pred, X), derivative(p, X))
        close(weft.grad(weft.jit(total), argnums=1)(pred, X), derivative(p, X))
        _, f_lin = weft.linearize(functools.partial(choose, pred), X)
        close(f_lin(np.ones(3, "f")), derivative(p, X))
    hessian = np.diag(second(p, X))
    close(weft.hessian(total, argnums=1)(p, X), hessian, 1e-4, 1e-4)
    close(weft.jacrev(grad, argnums=1)(p, X), hessian, 1e-4, 1e-4)
    close(weft.jit(weft.jacrev(grad, argnums=1))(p, X), hessian, 1e-4, 1e-4)
    close(weft.jacrev(weft.jit(grad), argnums=1)(p, X), hessian, 1e-4, 1e-4)


@both
def test_derivatives_against_finite_differences(p):
    x = jnp.array(X, np.float64)
    check_grads(lambda x: lax.cond(p, lambda y: jnp.sin(y) * y, lambda y: y * y * 0.5, x), (x,), 2)
    check_grads(
        weft.jit(lambda x: lax.cond(p, lambda y: jnp.sin(y) * y, lambda y: y * y * 0.5, x)), (x,), 2
    )


@both
def test_a_gradient_through_what_the_branches_close_over(p):
    def f(w):
        doubled = w * 2.0
        return lax.cond(p, lambda x: x * doubled, lambda x: x - w, 3.0)

    wanted = 6.0 if p else -1.0
    for g in (weft.grad(f), weft.jit(weft.grad(f)), weft.grad(weft.jit(f))):
        close(g(5.0), wanted)
    close(weft.vmap(weft.grad(f))(X), [wanted] * 3)
    close(weft.jvp(f, (5.0,), (1.0,))[1], wanted)


@both
def test_closing_over_tracers_of_three_enclosing_transformations(p):
    def f(a, b, c):
        def under_grad(u):
            def under_jvp(v):
                def under_vmap(w):
                    return lax.cond(p, lambda: u * v * w, lambda: u + v * w * w)

                return jnp.sum(weft.vmap(under_vmap)(c))

            return weft.jvp(under_jvp, (b,), (1.0,))[1]

        return weft.grad(under_grad)(a)

    c = np.array([1.0, 2.0], np.float32)
    # d/du d/dv of sum(u v w) = sum(w); of sum(u + v w w) = 0
    wanted = 3.0 if p else 0.0
    close(f(2.0, 5.0, c), wanted)
    close(weft.jit(f)(2.0, 5.0, c), wanted)
    close(weft.grad(f, argnums=2)(2.0, 5.0, c), [1.0, 1.0] if p else [0.0, 0.0])


def test_the_unused_branch_has_no_say_in_the_gradient():
    # The square root has an infinite derivative at zero, in the branch that is not taken.
    def f(x):
        return lax.cond(x > 0, jnp.sqrt, lambda y: y * 2.0, x)

    assert float(weft.grad(f)(0.0)) == 2.0 and float(weft.jit(weft.grad(f))(0.0)) == 2.0
    close(weft.vmap(weft.grad(f))(np.array([0.0, 4.0])), [2.0, 0.25])


def test_nested_conditionals():
    def f(p, q, x):
        return lax.cond(
            p,
            lambda y: lax.cond(q, lambda z: z * z, lambda z: z * 3.0, y),
            lambda y: (
                lax.switch(lax.convert_element_type(q, np.int32), [jnp.sin, jnp.cos], y) * TABLE[0]
            ),
            x,
        )

    wanted = {
        (True, True): lambda x: 2 * x,
        (True, False): lambda x: 3.0,
        (False, False): np.cos,
        (False, True): lambda x: -np.sin(x),
    }
    for (p, q), want in wanted.items():
        for g in (
            weft.grad(f, argnums=2),
            weft.jit(weft.grad(f, argnums=2)),
            weft.grad(weft.jit(f), argnums=2),
        ):
            close(g(p, q, 0.7), want(0.7))
        mapped = weft.vmap(weft.grad(f, argnums=2), in_axes=(None, 0, 0))
        close(mapped(p, jnp.array([q, q]), jnp.array([0.7, 0.7])), [want(0.7)] * 2)
    ps = jnp.array([p for p, _ in wanted])
    qs = jnp.array([q for _, q in wanted])
    got = weft.jit(weft.vmap(weft.grad(f, argnums=2)))(ps, qs, np.full(4, 0.7))
    close(got, [want(0.7) for want in wanted.values()])


def test_integers_and_floats_through_the_branches():
    def f(p, x, n):
        return lax.cond(p, lambda x, n: (x * n, n + 1), lambda x, n: (x, n * 2), x, n)

    (value, count), gradient = weft.value_and_grad(
        lambda x: (f(True, x, 3)[0], f(True, x, 3)[1]), has_aux=True
    )(2.0)
    assert (float(value), int(count), float(gradient)) == (6.0, 4, 3.0)
    out, tangent = weft.jvp(lambda x, n: f(False, x, n), (2.0, 3), (1.0, np.zeros((), weft.float0)))
    assert float(tangent[0]) == 1.0 and tangent[1].dtype == weft.float0


@both
def test_one_branch_is_constant(p):
    def f(x):
        return lax.cond(p, lambda y: y * y, lambda y: 0.0 * 1.0, x)

    wanted = 4.0 if p else 0.0
    close(weft.jvp(f, (2.0,), (1.0,))[1], wanted)
    close(weft.grad(f)(2.0), wanted)
    close(weft.jit(weft.grad(f))(2.0), wanted)
    close(weft.grad(weft.grad(f))(2.0), 2.0 if p else 0.0)


# ---- vmap --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", list(itertools.product((None, 0, 1), repeat=2)), ids=str)
@pytest.mark.parametrize("batched_predicate", [False, True])
def test_every_choice_of_mapped_operands(dims, batched_predicate):
    if dims == (None, None) and not batched_predicate:
        dims = (0, None)
    whole = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 3

    def f(p, x, y):
        return lax.cond(p, lambda x, y: (x * y, x), lambda x, y: (x - y * TABLE, TABLE), x, y)

    args = [X if d is None else np.moveaxis(whole, 0, d) for d in dims]
    p = jnp.array([True, False]) if batched_predicate else True
    mapped = weft.vmap(f, in_axes=(0 if batched_predicate else None, *dims))
    for run in (mapped, weft.jit(mapped)):
        got = run(p, *args)
        for k in range(2):
            one = [X if d is None else whole[k] for d in dims]
            wanted = f(bool(p[k]) if batched_predicate else p, *one)
            close(got[0][k], wanted[0])
            close(got[1][k], wanted[1])


def test_a_batched_predicate_becomes_a_selection():
    def f(p, x):
        return lax.cond(p, jnp.sin, jnp.cos, x)

    ps = jnp.array([True, False, True])
    jaxpr = weft.make_jaxpr(weft.vmap(f))(ps, X)
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert "cond" not in names and "select_n" in names
    jaxpr = weft.make_jaxpr(weft.vmap(f, in_axes=(None, 0)))(True, X)
    assert "cond" in [eqn.primitive.name for eqn in jaxpr.eqns]


def test_vmap_of_grad_and_grad_of_vmap_with_batched_predicates():
    ps = jnp.array([True, False, True])
    xs = np.stack([X, X + 0.1, X - 0.2])
    wanted = np.stack([derivative(bool(p), x) for p, x in zip(np.asarray(ps), xs, strict=True)])
    close(weft.vmap(weft.grad(total, argnums=1))(ps, xs), wanted)
    close(weft.jit(weft.vmap(weft.grad(total, argnums=1)))(ps, xs), wanted)
    close(weft.grad(lambda xs: jnp.sum(weft.vmap(total)(ps, xs)))(xs), wanted)
    curvature = np.stack([second(bool(p), x) for p, x in zip(np.asarray(ps), xs, strict=True)])
    hessians = weft.vmap(weft.hessian(total, argnums=1))(ps, xs)
    close(np.stack([np.diag(h) for h in np.asarray(hessians)]), curvature, 1e-4, 1e-4)


def test_batched_switch():
    branches = [lambda x: x, jnp.sin, lambda x: TABLE[1] * x * x]
    index = np.array([0, 1, 2, 5, -3], np.int32)
    x = np.linspace(0.1, 0.9, 5).astype(np.float32)
    got = weft.vmap(lambda i, x: lax.switch(i, branches, x))(index, x)
    close(got, [x[0], np.sin(x[1]), 2 * x[2] ** 2, 2 * x[3] ** 2, x[4]])
    got = weft.vmap(weft.grad(lambda x, i: lax.switch(i, branches, x)))(x, index)
    close(got, [1.0, np.cos(x[1]), 4 * x[2], 4 * x[3], 1.0])
    assert weft.vmap(lambda i: lax.switch(i, [lambda: 1, lambda: 2]))(index).shape == (5,)


# ---- transposition -----------------------------------------------------------------------------


@both
def test_linear_conditionals_transpose(p):
    def f(x):
        return lax.cond(p, lambda y: y * TABLE, lambda y: -y, x)

    ct = np.array([1.0, 10.0, 100.0], np.float32)
    (got,) = weft.linear_transpose(f, X)(ct)
    close(got, ct * np.asarray(TABLE) if p else -ct)
    (again,) = weft.linear_transpose(lambda c: weft.linear_transpose(f, X)(c)[0], ct)(X)
    close(again, f(X))


@both
def test_a_transposed_branch_that_ignores_an_operand(p):
    def f(x, y):
        return lax.cond(p, lambda x, y: x, lambda x, y: y, x, y)

    gx, gy = weft.linear_transpose(f, 1.0, 1.0)(7.0)
    assert (float(gx), float(gy)) == ((7.0, 0.0) if p else (0.0, 7.0))


# ---- partial evaluation and dead code ----------------------------------------------------------


def program_of(f, *args):
    closed = weft.make_jaxpr(f)(*args)
    consts = [np.asarray(c) for c in closed.consts]
    jaxpr = closed.jaxpr
    return Jaxpr(jaxpr.inputs, jaxpr.eqns, jaxpr.outputs, 0), consts


@both
def test_a_known_index_splits_the_branches(p):
    jaxpr, consts = program_of(
        lambda p, k, u: lax.cond(
            p, lambda k, u: (jnp.sin(k) * u, jnp.exp(k)), lambda k, u: (u + k, k * 2.0), k, u
        ),
        True,
        0.5,
        2.0,
    )
    split = partial_eval_jaxpr(jaxpr, (False,) * len(consts) + (False, False, True))
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    assert split.unknown_out == (True, False)
    n = len(jaxpr.outputs) - 1
    known = eval_jaxpr(split.known, (), *consts, p, np.float32(0.5))
    residuals = known[n:]
    assert [weft.extend.core.type_of(r).shape for r in residuals] == [
        t.shape for t in split.residual_types
    ]
    (late,) = eval_jaxpr(split.unknown, (), *residuals, np.float32(2.0))
    wanted = eval_jaxpr(jaxpr, (), *consts, p, np.float32(0.5), np.float32(2.0))
    close(known[0], wanted[1])
    close(late, wanted[0])
    for part, absent in ((split.unknown, {"sin", "exp"}),):
        inner = [
            e.primitive.name for eqn in part.eqns for j in jaxprs_in(eqn.params) for e in j.eqns
        ]
        assert not absent & set(inner)


def test_residuals_of_python_numbers_are_well_typed():
    def f(p, a, b, u):
        return lax.cond(p > 0, lambda: a * b * u, lambda: u)

    jaxpr, consts = program_of(f, 1.0, 2.0, 3.0, 4.0)
    split = partial_eval_jaxpr(jaxpr, (False,) * len(consts) + (False, False, False, True))
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    for p, wanted in ((1.0, 24.0), (-1.0, 4.0)):
        residuals = eval_jaxpr(split.known, (), *consts, p, 2.0, 3.0)
        close(eval_jaxpr(split.unknown, (), *residuals, 4.0)[0], wanted)


def test_an_unknown_index_leaves_the_conditional_whole():
    jaxpr, _ = program_of(lambda p, k: lax.cond(p, jnp.sin, jnp.cos, k), True, 0.5)
    split = partial_eval_jaxpr(jaxpr, (True, False))
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    assert split.unknown_out == (True,)
    assert "cond" in [eqn.primitive.name for eqn in split.unknown.eqns]
    assert "cond" not in [eqn.primitive.name for eqn in split.known.eqns]


def test_dead_results_and_operands_are_dropped_from_every_branch():
    jaxpr, _ = program_of(
        lambda p, x, y: lax.cond(
            p, lambda x, y: (jnp.sin(x), jnp.exp(y)), lambda x, y: (x, jnp.cos(y)), x, y
        ),
        True,
        1.0,
        2.0,
    )
    small, used = dce_jaxpr(jaxpr, (True, False))
    check_jaxpr(small)
    assert used == (True, True, False)
    (eqn,) = [e for e in small.eqns if e.primitive.name == "cond"]
    inner = [e.primitive.name for j in jaxprs_in(eqn.params) for e in j.eqns]
    assert inner == ["sin"]
    close(eval_jaxpr(small, (), True, np.float32(0.5))[0], np.sin(0.5))
    nothing, used = dce_jaxpr(jaxpr, (False, False))
    assert nothing.eqns == [] and used == (False, False, False)


def test_shared_closed_over_arrays_are_one_operand():
    jaxpr = weft.make_jaxpr(lambda p, x: lax.cond(p, lambda y: y * TABLE, lambda y: y + TABLE, x))(
        True, X
    )
    assert jaxpr.jaxpr.num_consts == 1
    (eqn,) = [e for e in jaxpr.eqns if e.primitive.name == "cond"]
    assert len([a for a in eqn.inputs if not isinstance(a, Literal)]) == 3


# ---- errors ------------------------------------------------------------------------------------


def test_results_of_different_types_are_shown_leaf_by_leaf():
    with pytest.raises(WeftTypeError, match="different types") as info:
        lax.cond(
            True,
            lambda x: {"a": x, "b": [jnp.ones(2), 1], "same": 1.0},
            lambda x: {"a": jnp.ones((2, 2)), "b": [jnp.ones(3), 1.0], "same": 2.0},
            X,
        )
    text = str(info.value)
    assert "result['a']" in text and "f32[3]" in text and "f32[2,2]" in text
    assert "result['b'][0]" in text and "result['b'][1]" in text and "same" not in text
    assert "true_fun" in text and "false_fun" in text


def test_results_of_different_structures():
    with pytest.raises(TreeError, match="different structures"):
        lax.cond(True, lambda: (1.0, 2.0), lambda: [1.0, 2.0])
    with pytest.raises(TreeError, match="branch 2"):
        lax.switch(0, [lambda: 1.0, lambda: 2.0, lambda: (1.0,)])


def test_bad_predicates_and_indices():
    with pytest.raises(WeftTypeError, match="boolean scalar"):
        lax.cond(jnp.array([True, False]), lambda: 1, lambda: 2)
    with pytest.raises(WeftTypeError, match="two functions"):
        lax.cond(True, 1.0, 2.0)
    with pytest.raises(WeftTypeError, match="integer scalar"):
        lax.switch(1.5, [lambda: 1, lambda: 2])
    with pytest.raises(WeftTypeError, match="integer scalar"):
        lax.switch(jnp.array([0, 1]), [lambda: 1, lambda: 2])
    with pytest.raises(WeftValueError, match="at least one function"):
        lax.switch(0, [])
    with pytest.raises(WeftTypeError, match="not both"):
        lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0)
    with pytest.raises(WeftTypeError):
        lax.cond("yes", lambda: 1, lambda: 2)
    with pytest.raises(WeftTypeError, match="no array"):
        lax.cond(True, lambda: "text", lambda: "text")
    with pytest.raises(WeftTypeError):
        lax.cond(True, lambda x: x, lambda x: x, "operand")


# ---- branches not taken ------------------------------------------------------------------------

# Outside of their half line these have an infinite or undefined slope.
STEEP = {
    "sqrt": (jnp.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "log": (jnp.log, lambda x: 1 / x),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2),
    "power": (lambda x: x**0.3, lambda x: 0.3 * x**-0.7),
}
FORMS = {
    "operand": lambda f, x: lax.cond(x > 0, f, lambda x: 3 * x, x),
    "closed over": lambda f, x: lax.cond(x > 0, lambda: f(x), lambda: 3 * x),
    "of three": lambda f, x: lax.switch(
        jnp.where(x > 0, 2, 0), [lambda x: 3 * x, lambda x: f(x - x), f], x
    ),
    "nested": lambda f, x: lax.cond(
        x > 0, lambda x: lax.cond(x < 9.0, f, lambda x: x, x), lambda x: 3 * x, x
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steep", STEEP)
def test_branches_not_taken_leave_no_trace_in_derivatives_of_mapped_conditionals(form, steep):
    f, slope = STEEP[steep]
    x = np.array([0.0, 2.0, -1.0, 0.0, 0.5], np.float32)
    wanted = [slope(v) if v > 0 else 3.0 for v in x]
    mapped = weft.vmap(lambda x: FORMS[form](f, x))
    for found in (
        weft.grad(lambda x: mapped(x).sum())(x),
        weft.jit(weft.grad(lambda x: weft.jit(mapped)(x).sum()))(x),
        weft.jvp(mapped, (x,), (np.ones_like(x),))[1],
        np.diag(weft.jacfwd(mapped)(x)),
    ):
        close(found, wanted)


def test_an_operand_that_is_not_mapped_has_no_derivative_from_branches_not_taken():
    def mapped(w, x):
        return weft.vmap(lambda x: lax.cond(x > 0, lambda w: jnp.sqrt(w * x), lambda w: 3 * w, w))(
            x
        ).sum()

    x = np.array([0.0, 4.0, -1.0], np.float32)
    close(weft.grad(mapped)(1.0, x), 3 + 0.5 * 4 / 2 + 3)


def test_results_that_every_branch_passes_on_stay_unmapped():
    def f(x, y):
        return lax.cond(x < 3, lambda x, y: (x * 2, y), lambda x, y: (x * 3, y), x, y)

    for run in (weft.vmap, lambda *args, **axes: weft.jit(weft.vmap(*args, **axes))):
        found = run(f, in_axes=(0, None), out_axes=(0, None))(np.arange(5), np.float32(3))
        assert [x.tolist() for x in found] == [[0, 2, 4, 9, 12], 3.0]
