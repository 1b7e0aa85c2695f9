"""Wrong calls of the factorizations of `weft.lax.linalg`."""

from __future__ import annotations

import numpy as np

import weft
from bad_calls import BadCall
from weft.errors import DTypeError, ShapeError, WeftNotImplementedError, WeftValueError
from weft.lax import linalg

A = np.eye(3, dtype=np.float32)
V = np.ones(3, np.float32)
TALL = np.ones((3, 2), np.float32)
WIDE = np.ones((2, 3), np.float32)
WHOLE = np.eye(3, dtype=np.int32)
HALF = np.eye(3, dtype=np.float16)
COMPLEX = np.eye(3, dtype=np.complex64)
PIVOTS = np.zeros(3, np.int32)


def jvp(function, *arrays):
    return lambda: weft.jvp(function, arrays, arrays)


DTYPES = ("float32, float64, complex64 or complex128",)

CALLS = [
    *(
        BadCall(function.__name__, lambda f=function: f(WHOLE), DTypeError, ("i32[3,3]", *DTYPES))
        for function in (
            linalg.cholesky,
            linalg.eig,
            linalg.eigh,
            linalg.hessenberg,
            linalg.lu,
            linalg.qdwh,
            linalg.qr,
            linalg.schur,
            linalg.svd,
            linalg.tridiagonal,
        )
    ),
    *(
        BadCall(function.__name__, lambda f=function: f(WIDE), ShapeError, ("[2,3]", "equal size"))
        for function in (
            linalg.cholesky,
            linalg.eig,
            linalg.eigh,
            linalg.hessenberg,
            linalg.schur,
            linalg.tridiagonal,
        )
    ),
    *(
        BadCall(function.__name__, lambda f=function: f(V), ShapeError, ("f32[3]", "dimensions"))
        for function in (linalg.lu, linalg.qr, linalg.svd, linalg.eig, linalg.qdwh)
    ),
    BadCall("svd", lambda: linalg.svd(HALF), DTypeError, ("f16", *DTYPES)),
    BadCall(
        "svd",
        lambda: linalg.svd(A, algorithm=linalg.SvdAlgorithm.JACOBI),
        WeftNotImplementedError,
        ("algorithm", "JACOBI", "QR"),
    ),
    BadCall("svd", lambda: linalg.svd(A, algorithm="x"), WeftNotImplementedError, ("'x'",)),
    BadCall(
        "svd",
        lambda: linalg.svd(TALL, subset_by_index=(0, 3), full_matrices=False),
        WeftValueError,
        ("subset_by_index=(0, 3)", "stop <= 2"),
    ),
    BadCall(
        "eig",
        lambda: linalg.eig(A, implementation=linalg.EigImplementation.MAGMA),
        WeftNotImplementedError,
        ("MAGMA", "EigImplementation.LAPACK"),
    ),
    BadCall("eig", lambda: linalg.eig(A, use_magma=True), WeftNotImplementedError, ("use_magma",)),
    BadCall(
        "schur",
        lambda: linalg.schur(A, sort_eig_vals=True),
        WeftNotImplementedError,
        ("sort_eig_vals=True",),
    ),
    BadCall(
        "schur",
        lambda: linalg.schur(A, select_callable=abs),
        WeftNotImplementedError,
        ("select_callable",),
    ),
    BadCall("schur", jvp(linalg.schur, A), WeftNotImplementedError, ("stop_gradient",)),
    BadCall("tridiagonal", jvp(linalg.tridiagonal, A), WeftNotImplementedError, ("derivative",)),
    BadCall(
        "householder_product",
        lambda: linalg.householder_product(TALL, V[:2].astype(np.complex64)),
        DTypeError,
        ("c64[2]", "equal dtypes"),
    ),
    BadCall("ormqr", lambda: linalg.ormqr(A, V, COMPLEX), DTypeError, ("c c64[3,3]",)),
    BadCall(
        "lu_pivots_to_permutation",
        lambda: linalg.lu_pivots_to_permutation(PIVOTS[0], 2),
        ShapeError,
        ("(..., k)",),
    ),
    BadCall(
        "cholesky_update",
        lambda: linalg.cholesky_update(A, V[:2]),
        ShapeError,
        ("w_vector f32[2]", "(3,)"),
    ),
    BadCall(
        "cholesky_update",
        lambda: linalg.cholesky_update(A, V.astype(np.complex64)),
        DTypeError,
        ("w_vector c64[3]",),
    ),
    BadCall(
        "symmetric_product",
        lambda: linalg.symmetric_product(A, TALL),
        ShapeError,
        ("c_matrix f32[3,2]", "(3, 3)"),
    ),
]
