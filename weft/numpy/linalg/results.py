"""The named tuples that decompositions return, as in NumPy."""

from __future__ import annotations

from typing import NamedTuple

from weft.arrays.array import Array

__all__ = ["EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult"]


class EigResult(NamedTuple):
    """Eigenvalues and right eigenvectors, as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues of Hermitian matrices in increasing order, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, and right ones as conjugated rows."""

    U: Array
    S: Array
    Vh: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant (its phase, for complex numbers) and the log of its magnitude."""

    sign: Array
    logabsdet: Array
