"""The singular value decomposition."""

from __future__ import annotations

import enum
from typing import Any, Literal, overload

from weft import dtypes
from weft.arrays.array import Array
from weft.core.jaxpr import Equation
from weft.core.primitive import Work
from weft.core.rules import Values
from weft.core.types import ArrayType, type_of
from weft.errors import WeftValueError, api_boundary
from weft.ops.elementwise.arithmetic import add, div, mul, scalar, sub
from weft.ops.elementwise.elementary import is_complex
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.flops import of_matrices
from weft.ops.indexing.creation import full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.eigh import (
    index_range,
    inverse_differences,
    real_diagonal,
    rows_and_columns,
    scale_by_real,
)
from weft.ops.linalg.matrices import (
    INFO,
    adjoint,
    along_columns,
    check_matrix,
    factor_types,
    identity,
    lapack_call,
    matmul,
    matrix_primitive,
    nan_where_failed,
    no_algorithm,
    no_derivative,
    on_diagonal,
    part,
    pass_thin,
)
from weft.runtime import stablehlo


class SvdAlgorithm(enum.Enum):
    """Algorithms for the singular value decomposition.

    On CPUs there are LAPACK's two: DIVIDE_AND_CONQUER (gesdd), which is the DEFAULT, and the slower
    QR (gesvd), which may be more accurate for tiny singular values. The others are refused.
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


_ROUTINES = {
    None: "gesdd",
    SvdAlgorithm.DEFAULT: "gesdd",
    SvdAlgorithm.DIVIDE_AND_CONQUER: "gesdd",
    SvdAlgorithm.QR: "gesvd",
}


@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    subset_by_index: tuple[int, int] | None = ...,
    algorithm: SvdAlgorithm | None = ...,
) -> tuple[Array, Array, Array]: ...


@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = ...,
    compute_uv: Literal[False],
    subset_by_index: tuple[int, int] | None = ...,
    algorithm: SvdAlgorithm | None = ...,
) -> Array: ...


@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
    algorithm: SvdAlgorithm | None = ...,
) -> Any: ...


@api_boundary
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The factors of x = u diag(s) vh, where u and the adjoint of vh have orthonormal columns.

    x: shape (..., m, n), float32, float64, complex64 or complex128; k is the smaller of m and n.
    Gives (u, s, vh): u of shape (..., m, m) and vh (..., n, n), or without `full_matrices`
    (..., m, k) and (..., k, n); s real, of shape (..., k), in decreasing order, none negative.
    Without `compute_uv`, s alone. With `subset_by_index`, a start and a stop, and without
    `full_matrices`, only those singular values and vectors; all are computed.

    The derivative is that of J. Townsend, Differentiating the singular value decomposition (2016),
    https://j-towns.github.io/papers/svd-derivative.pdf, written with sums and differences of
    singular values instead of their squares; the freedom of complex vectors is shared equally by u
    and vh. Where two singular values are equal (or one of a matrix that is not square, or two, are
    zero), singular vectors have no derivative and it is not finite; that of the singular values is.
    The further vectors that `full_matrices` gives can be any that complete a basis: a derivative of
    them raises WeftNotImplementedError. A matrix for which the iteration fails gives NaN.

    algorithm: the one of LAPACK, an `SvdAlgorithm`: gesdd by default.

    Raises DTypeError, ShapeError, WeftValueError for a range out of bounds, and
    WeftNotImplementedError for another algorithm. By LAPACK's gesdd or gesvd.

    >>> import numpy as np
    >>> print(svd(np.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False))
    [2. 1.]
    """
    check_flags("svd", full_matrices=full_matrices, compute_uv=compute_uv)
    if algorithm not in _ROUTINES:
        wanted = "algorithm=None or SvdAlgorithm.DEFAULT, DIVIDE_AND_CONQUER or QR"
        raise no_algorithm(f"algorithm={algorithm!r}", wanted)
    check_matrix(type_of(x))
    chosen = index_range(subset_by_index, min(type_of(x).shape[-2:]))
    if chosen is not None and full_matrices and compute_uv:
        message = "subset_by_index and full_matrices exclude one another"
        got, wanted = f"subset_by_index={subset_by_index!r} and full_matrices=True", "one of them"
        raise WeftValueError(message, got=got, wanted=wanted, fix=pass_thin())
    routine = _ROUTINES[algorithm]
    if not compute_uv:
        [s] = svd_p.bind(x, full_matrices=False, compute_uv=False, routine=routine)
        return s if chosen is None else slice_in_dim(s, *chosen, axis=-1)
    s, u, vh = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=True, routine=routine)
    if chosen is not None:
        s = slice_in_dim(s, *chosen, axis=-1)
        u, vh = part(u, None, chosen), part(vh, chosen)
    return u, s, vh


