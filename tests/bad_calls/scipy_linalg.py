"""Wrong calls of `weft.scipy.linalg`."""

from __future__ import annotations

import numpy as np

from bad_calls import BadCall
from weft.errors import DTypeError, ShapeError
from weft.scipy import linalg
from weft.testing import exact_array

V = np.arange(1.0, 5.0, dtype=np.float32)
M = np.eye(4, dtype=np.float32)
SMALL = exact_array(np.ones((2, 2), np.int8), "int4")

CALLS = [
    BadCall("linalg.toeplitz", lambda: linalg.toeplitz(M, M[:3]), ShapeError, ("(4,)", "(3,)")),
    BadCall(
        "linalg.cho_solve",
        lambda: linalg.cho_solve((M, False), V[:3]),
        ShapeError,
        ("f32[3]", "(4,)"),
    ),
    BadCall("linalg.qr_multiply", lambda: linalg.qr_multiply(M, V[:3]), ShapeError, ("4 columns",)),
    BadCall("linalg.rsf2csf", lambda: linalg.rsf2csf(M, M[:3, :3]), ShapeError, ("one size",)),
    BadCall("linalg.eigh", lambda: linalg.eigh(M, M[:3, :3]), ShapeError, ("the shape of a",)),
    BadCall(
        "linalg.eigh_tridiagonal", lambda: linalg.eigh_tridiagonal(V, V), ShapeError, ("n - 1",)
    ),
    BadCall("linalg.expm_frechet", lambda: linalg.expm_frechet(M, M[:3, :3]), ShapeError, ("E: ",)),
    BadCall("linalg.circulant", lambda: linalg.circulant(SMALL), DTypeError, ("numbers",)),
]
