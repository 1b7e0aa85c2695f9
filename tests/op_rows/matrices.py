"""Rows of the factorizations and solvers of matrices: `ops.cholesky`, `ops.triangular_solve`."""

from __future__ import annotations

import itertools

import numpy as np

from op_table import Arg, Op, between
from weft.ops.linalg import cholesky, triangular_solve
from weft.ops.linalg.matrices import ACCEPTED

SINGLE = 2.0**7  # in units in the last place, of numbers around 1


def positive(generator, shape, dtype):
    """Hermitian matrices with eigenvalues from about 1 to 20."""
    x = between(-1, 1)(generator, shape, dtype).astype(np.result_type(dtype, np.float64))
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


def triangular(generator, shape, dtype):
    """Matrices of which both triangles, with the diagonal, are well conditioned."""
    x = between(-1, 1)(generator, shape, dtype)
    return (x + 3 * np.eye(shape[-1])).astype(dtype)


def row(function, reference, shape, draw, name, **fields):
    given = {"ulps": SINGLE, "floor": 1.0, "elementwise": False, "weak": None, **fields}
    args = given.pop("args", (Arg(shape),))
    return Op(function, reference, ACCEPTED, args=args, draw=draw, name=name, **given)


def hermitian_part(x):
    return (x + x.conj().swapaxes(-1, -2)) / 2


def factor(x):
    return np.linalg.cholesky(hermitian_part(x))


def solved(a, b, left_side=False, lower=False, transpose_a=False, conjugate_a=False, **others):
    t = np.tril(a) if lower else np.triu(a)
    if others.get("unit_diagonal"):
        t = t * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
    t = t.swapaxes(-1, -2) if transpose_a else t
    t = t.conj() if conjugate_a else t
    single = b.ndim == a.ndim - 1
    if left_side:
        x = np.linalg.solve(t, b[..., None] if single else b)
        return x[..., 0] if single else x
    b = b[..., None, :] if single else b
    x = np.linalg.solve(t.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return x[..., 0, :] if single else x


def triangular_rows():
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for i, flags in enumerate(itertools.product((False, True), repeat=5)):
        params = dict(zip(names, flags, strict=True))
        b = (2, 3, 4) if flags[0] else (2, 4, 3)
        shown = " ".join(name for name in names if params[name]) or "plain"
        yield row(
            triangular_solve.triangular_solve,
            solved,
            (),
            (triangular, between(-2, 2)),
            f"triangular_solve {shown}",
            args=(Arg((2, 3, 3)), Arg(b)),
            params=params,
            order=2 if i % 5 == 0 else 1,
            vmap_limit=4,
        )


ROWS = [
    row(cholesky.cholesky, factor, (4, 4), positive, "cholesky"),
    row(cholesky.cholesky, factor, (2, 3, 3), positive, "cholesky of several"),
    row(cholesky.cholesky, factor, (1, 1), positive, "cholesky of 1 by 1"),
    row(cholesky.cholesky, factor, (2, 0, 0), positive, "cholesky of nothing"),
    *triangular_rows(),
    row(
        triangular_solve.triangular_solve,
        solved,
        (),
        (triangular, between(-2, 2)),
        "triangular_solve of a vector",
        args=(Arg((3, 3)), Arg((3,))),
        params={"left_side": True, "lower": True},
    ),
    row(
        triangular_solve.triangular_solve,
        solved,
        (),
        (triangular, between(-2, 2)),
        "triangular_solve of nothing",
        args=(Arg((2, 3, 3)), Arg((2, 3, 0))),
        params={"left_side": True, "lower": True},
    ),
]
