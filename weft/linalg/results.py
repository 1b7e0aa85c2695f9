"""The named tuples that decompositions give, as in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult"]


class EigResult(NamedTuple):
    """Eigenvalues and right eigenvectors, as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues of Hermitian matrices in increasing order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, and right ones as conjugated rows."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """The sign of a determinant (its phase, for complex numbers) and the log of its magnitude."""

    sign: Any
    logabsdet: Any
