"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import enum
from typing import Any

from weft import dtypes
from weft.argument_errors import invalid_value
from weft.arrays.array import Array
from weft.core.rules import Values
from weft.core.types import ArrayType, type_of
from weft.ops.elementwise.arithmetic import add, div, mul, scalar, sub
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.elementary import is_complex
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.cholesky import symmetrized, without_imaginary
from weft.ops.linalg.matrices import (
    INFO,
    adjoint,
    check_matrix,
    diagonal,
    lapack_call,
    made_of,
    matmul,
    matrix_primitive,
    no_such_way,
    of_failed,
    on_diagonal,
    part,
    triangle,
)
from weft.ops.structural.shape import broadcast_in_dim
from weft.runtime import stablehlo

__all__ = [
    "EighImplementation", "both_ways", "eigh", "index_range", "inverse_differences",
    "real_diagonal", "times_real",
]  # fmt: skip


class EighImplementation(enum.Enum):
    """Algorithms for the eigenvalues of a Hermitian matrix. On CPUs there is LAPACK's QR; the
    others are for other hardware and are refused."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors v, as columns, and eigenvalues w of Hermitian matrices: x v = v diag(w).

    x: shape (..., n, n), float32, float64, complex64 or complex128. v has the type of x; w is real,
    of shape (..., n), in increasing order. With `symmetrize_input` x is replaced by (x + its
    adjoint) / 2; without it, only the triangle that `lower` names is read. With `subset_by_index`,
    a start and a stop, only those eigenvalues and eigenvectors are given; all are computed.
    Eigenvalues are sorted also without `sort_eigenvalues`. Of the algorithms, only
    EighImplementation.QR (or None) is taken.

    The derivative (M. B. Giles, An extended collection of matrix derivative results for forward and
    reverse mode algorithmic differentiation, 2008) keeps v^H dv free of a diagonal. Where two
    eigenvalues are equal, their eigenvectors have no derivative and it is not finite; that of the
    eigenvalues is. A matrix for which the iteration fails gives NaN.

    Args:
        lower: Whether the lower triangle of x is read, not the upper one, without
            `symmetrize_input`.
        sort_eigenvalues: Has no effect: eigenvalues are always sorted.
        implementation: The algorithm: None or `EighImplementation.QR`.

    Raises DTypeError, ShapeError, WeftValueError for a range of indices that does not exist, and
    WeftNotImplementedError for another implementation. By LAPACK's syevd and heevd.

    >>> import numpy as np
    >>> v, w = eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> print(w)
    [1. 2.]
    """
    check_flags(
        "eigh", lower=lower, symmetrize_input=symmetrize_input, sort_eigenvalues=sort_eigenvalues
    )
    if implementation not in (None, EighImplementation.QR):
        wanted = "implementation=None or EighImplementation.QR"
        raise no_such_way("eigh", f"implementation={implementation!r}", wanted)
    check_matrix("eigh", type_of(x), square=True)
    chosen = index_range("eigh", subset_by_index, type_of(x).shape[-1])
    whole = bool(symmetrize_input)
    v, w = eigh_p.bind(symmetrized(x) if whole else x, lower=bool(lower), hermitian=whole)
    if chosen is not None:
        v, w = part(v, None, chosen), slice_in_dim(w, *chosen, axis=-1)
    return v, w


def index_range(operation: str, given: Any, count: int) -> tuple[int, int] | None:
    """A range of indices as (start, stop). Raises WeftValueError for an invalid one."""
    if given is None:
        return None
    found = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(found) == 2 and all(isinstance(i, int) for i in found):
        start, stop = found
        if 0 <= start <= stop <= count:
            return start, stop
    message = f"{operation}: subset_by_index is not a range of indices"
    wanted = f"integers (start, stop) with 0 <= start <= stop <= {count}"
    raise invalid_value(message, operation, "subset_by_index", given, wanted, (0, count))


def eigh_type(x: ArrayType, *, lower: bool, hermitian: bool) -> list[ArrayType]:
    check_matrix("eigh", x, square=True)
    return made_of(x, (x.shape, x.dtype), (x.shape[:-1], dtypes.to_real(x.dtype)))


def eigh_jvp(
    primals: Values, tangents: Values, *, lower: bool, hermitian: bool
) -> tuple[list[Any], list[Any]]:
    """In the basis of the eigenvectors dx has the eigenvalues' tangents as its diagonal; off it,
    divided by the differences of eigenvalues, it is v^H dv. `hermitian` says that the operand was
    made Hermitian, and so is its tangent; otherwise only one triangle of that counts."""
    v, w = outs = eigh_p.bind(*primals, lower=lower, hermitian=hermitian)
    dx = tangents[0] if hermitian else hermitian_of_triangle(tangents[0], lower)
    turned = matmul(adjoint(v), matmul(dx, v))
    rotation = times_real(turned, inverse_differences(w))
    return outs, [matmul(v, rotation), real_diagonal(turned)]


def eigh_lower(context: Any, x: Any, *, lower: bool, hermitian: bool) -> list[Any]:
    v, w = context.out_types
    if 0 in v.shape:
        return [x, stablehlo.full(0, w.shape, w.dtype)]
    routine = "heevd" if v.dtype in dtypes.COMPLEX else "syevd"
    results = [(v.shape[-2:], v.dtype), (w.shape[-1:], w.dtype), INFO]
    uplo = "L" if lower else "U"
    *found, info = lapack_call(context, routine, [x], results, mode="V", uplo=uplo)
    return [of_failed(info, value) for value in found]


eigh_p = matrix_primitive(
    "eigh", type_rule=eigh_type, jvp=eigh_jvp, lower=eigh_lower, multiple_results=True
)


# ---- shared by rules about spectra -------------------------------------------------------------


def hermitian_of_triangle(x: Any, lower: bool) -> Any:
    """The Hermitian matrix with one triangle of x and the real part of its diagonal."""
    own = triangle(x, lower, -1 if lower else 1)
    return select(on_diagonal(type_of(x)), without_imaginary(x), add(own, adjoint(own)))


def real_diagonal(x: Any) -> Any:
    """The real part of the diagonal of each square matrix."""
    found = diagonal(x)
    return real(found) if is_complex(x) else found


def times_real(x: Any, factor: Any) -> Any:
    """A real or complex array times a real one."""
    return mul(x, convert_element_type(factor, type_of(x).dtype))


def inverse_differences(w: Any) -> Any:
    """The matrices of 1 / (w[j] - w[i]), with zeros on the diagonal."""
    columns, rows = both_ways(w)
    on = on_diagonal(type_of(rows))
    # A non-zero divisor keeps the derivatives of the diagonal finite.
    apart = select(on, full_like(rows, 1), sub(columns, rows))
    return select(on, zeros_like_array(rows), div(scalar(1, apart), apart))


def both_ways(w: Any) -> tuple[Any, Any]:
    """The matrices of w[j] and of w[i] in row i and column j."""
    aval = type_of(w)
    shape, batch = (*aval.shape, aval.shape[-1]), tuple(range(aval.ndim - 1))
    columns, rows = (broadcast_in_dim(w, shape, (*batch, aval.ndim - i)) for i in (0, 1))
    return columns, rows
