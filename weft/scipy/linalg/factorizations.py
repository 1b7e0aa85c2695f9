"""Factorizations of matrices with SciPy's arguments, which select the form of the result."""

from __future__ import annotations

from typing import Any, Literal, overload

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import check_flag, computing_dtype, convert
from weft.kinds.compiled_functions import compiled
from weft.numpy.linalg import factorizations as numpy_factorizations
from weft.numpy.linalg.operands import check_matrices, check_square, returned, widened
from weft.numpy.linalg.polar import qdwh
from weft.numpy.vectorizing import over
from weft.ops.linalg import lu as lu_operation
from weft.ops.linalg import qr as qr_operation
from weft.ops.linalg import schur as schur_operation
from weft.ops.linalg import svd as svd_operation
from weft.ops.linalg.householder import householder_product, ormqr
from weft.ops.linalg.matrices import adjoint, matmul, part, triangle
from weft.scipy.argument_checks import one_of, wrong_shape

__all__ = [
    "cho_factor", "cholesky", "hessenberg", "lu", "lu_factor", "polar", "qr", "qr_multiply", "svd",
]  # fmt: skip

# `overwrite_a` and `check_finite` are advice to a library that works in place; arrays here do not
# change, and no error depends on values, so both are accepted and have no effect.


@api_boundary
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangular R with positive diagonal for which the adjoint of R times R is a.

    a: shape (..., n, n), Hermitian and positive definite; one that is not gives NaN. lower: the
    adjoint of R instead. a is replaced by (a + its adjoint) / 2. `overwrite_a` and `check_finite`
    have no effect. Raises ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    check_flag(lower, "linalg.cholesky", "lower")
    check_square("linalg.cholesky", "a", a)
    return numpy_factorizations.cholesky(a, upper=not lower)


