"""Wrong calls of `weft.scipy.linalg`."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.scipy import linalg
from weft.testing import exact_array

V = np.arange(1.0, 5.0, dtype=np.float32)
M = np.eye(4, dtype=np.float32)
WIDE = np.ones((2, 4), np.float32)
SMALL = exact_array(np.ones((2, 2), np.int8), "int4")

CALLS = [
    BadCall(
        "linalg.block_diag", lambda: linalg.block_diag(M[None]), ShapeError, ("arrs[0]", "0 to 2")
    ),
    BadCall("linalg.block_diag", lambda: linalg.block_diag(M, [1.0]), WeftTypeError, ("list",)),
    BadCall("linalg.hankel", lambda: linalg.hankel(2.0), ShapeError, ("c: ", "1 or more")),
    BadCall("linalg.toeplitz", lambda: linalg.toeplitz([1.0]), WeftTypeError, ("list",)),
    BadCall("linalg.toeplitz", lambda: linalg.toeplitz(M, M[:3]), ShapeError, ("(4,)", "(3,)")),
    BadCall("linalg.hankel", lambda: linalg.hankel(V, 2.0), ShapeError, ("r: ",)),
    BadCall("linalg.circulant", lambda: linalg.circulant(SMALL), DTypeError, ("numbers",)),
    BadCall("linalg.companion", lambda: linalg.companion(V[:1]), ShapeError, ("at least 2",)),
    BadCall(
        "linalg.fiedler_companion",
        lambda: linalg.fiedler_companion(2.0),
        ShapeError,
        ("1 or more",),
    ),
    BadCall("linalg.fiedler", lambda: linalg.fiedler(None), WeftTypeError, ("NoneType",)),
    BadCall("linalg.leslie", lambda: linalg.leslie(V, V), ShapeError, ("s of 3",)),
    BadCall(
        "linalg.convolution_matrix",
        lambda: linalg.convolution_matrix(V, 0),
        WeftValueError,
        ("n=0",),
    ),
    BadCall(
        "linalg.convolution_matrix",
        lambda: linalg.convolution_matrix(V, 2, "x"),
        WeftValueError,
        ("'x'", "'full'"),
    ),
    BadCall(
        "linalg.convolution_matrix",
        lambda: linalg.convolution_matrix(V, 2.0),
        WeftTypeError,
        ("n=2.0",),
    ),
    BadCall("linalg.dft", lambda: linalg.dft(2, "m"), WeftValueError, ("scale", "'sqrtn'")),
    BadCall("linalg.hadamard", lambda: linalg.hadamard(6), WeftValueError, ("n=6", "power of two")),
    BadCall("linalg.helmert", lambda: linalg.helmert(0), WeftValueError, ("n=0",)),
    BadCall("linalg.hilbert", lambda: linalg.hilbert(-1), WeftValueError, ("n=-1",)),
    BadCall("linalg.invhilbert", lambda: linalg.invhilbert("3"), WeftTypeError, ("n='3'",)),
    BadCall(
        "linalg.pascal", lambda: linalg.pascal(3, "left"), WeftValueError, ("'left'", "'lower'")
    ),
    BadCall("linalg.invpascal", lambda: linalg.invpascal(3, 1), WeftValueError, ("kind",)),
    BadCall(
        "linalg.cholesky", lambda: linalg.cholesky(WIDE), ShapeError, ("f32[2,4]", "equal size")
    ),
    BadCall(
        "linalg.cho_factor", lambda: linalg.cho_factor(V), ShapeError, ("f32[4]", "dimensions")
    ),
    BadCall(
        "linalg.cho_solve", lambda: linalg.cho_solve(M, V), WeftTypeError, ("c_and_lower", "pair")
    ),
    BadCall(
        "linalg.cho_solve",
        lambda: linalg.cho_solve((M, False), V[:3]),
        ShapeError,
        ("f32[3]", "(4,)"),
    ),
    BadCall("linalg.lu", lambda: linalg.lu(V), ShapeError, ("f32[4]",)),
    BadCall("linalg.lu_factor", lambda: linalg.lu_factor(SMALL), DTypeError, ("numbers",)),
    BadCall("linalg.lu_solve", lambda: linalg.lu_solve((M, V), V), DTypeError, ("piv", "integers")),
    BadCall(
        "linalg.lu_solve",
        lambda: linalg.lu_solve((M, np.arange(4)), V, 3),
        WeftValueError,
        ("trans=3",),
    ),
    BadCall(
        "linalg.qr",
        lambda: linalg.qr(M, mode="reduced"),
        WeftValueError,
        ("'reduced'", "'economic'"),
    ),
    BadCall("linalg.qr_multiply", lambda: linalg.qr_multiply(M, V[:3]), ShapeError, ("4 columns",)),
    BadCall(
        "linalg.qr_multiply", lambda: linalg.qr_multiply(M, M, "up"), WeftValueError, ("'up'",)
    ),
    BadCall(
        "linalg.svd",
        lambda: linalg.svd(M, lapack_driver="gesvj"),
        WeftValueError,
        ("'gesvj'", "'gesdd'"),
    ),
    BadCall(
        "linalg.schur", lambda: linalg.schur(M, "both"), WeftValueError, ("output", "'complex'")
    ),
    BadCall("linalg.rsf2csf", lambda: linalg.rsf2csf(M, M[:3, :3]), ShapeError, ("one size",)),
    BadCall("linalg.hessenberg", lambda: linalg.hessenberg(WIDE), ShapeError, ("equal size",)),
    BadCall("linalg.polar", lambda: linalg.polar(WIDE), ShapeError, ("rows", "svd")),
    BadCall("linalg.polar", lambda: linalg.polar(M, "top"), WeftValueError, ("side", "'left'")),
    BadCall(
        "linalg.polar", lambda: linalg.polar(M, method="lu"), WeftValueError, ("method", "'qdwh'")
    ),
    BadCall("linalg.eigh", lambda: linalg.eigh(M, M[:3, :3]), ShapeError, ("the shape of a",)),
    BadCall("linalg.eigh", lambda: linalg.eigh(M, type=4), WeftValueError, ("type=4", "1, 2, 3")),
    BadCall(
        "linalg.eigh", lambda: linalg.eigh(M, eigvals=(0, 1)), WeftNotImplementedError, ("eigvals",)
    ),
    BadCall(
        "linalg.eigh_tridiagonal", lambda: linalg.eigh_tridiagonal(V, V), ShapeError, ("n - 1",)
    ),
    BadCall(
        "linalg.eigh_tridiagonal",
        lambda: linalg.eigh_tridiagonal(V, V[1:], select="i", select_range=(0, 4)),
        WeftValueError,
        ("select_range=(0, 4)",),
    ),
    BadCall(
        "linalg.eigh_tridiagonal",
        lambda: linalg.eigh_tridiagonal(V, V[1:], tol=0.1),
        WeftNotImplementedError,
        ("tol=0.1",),
    ),
    BadCall(
        "linalg.solve",
        lambda: linalg.solve(M, V, assume_a="pd"),
        WeftValueError,
        ("assume_a", "'pos'"),
    ),
    BadCall("linalg.solve", lambda: linalg.solve(M, V[:2]), ShapeError, ("f32[2]", "(4,)")),
    BadCall(
        "linalg.solve_triangular",
        lambda: linalg.solve_triangular(M, V, "H"),
        WeftValueError,
        ("trans='H'", "'C'"),
    ),
    BadCall(
        "linalg.solve_triangular",
        lambda: linalg.solve_triangular(M, V, None),
        WeftValueError,
        ("trans=None",),
    ),
    BadCall("linalg.expm", lambda: linalg.expm(WIDE), ShapeError, ("A: ", "equal size")),
    BadCall(
        "linalg.expm",
        lambda: linalg.expm(M, max_squarings=-1),
        WeftValueError,
        ("max_squarings=-1",),
    ),
    BadCall("linalg.expm_frechet", lambda: linalg.expm_frechet(M, M[:3, :3]), ShapeError, ("E: ",)),
    BadCall(
        "linalg.expm_frechet",
        lambda: linalg.expm_frechet(M, M, method="x"),
        WeftValueError,
        ("'SPS'",),
    ),
    BadCall("linalg.sqrtm", lambda: linalg.sqrtm(V), ShapeError, ("f32[4]",)),
    BadCall(
        "linalg.sqrtm", lambda: linalg.sqrtm(M, 64), WeftNotImplementedError, ("blocksize=64",)
    ),
    BadCall("linalg.funm", lambda: linalg.funm(M, 3), WeftTypeError, ("func=3",)),
    BadCall("linalg.funm", lambda: linalg.funm(M, jnp.sum), ShapeError, ("4 eigenvalues",)),
    BadCall(
        "linalg.solve_sylvester", lambda: linalg.solve_sylvester(M, M, M[:3]), ShapeError, ("C: ",)
    ),
    BadCall(
        "linalg.solve_sylvester",
        lambda: linalg.solve_sylvester(M, M, M, method="x"),
        WeftValueError,
        ("'schur'",),
    ),
    BadCall(
        "linalg.solve_sylvester",
        lambda: linalg.solve_sylvester(M, M, M, tol=-1),
        WeftValueError,
        ("tol=-1",),
    ),
]