def svd_type(
    x: ArrayType, *, full_matrices: bool, compute_uv: bool, routine: str
) -> list[ArrayType]:
    check_matrix(x)
    *batch, m, n = x.shape
    k = min(m, n)
    s = (*batch, k), dtypes.to_real(x.dtype)
    if not compute_uv:
        return factor_types(x, s)
    u = (*batch, m, m if full_matrices else k), x.dtype
    vh = (*batch, n if full_matrices else k, n), x.dtype
    return factor_types(x, s, u, vh)


def svd_jvp(
    primals: Values, tangents: Values, *, full_matrices: bool, compute_uv: bool, routine: str
) -> tuple[Any, Any]:
    """In the bases of the singular vectors the real diagonal of dx is the tangent of s. Off it, its
    Hermitian part over s[j] - s[i] and its skew-Hermitian part over s[j] + s[i] are half the sum
    and half the difference of u^H du and v^H dv."""
    of, dx = type_of(primals[0]), tangents[0]
    m, n = of.shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise no_derivative(
            "svd",
            f"{of} with full_matrices=True",
            "full_matrices=False, or a square matrix: the further singular vectors can be any that "
            "complete a basis",
            pass_thin(),
        )
    s, u, vh = svd_p.bind(primals[0], full_matrices=False, compute_uv=True, routine=routine)
    v = adjoint(vh)
    toward_u = matmul(dx, v)
    turned = matmul(adjoint(u), toward_u)
    ds = real_diagonal(turned)
    if not compute_uv:
        return [s], [ds]
    back = adjoint(turned)
    half = scalar(0.5, turned)
    joint = scale_by_real(mul(add(turned, back), half), inverse_differences(s))
    apart = scale_by_real(mul(sub(turned, back), half), inverse_sums(s, is_complex(u)))
    du, dv = matmul(u, add(joint, apart)), matmul(v, sub(joint, apart))
    if m > n:
        du = add(du, over_columns(sub(toward_u, matmul(u, turned)), s))
    if n > m:
        toward_v = matmul(adjoint(dx), u)
        dv = add(dv, over_columns(sub(toward_v, matmul(v, back)), s))
    return [s, u, vh], [ds, du, adjoint(dv)]


def inverse_sums(s: Any, with_diagonal: bool) -> Any:
    """The matrices of 1 / (s[i] + s[j]), with zeros on the diagonal unless `with_diagonal`."""
    columns, rows = rows_and_columns(s)
    total = add(columns, rows)
    if with_diagonal:
        return div(scalar(1, total), total)
    on = on_diagonal(type_of(rows))
    total = select(on, full_like(total, 1), total)
    return select(on, zeros_like_array(total), div(scalar(1, total), total))


def over_columns(x: Any, s: Any) -> Any:
    """Each matrix with column j divided by s[j]."""
    spread = along_columns(s, type_of(x))
    return scale_by_real(x, div(scalar(1, spread), spread))


def svd_lower(
    context: Any, x: Any, *, full_matrices: bool, compute_uv: bool, routine: str
) -> list[Any]:
    s = context.out_types[0]
    *batch, m, n = x.type.shape
    dtype = stablehlo.dtype_of(x.type.element_type)
    k = min(m, n)
    u, vh = (m, m if full_matrices else k), (n if full_matrices else k, n)
    if 0 in (*batch, m, n):
        empty = stablehlo.full(0, s.shape, s.dtype)
        return [empty, *(identity(of.shape, of.dtype) for of in context.out_types[1:])]
    results = [((m, n), dtype), ((k,), s.dtype), (u, dtype), (vh, dtype), INFO]
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    _, *found, info = lapack_call(context, routine, [x], results, mode=mode)
    return [nan_where_failed(info, value) for value in found[: 3 if compute_uv else 1]]


def _of_svd(eqn: Equation) -> Work:
    if not eqn.params["compute_uv"]:
        return of_matrices(eqn, lambda m, n: 4 * m * n**2 - 4 * n**3 / 3)
    if eqn.params["full_matrices"]:
        return of_matrices(eqn, lambda m, n: 4 * m**2 * n + 8 * m * n**2 + 9 * n**3)
    return of_matrices(eqn, lambda m, n: 14 * m * n**2 + 8 * n**3)


svd_p = matrix_primitive(
    "svd", type_rule=svd_type, jvp=svd_jvp, lower=svd_lower, multiple_results=True, flops=_of_svd
)