@api_boundary
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The factor of `cholesky`, and `lower`, for `cho_solve`.

    The other triangle of the factor is zero. Arguments and errors are those of `cholesky`.

    lower: whether the factor is a lower triangle, not an upper one; overwrite_a, check_finite: have
    no effect.

    >>> import weft.numpy as jnp
    >>> cho_factor(jnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    check_flag(lower, "linalg.cho_factor", "lower")
    check_square("linalg.cho_factor", "a", a)
    return numpy_factorizations.cholesky(a, upper=not lower), bool(lower)


@compiled
def _lu(a: Any, *, permuted: bool) -> Any:
    dtype = type_of(a).dtype
    packed, _, order = lu_operation.lu(widened(a))
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = triangle(part(packed, None, (0, k)), True, -1) + jnp.eye(m, k, dtype=packed.dtype)
    upper = triangle(part(packed, (0, k)), False)
    # Column j of the permutation has its 1 in row order[j].
    places = jnp.arange(m, dtype=order.dtype)
    p = convert(order[..., None, :] == places[:, None], packed.dtype)
    if permuted:
        return returned(matmul(p, lower), dtype), returned(upper, dtype)
    real = convert(p.real, packed.real.dtype)
    return returned(real, dtype), returned(lower, dtype), returned(upper, dtype)


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


@api_boundary
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
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
    check_flag(permute_l, "linalg.lu", "permute_l")
    check_matrices("linalg.lu", "a", a)
    return _lu(a, permuted=bool(permute_l))


@compiled
def _lu_factor(a: Any) -> Any:
    packed, pivots, _ = lu_operation.lu(widened(a))
    return returned(packed, type_of(a).dtype), pivots


@api_boundary
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """The factors of `lu` in one array, and the row that each row was exchanged with.

    a: shape (..., m, n); the pivots are int32 of shape (..., k). They are for `lu_solve`, and have
    the errors of `lu`.

    overwrite_a, check_finite: have no effect.

    >>> import weft.numpy as jnp
    >>> lu_factor(jnp.array([[0.0, 2.0], [1.0, 3.0]]))[1]
    Array([1, 1], dtype=int32)
    """
    check_matrices("linalg.lu_factor", "a", a)
    return _lu_factor(a)


@compiled
def _qr(a: Any, *, mode: str, pivoting: bool) -> Any:
    dtype, x = type_of(a).dtype, widened(a)
    if mode == "raw":
        packed, taus, *order = (qr_operation.geqp3 if pivoting else qr_operation.geqrf)(x)
        upper = triangle(part(packed, (0, min(packed.shape[-2:]))), False)
        return tuple(returned(y, dtype) for y in (packed, taus, upper)) + tuple(order)
    q, r, *order = qr_operation.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    factors = (r,) if mode == "r" else (q, r)
    return tuple(returned(y, dtype) for y in factors) + tuple(order)


@api_boundary
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
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
    check_flag(pivoting, "linalg.qr", "pivoting")
    check_matrices("linalg.qr", "a", a)
    one_of("linalg.qr", "mode", mode, ("full", "r", "economic", "raw"))
    found = _qr(a, mode=mode, pivoting=bool(pivoting))
    return ((found[0], found[1]), *found[2:]) if mode == "raw" else found


@compiled
def _qr_multiply(a: Any, c: Any, *, left: bool, pivoting: bool, conjugate: bool) -> Any:
    dtype = jnp.result_type(a, c)
    a, c = (convert(x, computing_dtype(dtype)) for x in (a, c))

    def multiply(a: Any, c: Any) -> Any:
        packed, taus, *order = (qr_operation.geqp3 if pivoting else qr_operation.geqrf)(a)
        m, k = packed.shape[0], min(packed.shape)
        c = jnp.conj(c) if conjugate else c
        if left:
            # Q has k columns: further ones would be multiplied by zeros.
            c = jnp.pad(c, ((0, m - c.shape[0]), (0, 0)))
        product = ormqr(part(packed, None, (0, k)), taus, c, left=left)
        product = product if left else product[:, :k]
        product = jnp.conj(product) if conjugate else product
        upper = triangle(part(packed, (0, k)), False)
        return returned(product, dtype), returned(upper, dtype), *order

    return over(multiply, (a, c), (2, 2), "linalg.qr_multiply")


@api_boundary
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
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
    check_flag(pivoting, "linalg.qr_multiply", "pivoting")
    check_flag(conjugate, "linalg.qr_multiply", "conjugate")
    name = "linalg.qr_multiply"
    check_matrices(name, "a", a)
    check_matrices(name, "c", c, least=1)
    one_of(name, "mode", mode, ("right", "left"))
    left, (m, n), shape = mode == "left", type_of(a).shape[-2:], type_of(c).shape
    vector = len(shape) == 1
    length, wanted = (shape[-1 if vector else -2], min(m, n)) if left else (shape[-1], m)
    if length != wanted:
        got = f"a: {type_of(a)}, c: {type_of(c)}, mode={mode!r}"
        raise wrong_shape(name, got, f"a c with {wanted} {'rows' if left else 'columns'}")
    matrix = jnp.expand_dims(c, 1 if left else 0) if vector else c
    product, *rest = _qr_multiply(
        a, matrix, left=left, pivoting=bool(pivoting), conjugate=bool(conjugate)
    )
    return (jnp.squeeze(product, -1 if left else -2) if vector else product), *rest


_DRIVERS = {
    "gesdd": svd_operation.SvdAlgorithm.DIVIDE_AND_CONQUER,
    "gesvd": svd_operation.SvdAlgorithm.QR,
}


@compiled
def _svd(a: Any, *, full: bool, vectors: bool, driver: str) -> Any:
    found = svd_operation.svd(
        widened(a), full_matrices=full, compute_uv=vectors, algorithm=_DRIVERS[driver]
    )
    dtype = type_of(a).dtype
    return tuple(returned(x, dtype) for x in found) if vectors else returned(found, dtype)


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


@api_boundary
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
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
    check_flag(full_matrices, "linalg.svd", "full_matrices")
    check_flag(compute_uv, "linalg.svd", "compute_uv")
    check_matrices("linalg.svd", "a", a)
    one_of("linalg.svd", "lapack_driver", lapack_driver, tuple(_DRIVERS))
    return _svd(a, full=bool(full_matrices), vectors=bool(compute_uv), driver=lapack_driver)


@compiled
def _hessenberg(a: Any, *, vectors: bool) -> Any:
    dtype = type_of(a).dtype
    packed, taus = schur_operation.hessenberg(widened(a))
    h = returned(triangle(packed, False, -1), dtype)
    if not vectors:
        return h
    *batch, n, _ = packed.shape
    if n < 2:
        q = jnp.broadcast_to(jnp.eye(n, dtype=packed.dtype), packed.shape)
    else:
        inner = householder_product(part(packed, (1, n), (0, n - 1)), taus)
        corner = jnp.ones((*batch, 1, 1), packed.dtype)
        beside = jnp.zeros((*batch, 1, n - 1), packed.dtype)
        below = jnp.concatenate([jnp.matrix_transpose(beside), inner], axis=-1)
        q = jnp.concatenate([jnp.concatenate([corner, beside], axis=-1), below], axis=-2)
    return h, returned(q, dtype)


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


@api_boundary
def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The H of a = Q H adjoint(Q), zero below the first diagonal below the main one.

    a: shape (..., n, n). With `calc_q` H and Q, which is unitary. There is no derivative. By
    LAPACK's gehrd; `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError,
    WeftTypeError.

    >>> import weft.numpy as jnp
    >>> hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    check_flag(calc_q, "linalg.hessenberg", "calc_q")
    check_square("linalg.hessenberg", "a", a)
    return _hessenberg(a, vectors=bool(calc_q))


@compiled
def _polar_svd(a: Any, *, right: bool) -> Any:
    dtype = type_of(a).dtype
    u, s, vh = svd_operation.svd(widened(a), full_matrices=False)
    v, v_adjoint = (adjoint(vh), vh) if right else (u, adjoint(u))
    p = matmul(v * convert(s, u.dtype)[..., None, :], v_adjoint)
    return returned(matmul(u, vh), dtype), returned(p, dtype)


@compiled
def _polar_qdwh(a: Any, *, right: bool, eps: float | None, steps: int | None) -> Any:
    dtype, x = type_of(a).dtype, widened(a)

    def factors(x: Any) -> Any:
        return qdwh(x, eps=eps, max_iterations=steps)[:2]

    u, h = over(factors, (x if right else adjoint(x),), (2,), "linalg.polar")
    return returned(u if right else adjoint(u), dtype), returned(h, dtype)


@api_boundary
def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
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
    name = "linalg.polar"
    one_of(name, "side", side, ("right", "left"))
    one_of(name, "method", method, ("qdwh", "svd"))
    right = side == "right"
    check_matrices(name, "a", a)
    if method == "svd":
        return _polar_svd(a, right=right)
    m, n = type_of(a).shape[-2:]
    if (m < n) if right else (m > n):
        wanted = "at least as many rows as columns" if right else "no more rows than columns"
        raise wrong_shape(name, f"a: {type_of(a)}, side={side!r}", f'{wanted}, or method="svd"')
    return _polar_qdwh(a, right=right, eps=eps, steps=max_iterations)
