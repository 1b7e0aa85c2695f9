"""Wrong calls of `weft.numpy.linalg`."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import AxisError, ShapeError, WeftValueError

V = np.ones(3, np.float32)
M = np.ones((3, 4), np.float32)
linalg = jnp.linalg


CALLS = [
    BadCall("linalg.solve", lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))),
            ShapeError, ("broadcast", "(2,)")),
    BadCall("linalg.matrix_rank", lambda: linalg.matrix_rank(M, 0.1, tol=0.1), WeftValueError,
            ("rtol=0.1 and tol=0.1",)),
    BadCall("linalg.cond", lambda: linalg.cond(M[:0]), ShapeError, ("f32[0,4]", "one row")),
    BadCall("linalg.multi_dot", lambda: linalg.multi_dot([M, M]), ShapeError, ("f32[3,4]",)),
    BadCall("linalg.cross", lambda: linalg.cross(V, V, axis=1), AxisError, ("1",)),
    BadCall("linalg.svd", lambda: linalg.svd(M, hermitian=True), ShapeError, ("square",)),
    BadCall("linalg.pinv", lambda: linalg.pinv(M, hermitian=True), ShapeError, ("square",)),
    BadCall("linalg.matrix_rank", lambda: linalg.matrix_rank(M, hermitian=True), ShapeError,
            ("M: f32[3,4]",)),
    BadCall("linalg.cond", lambda: linalg.cond(M, 1), ShapeError, ("square",)),
    BadCall("linalg.norm", lambda: linalg.norm(V, "fro"), WeftValueError, ("ord='fro'", "number")),
]  # fmt: skip
