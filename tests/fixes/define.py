"""Fixes of primitives that are declared."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.errors import (
    JaxprError,
    LeakedTracerError,
    MissingRuleError,
    ShapeError,
    UnboundAxisError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend.core import ArrayType, define_primitive
from weft.extend.interpreters import ad, mlir

X = np.arange(4, dtype=np.float32)


def declared(body=None, **options):
    return define_primitive("declared", body=body, **options)


def doubling(**options):
    """A primitive that has a type rule and a lowering only, so that derivatives are not derived."""
    return declared(type_rule=lambda x: x, lower=lambda context, x: mlir.hlo.add(x, x), **options)


def scaled(x, *, by):
    return x * sum(by)


def powers(x, n):
    """x to the power of 2 ** n, by a primitive that applies itself until n is 0."""
    return POWERS(x, n=n)


def down_to_zero(x, *, n):
    return x if n == 0 else POWERS(x * x, n=n - 1)


def without_end(x):
    return ENDLESS(x * x)


POWERS = define_primitive("powers", body=down_to_zero)
ENDLESS = define_primitive("endless", body=without_end)
pair = declared(lambda x, y: x + y)
sums = declared(scaled)


def noisy(x):
    weft.debug.print("{}", x)
    return 2 * x


def printing(x):
    weft.debug.print("{}", x)
    return declared(lambda x: 2 * x)(x)


def closing(y):
    return declared(lambda x: x + y)(X)


def mapped(function):
    return weft.vmap(function, axis_name="i")(X)


def platform_rule(*platform):
    p = weft.extend.core.Primitive("of a platform")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda context, x: mlir.hlo.add(x, x), *platform)
    return p.bind(X)


DECLARATIONS = [
    Fixed(
        'write define_primitive("name", body=function)',
        wrong=lambda: define_primitive(lambda x: 2 * x),
        fixed=lambda fix: define_primitive("name", body=lambda x: 2 * x)(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a function as vmap",
        wrong=lambda: declared(lambda x: 2 * x, vmap=True),
        fixed=lambda fix: weft.vmap(
            declared(lambda x: 2 * x, vmap=lambda axis, operands, dims: (2 * operands[0], dims[0]))
        )(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass lower=…, or a body in existing operations",
        wrong=lambda: declared(type_rule=lambda x: x),
        fixed=lambda fix: [doubling()(X), declared(lambda x: 2 * x, type_rule=lambda x: x)(X)],
        value=[2 * X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "write each operand once, counted from 0",
        wrong=lambda: declared(jnp.multiply, linear=((0, 0), (1,))),
        fixed=lambda fix: weft.jvp(
            declared(jnp.multiply, linear=((0,), (1,))), (2.0, 3.0), (1.0, 0.0)
        ),
        value=(6, 3),
        error=WeftValueError,
    ),
    Fixed(
        "take 1 out of linear=",
        wrong=lambda: declared(lambda x: 2 * x, linear=(0, 1))(X),
        fixed=lambda fix: declared(lambda x: 2 * x, linear=(0,))(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "leave it out for a rule that serves all",
        wrong=lambda: platform_rule("abacus"),
        fixed=lambda fix: platform_rule(),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        [
            "register one: weft.extend.interpreters.ad.register_jvp(primitive, rule)",
            "or, where it is linear in these operands, declare linear=(0,)",
        ],
        wrong=lambda: weft.jvp(doubling(), (3.0,), (1.0,)),
        fixed=lambda fix: [with_jvp(doubling()), weft.jvp(doubling(linear=(0,)), (3.0,), (1.0,))],
        value=[(6, 2)] * 2,
        error=MissingRuleError,
    ),
    Fixed(
        ["leave type_rule out, and it follows from the body", "or repair one of the two"],
        wrong=lambda: declared(jnp.sum, type_rule=lambda x: x)(X),
        fixed=lambda fix: [
            declared(jnp.sum)(X),
            declared(jnp.sum, type_rule=lambda x: ArrayType((), x.dtype))(X),
        ],
        value=[6] * 2,
        error=JaxprError,
    ),
]


def with_jvp(p):
    ad.register_jvp(p, lambda primals, tangents: (p(*primals), p(*tangents)))
    return weft.jvp(p, (3.0,), (1.0,))


CALLS = [
    Fixed(
        "pass the leaves one by one: p(*weft.tree.leaves(tree))",
        wrong=lambda: pair({"a": X, "b": X}),
        fixed=lambda fix: pair(*weft.tree.leaves({"a": X, "b": X})),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "and what is no array as a keyword",
        wrong=lambda: sums(X, (1, 2)),
        fixed=lambda fix: sums(X, by=(1, 2)),
        value=3 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a tuple, or another value with a hash, as by",
        wrong=lambda: sums(X, by=[1, 2]),
        fixed=lambda fix: [sums(X, by=(1, 2)), sums(X, by=range(3))],
        value=[3 * X, 3 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "pass y as an operand (positional) instead",
        wrong=lambda: pair(X, y=X),
        fixed=lambda fix: pair(X, X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "a setting is kept from being traced by jit(..., static_argnames='n')",
        wrong=lambda: weft.jit(powers)(X, n=2),
        fixed=lambda fix: weft.jit(powers, static_argnames="n")(X, n=2),
        value=X**4,
        error=WeftTypeError,
    ),
    Fixed(
        "call it as declared(x, *, by)",
        wrong=lambda: sums(X, factors=(1, 2)),
        fixed=lambda fix: sums(X, by=(1, 2)),
        value=3 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "broadcast them first: weft.numpy.broadcast_arrays",
        wrong=lambda: declared(jnp.add, elementwise=True)(X, X[:, None]),
        fixed=lambda fix: declared(jnp.add, elementwise=True)(
            *weft.numpy.broadcast_arrays(X, X[:, None])
        ),
        value=X + X[:, None],
        error=ShapeError,
    ),
]

BODIES = [
    Fixed(
        "declare multiple_results=True, or return one array",
        wrong=lambda: declared(lambda x: (x, 2 * x))(X),
        fixed=lambda fix: [
            *declared(lambda x: (x, 2 * x), multiple_results=True)(X),
            declared(lambda x: 2 * x)(X),
        ],
        value=[X, 2 * X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "return a flat tuple of arrays",
        wrong=lambda: declared(lambda x: (x, (2 * x,)), multiple_results=True)(X),
        fixed=lambda fix: declared(lambda x: (x, 2 * x), multiple_results=True)(X),
        value=[X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "call back or print outside of the primitive",
        wrong=lambda: declared(noisy)(X),
        fixed=lambda fix: printing(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "pass the value to the primitive as one more operand, and give the body an argument",
        wrong=lambda: weft.jit(closing)(X),
        fixed=lambda fix: weft.jit(lambda y: declared(lambda x, y: x + y)(X, y))(X),
        value=2 * X,
        error=LeakedTracerError,
    ),
    Fixed(
        ["let a parameter decide where it ends: p(x, n=n - 1)", "or use weft.lax.while_loop"],
        wrong=lambda: ENDLESS(X),
        fixed=lambda fix: [
            POWERS(X, n=2),
            weft.lax.while_loop(lambda x: x.max() < 80, lambda x: x * x, X),
        ],
        value=[X**4] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "apply the collective outside of the primitive, to its operands or results",
        wrong=lambda: mapped(declared(lambda x: x - lax.pmean(x, "i"))),
        fixed=lambda fix: [
            mapped(lambda x: pair(x, -lax.pmean(x, "i"))),
            mapped(lambda x: x - lax.pmean(declared(lambda x: 1 * x)(x), "i")),
        ],
        value=[X - 1.5, X - 1.5],
        error=UnboundAxisError,
    ),
]

FIXES = DECLARATIONS + CALLS + BODIES
