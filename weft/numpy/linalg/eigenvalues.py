"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Annotated, Any

from weft.arrays.array import Array
from weft.errors.argument_errors import unknown_option
from weft.kinds.arguments import BOTH
from weft.kinds.array_function import array_function
from weft.kinds.kind import NONE, Arguments, Kind
from weft.numpy.linalg.operands import SquareMatrix, restore_dtype, widen_operand
from weft.numpy.linalg.results import EighResult, EigResult
from weft.ops.flags import check_flag
from weft.ops.linalg import eig as eig_operation
from weft.ops.linalg import eigh as eigh_operation


def _triangle(value: Any, call: Arguments) -> str:
    triangle = value.upper() if isinstance(value, str) else value
    if triangle not in ("L", "U"):
        wanted = '"L", "U" or None'
        raise unknown_option(call.operation, call.name, value, wanted, use="L", noun="triangle")
    return str(triangle)


def _flag_or_none(value: Any, call: Arguments) -> bool:
    check_flag(value, call.name, none=True)
    return bool(value)


Triangle = Annotated[str | None, Kind(_triangle, '"L", "U" or None', ("X", 1))]
Symmetrize = Annotated[
    bool | None, Kind(_flag_or_none, "True, False or None", ("no", 2), plain=BOTH | NONE)
]


def _decompose(a: Any, triangle: str | None, symmetrize: bool | None) -> tuple[Any, Any]:
    """The eigenvectors and eigenvalues of Hermitian matrices."""
    symmetrize = triangle is None if symmetrize is None else symmetrize
    return eigh_operation.eigh(widen_operand(a), lower=triangle != "U", symmetrize_input=symmetrize)


@array_function
def eigh(a: SquareMatrix, UPLO: Triangle = None, symmetrize_input: Symmetrize = None) -> EighResult:
    """Eigenvalues, real and rising, and eigenvectors, as columns, of Hermitian matrices.

    a: shape (..., n, n). symmetrize_input: whether a is replaced by (a + its adjoint) / 2, by
    default if no UPLO is given. UPLO: "L" or "U", the only triangle that is read otherwise.

    By LAPACK's syevd and heevd. Where eigenvalues are equal, they have derivatives but eigenvectors
    have none. A matrix for which the iteration fails gives NaN. Raises ShapeError, DTypeError,
    WeftValueError for another UPLO, WeftTypeError.

    >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    v, w = _decompose(a, UPLO, symmetrize_input)
    return EighResult(restore_dtype(w, a.dtype), restore_dtype(v, a.dtype))


@array_function
def eigvalsh(
    a: SquareMatrix, UPLO: Triangle = None, *, symmetrize_input: Symmetrize = None
) -> Array:
    """The eigenvalues of Hermitian matrices, with the arguments and errors of `eigh`.

    a: shape (..., n, n). UPLO, symmetrize_input: as in `eigh`.

    >>> jnp.linalg.eigvalsh(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    Array([-1.,  1.], dtype=float32)
    """
    _, w = _decompose(a, UPLO, symmetrize_input)
    return restore_dtype(w, a.dtype)


@array_function
def eig(a: SquareMatrix) -> EigResult:
    """Eigenvalues and right eigenvectors, as columns of norm 1, of square matrices.

    a: shape (..., n, n). Both are complex64 or complex128, the eigenvalues in no particular order.
    By LAPACK's geev. Eigenvalues have derivatives where they are distinct. Eigenvectors have none
    here, because they are unique only up to a factor (`weft.lax.linalg.eig` can fix it and
    differentiate them). A matrix for which the iteration fails gives NaN. Raises ShapeError,
    DTypeError, WeftTypeError.

    >>> jnp.linalg.eig(jnp.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*eig_operation.eig(widen_operand(a), compute_left_eigenvectors=False))


@array_function
def eigvals(a: SquareMatrix) -> Array:
    """The eigenvalues of square matrices, complex and in no particular order.

    Derivatives and errors are those of `eig`.

    >>> jnp.linalg.eigvals(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    [w] = eig_operation.eig(
        widen_operand(a), compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )
    return w
