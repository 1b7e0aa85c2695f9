"""Wrong calls of `weft.numpy.linalg`."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.testing import exact_array

V = np.ones(3, np.float32)
M = np.ones((3, 4), np.float32)
S = np.eye(3, dtype=np.float32)
T = np.ones((2, 3, 4), np.float32)
SMALL = exact_array(S, "float8_e4m3fn")
linalg = jnp.linalg


def of_many(operand, error, says, *names):
    """A call of each function with one operand."""
    functions = [(name, getattr(linalg, name)) for name in names]
    return [BadCall(f"linalg.{n}", lambda f=f: f(operand), error, says) for n, f in functions]


CALLS = [
    *of_many(SMALL, DTypeError, ("f8_e4m3fn[3,3]", "numbers"),
             "inv", "det", "eigvals", "qr", "svdvals", "norm"),
    BadCall("linalg.solve", lambda: linalg.solve(M, V), ShapeError, ("square",)),
    BadCall("linalg.solve", lambda: linalg.solve(S, np.ones(2)), ShapeError, ("b: ", "(3,)")),
    BadCall("linalg.solve", lambda: linalg.solve(S, M.T), ShapeError, ("b: f32[4,3]", "rows")),
    BadCall("linalg.solve", lambda: linalg.solve(S, 1.0), ShapeError, ("b: ", "1 dimension")),
    BadCall("linalg.solve", lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))),
            ShapeError, ("broadcast", "(2,)")),
    BadCall("linalg.solve", lambda: linalg.solve(S, None), WeftTypeError, ("NoneType",)),
    BadCall("linalg.svd", lambda: linalg.svd(M, hermitian=True), ShapeError, ("square",)),
    BadCall("linalg.svd", lambda: linalg.svd(M, subset_by_index=(0, 1)), WeftValueError,
            ("full_matrices=True",)),
    BadCall("linalg.svd", lambda: linalg.svd(M, False, subset_by_index=(0, 4)), WeftValueError,
            ("(0, 4)", "<= 3")),
    BadCall("linalg.pinv", lambda: linalg.pinv(M, 0.1, rcond=0.1), WeftValueError,
            ("rtol=0.1 and rcond=0.1", "one of them")),
    BadCall("linalg.pinv", lambda: linalg.pinv(M, V), WeftValueError, ("rtol: f32[3]", "()")),
    BadCall("linalg.pinv", lambda: linalg.pinv(M, hermitian=True), ShapeError, ("square",)),
    BadCall("linalg.lstsq", lambda: linalg.lstsq(T, V), ShapeError, ("a: f32[2,3,4]", "(m, n)")),
    BadCall("linalg.lstsq", lambda: linalg.lstsq(M, np.ones(4)), ShapeError, ("b: f32[4]",)),
    BadCall("linalg.matrix_rank", lambda: linalg.matrix_rank(M, 0.1, tol=0.1), WeftValueError,
            ("rtol=0.1 and tol=0.1",)),
    BadCall("linalg.matrix_rank", lambda: linalg.matrix_rank(M, hermitian=True), ShapeError,
            ("M: f32[3,4]",)),
    BadCall("linalg.matrix_rank", lambda: linalg.matrix_rank(M, tol=V), WeftValueError, ("tol: ",)),
    BadCall("linalg.cond", lambda: linalg.cond(M, 1), ShapeError, ("square",)),
    BadCall("linalg.cond", lambda: linalg.cond(M[:0]), ShapeError, ("f32[0,4]", "one row")),
    BadCall("linalg.norm", lambda: linalg.norm(M, 3), WeftValueError, ("ord=3", "-2")),
    BadCall("linalg.norm", lambda: linalg.norm(V, "fro"), WeftValueError, ("ord='fro'", "number")),
    BadCall("linalg.norm", lambda: linalg.norm(T, 1), ShapeError, ("f32[2,3,4]", "axis")),
    BadCall("linalg.norm", lambda: linalg.norm(T, axis=(0, 1, 2)), ShapeError, ("(0, 1, 2)",)),
    BadCall("linalg.norm", lambda: linalg.norm(T, axis=3), AxisError, ("3",)),
    BadCall("linalg.norm", lambda: linalg.norm(T, axis=(0, 0)), AxisError, ("0",)),
    BadCall("linalg.norm", lambda: linalg.norm(M[:0], -2), ShapeError, ("f32[0,4]", "ord='fro'")),
    BadCall("linalg.vector_norm", lambda: linalg.vector_norm(V, ord="nuc"), WeftValueError,
            ("ord='nuc'",)),
    BadCall("linalg.vector_norm", lambda: linalg.vector_norm(V, axis=1), AxisError, ("1",)),
    BadCall("linalg.matrix_norm", lambda: linalg.matrix_norm(M, ord=0), WeftValueError, ("ord=0",)),
    BadCall("linalg.multi_dot", lambda: linalg.multi_dot([M, M]), ShapeError, ("f32[3,4]",)),
    BadCall("linalg.multi_dot", lambda: linalg.multi_dot([M, T]), ShapeError, ("f32[2,3,4]",)),
    BadCall("linalg.cross", lambda: linalg.cross(M, M), ShapeError, ("f32[3,4]", "3 elements")),
    BadCall("linalg.cross", lambda: linalg.cross(V, V, axis=1), AxisError, ("1",)),
    BadCall("linalg.outer", lambda: linalg.outer(M, V), ShapeError, ("f32[3,4]", "vectors")),
    BadCall("linalg.tensorinv", lambda: linalg.tensorinv(T), ShapeError, ("ind=2", "6 by 4")),
    BadCall("linalg.tensorinv", lambda: linalg.tensorinv(S, 0), WeftValueError, ("ind=0",)),
    BadCall("linalg.tensorsolve", lambda: linalg.tensorsolve(T, V), ShapeError, ("b: f32[3]",)),
    BadCall("linalg.tensorsolve", lambda: linalg.tensorsolve(S, V, axes=(5,)), AxisError, ("5",)),
]  # fmt: skip
