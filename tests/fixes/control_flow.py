"""Fixes of loops and branches."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.errors import (
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

THREE = jnp.array([1.0, 2.0, 3.0])
BOTH = jnp.array([True, False])
PAIR = {"a": THREE, "b": jnp.array([10.0, 20.0])}


def up(x):
    return x + 1.0


def down(x):
    return x - 1.0


def total(carry, x):
    return carry + x, None


def doubled_below(n):
    """Doubles a number as long as it is below `n`; the condition's function makes the condition."""
    return lambda condition: lax.while_loop(lambda x: condition(x, n), lambda x: 2 * x, 1.0)


def power(x, n):
    """x to the power of a traced number."""
    return lax.fori_loop(0, n, lambda i, y: y * x, 1.0)


@weft.custom_vjp
def own_power(x, n):
    return power(x, n)


own_power.defvjp(
    lambda x, n: (power(x, n), (x, n)), lambda saved, ct: (ct * saved[1] * power(saved[0], 2), None)
)


def tell(x):
    weft.io_callback(lambda _: None, None, x)
    return x


def told(x, act=tell):
    return lax.while_loop(lambda x: x < 100.0, lambda x: 2.0 * act(x), x)


def told_often(x):
    return lax.scan(lambda x, _: (2.0 * tell(x), None), x, length=3)[0]


def appended(x, _):
    return jnp.concatenate([x, x[-1:] + 1]), None


def written(x, i):
    return x.at[i].set(x[i - 1] + 1), None


def ended(x, _):
    return x + 1, x + 1


