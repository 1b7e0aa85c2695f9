"""Factorizations of matrices, and solvers for triangular and tridiagonal systems.

Strict as `weft.lax` is; `weft.numpy.linalg` and `weft.scipy.linalg` promote and broadcast on top.
All dimensions but the last two are batch dimensions. On CPUs LAPACK computes them.
"""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.numpy.linalg.polar import qdwh
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.eig import EigImplementation, eig
from weft.ops.linalg.eigh import EighImplementation, eigh
from weft.ops.linalg.householder import householder_product, ormqr
from weft.ops.linalg.lu import lu, lu_pivots_to_permutation
from weft.ops.linalg.qr import qr
from weft.ops.linalg.rank_updates import cholesky_update, symmetric_product
from weft.ops.linalg.schur import hessenberg, schur
from weft.ops.linalg.svd import SvdAlgorithm, svd
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.linalg.tridiagonal import tridiagonal, tridiagonal_solve

if TYPE_CHECKING:
    from weft.lax.linalg_primitives import *  # noqa: F403

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_update", "eig",
    "eigh", "hessenberg", "householder_product", "lu", "lu_pivots_to_permutation", "ormqr", "qdwh",
    "qr", "schur", "svd", "symmetric_product", "triangular_solve", "tridiagonal",
    "tridiagonal_solve",
]  # fmt: skip

_LAZY_NAMES = {
    "weft.define.builtin_primitives": "cholesky_update_p symmetric_product_p",
    "weft.lax.linalg_primitives": (
        "cholesky_p eig_p eigh_p hessenberg_p householder_product_p lu_p "
        "lu_pivots_to_permutation_p ormqr_p qr_p schur_p svd_p triangular_solve_p tridiagonal_p "
        "tridiagonal_solve_p"
    ),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), (), _LAZY_NAMES)
