"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any

from weft.argument_errors import unknown_option
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import check_flag
from weft.kinds.compiled_functions import compiled
from weft.numpy.linalg.operands import check_square, returned, widened
from weft.numpy.linalg.results import EighResult, EigResult
from weft.ops.linalg import eig as eig_operation
from weft.ops.linalg import eigh as eigh_operation

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


@compiled
def _eigh(a: Any, *, lower: bool, symmetrize: bool) -> Any:
    dtype = type_of(a).dtype
    v, w = eigh_operation.eigh(widened(a), lower=lower, symmetrize_input=symmetrize)
    return returned(w, dtype), returned(v, dtype)


@compiled
def _eigvalsh(a: Any, *, lower: bool, symmetrize: bool) -> Any:
    _, w = eigh_operation.eigh(widened(a), lower=lower, symmetrize_input=symmetrize)
    return returned(w, type_of(a).dtype)


def _reading(operation: str, uplo: Any, symmetrize: bool | None) -> dict[str, bool]:
    """The parameters for the part of a matrix that is read. Raises WeftValueError."""
    given = uplo.upper() if isinstance(uplo, str) else uplo
    if given not in (None, "L", "U"):
        raise unknown_option(operation, "UPLO", uplo, '"L", "U" or None', use="L", noun="triangle")
    both = uplo is None if symmetrize is None else bool(symmetrize)
    return {"lower": given != "U", "symmetrize": both}


@api_boundary
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool | None = None) -> EighResult:
    """Eigenvalues, real and rising, and eigenvectors, as columns, of Hermitian matrices.

    a: shape (..., n, n). symmetrize_input: whether a is replaced by (a + its adjoint) / 2, by
    default if no UPLO is given. UPLO: "L" or "U", the only triangle that is read otherwise.

    By LAPACK's syevd and heevd. Where eigenvalues are equal, they have derivatives but eigenvectors
    have none. A matrix for which the iteration fails gives NaN. Raises ShapeError, DTypeError,
    WeftValueError for another UPLO, WeftTypeError.

    >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    check_flag(symmetrize_input, "linalg.eigh", "symmetrize_input", none=True)
    check_square("linalg.eigh", "a", a)
    return EighResult(*_eigh(a, **_reading("linalg.eigh", UPLO, symmetrize_input)))


@api_boundary
def eigvalsh(a: Any, UPLO: str | None = None, *, symmetrize_input: bool | None = None) -> Array:
    """The eigenvalues of Hermitian matrices, with the arguments and errors of `eigh`.

    a: shape (..., n, n). UPLO, symmetrize_input: as in `eigh`.

    >>> jnp.linalg.eigvalsh(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    Array([-1.,  1.], dtype=float32)
    """
    check_flag(symmetrize_input, "linalg.eigvalsh", "symmetrize_input", none=True)
    check_square("linalg.eigvalsh", "a", a)
    return _eigvalsh(a, **_reading("linalg.eigvalsh", UPLO, symmetrize_input))


@compiled
def _eig(a: Any) -> Any:
    w, v = eig_operation.eig(widened(a), compute_left_eigenvectors=False)
    return w, v


@compiled
def _eigvals(a: Any) -> Any:
    [w] = eig_operation.eig(
        widened(a), compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )
    return w


@api_boundary
def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors, as columns of norm 1, of square matrices.

    a: shape (..., n, n). Both are complex64 or complex128, the eigenvalues in no particular order.
    By LAPACK's geev. Eigenvalues have derivatives where they are distinct. Eigenvectors have none
    here, because they are unique only up to a factor (`weft.lax.linalg.eig` can fix it and
    differentiate them). A matrix for which the iteration fails gives NaN. Raises ShapeError,
    DTypeError, WeftTypeError.

    >>> jnp.linalg.eig(jnp.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    check_square("linalg.eig", "a", a)
    return EigResult(*_eig(a))


@api_boundary
def eigvals(a: Any) -> Array:
    """The eigenvalues of square matrices, complex and in no particular order.

    Derivatives and errors are those of `eig`.

    >>> jnp.linalg.eigvals(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    check_square("linalg.eigvals", "a", a)
    return _eigvals(a)
