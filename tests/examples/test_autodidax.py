"""The examples of the tutorial "Autodidax: JAX core from scratch", parts 1 to 5, on weft's API.

The tutorial computes in double precision; so do these, and the expected values are those that it
prints.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.check import check_jaxpr

pytestmark = pytest.mark.usefixtures("x64")


def near(value, printed):
    assert np.asarray(value).dtype == np.float64
    np.testing.assert_allclose(np.asarray(value), printed, rtol=5e-15, atol=1e-15)


def f(x):
    y = jnp.sin(x) * 2.0
    z = -y + x
    return z


def deriv(function):
    return lambda x: weft.jvp(function, (x,), (1.0,))[1]


def order(n, function):
    return order(n - 1, deriv(function)) if n else function


def true(function):
    return lambda x: lax.cond(True, lambda: function(x), lambda: 0.0)


PRINTED = {
    "f": (lambda: f(3.0), 2.7177599838802657),
    "cos": (lambda: jnp.cos(3.0), -0.9899924966004454),
    "jvp of sin": (lambda: deriv(jnp.sin)(3.0), -0.9899924966004454),
    "second derivative of sin": (lambda: order(2, jnp.sin)(3.0), -0.1411200080598672),
    "third derivative of sin": (lambda: order(3, jnp.sin)(3.0), 0.9899924966004454),
    "fourth derivative of sin": (lambda: order(4, jnp.sin)(3.0), 0.1411200080598672),
    "value of jvp": (lambda: weft.jvp(f, (3.0,), (1.0,))[0], 2.7177599838802657),
    "jvp of f": (lambda: deriv(f)(3.0), 2.979984993200891),
    "second derivative of f": (lambda: order(2, f)(3.0), 0.2822400161197344),
    "jit of a second derivative": (lambda: weft.jit(order(2, f))(3.0), 0.2822400161197344),
    "value of linearize": (lambda: weft.linearize(jnp.sin, 3.0)[0], 0.1411200080598672),
    "linearize": (lambda: weft.linearize(jnp.sin, 3.0)[1](1.0), -0.9899924966004454),
    "value, jitted": (lambda: weft.linearize(weft.jit(f), 3.0)[0], 2.7177599838802657),
    "linearize of jit": (lambda: weft.linearize(weft.jit(f), 3.0)[1](1.0), 2.979984993200891),
    "vjp of sin": (lambda: weft.vjp(jnp.sin, 3.0)[1](1.0)[0], -0.9899924966004454),
    "grad": (lambda: weft.grad(f)(3.0), 2.979984993200891),
    "jvp of cond": (lambda: deriv(true(lambda x: x * x))(1.0), 2.0),
    "linearize of cond": (lambda: weft.linearize(true(lambda x: x), 1.0)[1](3.14), 3.14),
    "jitted cond": (lambda: weft.linearize(weft.jit(true(lambda x: x)), 1.0)[1](3.14), 3.14),
    "grad of cond": (lambda: weft.grad(true(lambda x: x * x))(1.0), 2.0),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_numbers(name):
    compute, printed = PRINTED[name]
    near(compute(), printed)


# ---- part 1: transformations as interpreters ---------------------------------------------------


def test_python_control_flow():
    def branching(x):
        if x > 0.0:
            return 2.0 * x
        return x

    near(deriv(branching)(3.0), 2.0)
    near(deriv(branching)(-3.0), 1.0)


def test_trees_in_and_out():
    def g(x):
        y = jnp.sin(x) * 2.0
        z = -y + x
        return {"hi": z, "there": [x, y]}

    y, ydot = weft.jvp(g, (3.0,), (1.0,))
    near(y["hi"], 2.7177599838802657)
    assert float(y["there"][0]) == 3.0
    near(y["there"][1], 0.2822400161197344)
    near(ydot["hi"], 2.979984993200891)
    near(ydot["there"][0], 1.0)
    near(ydot["there"][1], -1.9799849932008908)


def test_vmap_adds_one_to_each_element():
    def add_one_to_a_scalar(scalar):
        assert np.ndim(scalar) == 0
        return 1 + scalar

    vector_out = weft.vmap(add_one_to_a_scalar, (0,))(np.arange(3.0))
    assert str(vector_out) == "[1. 2. 3.]"


def test_a_jacobian_from_jvp_and_vmap():
    def jacfwd(function, x):
        def pushfwd(v):
            return weft.jvp(function, (x,), (v,))[1]

        vecs_in = np.eye(np.size(x)).reshape(np.shape(x) * 2)
        return weft.vmap(pushfwd, (0,))(vecs_in)

    wanted = [[1.0, 0.0, 0.0], [0.0, 0.54030231, 0.0], [0.0, 0.0, -0.41614684]]
    np.testing.assert_allclose(jacfwd(jnp.sin, np.arange(3.0)), wanted, atol=5e-9)
    np.testing.assert_allclose(weft.jacfwd(jnp.sin)(np.arange(3.0)), wanted, atol=5e-9)


# ---- part 2: jaxprs ----------------------------------------------------------------------------


def test_a_jaxpr_is_typed_and_printed():
    closed = weft.make_jaxpr(lambda x: lax.mul(2.0, x))(np.float64(3.0))
    check_jaxpr(closed)
    assert [str(t) for t in closed.in_avals] == ["f64[]"]
    assert [str(t) for t in closed.out_avals] == ["f64[]"]
    assert str(closed) == ("{ lambda ; a:f64[]. let\n    b:f64[] = mul 2.0:f64[] a\n  in (b,) }")


def test_operations_on_constants_are_staged_out_too():
    closed = weft.make_jaxpr(lambda: lax.mul(2.0, 2.0))()
    assert str(closed) == ("{ lambda ;. let\n    a:f64[] = mul 2.0:f64[] 2.0:f64[]\n  in (a,) }")


# ---- part 3: jit -------------------------------------------------------------------------------


def test_jit_traces_once(capsys):
    @weft.jit
    def g(x, y):
        print("tracing!")
        return jnp.sin(x) * jnp.cos(y)

    near(g(3.0, 4.0), -0.09224219304455371)
    assert capsys.readouterr().out == "tracing!\n"
    near(g(4.0, 5.0), -0.21467624978306993)
    assert capsys.readouterr().out == ""


def test_jit_of_a_sum():
    assert str(weft.jit(lambda x: jnp.sum(x, axis=0))(np.array([1.0, 2.0, 3.0]))) == "6.0"


def test_jvp_and_vmap_of_jit(capsys):
    @weft.jit
    def g(x):
        print("tracing!")
        y = jnp.sin(x) * 2.0
        z = -y + x
        return z

    y, ydot = weft.jvp(g, (3.0,), (1.0,))
    near(y, 2.7177599838802657)
    near(ydot, 2.979984993200891)
    assert capsys.readouterr().out == "tracing!\n"
    weft.jvp(g, (3.0,), (1.0,))
    assert capsys.readouterr().out == ""
    ys = weft.vmap(g, (0,))(np.arange(3.0))
    np.testing.assert_allclose(ys, [0.0, -0.68294197, 0.18140515], atol=5e-9)
    assert isinstance(ys, weft.Array)  # results stay on the device


# ---- part 4: linearize and vjp -----------------------------------------------------------------


def test_linearize_of_nested_jits():
    @weft.jit
    def outer(x):
        y = jnp.sin(x) * 2.0
        z = inner(x, y)
        return z

    @weft.jit
    def inner(x, y):
        return jnp.cos(x) + y

    y, f_lin = weft.linearize(outer, 3.0)
    near(y, -0.7077524804807109)
    near(f_lin(1.0), -2.121105001260758)


def test_grad_of_nested_jits():
    @weft.jit
    def outer(x):
        y = x * 2.0
        z = inner(y)
        return z

    @weft.jit
    def inner(x):
        return jnp.cos(x) * 2.0

    near(weft.grad(outer)(3.0), 1.1176619927957034)


def nested_calls(x):
    @weft.jit
    def bar(y):
        def baz(w):
            q = weft.jit(lambda x: y)(x)
            q = q + weft.jit(lambda: y)()
            q = q + weft.jit(lambda y: w + y)(y)
            q = weft.jit(lambda w: weft.jit(jnp.sin)(x) * y)(1.0) + q
            return q

        p, t = weft.jvp(baz, (x + 1.0,), (y,))
        return t + (x * p)

    return bar(x)


@pytest.mark.smoke
@pytest.mark.parametrize("function", [f, nested_calls])
def test_the_stress_test_of_the_tutorial(function):
    jit, grad, jvp = weft.jit, weft.grad, weft.jvp

    def agree(*values):
        for value in values[1:]:
            np.testing.assert_allclose(value, values[0], rtol=1e-13)

    agree(
        function(3.0),
        jit(function)(3.0),
        jvp(function, (3.0,), (5.0,))[0],
        jvp(jit(function), (3.0,), (5.0,))[0],
    )
    agree(
        grad(function)(3.0),
        grad(jit(function))(3.0),
        jit(grad(jit(function)))(3.0),
        jvp(function, (3.0,), (1.0,))[1],
        jvp(jit(function), (3.0,), (1.0,))[1],
    )
    agree(
        grad(grad(function))(3.0),
        grad(grad(jit(function)))(3.0),
        grad(jit(grad(function)))(3.0),
        jit(grad(grad(function)))(3.0),
        jvp(grad(function), (3.0,), (1.0,))[1],
        jvp(jit(grad(function)), (3.0,), (1.0,))[1],
    )
    # x (3 x + w + x sin x) + x at w = x + 1, and its derivative in x.
    if function is nested_calls:
        x = 3.0
        near(function(x), x + x * (3 * x + (x + 1) + x * np.sin(x)))


# ---- part 5: cond ------------------------------------------------------------------------------


def test_cond():
    assert str(lax.cond(True, lambda: 3, lambda: 4)) == "3"
    assert str(weft.jit(lambda: lax.cond(False, lambda: 1, lambda: 2))()) == "2"


def test_vmap_of_cond():
    xs = np.array([1.0, 2.0, 3])
    out = weft.vmap(lambda x: lax.cond(True, lambda: x + 1.0, lambda: 0.0), (0,))(xs)
    assert str(out) == "[2. 3. 4.]"
