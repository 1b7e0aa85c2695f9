"""Fixes of associative scans, of reductions by functions, and of linear solves."""

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
PAIR = {"a": THREE, "b": jnp.array([10.0, 20.0])}
HALVED = np.array([0.5, 1.0, 1.5])
SIXTHS = np.array([1, 2, 3]) / 6


def summed(x, y):
    return weft.tree.map(jnp.add, x, y)


def scanned(function, elems=THREE):
    return lax.associative_scan(function, elems)


def reduced(function, x=THREE, init=0.0):
    return lax.reduce(x, init, function, (0,))


def twice(x):
    return 2 * x


def half(matvec, b):
    return b / 2


def solved(b=THREE, matvec=twice, solve=half, **options):
    return lax.custom_linear_solve(matvec, b, solve, **options)


def gradient(**options):
    """Of the dot product of (1, 2, 3) with the solution of `2 x == b`."""
    return weft.grad(lambda b: (solved(b, **options) * THREE).sum())(THREE)


def scaled_solution(a):
    return solved(matvec=lambda x: a * x, solve=lambda matvec, b: b / a, symmetric=True)


def tree_solution(matvec):
    return solved({"a": 4.0, "b": 6.0}, matvec, lambda _, b: weft.tree.map(lambda x: x / 2, b))


SCANS = [
    Fixed(
        ["cut", "or pad the arrays to one length"],
        wrong=lambda: scanned(summed, PAIR),
        fixed=lambda fix: [
            scanned(summed, PAIR | {"a": THREE[:2]}),
            scanned(summed, PAIR | {"b": jnp.pad(PAIR["b"], (0, 1))}),
        ],
        value=[
            {"a": np.array([1, 3]), "b": np.array([10, 30])},
            {"a": np.array([1, 3, 6]), "b": np.array([10, 30, 30])},
        ],
        error=ShapeError,
    ),
    Fixed(
        "return the structure of one argument",
        wrong=lambda: scanned(lambda x, y: [x[0] + y[0], x[1] * y[1]], (THREE, THREE)),
        fixed=lambda fix: scanned(lambda x, y: (x[0] + y[0], x[1] * y[1]), (THREE, THREE)),
        value=(np.array([1, 3, 6]), np.array([1, 2, 6])),
        error=TreeError,
    ),
    Fixed(
        "combine element by element",
        wrong=lambda: scanned(lambda x, y: (x + y).sum(), THREE),
        fixed=lambda fix: scanned(lambda x, y: x + y, THREE),
        value=np.array([1, 3, 6]),
        error=WeftTypeError,
    ),
    Fixed(
        "in the dtype of elems",
        wrong=lambda: scanned(lambda x, y: 0.5 * x + 0.5 * y, jnp.array([2, 4, 8])),
        fixed=lambda fix: scanned(lambda x, y: (x + y) // 2, jnp.array([2, 4, 6])[:2]),
        value=np.array([2, 3]),
        error=WeftTypeError,
    ),
]
REDUCTIONS = [
    Fixed(
        "use a Python number",
        wrong=lambda: reduced(lambda x, y: x + y * jnp.float32(2)),
        fixed=lambda fix: reduced(lambda x, y: x + y * 2.0),
        value=12.0,
        error=WeftValueError,
    ),
    Fixed(
        "or apply the array afterwards",
        wrong=lambda: weft.jit(lambda scale: reduced(lambda x, y: x + y * scale))(2.0),
        fixed=lambda fix: weft.jit(lambda scale: reduced(lambda x, y: x + y) * scale)(2.0),
        value=12.0,
        error=WeftValueError,
    ),
    Fixed(
        "convert the function's result to the operand's dtype",
        wrong=lambda: reduced(lambda x, y: x + y * 1.5, jnp.array([2, 4]), 0),
        fixed=lambda fix: reduced(lambda x, y: (x + y * 1.5).astype("int32"), jnp.array([2, 4]), 0),
        value=9,
        error=WeftTypeError,
    ),
    Fixed(
        "return one number, as is given",
        wrong=lambda: reduced(lambda x, y: jnp.stack([x, y])),
        fixed=lambda fix: reduced(lambda x, y: jnp.stack([x, y]).sum()),
        value=6.0,
        error=WeftTypeError,
    ),
    Fixed(
        "convert it to float32",
        wrong=lambda: reduced(lambda x, y: x + y, THREE, np.int32(1)),
        fixed=lambda fix: reduced(lambda x, y: x + y, THREE, np.int32(1).astype(fix.data["dtype"])),
        value=7.0,
        error=WeftTypeError,
    ),
]
SOLVES = [
    Fixed(
        ["return (x, aux)", "or leave has_aux out"],
        wrong=lambda: solved(has_aux=True),
        fixed=lambda fix: [solved(solve=lambda matvec, b: (b / 2, 7), has_aux=True), solved()],
        value=[(HALVED, 7), HALVED],
        error=TreeError,
    ),
    Fixed(
        "return a tree like b",
        wrong=lambda: tree_solution(lambda x: (2 * x["a"], 2 * x["b"])),
        fixed=lambda fix: tree_solution(lambda x: {"a": 2 * x["a"], "b": 2 * x["b"]}),
        value={"a": 2.0, "b": 3.0},
        error=TreeError,
    ),
    Fixed(
        "return arrays of the shapes and dtypes of b",
        wrong=lambda: solved(solve=lambda matvec, b: b[:1] / 2),
        fixed=lambda fix: solved(solve=lambda matvec, b: b / 2),
        value=HALVED,
        error=WeftTypeError,
    ),
    Fixed(
        "or convert b",
        wrong=lambda: solved(np.array([1, 2, 3])),
        fixed=lambda fix: solved(np.array([1, 2, 3]).astype(fix.data["dtype"])),
        value=HALVED,
        error=WeftTypeError,
    ),
    Fixed(
        ["pass transpose_solve=", "or symmetric=True"],
        wrong=lambda: gradient(),
        fixed=lambda fix: [
            gradient(transpose_solve=lambda vecmat, b: b / 2),
            gradient(symmetric=True),
        ],
        value=[HALVED] * 2,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "linearize first: weft.linearize(f, x)[1]",
        wrong=lambda: weft.linear_transpose(scaled_solution, 2.0)(THREE),
        fixed=lambda fix: weft.linear_transpose(weft.linearize(scaled_solution, 2.0)[1], 2.0)(
            jnp.array([4.0, 0.0, 0.0])
        ),
        # The solution is b / a; the derivative of its first element, -b[0] / a**2.
        value=(-1.0,),
        error=WeftTypeError,
    ),
]
FIXES = SCANS + REDUCTIONS + SOLVES
