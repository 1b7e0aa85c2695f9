"""Factorizations of matrices: cholesky, qr, svd."""

from __future__ import annotations

from typing import Any, Literal, overload

from weft import dtypes
from weft.argument_errors import refusal, unknown_option
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, WeftValueError, api_boundary
from weft.kinds.checks import check_flags, convert
from weft.kinds.compiled_functions import compiled
from weft.numpy.linalg.operands import check_matrices, check_square, returned, widened
from weft.numpy.linalg.results import QRResult, SVDResult
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import ge, neg
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg import cholesky as cholesky_operation
from weft.ops.linalg import eigh as eigh_operation
from weft.ops.linalg import qr as qr_operation
from weft.ops.linalg import svd as svd_operation
from weft.ops.linalg.matrices import adjoint, part, reordered, scaled_rows, swapped
from weft.ops.reductions.sorting import sort

__all__ = ["cholesky", "hermitian_svd", "qr", "svd", "svdvals"]


@compiled
def _cholesky(a: Any, *, upper: bool, symmetrize: bool) -> Any:
    x = widened(a)
    if upper and not symmetrize:
        # Only the upper triangle is read, which is the lower one of the adjoint.
        x = adjoint(x)
    factor = cholesky_operation.cholesky(x, symmetrize_input=symmetrize)
    return returned(adjoint(factor) if upper else factor, type_of(a).dtype)


@api_boundary
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
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
    check_flags("linalg.cholesky", upper=upper, symmetrize_input=symmetrize_input)
    check_square("linalg.cholesky", "a", a)
    return _cholesky(a, upper=bool(upper), symmetrize=bool(symmetrize_input))


@compiled
def _qr(a: Any, *, mode: str) -> Any:
    dtype, x = type_of(a).dtype, widened(a)
    if mode == "raw":
        packed, taus = qr_operation.geqrf(x)
        return returned(swapped(packed), dtype), returned(taus, dtype)
    q, r = qr_operation.qr(x, full_matrices=mode == "complete")
    return returned(r, dtype) if mode == "r" else (returned(q, dtype), returned(r, dtype))


@overload
def qr(a: Any, mode: Literal["reduced", "complete"] = ...) -> QRResult: ...
@overload
def qr(a: Any, *, mode: Literal["r"]) -> Array: ...
@overload
def qr(a: Any, *, mode: Literal["raw"]) -> tuple[Array, Array]: ...
@overload
def qr(a: Any, mode: str = ...) -> Any: ...
@api_boundary
def qr(a: Any, mode: str = "reduced") -> Any:
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
    check_matrices("linalg.qr", "a", a)
    if mode not in ("reduced", "complete", "r", "raw"):
        wanted = '"reduced", "complete", "r" or "raw"'
        raise unknown_option("linalg.qr", "mode", mode, wanted, use="reduced")
    found = _qr(a, mode=mode)
    return QRResult(*found) if mode in ("reduced", "complete") else found


def hermitian_svd(x: Any) -> tuple[Any, Any, Any]:
    """The singular value decomposition of Hermitian matrices, from their eigenvalues."""
    v, w = eigh_operation.eigh(x)
    last = type_of(w).ndim - 1
    places = broadcasted_iota(dtypes.int32, type_of(w).shape, last)
    below, w, order = sort((neg(abs_(w)), w, places), last, num_keys=1)
    u = reordered(v, order, -1)
    # An eigenvalue below zero changes the sign of one of its two vectors.
    one = full_like(w, 1)
    sign = select(ge(w, zeros_like_array(w)), one, neg(one))
    return u, neg(below), scaled_rows(adjoint(u), convert(sign, type_of(x).dtype))


@compiled
def _svd(a: Any, *, full: bool, vectors: bool, hermitian: bool, subset: Any) -> Any:
    dtype, x = type_of(a).dtype, widened(a)
    if not hermitian:
        found = svd_operation.svd(x, full_matrices=full, compute_uv=vectors, subset_by_index=subset)
        parts = found if vectors else (found,)
    else:
        u, s, vh = hermitian_svd(x)
        if subset is not None:
            u, vh = part(u, None, subset), part(vh, subset)
            s = slice_in_dim(s, subset[0], subset[1], axis=-1)
        parts = (u, s, vh) if vectors else (s,)
    out = tuple(returned(y, dtype) for y in parts)
    return out if vectors else out[0]


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
@api_boundary
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
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
    flags = {"full_matrices": full_matrices, "compute_uv": compute_uv, "hermitian": hermitian}
    check_flags("linalg.svd", **flags)
    check_matrices("linalg.svd", "a", a)
    if hermitian:
        check_square("linalg.svd", "a", a)
    full, vectors = bool(full_matrices), bool(compute_uv)
    subset = subset_of(subset_by_index, a, full and vectors)
    found = _svd(a, full=full, vectors=vectors, hermitian=bool(hermitian), subset=subset)
    return SVDResult(*found) if vectors else found


def subset_of(given: Any, a: Any, full: bool) -> tuple[int, int] | None:
    """The range of singular values to return, or None for all. Raises WeftValueError."""
    if given is None:
        return None
    count = min(type_of(a).shape[-2:])
    found = tuple(given) if isinstance(given, (tuple, list)) else ()
    fine = len(found) == 2 and all(type(i) is int for i in found)
    if full or not fine or not 0 <= found[0] <= found[1] <= count:
        what = "subset_by_index is a range of singular values of a reduced decomposition"
        got = f"subset_by_index={given!r:.80}" + (" and full_matrices=True" if full else "")
        wanted = f"(first, end) with 0 <= first <= end <= {count}, and full_matrices=False"
        right = ["full_matrices=False"] * full
        if not fine or not 0 <= found[0] <= found[1] <= count:
            right.append(f"subset_by_index=(0, {count})")
        fix = Fix("subset", f"pass {' and '.join(right)}")
        raise refusal(WeftValueError, f"linalg.svd: {what}", "linalg.svd", got, wanted, fix)
    return found


@api_boundary
def svdvals(x: Any, /) -> Array:
    """The singular values of matrices, falling: shape (..., k) for x of shape (..., m, n).

    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    Array([2., 1.], dtype=float32)
    """
    check_matrices("linalg.svdvals", "x", x)
    return _svd(x, full=False, vectors=False, hermitian=False, subset=None)
