"""Reverse mode and linearization: `linearize`, `vjp`, `grad`, `value_and_grad`."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from loop_cases import names
from weft import lax
from weft.core.check import check_jaxpr
from weft.errors import DTypeError, ShapeError, TreeError, WeftTypeError
from weft.extend.core import Primitive
from weft.extend.interpreters import ad
from weft.interpreters.linearize import linearize_jaxpr

NONLINEAR = {"sin", "cos", "exp", "log", "tanh", "sqrt", "gt", "lt", "select_n"}


# ---- linearize ---------------------------------------------------------------------------------


def test_value_and_linear_part():
    y, f_lin = weft.linearize(jnp.sin, 3.0)
    close(y, np.sin(3.0))
    close(f_lin(1.0), np.cos(3.0))
    close(f_lin(2.0), 2 * np.cos(3.0))


def test_the_linear_program_has_linear_work_only():
    def f(x):
        return jnp.exp(jnp.sin(x)) * jnp.tanh(x) / jnp.sqrt(x + 2.0)

    x = jnp.arange(3.0)
    _, f_lin = weft.linearize(f, x)
    check_jaxpr(f_lin.jaxpr)
    assert not NONLINEAR & set(names(f_lin.jaxpr)), f_lin.jaxpr
    for wrapped in (weft.jit(f), lambda x: weft.jit(weft.jit(f))(x)):
        _, f_lin = weft.linearize(wrapped, x)
        assert not NONLINEAR & set(names(f_lin.jaxpr)), f_lin.jaxpr
        close(f_lin(x), weft.jvp(f, (x,), (x,))[1])


def test_the_linear_program_of_a_sine_is_one_product():
    _, f_lin = weft.linearize(lax.sin, jnp.ones(3))
    assert names(f_lin.jaxpr) == ["mul"]
    _, f_lin = weft.linearize(lambda x: lax.mul(lax.sin(x), 2.0), jnp.ones(3))
    assert names(f_lin.jaxpr) == ["mul", "mul"]


def test_applying_the_linear_part_computes_no_primal_work():
    calls = []
    counted_p = Primitive("counted_square")
    counted_p.def_abstract_eval(lambda x: x)

    def evaluate(x):
        calls.append("primal")
        return lax.mul(x, x)

    counted_p.def_impl(evaluate)
    ad.register_jvp(
        counted_p, lambda p, t: (counted_p.bind(*p), lax.mul(t[0], lax.mul(p[0], np.float32(2.0))))
    )
    _, f_lin = weft.linearize(lambda x: counted_p.bind(x) * x, jnp.ones(3))
    assert calls == ["primal"]
    for _ in range(3):
        close(f_lin(jnp.ones(3)), [3.0] * 3)
    assert calls == ["primal"]


def test_the_primal_is_evaluated_once_and_in_order():
    seen = []

    def f(x):
        seen.append(float(x))
        return x * x

    y, f_lin = weft.linearize(f, 3.0)
    f_lin(1.0)
    f_lin(2.0)
    assert seen == [3.0]


def test_dead_equations_are_dropped_from_the_linear_program():
    def f(x):
        jnp.sin(x) * jnp.exp(x)  # not returned
        return x * 2.0

    _, f_lin = weft.linearize(f, 3.0)
    assert names(f_lin.jaxpr) == ["mul"]
    assert f_lin.residuals == []


def test_python_branches_are_taken_once():
    def f(x):
        return jnp.sin(x) if x > 0 else x * 10.0

    close(weft.linearize(f, 1.0)[1](1.0), np.cos(1.0))
    close(weft.linearize(f, -1.0)[1](1.0), 10.0)
    close(weft.grad(f)(1.0), np.cos(1.0))
    close(weft.grad(f)(-1.0), 10.0)


def test_trees_constants_and_integers():
    def f(d, n):
        return {"a": d["x"] * d["y"], "n": n, "c": 5.0, "same": d["x"]}

    out, f_lin = weft.linearize(f, {"x": 2.0, "y": 3.0}, 7)
    t = f_lin({"x": 1.0, "y": 10.0}, np.zeros((), weft.float0))
    close(t["a"], 3.0 + 20.0)
    close(t["c"], 0.0)
    close(t["same"], 1.0)
    assert t["n"].dtype == weft.float0


def test_linearize_with_aux():
    y, f_lin, aux = weft.linearize(lambda x: (x * x, x + 1.0), 3.0, has_aux=True)
    assert [float(v) for v in (y, f_lin(1.0), aux)] == [9.0, 6.0, 4.0]


def test_the_linear_part_can_be_transformed():
    x = jnp.arange(3.0)
    _, f_lin = weft.linearize(lambda x: jnp.sin(x) * x, x)
    wanted = np.cos(np.arange(3.0)) * np.arange(3.0) + np.sin(np.arange(3.0))
    close(weft.jit(f_lin)(jnp.ones(3)), wanted)
    close(weft.vmap(f_lin)(jnp.array(np.eye(3), np.float32)), np.diag(wanted))
    (ct,) = weft.linear_transpose(f_lin, x)(jnp.ones(3))
    close(ct, wanted)
    close(weft.jvp(f_lin, (x,), (jnp.ones(3),))[1], wanted)


def test_the_linear_part_checks_its_tangents():
    _, f_lin = weft.linearize(lambda d: d["a"] * 2.0, {"a": jnp.ones(3)})
    with pytest.raises(TreeError, match="another structure"):
        f_lin(jnp.ones(3))
    with pytest.raises(ShapeError, match=r"\[0\]\['a'\]"):
        f_lin({"a": jnp.ones(4)})
    with pytest.raises(DTypeError, match="dtype"):
        f_lin({"a": jnp.ones(3, np.int32)})


def test_linearize_under_other_transformations():
    def directional(x):
        _, f_lin = weft.linearize(lambda y: jnp.sin(y) * x, x)
        return f_lin(1.0)

    close(weft.jit(directional)(2.0), np.cos(2.0) * 2.0)
    close(weft.grad(directional)(2.0), np.cos(2.0) - np.sin(2.0) * 2.0)
    xs = np.array([0.5, 1.0])
    close(weft.vmap(directional)(xs), np.cos(xs) * xs)
    close(weft.vmap(weft.grad(directional))(xs), np.cos(xs) - np.sin(xs) * xs)


def test_a_jitted_program_is_split_without_recomputation():
    program = weft.jit(lambda x, y: lax.mul(lax.sin(x), lax.exp(y))).trace(1.0, 2.0).jaxpr.jaxpr
    split = linearize_jaxpr(program, (True, True))
    check_jaxpr(split.primal)
    check_jaxpr(split.linear)
    assert sorted(names(split.primal)) == ["cos", "exp", "mul", "sin"]
    assert not NONLINEAR & set(names(split.linear))
    # Residuals that are inputs or results of the program are not returned a second time.
    kinds = [kind for kind, _ in split.residual_sources]
    assert len(split.primal.outputs) == 1 + kinds.count("extra")
    assert linearize_jaxpr(program, (True, True)) is split


# ---- vjp ---------------------------------------------------------------------------------------


def test_vjp_gives_a_cotangent_per_argument():
    y, pullback = weft.vjp(lambda x, y: jnp.sum(x) * y, jnp.arange(3.0), 5.0)
    close(y, 15.0)
    ct = pullback(2.0)
    assert isinstance(ct, tuple)
    close(ct[0], [10.0] * 3)
    close(ct[1], 6.0)


def test_vjp_of_trees_and_results_that_are_inputs():
    def f(d):
        return d["a"], {"b": d["a"] * d["b"], "c": 1.0}

    _, pullback = weft.vjp(f, {"a": 2.0, "b": 3.0})
    (ct,) = pullback((10.0, {"b": 1.0, "c": 100.0}))
    close(ct["a"], 13.0)
    close(ct["b"], 2.0)


def test_vjp_can_be_applied_often_and_transformed():
    _, pullback = weft.vjp(lambda x: jnp.sin(x) * x, jnp.arange(3.0))
    wanted = np.cos(np.arange(3.0)) * np.arange(3.0) + np.sin(np.arange(3.0))
    for _ in range(2):
        close(pullback(jnp.ones(3))[0], wanted)
    close(weft.jit(pullback)(jnp.ones(3))[0], wanted)
    close(weft.vmap(pullback)(jnp.array(np.eye(3), np.float32))[0], np.diag(wanted))


def test_vjp_with_aux():
    y, pullback, aux = weft.vjp(lambda x: (x * x, {"s": x + 1.0}), 3.0, has_aux=True)
    close(pullback(1.0)[0], 6.0)
    close(aux["s"] + 0.0, 4.0)


def test_vjp_of_no_arguments_and_no_results():
    assert weft.vjp(lambda: 3.0)[1](1.0) == ()
    out, pullback = weft.vjp(lambda x: (), 1.0)
    close(pullback(())[0], 0.0)


def test_vjp_checks_its_cotangents():
    _, pullback = weft.vjp(lambda x: {"y": x * 2.0}, jnp.ones(3))
    with pytest.raises(TreeError, match="another structure"):
        pullback(jnp.ones(3))
    with pytest.raises(ShapeError, match=r"\['y'\]"):
        pullback({"y": jnp.ones(4)})
    with pytest.raises(DTypeError, match="dtype"):
        pullback({"y": jnp.ones(3, np.int32)})
    _, identity = weft.vjp(lambda x: x, 2.0)
    with pytest.raises(DTypeError, match="dtype"):
        identity(3)


def test_numbers_as_cotangents_take_the_dtype_of_the_result():
    x = jnp.array(2.0, np.float64)
    _, pullback = weft.vjp(lambda x: x, x)
    (ct,) = pullback(1.0)
    assert ct.dtype == np.float64
    z = jnp.array(2.0 + 1j, np.complex64)
    assert weft.vjp(lambda z: z, z)[1](1.0)[0].dtype == np.complex64


# ---- grad --------------------------------------------------------------------------------------


def test_grad_and_value_and_grad():
    close(weft.grad(lambda x: x**2)(3.0), 6.0)
    value, gradient = weft.value_and_grad(lambda x: x**2)(3.0)
    assert [float(value), float(gradient)] == [9.0, 6.0]


def test_argnums():
    def f(x, y, z):
        return x * y * y + z["w"]

    args = (2.0, 3.0, {"w": 1.0})
    assert float(weft.grad(f)(*args)) == 9.0 and float(weft.grad(f, 1)(*args)) == 12.0
    assert isinstance(weft.grad(f, (0,))(*args), tuple)
    gx, gz = weft.grad(f, argnums=(0, 2))(*args)
    assert float(gx) == 9.0 and float(gz["w"]) == 1.0
    gz, gx = weft.grad(f, argnums=(2, 0))(*args)
    assert float(gx) == 9.0 and float(gz["w"]) == 1.0
    assert float(weft.grad(f, -1)(*args)["w"]) == 1.0
    assert float(weft.grad(f, [1])(*args)[0]) == 12.0
    with pytest.raises(WeftTypeError, match="argnums=3"):
        weft.grad(f, 3)(*args)


def test_keyword_arguments_are_passed_on():
    assert float(weft.grad(lambda x, *, k: x * k)(2.0, k=5.0)) == 5.0
    with pytest.raises(WeftTypeError, match="keyword arguments are not differentiated"):
        weft.grad(lambda x: x)(x=2.0)


def test_aux_holds_values_not_tracers():
    gradient, aux = weft.grad(lambda x: (x * x, {"x": x, "n": "text", "k": 1}), has_aux=True)(3.0)
    assert float(gradient) == 6.0
    assert float(aux["x"] + 1.0) == 4.0 and aux["n"] == "text" and aux["k"] == 1
    (value, aux), gradient = weft.value_and_grad(lambda x: (x * x, x), has_aux=True)(3.0)
    assert [float(v) for v in (value, aux, gradient)] == [9.0, 3.0, 6.0]


def test_aux_of_nested_transformations():
    def f(x):
        gradient, aux = weft.grad(lambda y: (y * y * x, y * x), has_aux=True)(x)
        return gradient * aux  # 2 x^2 * x^2

    close(weft.grad(f)(2.0), 8 * 2.0**3)
    close(weft.jit(weft.grad(f))(2.0), 64.0)
    close(weft.vmap(weft.grad(f))(np.array([1.0, 2.0])), [8.0, 64.0])


def test_aux_has_to_be_a_pair():
    with pytest.raises(WeftTypeError, match="pair"):
        weft.grad(lambda x: x, has_aux=True)(1.0)


def test_functions_that_return_their_input_or_a_constant():
    assert float(weft.grad(lambda x: x)(3.0)) == 1.0
    assert float(weft.grad(lambda x: 5.0)(3.0)) == 0.0
    assert float(weft.grad(lambda x, y: y)(3.0, 4.0)) == 0.0
    assert weft.grad(lambda x: jnp.sum(x))(jnp.zeros((0, 3))).shape == (0, 3)
    assert float(weft.grad(weft.grad(lambda x: x))(3.0)) == 0.0
    for f in (lambda x: x, lambda x: 5.0):
        assert float(weft.jit(weft.grad(weft.jit(f)))(3.0)) == float(weft.grad(f)(3.0))


def test_gradients_have_the_structure_and_dtypes_of_the_argument():
    params = {
        "w": jnp.ones((2, 3), np.float32),
        "b": [jnp.ones(3, np.float16), None, (jnp.ones((), np.float64),)],
    }

    def loss(p):
        return jnp.sum(p["w"]) + jnp.sum(p["b"][0]).astype(np.float32)

    gradient = weft.grad(loss)(params)
    assert weft.tree.structure(gradient) == weft.tree.structure(params)
    for g, p in zip(weft.tree.leaves(gradient), weft.tree.leaves(params), strict=True):
        assert (g.shape, g.dtype) == (p.shape, p.dtype)


def test_integers_are_refused_or_have_float0_gradients():
    def f(x, n):
        return x * n

    with pytest.raises(DTypeError, match="floating-point") as info:
        weft.grad(f, argnums=1)(2.0, 3)
    assert info.value.fix.data == {"allow_int": True}
    gx, gn = weft.grad(f, argnums=(0, 1), allow_int=True)(2.0, 3)
    assert float(gx) == 3.0
    assert gn.dtype == weft.float0 and gn.shape == ()
    out = weft.grad(lambda t: t["x"] * t["n"][0], allow_int=True)(
        {"x": 2.0, "n": jnp.array([3, 4])}
    )
    assert out["n"].dtype == weft.float0 and out["n"].shape == (2,)


def test_grad_of_what_is_no_scalar():
    with pytest.raises(WeftTypeError, match="returns a scalar"):
        weft.grad(lambda x: x)(jnp.ones(3))
    with pytest.raises(WeftTypeError, match="one scalar"):
        weft.grad(lambda x: (x, x))(1.0)
    with pytest.raises(DTypeError, match="real floating-point"):
        weft.grad(lambda x: 3)(1.0)


def test_higher_order_gradients():
    def f(x):
        return jnp.sin(x) * x

    wanted = [
        lambda x: np.sin(x) * x,
        lambda x: np.cos(x) * x + np.sin(x),
        lambda x: -np.sin(x) * x + 2 * np.cos(x),
        lambda x: -np.cos(x) * x - 3 * np.sin(x),
        lambda x: np.sin(x) * x - 4 * np.cos(x),
    ]
    for want in wanted:
        close(f(0.7), want(0.7), rtol=1e-4)
        close(weft.jit(f)(0.7), want(0.7), rtol=1e-4)
        f = weft.grad(f)


def test_closures_over_outer_tracers():
    def f(x):
        def inner(y):
            return weft.jit(lambda z: z * x * y)(y)

        return weft.grad(inner)(x * 2.0)  # 2 x y = 4 x^2

    close(weft.grad(f)(3.0), 24.0)
    close(weft.jit(weft.grad(weft.jit(f)))(3.0), 24.0)
    close(weft.vmap(weft.grad(f))(np.arange(3.0)), 8 * np.arange(3.0))


def test_grad_of_partial_objects_methods_and_callables():
    class Model:
        scale = 3.0

        def loss(self, x):
            return self.scale * x * x

        def __call__(self, x):
            return self.loss(x)

    model = Model()
    assert float(weft.grad(model.loss)(2.0)) == 12.0 and float(weft.grad(model)(2.0)) == 12.0
    assert float(weft.grad(functools.partial(lambda a, x: a * x, 5.0))(2.0)) == 5.0


def test_grad_keeps_the_functions_name_and_documentation():
    def loss(x):
        """The loss."""
        return x

    assert weft.grad(loss).__name__ == "loss"
    assert weft.value_and_grad(loss).__doc__ == "The loss."


# ---- complex numbers (the convention of JAX; the numbers were computed by jax 0.10.2) -----------

Z = np.complex64(1.5 - 0.5j)


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        pytest.param(lambda z: jnp.real(z * jnp.conj(z)), 3 + 1j, id="abs2"),
        pytest.param(lambda z: jnp.real(jnp.sin(z)), 0.0797651 + 0.51978993j, id="real_sin"),
        pytest.param(lambda z: jnp.imag(jnp.exp(z)), -2.148636 - 3.933052j, id="imag_exp"),
        pytest.param(lambda z: jnp.abs(z), 0.94868326 + 0.31622776j, id="abs"),
        pytest.param(lambda z: jnp.real(z) ** 2 * jnp.imag(z), -1.5 - 2.25j, id="mixed"),
    ],
)
def test_gradients_of_real_functions_of_complex_numbers(f, wanted):
    got = weft.grad(f)(Z)
    assert got.dtype == np.complex64
    close(got, wanted)
    close(weft.jit(weft.grad(f))(Z), wanted)
    close(weft.vmap(weft.grad(f))(np.array([Z, Z]))[1], wanted)


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        pytest.param(lambda z: z * z, 3 - 1j, id="square"),
        pytest.param(lambda z: jnp.exp(z), 3.933052 - 2.148636j, id="exp"),
        pytest.param(lambda z: jnp.sin(z), 0.0797651 + 0.51978993j, id="sin"),
        pytest.param(lambda z: 1 / z, -0.32 - 0.24j, id="reciprocal"),
        pytest.param(lambda z: jnp.log(z), 0.6 + 0.2j, id="log"),
    ],
)
def test_gradients_of_holomorphic_functions(f, wanted):
    close(weft.grad(f, holomorphic=True)(Z), wanted)
    close(weft.jvp(f, (Z,), (np.complex64(1.0),))[1], wanted)


def test_cotangents_of_linear_maps_are_transposed_and_not_conjugated():
    close(weft.vjp(lambda z: np.complex64(2 + 3j) * z, Z)[1](np.complex64(1j))[0], -3 + 2j)
    close(weft.vjp(jnp.conj, Z)[1](np.complex64(1 + 2j))[0], 1 - 2j)
    close(weft.vjp(jnp.real, Z)[1](np.float32(2.0))[0], 2 + 0j)
    close(weft.vjp(jnp.imag, Z)[1](np.float32(2.0))[0], -2j)
    close(weft.jvp(jnp.abs, (Z,), (np.complex64(1 + 1j),))[1], 0.63245547)


def test_complex_numbers_inside_a_real_function():
    close(weft.grad(lambda x: jnp.real((x + 1j) ** 3))(2.0), 9.0)


def test_complex_results_need_holomorphic():
    with pytest.raises(DTypeError, match="real floating-point") as info:
        weft.grad(lambda z: z * z)(Z)
    assert info.value.fix.kind == "holomorphic"
    with pytest.raises(DTypeError, match="complex arguments"):
        weft.grad(lambda x: x * x, holomorphic=True)(1.0)
    with pytest.raises(DTypeError, match="complex"):
        weft.grad(lambda z: jnp.real(z), holomorphic=True)(Z)


@pytest.mark.parametrize("wrong", [np.ones((3, 2)), np.ones(2), np.ones(3), 1.5 * jnp.ones((1, 3))])
def test_tangents_of_integers_are_checked(wrong):
    _, f = weft.linearize(jnp.sum, jnp.array([1, 2, 3]))
    with pytest.raises((ShapeError, DTypeError), match="tangent"):
        f(wrong)
    assert f(np.zeros(3, weft.float0)).dtype == weft.float0


def test_tangents_of_integers_enter_and_leave_compiled_functions():
    x = np.arange(3)
    value, pull = weft.vjp(lambda x, y: x * y, x, 2.0)
    assert value.shape == (3,)
    of_ints, of_y = weft.jit(pull)(jnp.ones(3))
    assert of_ints.dtype == weft.float0 and of_ints.shape == (3,) and of_y == 3.0
    _, pull = weft.vjp(lambda x: x + 1, x)
    assert weft.jit(pull)(np.zeros(3, weft.float0))[0].dtype == weft.float0
    slope = weft.grad(lambda x, n: x * n, (0, 1), allow_int=True)
    for run in (slope, weft.jit(slope)):
        found = run(2.0, 3)
        assert found[0] == 3.0 and found[1].dtype == weft.float0
    ones = weft.grad(lambda n: 1.0 * n, allow_int=True)
    for found in (weft.vmap(ones)(x), lax.scan(lambda c, n: (c, ones(n)), 0, x)[1]):
        assert found.dtype == weft.float0 and found.shape == (3,)


@pytest.mark.parametrize("z", [2.0, 1.0 + 1j], ids=["real", "complex"])
def test_derivatives_at_python_numbers_are_weakly_typed(z):
    how = {"holomorphic": isinstance(z, complex)}
    for derivative in (weft.grad, weft.jacfwd, weft.jacrev, weft.hessian):
        found = derivative(lambda z: z * z, **how)(z)
        assert found.weak_type and found.dtype == weft.numpy.asarray(z).dtype
        assert not derivative(lambda z: z * z, **how)(np.asarray(z)).weak_type


STRONG = np.float32(3.0)


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: x * STRONG, id="product"),
        pytest.param(lambda x: STRONG, id="constant"),
        pytest.param(lambda x: 3.0, id="weak_constant"),
        pytest.param(lambda x: jnp.sin(x), id="sine"),
        pytest.param(weft.jit(lambda x: STRONG * jnp.sin(x)), id="jit"),
        pytest.param(weft.checkpoint(lambda x: STRONG * jnp.sin(x)), id="checkpoint"),
        pytest.param(lambda x: lax.cond(x > 0, lambda x: x, lambda x: STRONG * x, x), id="cond"),
        pytest.param(
            lambda x: lax.scan(lambda c, _: (c * x, None), STRONG, length=2)[0], id="scan"
        ),
        pytest.param(lambda x: jnp.asarray(x).astype("float32"), id="cast"),
    ],
)
def test_derivatives_are_weakly_typed_where_the_values_are(f):
    for x in (2.0, jnp.asarray(2.0), jnp.float32(2.0)):
        weak, y = weft.typeof(x).weak_type, weft.typeof(jnp.asarray(f(x)))
        for ct in (1.0, np.float32(1.0)):
            for wrap in (lambda f: f, weft.jit):
                pulled = wrap(lambda x, ct: weft.vjp(f, x)[1](ct))(x, ct)[0]
                pushed = wrap(lambda x, t: weft.jvp(f, (x,), (t,))[1])(x, ct)
                applied = wrap(lambda x, t: weft.linearize(f, x)[1](t))(x, ct)
                assert pulled.weak_type == weak
                assert pushed.weak_type == applied.weak_type == y.weak_type
        assert weft.jacrev(f)(x).weak_type == weft.grad(f)(x).weak_type == weak
        pair = weft.grad(lambda x, unread: f(x) * 1.0, (0, 1))(x, x)
        assert [slope.weak_type for slope in pair] == [weak, weak]
        (transposed,) = weft.linear_transpose(lambda x: x * STRONG, x)(STRONG)
        assert transposed.weak_type == weak


# ---- linear functions as trees -----------------------------------------------------------------


def linear_functions(x):
    """Linear functions of a vector of the length of x, with residuals that depend on x."""
    _, f_lin = weft.linearize(lambda v: jnp.sin(v) * x, x)
    _, f_vjp = weft.vjp(lambda v: jnp.sin(v) * x, x)
    return f_lin, f_vjp, weft.linear_transpose(lambda v: jnp.cos(x) * v, x)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_linear_functions_leave_transformed_functions(which):
    x, t = jnp.array([1.0, 2.0]), jnp.array([3.0, -1.0])
    scale = 1.0 if which == 2 else x
    wanted = np.cos(x) * scale * t

    def make(x):
        return linear_functions(x)[which]

    def applied(f):
        (found,) = weft.tree.leaves(f(t))
        return found

    for made in (make(x), weft.jit(make)(x), weft.checkpoint(make)(x), weft.jit(weft.jit(make))(x)):
        close(applied(made), wanted)
        close(applied(weft.tree.map(lambda r: r, made)), wanted)
        close(weft.jit(applied)(made), wanted)
    _, steps = lax.scan(lambda c, row: (c, make(row)), 0.0, jnp.stack([x, 2 * x]))
    rows = weft.vmap(applied)(steps)
    close(rows, [wanted, np.cos(2 * x) * 2 * scale * t] if which < 2 else np.cos([x, 2 * x]) * t)
    rows = weft.vmap(applied)(weft.vmap(make)(jnp.stack([x, x])))
    close(rows, [wanted, wanted])
    # The residuals are values like others: what is computed of them has derivatives.
    slope = weft.grad(lambda x: applied(weft.jit(make)(x)).sum())(x)
    slopes = [-np.sin(x) * t, (np.cos(x) - x * np.sin(x)) * t]
    close(slope, slopes[0] if which == 2 else slopes[1])
    assert not weft.tree.structure(make(x)) == weft.tree.structure(x)


MATRIX = np.arange(12, dtype=np.int32).reshape(3, 4) - 5


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: -2 * x, id="product"),
        pytest.param(lambda x: MATRIX @ x, id="matrix"),
        pytest.param(lambda x: jnp.cumsum(x)[::-1], id="cumsum"),
        pytest.param(lambda x: x[jnp.array([0, 0, 3])], id="gather"),
        pytest.param(lambda x: jnp.where(jnp.arange(4) % 2 == 0, x, 0), id="where"),
        pytest.param(lambda x: jnp.concatenate([x, 3 * x]), id="concatenate"),
        pytest.param(lambda x: lax.scan(lambda c, z: (c + 2 * z, c), 0 * x[0], x)[1], id="scan"),
        pytest.param(weft.jit(lambda x: 3 * x.sum()), id="jit"),
        pytest.param(weft.checkpoint(lambda x: 3 * x), id="checkpoint"),
        pytest.param(lambda x: lax.cond(True, lambda x: x, lambda x: 2 * x, x), id="cond"),
        pytest.param(lambda x: x.astype(jnp.int16), id="narrower"),
    ],
)
def test_functions_that_are_linear_over_integers_are_transposed(f):
    x = np.zeros(4, np.int32)
    columns = [np.ravel(f(jnp.asarray(row))) for row in np.eye(4, dtype=np.int32)]
    out = weft.eval_shape(f, x)
    ct = (np.arange(out.size) - 2).reshape(out.shape).astype(out.dtype)
    for transpose in (weft.linear_transpose(f, x), weft.jit(weft.linear_transpose(f, out_like(x)))):
        (got,) = transpose(ct)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, np.stack(columns) @ np.ravel(ct))


def out_like(x):
    return weft.ShapeDtypeStruct(x.shape, x.dtype)


def test_integers_are_not_transposed_to_floating_point_results():
    with pytest.raises(DTypeError, match="no transpose to floating-point results"):
        weft.linear_transpose(lambda x: x / 2, 3)
    # Beside floating-point arguments they have float0 cotangents, as in `vjp`.
    x_ct, n_ct = weft.linear_transpose(lambda x, n: 2 * x, 1.0, 3)(1.0)
    assert float(x_ct) == 2.0 and n_ct.dtype == weft.dtypes.float0


class Described:
    """Has the shape and dtype of an array, and no values."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def test_values_with_shape_and_dtype_describe_arguments():
    given, plain = Described((3,), np.dtype("float32")), weft.ShapeDtypeStruct((3,), "float32")

    def f(x):
        return x + 1

    assert weft.eval_shape(f, given) == weft.eval_shape(f, plain)
    assert str(weft.make_jaxpr(f)(given)) == str(weft.make_jaxpr(f)(plain))
    assert weft.jit(f).lower(given).as_text() == weft.jit(f).lower(plain).as_text()
    close(weft.linear_transpose(lambda x: 2 * x, given)(jnp.ones(3))[0], 2 * np.ones(3))
    with pytest.raises(WeftTypeError):
        weft.jit(f)(given)
    with pytest.raises(WeftTypeError):
        weft.eval_shape(f, object())


def test_a_traced_value_is_not_pickled():
    with pytest.raises(weft.errors.ConcretizationError, match="pickling"):
        weft.jit(pickle.dumps)(1.0)
    kept = []
    weft.grad(lambda x: kept.append(pickle.dumps(x)) or x)(2.0)
    assert float(pickle.loads(kept[0])) == 2.0
