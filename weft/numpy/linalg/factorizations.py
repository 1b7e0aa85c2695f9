"""Factorizations of matrices: cholesky, qr, svd."""

from __future__ import annotations

from typing import Annotated, Any, Literal, overload

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import Fix, WeftValueError
from weft.errors.argument_errors import unknown_option
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.array_function import array_function
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import Hermitian, Matrix, SquareMatrix, restore_dtype, widen_operand
from weft.numpy.linalg.results import QRResult, SVDResult
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full_like
from weft.ops.linalg import cholesky as cholesky_operation
from weft.ops.linalg import eigh as eigh_operation
from weft.ops.linalg import qr as qr_operation
from weft.ops.linalg import svd as svd_operation
from weft.ops.linalg.matrices import adjoint, part, permute_matrix, scaled_rows
from weft.ops.reductions.sorting import sort


def _mode(value: Any, call: Arguments) -> str:
    if value not in ("reduced", "complete", "r", "raw"):
        wanted = '"reduced", "complete", "r" or "raw"'
        raise unknown_option(call.operation, call.name, value, wanted, use="reduced")
    return str(value)


def _subset(value: Any, call: Arguments) -> tuple[int, int]:
    count = min(call.type.shape[-2:])
    bounds = tuple(value) if isinstance(value, (tuple, list)) else ()
    fine = len(bounds) == 2 and all(type(i) is int for i in bounds)
    fine = fine and 0 <= bounds[0] <= bounds[1] <= count
    full = call["full_matrices"] and call["compute_uv"]
    if full or not fine:
        what = "subset_by_index is a range of singular values of a reduced decomposition"
        got = f"subset_by_index={value!r:.80}" + (" and full_matrices=True" if full else "")
        wanted = f"(first, end) with 0 <= first <= end <= {count}, and full_matrices=False"
        right = ["full_matrices=False"] * full + [f"subset_by_index=(0, {count})"] * (not fine)
        fix = Fix("subset", f"pass {' and '.join(right)}")
        raise WeftValueError(what, got=got, wanted=wanted, fix=fix)
    return bounds


Mode = Annotated[
    str, Kind(_mode, '"reduced", "complete", "r" or "raw"', ("full", None), plain=NEVER)
]
Subset = Annotated[
    tuple[int, int] | None, Kind(_subset, "the range (first, end) of what is returned", (2, "ab"))
]


@array_function
def cholesky(a: SquareMatrix, *, upper: Flag = False, symmetrize_input: Flag = True) -> Array:
    """The lower triangular L with positive diagonal for which L times its adjoint is a.

    a: shape (..., n, n), Hermitian and positive definite; one that is not gives NaN. upper: gives
    the adjoint of L instead. With `symmetrize_input` a is replaced by (a + its adjoint) / 2;
    without it, only the triangle of the result is read. By LAPACK's potrf; the derivative is that
    of I. Murray (2016), https://arxiv.org/abs/1602.07527.

    Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = widen_operand(a)
    if upper and not symmetrize_input:
        # Only the upper triangle is read, which is the lower one of the adjoint.
        x = adjoint(x)
    factor = cholesky_operation.cholesky(x, symmetrize_input=symmetrize_input)
    return restore_dtype(adjoint(factor) if upper else factor, a.dtype)


@overload
def qr(a: Any, mode: Literal["reduced", "complete"] = ...) -> QRResult: ...
@overload
def qr(a: Any, *, mode: Literal["r"]) -> Array: ...
@overload
def qr(a: Any, *, mode: Literal["raw"]) -> tuple[Array, Array]: ...
@overload
def qr(a: Any, mode: str = ...) -> Any: ...
@array_function
def qr(a: Matrix, mode: Mode = "reduced") -> Any:
    """The factors of a = Q R, where Q has orthonormal columns and R is upper triangular.

    a: shape (..., m, n), k the smaller of m and n. mode: "reduced" gives Q (..., m, k) and
    R (..., k, n); "complete" Q (..., m, m) and R (..., m, n); "r" only R, reduced; "raw" the output
    of LAPACK's geqrf: reflections (..., n, m), transposed, and their factors (..., k). A complete Q
    of a tall matrix has no derivative, nor has the Q of one with linearly dependent columns.

    Raises WeftValueError for another mode, ShapeError, DTypeError, WeftTypeError.

    >>> q, r = jnp.linalg.qr(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> jnp.abs(r)
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    x = widen_operand(a)
    if mode == "raw":
        packed, taus = qr_operation.geqrf(x)
        return restore_dtype(packed.mT, a.dtype), restore_dtype(taus, a.dtype)
    q, r = qr_operation.qr(x, full_matrices=mode == "complete")
    r = restore_dtype(r, a.dtype)
    return r if mode == "r" else QRResult(restore_dtype(q, a.dtype), r)


def hermitian_svd(x: Any) -> tuple[Any, Any, Any]:
    """The singular value decomposition of Hermitian matrices, from their eigenvalues."""
    v, w = eigh_operation.eigh(x)
    last = w.ndim - 1
    places = broadcasted_iota(dtypes.int32, w.shape, last)
    below, w, order = sort((-abs(w), w, places), last, num_keys=1)
    u = permute_matrix(v, order, -1)
    # An eigenvalue below zero changes the sign of one of its two vectors.
    one = full_like(w, 1)
    sign = select(w >= 0, one, -one)
    return u, -below, scaled_rows(adjoint(u), sign.astype(x.dtype))


@overload
def svd(
    a: Any,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> SVDResult: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Array: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Any: ...
@array_function
def svd(
    a: Matrix,
    full_matrices: Flag = True,
    compute_uv: Flag = True,
    hermitian: Hermitian = False,
    subset_by_index: Subset = None,
) -> Any:
    """The factors of a = U diag(S) Vh, where U and the adjoint of Vh have orthonormal columns.

    a: shape (..., m, n), k the smaller of m and n. full_matrices: whether U is (..., m, m) and Vh
    (..., n, n); otherwise they are (..., m, k) and (..., k, n). compute_uv: whether U and Vh are
    returned, too, and not S alone: (..., k), real, falling, none negative. hermitian: a equals its
    adjoint, and the decomposition is made from its eigenvalues. subset_by_index: with
    full_matrices=False, the range (first, end) of the singular values to return.

    By LAPACK's gesdd. Where singular values are equal, they have derivatives but singular vectors
    have none. A matrix for which the iteration fails gives NaN. Raises ShapeError, DTypeError,
    WeftValueError for a range out of bounds, WeftTypeError.

    >>> u, s, vh = jnp.linalg.svd(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> s
    Array([2., 1.], dtype=float32)
    """
    x, subset = widen_operand(a), subset_by_index
    if hermitian:
        u, s, vh = hermitian_svd(x)
        if subset is not None:
            u, s, vh = part(u, None, subset), s[..., slice(*subset)], part(vh, subset)
    elif compute_uv:
        u, s, vh = svd_operation.svd(x, full_matrices=full_matrices, subset_by_index=subset)
    else:
        s = svd_operation.svd(x, compute_uv=False, subset_by_index=subset)
    s = restore_dtype(s, a.dtype)
    return SVDResult(restore_dtype(u, a.dtype), s, restore_dtype(vh, a.dtype)) if compute_uv else s


@array_function
def svdvals(x: Matrix, /) -> Array:
    """The singular values of matrices, falling: shape (..., k) for x of shape (..., m, n).

    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    Array([2., 1.], dtype=float32)
    """
    return restore_dtype(svd_operation.svd(widen_operand(x), compute_uv=False), x.dtype)
