"""Fixes of the derivatives, of mapping and of compiling."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.errors import (
    AxisError,
    DTypeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

THREE = np.array([1.0, 2.0, 3.0], np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
INTEGER_ZERO = np.zeros((), weft.dtypes.float0)


def square(x):
    return x * x


def product(x, y):
    return x * y


def pulled(function, x, cotangent):
    return weft.vjp(function, x)[1](cotangent)


def is_zero_of_integers(x):
    return x.dtype == weft.dtypes.float0 and x.shape == ()


def newton(f, x):
    return lax.while_loop(lambda x: abs(f(x)) > 1e-5, lambda x: x - f(x) / weft.grad(f)(x), x)


def root(tangent_solve):
    """The derivative of the root of x["a"]**2 == a at 4."""

    def solved(a):
        return lax.custom_root(
            lambda x: {"a": x["a"] ** 2 - a},
            {"a": 1.0},
            lambda f, x: {"a": newton(lambda y: f({"a": y})["a"], x["a"])},
            tangent_solve,
        )["a"]

    return weft.grad(solved)(4.0)


def converted(call):
    def loss(a):
        function, values = weft.closure_convert(lambda x: a * x, 1.0)
        return call(function, values)

    return weft.grad(loss)(3.0)


def own_gradient(pair):
    return weft.grad(weft.custom_gradient(pair))(3.0)


GRADIENTS = [
    Fixed(
        "give the arguments a floating-point dtype",
        wrong=lambda: weft.linear_transpose(lambda x: x * 2.0, jnp.arange(3))(jnp.ones(3)),
        fixed=lambda fix: weft.linear_transpose(lambda x: x * 2.0, jnp.arange(3.0))(jnp.ones(3)),
        value=[np.full(3, 2.0)],
        error=DTypeError,
    ),
    Fixed(
        "pass argnums from 0 to 1",
        wrong=lambda: weft.grad(product, 2)(3.0, 5.0),
        fixed=lambda fix: weft.grad(product, **fix.data)(3.0, 5.0),
        value=5.0,
        error=WeftTypeError,
    ),
    Fixed(
        "pass argnums=0",
        wrong=lambda: weft.grad(square, 1)(3.0),
        fixed=lambda fix: weft.grad(square, argnums=0)(3.0),
        value=6.0,
        error=WeftTypeError,
    ),
    Fixed(
        "pass the arguments up to number 1 by position",
        wrong=lambda: weft.grad(product, 1)(x=3.0, y=5.0),
        fixed=lambda fix: weft.grad(product, 1)(3.0, 5.0),
        value=3.0,
        error=WeftTypeError,
    ),
    Fixed(
        "pass the arguments up to number 1 by position",
        wrong=lambda: weft.jacrev(product, 1)(3.0, y=5.0),
        fixed=lambda fix: weft.jacrev(product, 1)(3.0, 5.0),
        value=3.0,
        error=WeftTypeError,
    ),
    Fixed(
        "convert the argument to complex64",
        wrong=lambda: weft.grad(square, holomorphic=True)(3.0),
        fixed=lambda fix: weft.grad(square, holomorphic=True)(jnp.complex64(3.0)),
        value=6.0 + 0j,
        error=DTypeError,
    ),
    Fixed(
        "convert the argument to a floating-point dtype (pass 3.0 instead of 3)",
        wrong=lambda: weft.grad(square)(3),
        fixed=lambda fix: weft.grad(square)(3.0),
        value=6.0,
        error=DTypeError,
    ),
    Fixed(
        "or pass allow_int=True for float0 gradients",
        wrong=lambda: weft.grad(lambda n: 2.0 * n)(3),
        fixed=lambda fix: weft.grad(lambda n: 2.0 * n, **fix.data)(3),
        value=is_zero_of_integers,
        error=DTypeError,
    ),
    Fixed(
        "return (scalar, others) and pass has_aux=True",
        wrong=lambda: weft.grad(lambda x: (x * x, x + 1))(3.0),
        fixed=lambda fix: weft.grad(lambda x: (x * x, x + 1), **fix.data)(3.0),
        value=(6.0, 4.0),
        error=WeftTypeError,
    ),
    Fixed(
        "return the scalar itself",
        wrong=lambda: weft.grad(lambda x: [x * x])(3.0),
        fixed=lambda fix: weft.grad(lambda x: x * x)(3.0),
        value=6.0,
        error=WeftTypeError,
    ),
    Fixed(
        ["reduce the result, for example by .sum()", "or .mean()"],
        wrong=lambda: weft.grad(square)(THREE),
        fixed=lambda fix: [
            weft.grad(lambda x: square(x).sum())(THREE),
            weft.grad(lambda x: square(x).mean())(THREE),
        ],
        value=[2 * THREE, 2 * THREE / 3],
        error=WeftTypeError,
    ),
    Fixed(
        "convert the result to a floating-point dtype",
        wrong=lambda: weft.grad(lambda x: jnp.floor(x).astype("int32"))(3.5),
        fixed=lambda fix: weft.grad(lambda x: jnp.floor(x).astype("int32").astype("float32"))(3.5),
        value=0.0,
        error=DTypeError,
    ),
    Fixed(
        "leave holomorphic out",
        wrong=lambda: weft.grad(lambda z: z.real, holomorphic=True)(3.0 + 1j),
        fixed=lambda fix: weft.grad(lambda z: z.real)(3.0 + 1j),
        value=1.0 + 0j,
        error=DTypeError,
    ),
    Fixed(
        ["take the real part", "or pass holomorphic=True and complex arguments"],
        wrong=lambda: weft.grad(lambda x: (2 + 1j) * x)(3.0),
        fixed=lambda fix: [
            weft.grad(lambda x: ((2 + 1j) * x).real)(3.0),
            weft.grad(lambda x: (2 + 1j) * x, holomorphic=True)(3.0 + 0j),
        ],
        value=[2.0, 2.0 + 1j],
        error=DTypeError,
    ),
    Fixed(
        "pass holomorphic=True for a holomorphic function",
        wrong=lambda: weft.jacfwd(square)(3.0 + 1j),
        fixed=lambda fix: weft.jacfwd(square, holomorphic=True)(3.0 + 1j),
        value=6.0 + 2j,
        error=DTypeError,
    ),
    Fixed(
        "else real and imaginary parts",
        wrong=lambda: weft.jacrev(lambda x: (2 + 1j) * x)(3.0),
        fixed=lambda fix: weft.jacrev(lambda x: (((2 + 1j) * x).real, ((2 + 1j) * x).imag))(3.0),
        value=(2.0, 1.0),
        error=DTypeError,
    ),
    Fixed(
        "convert the values to complex64",
        wrong=lambda: weft.jacrev(square, holomorphic=True)(3.0),
        fixed=lambda fix: weft.jacrev(square, holomorphic=True)(jnp.complex64(3.0)),
        value=6.0 + 0j,
        error=DTypeError,
    ),
    Fixed(
        "or leave holomorphic out",
        wrong=lambda: weft.jacfwd(square, holomorphic=True)(3.0),
        fixed=lambda fix: weft.jacfwd(square)(3.0),
        value=6.0,
        error=DTypeError,
    ),
    Fixed(
        "convert the values to a floating-point dtype",
        wrong=lambda: weft.jacfwd(square)(3),
        fixed=lambda fix: weft.jacfwd(square)(jnp.float32(3)),
        value=6.0,
        error=DTypeError,
    ),
    Fixed(
        "convert it to float32",
        wrong=lambda: pulled(square, jnp.float32(3), np.float16(1)),
        fixed=lambda fix: pulled(square, jnp.float32(3), np.float16(1).astype(fix.data["dtype"])),
        value=(6.0,),
        error=DTypeError,
    ),
    Fixed(
        "pass the real part of it: x.real.astype(float32)",
        wrong=lambda: pulled(square, jnp.float32(3), np.complex64(1 + 2j)),
        fixed=lambda fix: pulled(
            square, jnp.float32(3), np.complex64(1 + 2j).real.astype("float32")
        ),
        value=(6.0,),
        error=DTypeError,
    ),
    Fixed(
        "pass np.zeros((), weft.dtypes.float0)",
        wrong=lambda: pulled(lambda x: (x, 3), 2.0, (1.0, np.float32(0))),
        fixed=lambda fix: pulled(lambda x: (x, 3), 2.0, (1.0, np.zeros((), weft.dtypes.float0))),
        value=(1.0,),
        error=DTypeError,
    ),
    Fixed(
        "write (primal,)",
        wrong=lambda: weft.jvp(square, 3.0, (1.0,)),
        fixed=lambda fix: weft.jvp(square, (3.0,), (1.0,)),
        value=(9.0, 6.0),
        error=WeftTypeError,
    ),
    Fixed(
        "write (tangent,)",
        wrong=lambda: weft.jvp(square, (3.0,), 1.0),
        fixed=lambda fix: weft.jvp(square, (3.0,), (1.0,)),
        value=(9.0, 6.0),
        error=WeftTypeError,
    ),
    Fixed(
        "convert the primal to a floating-point dtype",
        wrong=lambda: weft.jvp(square, (3,), (1.0,)),
        fixed=lambda fix: weft.jvp(square, (jnp.float32(3),), (1.0,)),
        value=(9.0, 6.0),
        error=DTypeError,
    ),
    Fixed(
        "convert the tangent to float32",
        wrong=lambda: weft.jvp(square, (3.0,), (np.float16(1),)),
        fixed=lambda fix: weft.jvp(square, (3.0,), (np.float16(1).astype(fix.data["dtype"]),)),
        value=(9.0, 6.0),
        error=DTypeError,
    ),
    Fixed(
        "pass the real part of the tangent",
        wrong=lambda: weft.jvp(square, (3.0,), (1.0 + 2j,)),
        fixed=lambda fix: weft.jvp(square, (3.0,), ((1.0 + 2j).real,)),
        value=(9.0, 6.0),
        error=DTypeError,
    ),
    Fixed(
        "return a tree like its second argument",
        wrong=lambda: root(lambda g, y: y["a"] / g({"a": 1.0})["a"]),
        fixed=lambda fix: root(lambda g, y: {"a": y["a"] / g({"a": 1.0})["a"]}),
        value=0.25,
        error=TreeError,
    ),
    Fixed(
        "return (result, lambda ct: ...)",
        wrong=lambda: own_gradient(lambda x: (x * x, 7.0)),
        fixed=lambda fix: own_gradient(lambda x: (x * x, lambda ct: 7.0 * ct)),
        value=7.0,
        error=WeftTypeError,
    ),
    Fixed(
        "call converted(*args, *values)",
        wrong=lambda: converted(lambda function, values: function(2.0)),
        fixed=lambda fix: converted(lambda function, values: function(2.0, *values)),
        value=2.0,
        error=TreeError,
    ),
]
MAPPED = [
    Fixed(
        "give in_axes 2 entries",
        wrong=lambda: weft.vmap(product, (0,))(THREE, 2.0),
        fixed=lambda fix: weft.vmap(product, (0, None))(THREE, 2.0),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "pass an axis from 0 to 1 for it in in_axes",
        wrong=lambda: weft.vmap(jnp.sum, 2)(ROWS),
        fixed=lambda fix: [weft.vmap(jnp.sum, axis)(ROWS) for axis in (0, 1)],
        value=[np.array([3, 12]), np.array([3, 5, 7])],
        error=AxisError,
    ),
    Fixed(
        "pass 0 for it in in_axes",
        wrong=lambda: weft.vmap(square, 1)(THREE),
        fixed=lambda fix: weft.vmap(square, 0)(THREE),
        value=THREE**2,
        error=AxisError,
    ),
    Fixed(
        "pass None for it in in_axes",
        wrong=lambda: weft.vmap(product)(THREE, 2.0),
        fixed=lambda fix: weft.vmap(product, (0, fix.data["axis"]))(THREE, 2.0),
        value=2 * THREE,
        error=AxisError,
    ),
    Fixed(
        "pass None for it in in_axes, and axis_size=…",
        wrong=lambda: weft.vmap(square)(3.0),
        fixed=lambda fix: weft.vmap(square, (None,), axis_size=2)(3.0),
        value=np.array([9, 9]),
        error=AxisError,
    ),
    Fixed(
        "pass axis_size=…",
        wrong=lambda: weft.vmap(square, None)(3.0),
        fixed=lambda fix: weft.vmap(square, None, axis_size=2)(3.0),
        value=np.array([9, 9]),
        error=WeftValueError,
    ),
    Fixed(
        "or an int in in_axes",
        wrong=lambda: weft.vmap(square, None)(THREE),
        fixed=lambda fix: weft.vmap(square, 0)(THREE),
        value=THREE**2,
        error=WeftValueError,
    ),
    Fixed(
        "give the result an axis in out_axes",
        wrong=lambda: weft.vmap(square, out_axes=None)(THREE),
        fixed=lambda fix: weft.vmap(square, out_axes=0)(THREE),
        value=THREE**2,
        error=WeftValueError,
    ),
]
COMPILED = [
    Fixed(
        "leave it out; where a sum is wanted, take it: weft.lax.psum(gradient, 'i')",
        wrong=lambda: weft.grad(lambda x: x * x, reduce_axes=("i",))(3.0),
        fixed=lambda fix: weft.grad(lambda x: x * x, **{fix.data["keyword"]: fix.data["value"]})(
            3.0
        ),
        value=6.0,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass max_traces=1",
        wrong=lambda: weft.jit(square, max_traces=0)(3.0),
        fixed=lambda fix: weft.jit(square, **fix.data)(3.0),
        value=9.0,
        error=WeftValueError,
    ),
    Fixed(
        "or leave it out",
        wrong=lambda: weft.jit(square, max_traces="one")(3.0),
        fixed=lambda fix: weft.jit(square)(3.0),
        value=9.0,
        error=WeftTypeError,
    ),
    Fixed(
        "leave relayout out",
        wrong=lambda: weft.jit(square, relayout="copy")(3.0),
        fixed=lambda fix: weft.jit(square)(3.0),
        value=9.0,
        error=WeftValueError,
    ),
    Fixed(
        "or pass relayout='auto'",
        wrong=lambda: weft.jit(square, relayout=True)(3.0),
        fixed=lambda fix: weft.jit(square, **fix.data)(3.0),
        value=9.0,
        error=WeftValueError,
    ),
    Fixed(
        "make each argument static or donated, not both",
        wrong=lambda: weft.jit(product, static_argnums=1, donate_argnums=(0, 1))(THREE, 2),
        fixed=lambda fix: weft.jit(product, static_argnums=1, donate_argnums=(0,))(
            jnp.array(THREE), 2
        ),
        value=2 * THREE,
        error=WeftValueError,
    ),
]
FIXES = GRADIENTS + MAPPED + COMPILED
