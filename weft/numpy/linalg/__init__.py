"""`weft.numpy.linalg`: linear algebra with NumPy's names."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.numpy.linalg.determinants import det, slogdet
from weft.numpy.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from weft.numpy.linalg.factorizations import cholesky, qr, svd, svdvals
from weft.numpy.linalg.least_squares import cond, lstsq, matrix_rank, pinv
from weft.numpy.linalg.norms import matrix_norm, norm, vector_norm
from weft.numpy.linalg.products import cross, diagonal, matrix_power, multi_dot, outer, trace
from weft.numpy.linalg.results import EighResult, EigResult, QRResult, SlogdetResult, SVDResult
from weft.numpy.linalg.solving import inv, solve, tensorinv, tensorsolve
from weft.numpy.linear_algebra import matmul, tensordot, vecdot
from weft.numpy.manipulation import matrix_transpose

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond",
    "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
