"""Factorizations of matrices with SciPy's arguments, which select the form of the result."""

from __future__ import annotations

from typing import Annotated, Any, Literal, overload

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape
from weft.kinds.arguments import Flag, NoEffect, choice
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcasted, inexact
from weft.numpy.linalg import factorizations as numpy_factorizations
from weft.numpy.linalg.operands import (
    Matrix,
    PromotedMatrix,
    PromotedVector,
    SquareMatrix,
    restore_dtype,
    widen_operand,
)
from weft.numpy.linalg.polar import Precision, Steps, unitary_factor
from weft.numpy.vectorizing import over
from weft.ops.indexing.creation import broadcasted_iota, eye
from weft.ops.indexing.dynamic_slicing import dynamic_update_slice
from weft.ops.linalg import lu as lu_operation
from weft.ops.linalg import qr as qr_operation
from weft.ops.linalg import schur as schur_operation
from weft.ops.linalg import svd as svd_operation
from weft.ops.linalg.cholesky import symmetrize
from weft.ops.linalg.householder import householder_product, ormqr
from weft.ops.linalg.matrices import adjoint, matmul, part, scaled_columns, triangle

__all__ = [
    "cho_factor", "cholesky", "hessenberg", "lu", "lu_factor", "polar", "qr", "qr_multiply", "svd",
]  # fmt: skip

# `overwrite_a` and `check_finite` are advice to a library that works in place; arrays here do not
# change, and no error depends on values, so both are accepted and have no effect.

_DRIVERS = {
    "gesdd": svd_operation.SvdAlgorithm.DIVIDE_AND_CONQUER,
    "gesvd": svd_operation.SvdAlgorithm.QR,
}
Form = Annotated[str, choice("full", "r", "economic", "raw")]
Side = Annotated[str, choice("right", "left")]
Driver = Annotated[str, choice(*_DRIVERS)]
Method = Annotated[str, choice("qdwh", "svd")]


