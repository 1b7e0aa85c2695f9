"""`weft.scipy.linalg`: linear algebra with SciPy's names and arguments."""

from weft.scipy.linalg.eigenvalues import eigh, eigh_tridiagonal
from weft.scipy.linalg.exponential import expm, expm_frechet
from weft.scipy.linalg.factorizations import *
from weft.scipy.linalg.matrix_functions import funm, sqrtm
from weft.scipy.linalg.schur import rsf2csf, schur
from weft.scipy.linalg.solving import *
from weft.scipy.linalg.special_matrices import *
from weft.scipy.linalg.sylvester import solve_sylvester

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
    "convolution_matrix", "det", "dft", "eigh", "eigh_tridiagonal", "expm", "expm_frechet",
    "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert", "hessenberg",
    "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve", "pascal",
    "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester",
    "solve_triangular", "sqrtm", "svd", "toeplitz",
]  # fmt: skip
