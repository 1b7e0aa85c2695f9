"""Wrong calls of the factorizations of `weft.lax.linalg`."""

from __future__ import annotations

import numpy as np

import weft
from bad_calls import BadCall
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
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


def subset(indices):
    return lambda: linalg.eigh(A, subset_by_index=indices)


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
    BadCall("svd", jvp(linalg.svd, TALL), WeftNotImplementedError, ("full_matrices=False",)),
    BadCall(
        "svd",
        lambda: linalg.svd(A, algorithm=linalg.SvdAlgorithm.JACOBI),
        WeftNotImplementedError,
        ("algorithm", "JACOBI", "QR"),
    ),
    BadCall("svd", lambda: linalg.svd(A, algorithm="x"), WeftNotImplementedError, ("'x'",)),
    BadCall("svd", lambda: linalg.svd(A, subset_by_index=(0, 2)), WeftValueError, ("exclude",)),
    BadCall(
        "svd",
        lambda: linalg.svd(TALL, subset_by_index=(0, 3), full_matrices=False),
        WeftValueError,
        ("subset_by_index=(0, 3)", "stop <= 2"),
    ),
    BadCall("qr", jvp(linalg.qr, TALL), WeftNotImplementedError, ("full_matrices=False",)),
    BadCall("qr", lambda: linalg.qr(A, use_magma=True), WeftNotImplementedError, ("use_magma",)),
    BadCall("eigh", subset((2, 1)), WeftValueError, ("subset_by_index=(2, 1)", "start <= stop")),
    BadCall("eigh", subset((0, 4)), WeftValueError, ("stop <= 3",)),
    BadCall("eigh", subset(2), WeftValueError, ("subset_by_index=2",)),
    BadCall("eigh", subset((0.0, 1.0)), WeftValueError, ("integers",)),
    BadCall(
        "eigh",
        lambda: linalg.eigh(A, implementation=linalg.EighImplementation.QDWH),
        WeftNotImplementedError,
        ("QDWH", "EighImplementation.QR"),
    ),
    BadCall("eig", jvp(linalg.eig, A), WeftNotImplementedError, ("enable_eigvec_derivs=True",)),
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
    BadCall("hessenberg", jvp(linalg.hessenberg, A), WeftNotImplementedError, ("stop_gradient",)),
    BadCall("tridiagonal", jvp(linalg.tridiagonal, A), WeftNotImplementedError, ("derivative",)),
    BadCall(
        "householder_product",
        lambda: linalg.householder_product(WIDE, V[:2]),
        ShapeError,
        ("f32[2,3]", "rows"),
    ),
    BadCall(
        "householder_product",
        lambda: linalg.householder_product(TALL, V),
        ShapeError,
        ("taus f32[3]", "at most"),
    ),
    BadCall(
        "householder_product",
        lambda: linalg.householder_product(TALL, V[:2].astype(np.complex64)),
        DTypeError,
        ("c64[2]", "equal dtypes"),
    ),
    BadCall("ormqr", lambda: linalg.ormqr(TALL, V[:2], WIDE), ShapeError, ("3 rows", "left=True")),
    BadCall(
        "ormqr",
        lambda: linalg.ormqr(TALL, V[:2], TALL, left=False),
        ShapeError,
        ("3 columns", "left=False"),
    ),
    BadCall("ormqr", lambda: linalg.ormqr(A, V, COMPLEX), DTypeError, ("c c64[3,3]",)),
    BadCall(
        "lu_pivots_to_permutation",
        lambda: linalg.lu_pivots_to_permutation(V, 3),
        DTypeError,
        ("f32[3]", "int32"),
    ),
    BadCall(
        "lu_pivots_to_permutation",
        lambda: linalg.lu_pivots_to_permutation(PIVOTS, 2),
        WeftValueError,
        ("permutation_size=2", "3 or more"),
    ),
    BadCall(
        "lu_pivots_to_permutation",
        lambda: linalg.lu_pivots_to_permutation(PIVOTS[0], 2),
        ShapeError,
        ("(..., k)",),
    ),
    BadCall(
        "tridiagonal_solve",
        lambda: linalg.tridiagonal_solve(V, V, V, V),
        ShapeError,
        ("b f32[3]", "b[..., None]"),
    ),
    BadCall(
        "tridiagonal_solve",
        lambda: linalg.tridiagonal_solve(V, V, V[:2], A),
        ShapeError,
        ("du f32[2]", "(..., m)"),
    ),
    BadCall(
        "tridiagonal_solve",
        lambda: linalg.tridiagonal_solve(V, V, V, COMPLEX),
        DTypeError,
        ("b c64[3,3]", "same"),
    ),
    BadCall(
        "triangular_solve",
        lambda: linalg.triangular_solve(A, TALL),
        ShapeError,
        ("left_side=False", "left_side=True"),
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
    BadCall(
        "symmetric_product",
        lambda: linalg.symmetric_product(A, A, alpha="2"),
        WeftTypeError,
        ("alpha='2'",),
    ),
    BadCall("qdwh", lambda: linalg.qdwh(WIDE), ShapeError, ("f32[2,3]", "m >= n")),
    BadCall("qdwh", lambda: linalg.qdwh(A[None]), ShapeError, ("f32[1,3,3]", "one matrix")),
    BadCall(
        "qdwh", lambda: linalg.qdwh(A, max_iterations=0), WeftValueError, ("max_iterations=0",)
    ),
    BadCall("qdwh", lambda: linalg.qdwh(A, eps=2.0), WeftValueError, ("eps=2.0", "between")),
    BadCall("qdwh", lambda: linalg.qdwh(A, dynamic_shape=3), WeftValueError, ("dynamic_shape=3",)),
    BadCall(
        "qdwh",
        lambda: linalg.qdwh(A, dynamic_shape=(1.0, 2.0)),
        WeftTypeError,
        ("dynamic_shape", "two integers"),
    ),
    BadCall("qdwh", lambda: linalg.qdwh(A, is_hermitian=2), WeftTypeError, ("is_hermitian=2",)),
]