@array_function
def cholesky(
    a: SquareMatrix, lower: Flag = False, overwrite_a: NoEffect = False, check_finite: NoEffect =
    True,
) -> Array:  # fmt: skip
    """The upper triangular R with positive diagonal for which the adjoint of R times R is a.

    a: shape (..., n, n), Hermitian and positive definite; one that is not gives NaN. lower: the
    adjoint of R instead. a is replaced by (a + its adjoint) / 2. `overwrite_a` and `check_finite`
    have no effect. Raises ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return numpy_factorizations.cholesky(a, upper=not lower)


@python_function
def cho_factor(
    a: SquareMatrix, lower: Flag = False, overwrite_a: NoEffect = False, check_finite: NoEffect =
    True,
) -> tuple[Array, bool]:  # fmt: skip
    """The factor of `cholesky`, and `lower`, for `cho_solve`.

    The other triangle of the factor is zero. Arguments and errors are those of `cholesky`.

    lower: whether the factor is a lower triangle, not an upper one; overwrite_a, check_finite: have
    no effect.

    >>> import weft.numpy as jnp
    >>> cho_factor(jnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    return numpy_factorizations.cholesky(a, upper=not lower), lower


@overload
def lu(
    a: Any, permute_l: Literal[False] = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, Array, Array]: ...


@overload
def lu(
    a: Any, *, permute_l: Literal[True], overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, Array]: ...


@overload
def lu(
    a: Any, permute_l: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, ...]: ...


@array_function
def lu(
    a: Matrix, permute_l: Flag = False, overwrite_a: NoEffect = False, check_finite: NoEffect =
    True,
) -> tuple[Array, ...]:  # fmt: skip
    """The factors of a = P L U: a permutation, lower with ones on the diagonal, upper.

    a: shape (..., m, n), k the smaller of both. P: (..., m, m), real; L: (..., m, k); U:
    (..., k, n). permute_l: P L and U instead. By LAPACK's getrf; `overwrite_a` and `check_finite`
    have no effect. Raises ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> p, l, u = lu(jnp.array([[0.0, 2.0], [1.0, 3.0]]))
    >>> u
    Array([[1., 3.],
           [0., 2.]], dtype=float32)
    """
    packed, _, order = lu_operation.lu(widen_operand(a))
    m, k = packed.shape[-2], min(packed.shape[-2:])
    lower = triangle(part(packed, None, (0, k)), True, -1) + eye(packed.dtype, (m, k))
    upper = restore_dtype(triangle(part(packed, (0, k)), False), a.dtype)
    # Column j of the permutation has its 1 in row order[j].
    p = order[..., None, :] == broadcasted_iota(order.dtype, (m, m), 0)
    if permute_l:
        return restore_dtype(matmul(p.astype(packed.dtype), lower), a.dtype), upper
    return p.astype(dtypes.to_real(inexact(a.dtype))), restore_dtype(lower, a.dtype), upper


@array_function
def lu_factor(
    a: Matrix, overwrite_a: NoEffect = False, check_finite: NoEffect = True
) -> tuple[Array, Array]:
    """The factors of `lu` in one array, and the row that each row was exchanged with.

    a: shape (..., m, n); the pivots are int32 of shape (..., k). They are for `lu_solve`, and have
    the errors of `lu`.

    overwrite_a, check_finite: have no effect.

    >>> import weft.numpy as jnp
    >>> lu_factor(jnp.array([[0.0, 2.0], [1.0, 3.0]]))[1]
    Array([1, 1], dtype=int32)
    """
    packed, pivots, _ = lu_operation.lu(widen_operand(a))
    return restore_dtype(packed, a.dtype), pivots


@array_function
def qr(
    a: Matrix, overwrite_a: NoEffect = False, lwork: NoEffect = None, mode: Form = "full", pivoting:
    Flag = False, check_finite: NoEffect = True,
) -> tuple[Any, ...]:  # fmt: skip
    """The factors of a = Q R, where Q has orthonormal columns and R is upper triangular.

    a: shape (..., m, n), k the smaller of both. mode: "full" gives Q (..., m, m) and R (..., m, n);
    "economic" Q (..., m, k) and R (..., k, n); "r" a tuple with the full R; "raw" a pair of the
    array of LAPACK's geqrf and the factors of its reflections, and R. With `pivoting` the columns
    of a are in the order of one more result, int32 of shape (..., n), in which the diagonal of R
    falls in magnitude. `overwrite_a`, `lwork` and `check_finite` have no effect. A full Q of a tall
    matrix has no derivative.

    Raises WeftValueError for another mode, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> q, r = qr(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> jnp.abs(r)
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    x, dtype = widen_operand(a), a.dtype
    if mode == "raw":
        packed, taus, *order = (qr_operation.geqp3 if pivoting else qr_operation.geqrf)(x)
        upper = triangle(part(packed, (0, min(packed.shape[-2:]))), False)
        return (
            (restore_dtype(packed, dtype), restore_dtype(taus, dtype)),
            restore_dtype(upper, dtype),
            *order,
        )
    q, r, *order = qr_operation.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    r = restore_dtype(r, dtype)
    return (r, *order) if mode == "r" else (restore_dtype(q, dtype), r, *order)


@array_function
def qr_multiply(
    a: PromotedMatrix, c: PromotedVector, mode: Side = "right", pivoting: Flag = False, conjugate:
    Flag = False, overwrite_a: NoEffect = False, overwrite_c: NoEffect = False,
) -> tuple[Array, ...]:  # fmt: skip
    """The product of c with the Q of a = Q R, which is not formed, and R.

    a: shape (..., m, n), k the smaller of both, Q (..., m, k). mode: "right" gives c Q, c of shape
    (..., p, m) or (m,); "left" Q c, c of shape (..., k, p) or (k,). conjugate: the conjugate of Q
    instead of Q. pivoting: as for `qr`, with one more result. `overwrite_a` and `overwrite_c` have
    no effect.

    c: the array that is multiplied, a matrix or a vector.

    Raises WeftValueError for another mode, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> product, r = qr_multiply(jnp.eye(2), jnp.array([1.0, 2.0]))
    >>> jnp.abs(product)
    Array([1., 2.], dtype=float32)
    """
    left, vector, (m, n) = mode == "left", c.ndim == 1, a.shape[-2:]
    length, wanted = (c.shape[-1 if vector else -2], min(m, n)) if left else (c.shape[-1], m)
    if length != wanted:
        got = f"a: {type_of(a)}, c: {type_of(c)}, mode={mode!r}"
        raise wrong_shape(got, f"a c with {wanted} {'rows' if left else 'columns'}")

    def multiply(a: Any, c: Any) -> Any:
        packed, taus, *order = (qr_operation.geqp3 if pivoting else qr_operation.geqrf)(a)
        k = min(m, n)
        c = c.conj() if conjugate else c
        if left:
            # Q has k columns: further ones would be multiplied by zeros.
            c = jnp.pad(c, ((0, m - k), (0, 0)))
        product = ormqr(part(packed, None, (0, k)), taus, c, left=left)
        product = product if left else product[:, :k]
        product = product.conj() if conjugate else product
        return product, triangle(part(packed, (0, k)), False), *order

    columns = (c[:, None] if left else c[None]) if vector else c
    product, upper, *order = over(multiply, (widen_operand(a), widen_operand(columns)), (2, 2))
    product = product[..., 0] if vector and left else product[..., 0, :] if vector else product
    return restore_dtype(product, a.dtype), restore_dtype(upper, a.dtype), *order


@overload
def svd(
    a: Any, full_matrices: bool = ..., compute_uv: Literal[True] = ..., overwrite_a: bool = ...,
    check_finite: bool = ..., lapack_driver: str = ...,
) -> tuple[Array, Array, Array]: ...  # fmt: skip


@overload
def svd(
    a: Any, full_matrices: bool = ..., *, compute_uv: Literal[False], overwrite_a: bool = ...,
    check_finite: bool = ..., lapack_driver: str = ...,
) -> Array: ...  # fmt: skip


@overload
def svd(
    a: Any, full_matrices: bool = ..., compute_uv: bool = ..., overwrite_a: bool = ...,
    check_finite: bool = ..., lapack_driver: str = ...,
) -> Any: ...  # fmt: skip


@array_function
def svd(
    a: Matrix, full_matrices: Flag = True, compute_uv: Flag = True, overwrite_a: NoEffect = False,
    check_finite: NoEffect = True, lapack_driver: Driver = "gesdd",
) -> Any:  # fmt: skip
    """The factors of a = U diag(S) Vh, where U and the adjoint of Vh have orthonormal columns.

    a: shape (..., m, n), k the smaller of both. U: (..., m, m), Vh: (..., n, n), or without
    `full_matrices` (..., m, k) and (..., k, n); S: (..., k), real and falling. Without
    `compute_uv`, S alone. lapack_driver: "gesdd", or the slower "gesvd". `overwrite_a` and
    `check_finite` have no effect. Derivatives are those of `weft.numpy.linalg.svd`.

    full_matrices: whether U and Vh are square, not cut to k columns and rows; compute_uv: whether U
    and Vh are returned, too.

    Raises WeftValueError for another driver, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> svd(jnp.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    out = svd_operation.svd(
        widen_operand(a),
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        algorithm=_DRIVERS[lapack_driver],
    )
    return (
        tuple([restore_dtype(x, a.dtype) for x in out])
        if compute_uv
        else restore_dtype(out, a.dtype)
    )


@overload
def hessenberg(
    a: Any, *, calc_q: Literal[False] = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array: ...


@overload
def hessenberg(
    a: Any, *, calc_q: Literal[True], overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, Array]: ...


@overload
def hessenberg(
    a: Any, *, calc_q: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Any: ...


@array_function
def hessenberg(
    a: SquareMatrix, *, calc_q: Flag = False, overwrite_a: NoEffect = False, check_finite: NoEffect
    = True,
) -> Any:  # fmt: skip
    """The H of a = Q H adjoint(Q), zero below the first diagonal below the main one.

    a: shape (..., n, n). With `calc_q` H and Q, which is unitary. There is no derivative. By
    LAPACK's gehrd; `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError,
    WeftTypeError.

    >>> import weft.numpy as jnp
    >>> hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    packed, taus = schur_operation.hessenberg(widen_operand(a))
    h = restore_dtype(triangle(packed, False, -1), a.dtype)
    if not calc_q:
        return h
    q = broadcasted(eye(packed.dtype, packed.shape[-2:]), packed.shape)
    n = packed.shape[-1]
    if n > 1:
        inner = householder_product(part(packed, (1, n), (0, n - 1)), taus)
        q = dynamic_update_slice(q, inner, (*[0] * (q.ndim - 2), 1, 1))
    return h, restore_dtype(q, a.dtype)


@array_function
def polar(
    a: Matrix, side: Side = "right", *, method: Method = "qdwh", eps: Precision | None = None,
    max_iterations: Steps | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The factors of a = U P (side "right") or a = P U ("left"): P is Hermitian and not negative.

    a: shape (..., m, n); U has the shape of a, with orthonormal columns or rows, and P is
    (..., n, n) or (..., m, m). method: "qdwh", an iteration of products (Y. Nakatsukasa, Z. Bai and
    F. Gygi, 2010), for a of full rank, with m >= n for "right" and m <= n for "left"; or "svd", for
    every a. `eps` and `max_iterations` belong to the iteration; see
    `weft.lax.linalg.qdwh`.

    side: where the Hermitian factor stands, "right" or "left".

    Raises WeftValueError for another side or method, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> u, p = polar(jnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> p.round().astype("int32")
    Array([[3, 0],
           [0, 2]], dtype=int32)
    """
    x, right = widen_operand(a), side == "right"
    if method == "svd":
        u, s, vh = svd_operation.svd(x, full_matrices=False)
        v = adjoint(vh) if right else u
        p = matmul(scaled_columns(v, s.astype(v.dtype)), adjoint(v))
        return restore_dtype(matmul(u, vh), a.dtype), restore_dtype(p, a.dtype)
    m, n = x.shape[-2:]
    if (m < n) if right else (m > n):
        wanted = "at least as many rows as columns" if right else "no more rows than columns"
        raise wrong_shape(f"a: {type_of(a)}, side={side!r}", f'{wanted}, or method="svd"')

    def factors(x: Any) -> tuple[Any, Any]:
        u, *_ = unitary_factor(x, max_iterations, eps)
        return u, symmetrize(matmul(adjoint(u), x))

    # The left factors are the right ones of the adjoint.
    u, p = over(factors, (x if right else adjoint(x),), (2,))
    return restore_dtype(u if right else adjoint(u), a.dtype), restore_dtype(p, a.dtype)
