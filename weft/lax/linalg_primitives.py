"""The primitives of `weft.lax.linalg`."""

from weft.ops.linalg.cholesky import cholesky_p
from weft.ops.linalg.eig import eig_p
from weft.ops.linalg.eigh import eigh_p
from weft.ops.linalg.householder import householder_product_p, ormqr_p
from weft.ops.linalg.lu import lu_p, lu_pivots_to_permutation_p
from weft.ops.linalg.qr import qr_p
from weft.ops.linalg.schur import hessenberg_p, schur_p
from weft.ops.linalg.svd import svd_p
from weft.ops.linalg.triangular_solve import triangular_solve_p
from weft.ops.linalg.tridiagonal import tridiagonal_p, tridiagonal_solve_p

# fmt: off
__all__ = [
    "cholesky_p", "eig_p", "eigh_p", "hessenberg_p", "householder_product_p", "lu_p",
    "lu_pivots_to_permutation_p", "ormqr_p", "qr_p", "schur_p", "svd_p", "triangular_solve_p",
    "tridiagonal_p", "tridiagonal_solve_p",
]
# fmt: on
