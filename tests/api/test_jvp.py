"""Forward mode: `jvp` on trees, to higher orders, mixed with other transformations; `jacfwd`."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from weft import lax
from weft.errors import DTypeError, ShapeError, TreeError, WeftTypeError
from weft.extend.core import Primitive
from weft.extend.interpreters import ad
from weft.testing import check_grads

Point = collections.namedtuple("Point", "x y")


def deriv(f):
    return lambda x: weft.jvp(f, (x,), (1.0,))[1]


def test_value_and_tangent():
    y, t = weft.jvp(jnp.sin, (3.0,), (2.0,))
    close(y, np.sin(3.0))
    close(t, 2 * np.cos(3.0))
    assert t.dtype == np.float32 and t.shape == ()


def test_derivatives_of_any_order():
    f, wanted = jnp.sin, [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    for want in wanted:
        close(f(3.0), want(3.0))
        f = deriv(f)


def test_trees_of_every_kind():
    def f(point, options, scale):
        first, rest = options["pair"]
        assert rest is None
        return Point(point.x * scale, [point.y + first, {"k": first * first}])

    primals = (Point(2.0, jnp.ones(3)), {"pair": (jnp.arange(3.0), None)}, 5.0)
    tangents = (Point(1.0, jnp.zeros(3)), {"pair": (jnp.ones(3), None)}, 0.5)
    out, tangent = weft.jvp(f, primals, tangents)
    assert isinstance(out, Point) and isinstance(tangent, Point)
    close(tangent.x, 1.0 * 5.0 + 2.0 * 0.5)
    close(tangent.y[0], [1, 1, 1])
    close(tangent.y[1]["k"], [0, 2, 4])


def test_functions_that_return_inputs_and_constants():
    def f(x, y):
        return x, y, x, 7.0, jnp.arange(2)

    out, tangent = weft.jvp(f, (1.0, 2.0), (3.0, 4.0))
    assert [float(t) for t in tangent[:4]] == [3.0, 4.0, 3.0, 0.0]
    assert tangent[4].dtype == weft.float0 and tangent[4].shape == (2,)


def test_integers_have_float0_tangents():
    primals = (np.float32(2.0), 3)
    tangents = (np.float32(1.0), np.zeros((), weft.float0))
    out, tangent = weft.jvp(lambda x, n: (x * n, n + 1, n > 2), primals, tangents)
    close(out[0], 6.0)
    close(tangent[0], 3.0)
    assert tangent[1].dtype == tangent[2].dtype == weft.float0


def test_integer_and_float_operands_mix():
    def f(x, n):
        return jnp.sum(x * n) + n[0]

    n = jnp.array([1, 2, 3])
    x = jnp.array([0.5, 1.5, 2.5])
    _, t = weft.jvp(f, (x, n), (jnp.ones(3), np.zeros(3, weft.float0)))
    close(t, 6.0)
    close(weft.grad(f)(x, n), [1.0, 2.0, 3.0])


def test_an_input_used_many_times():
    close(weft.jvp(lambda x: x * x * x + x - x * x, (2.0,), (1.0,))[1], 12 + 1 - 4)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 3)])
def test_any_shape(shape):
    x = jnp.array(np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), np.float32)
    y, t = weft.jvp(lambda v: jnp.sin(v) * v, (x,), (jnp.ones_like(x),))
    assert y.shape == t.shape == shape
    host = np.asarray(x)
    close(t, np.cos(host) * host + np.sin(host))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_tangents_have_the_dtype_of_their_primals(dtype):
    x = jnp.array([0.5, 0.25], dtype=dtype)
    y, t = weft.jvp(lambda v: jnp.sin(v) * 2, (x,), (x,))
    assert str(y.dtype) == str(t.dtype) == dtype


def test_python_control_flow_on_concrete_values():
    def f(x):
        return 2.0 * x if x > 0.0 else x

    assert float(deriv(f)(3.0)) == 2.0 and float(deriv(f)(-3.0)) == 1.0


def test_loops_and_conversions_on_concrete_values():
    def f(x, n):
        y = x
        for _ in range(int(n)):
            y = y * x
        return y if float(y) > 0 and bool(n) else -y

    y, t = weft.jvp(lambda x: f(x, jnp.array(2)), (3.0,), (1.0,))
    assert (float(y), float(t)) == (27.0, 27.0)


def test_aux_holds_values_not_tracers():
    y, t, aux = weft.jvp(lambda x: (x * x, {"x": x, "n": "text"}), (3.0,), (1.0,), has_aux=True)
    assert float(aux["x"]) == 3.0 and aux["n"] == "text"
    close(aux["x"] + 1.0, 4.0)
    (y, t, aux) = weft.jit(
        lambda x: weft.jvp(lambda x: (x * x, x + 1.0), (x,), (x,), has_aux=True)
    )(3.0)
    assert [float(v) for v in (y, t, aux)] == [9.0, 18.0, 4.0]


def test_nested_with_an_outer_tracer_inside():
    def f(x):
        _, inner = weft.jvp(lambda y: x * y * y, (x,), (1.0,))  # 2 x^2
        return inner

    close(deriv(f)(3.0), 12.0)
    close(weft.grad(f)(3.0), 12.0)
    close(weft.grad(weft.grad(f))(3.0), 4.0)


def test_perturbations_of_nested_derivatives_are_not_confused():
    # d/dx [x * d/dy (x + y)] = 1, not 2 (Siskind and Pearlmutter, 2005).
    close(deriv(lambda x: x * deriv(lambda y: x + y)(1.0))(1.0), 1.0)
    close(weft.grad(lambda x: x * weft.grad(lambda y: x + y)(1.0))(1.0), 1.0)
    close(weft.grad(lambda x: x * deriv(lambda y: x * y)(x))(3.0), 6.0)


def test_a_number_as_the_tangent_takes_the_dtype_of_the_primal():
    y, t = weft.jvp(lambda x: x + jnp.sin(x), (np.float32(1.0),), (1.0,))
    assert t.dtype == np.float32
    x = jnp.array(1.0, np.float64)
    y, t = weft.jvp(lambda x: x + jnp.sin(x), (x,), (1.0,))
    assert t.dtype == np.float64
    close(t, 1 + np.cos(1.0), 1e-14)
    half = jnp.array(1.0, np.float16)
    assert weft.jvp(lambda x: x, (half,), (1.0,))[1].dtype == np.float16


def test_arrays_without_copies_are_accepted_as_primals():
    y, t = weft.jvp(lambda x: x * x, (np.arange(3.0),), (np.ones(3),))
    assert y.dtype == t.dtype == np.float32
    close(t, [0, 2, 4])


# ---- errors ------------------------------------------------------------------------------------


def test_a_mismatch_of_structure_names_the_leaf():
    with pytest.raises(TreeError, match="different structures") as info:
        weft.jvp(lambda d: d["a"], ({"a": 1.0, "b": 2.0},), ({"a": 1.0},))
    assert "b" in str(info.value)


def test_a_mismatch_of_shape_names_the_leaf():
    with pytest.raises(ShapeError, match=r"primals\[0\]\['b'\]\[1\]") as info:
        weft.jvp(
            lambda d: d,
            ({"a": 1.0, "b": [1.0, jnp.ones(3)]},),
            ({"a": 1.0, "b": [1.0, jnp.ones(4)]},),
        )
    assert "(4,)" in str(info.value) and "(3,)" in str(info.value)


def test_a_mismatch_of_dtype_names_the_leaf():
    x = jnp.ones(3, np.float32)
    with pytest.raises(DTypeError, match=r"primals\[1\]") as info:
        weft.jvp(lambda x, y: x, (x, x), (x, jnp.ones(3, np.float16)))
    assert "float16" in str(info.value) and "float32" in str(info.value)
    with pytest.raises(DTypeError):
        weft.jvp(lambda x: x, (x,), (jnp.ones(3, np.int32),))


def test_integers_want_float0():
    with pytest.raises(DTypeError, match="float0"):
        weft.jvp(lambda n: n, (3,), (1,))
    with pytest.raises(DTypeError, match="float0"):
        weft.jvp(lambda n: n, (3,), (1.0,))


def test_floats_do_not_take_float0():
    with pytest.raises(DTypeError, match="dtype"):
        weft.jvp(lambda x: x, (3.0,), (np.zeros((), weft.float0),))


def test_an_integer_is_no_tangent_of_a_float():
    with pytest.raises(DTypeError, match="dtype"):
        weft.jvp(lambda x: x, (jnp.ones(2),), (jnp.ones(2, np.int32),))


@pytest.mark.parametrize("primals", [1.0, [1.0], {"x": 1.0}])
def test_primals_are_a_tuple(primals):
    if isinstance(primals, list):
        assert float(weft.jvp(lambda x: x, primals, [2.0])[1]) == 2.0
        return
    with pytest.raises(WeftTypeError, match="tuple"):
        weft.jvp(lambda x: x, primals, (1.0,))


def test_text_is_no_primal():
    with pytest.raises(WeftTypeError, match=r"\[0\]\['a'\]"):
        weft.jvp(lambda x: x, ({"a": "text"},), ({"a": 1.0},))


# ---- jacobians ---------------------------------------------------------------------------------


def test_jacfwd_and_jacrev_agree_with_the_formula():
    def f(x):
        return jnp.sin(x) * jnp.sum(x)

    x = np.array([0.1, 0.5, -0.3])
    wanted = np.diag(np.cos(x) * x.sum()) + np.outer(np.sin(x), np.ones(3))
    close(weft.jacfwd(f)(x), wanted)
    close(weft.jacrev(f)(x), wanted)
    close(weft.jit(weft.jacfwd(f))(x), wanted)
    close(weft.vmap(weft.jacrev(f))(np.stack([x, x]))[1], wanted)


def test_jacobians_of_trees_have_results_outside_and_arguments_inside():
    def f(d):
        return [lax.expand_dims(d["a"], (1,)) * d["b"]]

    args = {"a": jnp.arange(2.0), "b": jnp.arange(3.0)}
    for jac in (weft.jacfwd(f)(args), weft.jacrev(f)(args)):
        assert jac[0]["a"].shape == (2, 3, 2) and jac[0]["b"].shape == (2, 3, 3)
        close(jac[0]["b"][1], np.eye(3))


def test_jacobians_in_several_arguments():
    def f(x, y):
        return x * y, jnp.sum(x)

    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    for jacobian in (weft.jacfwd, weft.jacrev):
        (dx, dy), (sx, sy) = jacobian(f, argnums=(0, 1))(x, y)
        close(dx, np.diag([3.0, 4.0]))
        close(dy, np.diag([1.0, 2.0]))
        close(sx, [1.0, 1.0])
        close(sy, [0.0, 0.0])
        close(jacobian(f, argnums=1)(x, y)[0], np.diag([1.0, 2.0]))
        close(jacobian(f, argnums=-1)(x, y)[0], np.diag([1.0, 2.0]))


def test_jacrev_of_real_functions_of_complex_numbers():
    z = np.array([1 + 0.5j, 2 - 1j, 0.25j], np.complex64)
    m = np.array([[1, 2j, 3], [0, 1 - 1j, 1]], np.complex64)

    def f(z):
        return {"abs": jnp.abs(jnp.asarray(m) @ z), "sum": jnp.real(z * z).sum()}

    found = weft.jacrev(f)(z)
    one_by_one = [weft.grad(lambda z, i=i: f(z)["abs"][i])(z) for i in range(2)]
    close(found["abs"], np.stack(one_by_one))
    # A step along the real axis moves the result by the real part, one along the other by minus
    # the imaginary part.
    step = 1e-3
    for i in range(3):
        for way, part in ((1, found["sum"][i].real), (1j, -found["sum"][i].imag)):
            moved = np.array(z, np.complex128)
            moved[i] += way * step
            slope = ((moved * moved).real.sum() - (z.astype(np.complex128) ** 2).real.sum()) / step
            close(part, slope, rtol=1e-2, atol=1e-2)
    with pytest.raises(DTypeError, match="floating-point"):
        weft.jacrev(lambda z: z * z)(z)


def test_jacobians_with_aux():
    for jacobian in (weft.jacfwd, weft.jacrev):
        jac, aux = jacobian(lambda x: (x * x, {"twice": x + x}), has_aux=True)(jnp.arange(2.0))
        close(jac, np.diag([0.0, 2.0]))
        close(aux["twice"], [0.0, 2.0])
        close(aux["twice"] + 1.0, [1.0, 3.0])


def test_hessian_of_trees():
    def f(d):
        return jnp.sum(d["a"] * d["a"]) * d["b"]

    hess = weft.hessian(f)({"a": jnp.array([1.0, 2.0]), "b": np.float32(3.0)})
    close(hess["a"]["a"], 6 * np.eye(2))
    close(hess["a"]["b"], [2.0, 4.0])
    close(hess["b"]["a"], [2.0, 4.0])
    close(hess["b"]["b"], 0.0)


def test_hessian_in_several_arguments():
    hess = weft.hessian(lambda x, y: x * x * y, argnums=(0, 1))(3.0, 5.0)
    close([[float(v) for v in row] for row in hess], [[10.0, 6.0], [6.0, 0.0]])


def test_jacobians_of_zero_size():
    x = jnp.zeros((0,))
    for jacobian in (weft.jacfwd, weft.jacrev):
        assert jacobian(lambda x: x * 2.0)(x).shape == (0, 0)
        assert jacobian(lambda x: jnp.sum(x))(x).shape == (0,)
        assert jacobian(lambda x: jnp.zeros((0,)) * x)(1.0).shape == (0,)


def test_jacobians_of_constant_functions_are_zero():
    for jacobian in (weft.jacfwd, weft.jacrev):
        close(jacobian(lambda x: jnp.ones(2))(jnp.ones(3)), np.zeros((2, 3)))


def test_holomorphic_jacobians():
    z = jnp.array([1 + 1j, 2 - 1j], np.complex64)
    for jacobian in (weft.jacfwd, weft.jacrev):
        close(jacobian(lambda z: z * z, holomorphic=True)(z), np.diag(2 * np.asarray(z)))
        with pytest.raises(DTypeError):
            jacobian(lambda z: z * z, holomorphic=True)(jnp.ones(2))
    with pytest.raises(DTypeError):
        weft.jacfwd(lambda z: z * z)(z)


def test_the_checker_of_derivatives_finds_a_wrong_rule():
    check_grads(lax.sin, (0.5,), order=3)
    wrong_p = Primitive("wrong_sine")
    wrong_p.def_abstract_eval(lambda x: x)
    wrong_p.def_impl(lambda x: lax.sin(x))
    ad.register_jvp(wrong_p, lambda primals, tangents: (wrong_p.bind(*primals), tangents[0]))
    with pytest.raises(AssertionError, match="finite difference"):
        check_grads(wrong_p.bind, (0.5,))