BRANCHES = [
    Fixed(
        ["reduce it with .any()", "or .all()", "or use weft.numpy.where"],
        wrong=lambda: lax.cond(BOTH, up, down, 1.0),
        fixed=lambda fix: [
            lax.cond(BOTH.any(), up, down, 1.0),
            lax.cond(BOTH.all(), up, down, 1.0),
            weft.numpy.where(BOTH, up(1.0), down(1.0)),
        ],
        value=[2.0, 0.0, np.array([2.0, 0.0])],
        error=WeftTypeError,
    ),
    Fixed(
        "convert the index: weft.numpy.int32(index)",
        wrong=lambda: weft.jit(lambda index: lax.switch(index, [up, down], 1.0))(1.0),
        fixed=lambda fix: weft.jit(
            lambda index: lax.switch(weft.numpy.int32(index), [up, down], 1.0)
        )(1.0),
        value=0.0,
        error=WeftTypeError,
    ),
    Fixed(
        "choose for each: weft.vmap",
        wrong=lambda: lax.switch(np.array([0, 1, 1]), [up, down], 1.0),
        fixed=lambda fix: weft.vmap(lambda index: lax.switch(index, [up, down], 1.0))(
            np.array([0, 1, 1])
        ),
        value=np.array([2.0, 0.0, 0.0]),
        error=WeftTypeError,
    ),
    Fixed(
        "or weft.lax.select_n where the results are at hand",
        wrong=lambda: lax.switch(np.array([0, 1, 1]), [up, down], THREE),
        fixed=lambda fix: weft.lax.select_n(np.array([0, 1, 1]), up(THREE), down(THREE)),
        value=np.array([2.0, 1.0, 2.0]),
        error=WeftTypeError,
    ),
    Fixed(
        "return the same structure from every branch",
        wrong=lambda: lax.cond(True, up, lambda x: (x, x), 1.0),
        fixed=lambda fix: lax.cond(True, lambda x: (up(x), x), lambda x: (x, x), 1.0),
        value=(2.0, 1.0),
        error=TreeError,
    ),
    Fixed(
        "convert the results to one dtype and shape in the branches",
        wrong=lambda: lax.cond(True, up, lambda x: jnp.zeros(3, "int32"), THREE),
        fixed=lambda fix: lax.cond(
            True, up, lambda x: jnp.zeros(3, "int32").astype("float32"), THREE
        ),
        value=np.array([2.0, 3.0, 4.0]),
        error=WeftTypeError,
    ),
    Fixed(
        "convert the results to one dtype and shape in the branches",
        wrong=lambda: lax.switch(1, [up, lambda x: 0.0], THREE),
        fixed=lambda fix: lax.switch(1, [up, lambda x: jnp.zeros(3)], THREE),
        value=np.zeros(3),
        error=WeftTypeError,
    ),
]
SCANS = [
    Fixed(
        "stack the values of all steps: weft.numpy.stack([x0, x1])",
        wrong=lambda: lax.scan(total, 0.0, [1.0, 2.0]),
        fixed=lambda fix: lax.scan(total, 0.0, weft.numpy.stack([1.0, 2.0]))[0],
        value=3.0,
        error=ShapeError,
    ),
    Fixed(
        "stack the values of all steps: weft.numpy.stack([x0, x1])",
        wrong=lambda: lax.associative_scan(lambda x, y: [x[0] + y[0]], [1.0]),
        fixed=lambda fix: lax.associative_scan(jnp.add, weft.numpy.stack([1.0])),
        value=np.array([1.0]),
        error=ShapeError,
    ),
    Fixed(
        "pass a Python int",
        wrong=lambda: lax.scan(lambda x, _: (2 * x, None), 1, length=3.0),
        fixed=lambda fix: lax.scan(lambda x, _: (2 * x, None), 1, length=3)[0],
        value=8,
        error=WeftTypeError,
    ),
    Fixed(
        "or use weft.lax.while_loop",
        wrong=lambda: weft.jit(lambda n: lax.scan(lambda x, _: (2 * x, None), 1, length=n)[0])(3),
        fixed=lambda fix: weft.jit(
            lambda n: weft.lax.while_loop(
                lambda state: state[0] < n, lambda state: (state[0] + 1, 2 * state[1]), (0, 1)
            )[1]
        )(3),
        value=8,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a length of at least 0",
        wrong=lambda: lax.scan(total, 5.0, None, length=-1),
        fixed=lambda fix: lax.scan(lambda x, _: (x, None), 5.0, None, **fix.data)[0],
        value=5.0,
        error=WeftValueError,
    ),
    Fixed(
        ["cut", "or pad the arrays to one leading length"],
        wrong=lambda: lax.scan(lambda c, x: (c + x["a"] * x["b"], None), 0.0, PAIR),
        fixed=lambda fix: [
            lax.scan(lambda c, x: (c + x["a"] * x["b"], None), 0.0, PAIR | {"a": THREE[:2]})[0],
            lax.scan(
                lambda c, x: (c + x["a"] * x["b"], None),
                0.0,
                PAIR | {"b": jnp.pad(PAIR["b"], (0, 1))},
            )[0],
        ],
        value=[50.0] * 2,
        error=ShapeError,
    ),
    Fixed(
        ["leave length out", "or cut the arrays to 2"],
        wrong=lambda: lax.scan(total, 0.0, THREE, length=2),
        fixed=lambda fix: [
            lax.scan(total, 0.0, THREE)[0],
            lax.scan(total, 0.0, THREE[:2], length=2)[0],
        ],
        value=[6.0, 3.0],
        error=ShapeError,
    ),
    Fixed(
        "pass length=…",
        wrong=lambda: lax.scan(lambda x, _: (2 * x, None), 1, None),
        fixed=lambda fix: lax.scan(lambda x, _: (2 * x, None), 1, None, length=3)[0],
        value=8,
        error=WeftValueError,
    ),
    Fixed(
        "use weft.lax.scan with length=…",
        wrong=lambda: lax.map(lambda _: 7.0, None),
        fixed=lambda fix: weft.lax.scan(lambda c, _: (c, 7.0), None, None, length=2)[1],
        value=np.array([7.0, 7.0]),
        error=WeftValueError,
    ),
    Fixed(
        "return (carry, None) where nothing is stacked",
        wrong=lambda: lax.scan(lambda carry, x: carry + x, 0.0, THREE),
        fixed=lambda fix: lax.scan(lambda carry, x: (carry + x, None), 0.0, THREE)[0],
        value=6.0,
        error=WeftTypeError,
    ),
]
CARRIES = [
    Fixed(
        "return the carry with the structure of the initial one",
        wrong=lambda: lax.fori_loop(0, 2, lambda i, c: [c[0] + 1.0, c[1]], (0.0, 5.0)),
        fixed=lambda fix: lax.fori_loop(0, 2, lambda i, c: (c[0] + 1.0, c[1]), (0.0, 5.0)),
        value=(2.0, 5.0),
        error=TreeError,
    ),
    Fixed(
        ["start with dtype f32", "or convert what the body returns to i32"],
        wrong=lambda: lax.scan(total, jnp.int32(0), THREE),
        fixed=lambda fix: [
            lax.scan(total, jnp.int32(0).astype(fix.data["dtype"]), THREE)[0],
            lax.scan(lambda carry, x: ((carry + x).astype("int32"), None), jnp.int32(0), THREE)[0],
        ],
        value=[6.0, 6],
        error=WeftTypeError,
    ),
    Fixed(
        ["start with an array of shape (3,)", "or return an array of shape () from the body"],
        wrong=lambda: lax.scan(lambda c, x: (c + THREE * x, None), 0.0, THREE),
        fixed=lambda fix: [
            lax.scan(lambda c, x: (c + THREE * x, None), jnp.zeros(fix.data["shape"]), THREE)[0],
            lax.scan(lambda c, x: (c + (THREE * x).sum(), None), 0.0, THREE)[0],
        ],
        value=[np.array([6.0, 12.0, 18.0]), 36.0],
        error=WeftTypeError,
    ),
    Fixed(
        [
            "start with one of the final length and write into it with .at[i].set",
            "or return what is added as the result of each step",
        ],
        wrong=lambda: lax.scan(appended, jnp.zeros(1), None, length=2),
        fixed=lambda fix: [
            lax.scan(written, jnp.zeros(3), jnp.arange(1, 3))[0],
            lax.scan(ended, 0.0, None, length=2)[1],
        ],
        value=[np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0])],
        error=WeftTypeError,
    ),
    Fixed(
        "return an array of shape (2,) from the body",
        wrong=lambda: lax.fori_loop(0, 2, lambda i, x: x[:1], jnp.arange(2.0)),
        fixed=lambda fix: lax.fori_loop(0, 2, lambda i, x: x + x[:1] + 1.0, jnp.arange(2.0)),
        value=np.array([3.0, 4.0]),
        error=WeftTypeError,
    ),
]
WHILE = [
    Fixed(
        "compare (x < n)",
        wrong=lambda: doubled_below(5.0)(lambda x, n: n - x),
        fixed=lambda fix: doubled_below(5.0)(lambda x, n: x < n),
        value=8.0,
        error=WeftTypeError,
    ),
    Fixed(
        ["and reduce an array with .any()", "or .all()"],
        wrong=lambda: doubled_below(np.float32([3, 5]))(lambda x, n: x < n),
        fixed=lambda fix: [
            doubled_below(np.float32([3, 5]))(lambda x, n: (x < n).any()),
            doubled_below(np.float32([3, 5]))(lambda x, n: (x < n).all()),
        ],
        value=[8.0, 4.0],
        error=WeftTypeError,
    ),
    Fixed(
        "return the boolean alone: not in a tuple",
        wrong=lambda: doubled_below(5.0)(lambda x, n: (x < n,)),
        fixed=lambda fix: doubled_below(5.0)(lambda x, n: x < n),
        value=8.0,
        error=WeftTypeError,
    ),
    Fixed(
        "pass progress=True",
        wrong=lambda: lax.fori_loop(0, 4, lambda i, x: x + i, 0, progress=7),
        fixed=lambda fix: lax.fori_loop(0, 4, lambda i, x: x + i, 0, **fix.data),
        value=6,
        error=WeftTypeError,
    ),
    Fixed(
        ["leave unroll out", "or make the bounds static arguments"],
        wrong=lambda: weft.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0, unroll=2))(4),
        fixed=lambda fix: [
            weft.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))(4),
            weft.jit(
                lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0, unroll=2), static_argnums=0
            )(4),
        ],
        value=[6] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "convert the bound to an integer: weft.numpy.int32(bound)",
        wrong=lambda: lax.fori_loop(jnp.array(True), 4, lambda i, x: x + i, 0),
        fixed=lambda fix: lax.fori_loop(
            weft.numpy.int32(jnp.array(True)), 4, lambda i, x: x + i, 0
        ),
        value=6,
        error=WeftTypeError,
    ),
    Fixed(
        ["take one number (bound.max())", "or map over the bounds with weft.vmap"],
        wrong=lambda: lax.fori_loop(0, jnp.array([2, 4]), lambda i, x: x + i, 0),
        fixed=lambda fix: [
            lax.fori_loop(0, jnp.array([2, 4]).max(), lambda i, x: x + i, 0),
            weft.vmap(lambda bound: lax.fori_loop(0, bound, lambda i, x: x + i, 0))(
                jnp.array([2, 4])
            ),
        ],
        value=[6, np.array([1, 6])],
        error=WeftTypeError,
    ),
    Fixed(
        "give both bounds a wider dtype",
        wrong=lambda: lax.fori_loop(jnp.int8(126), 130, lambda i, x: x + 1, 0),
        fixed=lambda fix: lax.fori_loop(jnp.int16(126), jnp.int16(130), lambda i, x: x + 1, 0),
        value=4,
        error=WeftValueError,
    ),
    Fixed(
        [
            "use weft.lax.fori_loop with Python integers as bounds",
            "or weft.lax.scan",
            "or differentiate forwards (weft.jvp",
            "weft.jacfwd)",
            "or give the loop a derivative of its own (weft.custom_vjp",
        ],
        wrong=lambda: weft.jit(weft.grad(power))(2.0, 3),
        fixed=lambda fix: [
            weft.grad(lambda x: power(x, 3))(2.0),
            weft.jit(
                weft.grad(lambda x: weft.lax.scan(lambda y, _: (y * x, None), 1.0, length=3)[0])
            )(2.0),
            weft.jit(lambda n: weft.jvp(lambda x: power(x, n), (2.0,), (1.0,))[1])(3),
            weft.jit(weft.jacfwd(power))(2.0, 3),
            weft.jit(weft.grad(own_power))(2.0, 3),
        ],
        value=[12.0] * 5,
        error=WeftValueError,
    ),
    Fixed(
        "weft.lax.custom_root)",
        wrong=lambda: weft.grad(
            lambda a: lax.while_loop(lambda x: x * x > 1.001 * a, lambda x: (x + a / x) / 2, 9.0)
        )(4.0),
        fixed=lambda fix: weft.grad(
            lambda a: weft.lax.custom_root(
                lambda x: x * x - a,
                9.0,
                lambda f, x: lax.while_loop(
                    lambda x: abs(f(x)) > 1e-4, lambda x: (x + a / x) / 2, x
                ),
                lambda g, y: y / g(1.0),
            )
        )(4.0),
        value=0.25,
        error=WeftValueError,
    ),
    Fixed(
        ["differentiate with weft.jvp", "use weft.lax.scan", "or take the io_callback out"],
        wrong=lambda: weft.linearize(told, 1.0),
        fixed=lambda fix: [
            weft.jvp(told, (1.0,), (1.0,))[1],
            weft.linearize(told_often, 1.0)[1](1.0),
            weft.linearize(lambda x: told(x, act=lambda x: x), 1.0)[1](1.0),
        ],
        value=[128.0, 8.0, 128.0],
        error=WeftNotImplementedError,
    ),
]
FIXES = BRANCHES + SCANS + CARRIES + WHILE
