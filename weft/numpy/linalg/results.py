"""The named tuples that decompositions return, as in NumPy."""

from __future__ import annotations

from typing import NamedTuple

from weft.arrays.array import Array


class EigResult(NamedTuple):
    """Eigenvalues and right eigenvectors, as columns.

    eigenvalues: shape (..., n), complex; eigenvectors: shape (..., n, n), complex, one in each
    column.
    """

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues of Hermitian matrices in increasing order, and eigenvectors as columns.

    eigenvalues: shape (..., n), real; eigenvectors: shape (..., n, n), one in each column.
    """

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix.

    Q: shape (..., m, k), or (..., m, m) in the mode "complete"; R: shape (..., k, n) or (..., m,
    n), where k is the smaller of m and n.
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, and right ones as conjugated rows.

    U: shape (..., m, m), or (..., m, k) where k is the smaller of m and n; S: shape (..., k), real
    and falling; Vh: shape (..., n, n) or (..., k, n).
    """

    U: Array
    S: Array
    Vh: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant (its phase, for complex numbers) and the log of its magnitude.

    sign: shape (...), numbers of magnitude 1, or 0 for a determinant of 0; logabsdet: shape (...),
    real, -inf for a determinant of 0.
    """

    sign: Array
    logabsdet: Array
