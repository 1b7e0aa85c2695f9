"""The QR factorization, with and without exchanged columns, and LAPACK's raw form of it."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.rules import Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, api_boundary
from weft.ops.elementwise.arithmetic import add, eq, neg, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.complex import complex as complex_
from weft.ops.elementwise.complex import imag
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flag, check_flags
from weft.ops.flops import of_factorization
from weft.ops.indexing.creation import broadcasted_iota, full_like, zeros_like_array
from weft.ops.linalg.householder import (
    Reflections,
    householder_product_lower,
    householder_product_p,
)
from weft.ops.linalg.matrices import (
    adjoint,
    check_matrix,
    diagonal,
    factor_types,
    identity,
    kept_triangle,
    lapack_call,
    matmul,
    matrix_primitive,
    no_algorithm,
    no_derivative,
    on_diagonal,
    part,
    permute_matrix,
    triangle,
)
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.structural.joining import concatenate
from weft.runtime import stablehlo


@api_boundary
def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, ...]:
    """The factors of x = Q R, where Q has orthonormal columns and R is upper triangular.

    x: shape (..., m, n), float32, float64, complex64 or complex128. Q has shape (..., m, k) and R
    (..., k, n), with k = m, or without `full_matrices` the smaller of m and n. With `pivoting` Q R
    is x with its columns in the order of a third result, int32 of shape (..., n), in which the
    diagonal of R falls in magnitude. The diagonal of R is real, of either sign. `use_magma` asks
    for a library for GPUs: only None and False are taken.

    The derivative is that of S. F. Walter and L. Lehmann, Algorithmic differentiation of linear
    algebra functions with application in optimum experimental design
    (https://arxiv.org/abs/1001.1654), for columns in the order that they have; it is not finite
    where the first columns of x are linearly dependent. The further columns of Q, for a tall x, can
    be any that complete a basis: with `full_matrices` a derivative raises WeftNotImplementedError.
    Raises DTypeError and ShapeError. By LAPACK's geqrf (or geqp3) and orgqr.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> print(np.round(q @ r, 6))
    [[3. 1.]
     [4. 2.]]
    """
    flags = check_flags("qr", pivoting=pivoting, full_matrices=full_matrices)
    refuse_magma(use_magma)
    return tuple(qr_p.bind(x, **flags))


def refuse_magma(use_magma: bool | None) -> None:
    """Raises WeftNotImplementedError if `use_magma` is true."""
    check_flag(use_magma, "use_magma", none=True)
    if use_magma:
        raise no_algorithm(f"use_magma={use_magma!r}", "use_magma=None or False")


def qr_type(x: ArrayType, *, pivoting: bool, full_matrices: bool) -> list[ArrayType]:
    check_matrix(x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    order = [((*batch, n), dtypes.int32)] if pivoting else []
    return factor_types(x, ((*batch, m, k), x.dtype), ((*batch, k, n), x.dtype), *order)


def qr_jvp(
    primals: Values, tangents: Values, *, pivoting: bool, full_matrices: bool
) -> tuple[Any, Any]:
    of = type_of(primals[0])
    m, n = of.shape[-2:]
    if full_matrices and m > n:
        raise no_derivative(
            "qr",
            f"{of} with full_matrices=True",
            "full_matrices=False, or a matrix that is not tall: the further columns of Q can be "
            "any that complete a basis",
            Fix(
                "full_matrices",
                "pass full_matrices=False (to weft.numpy.linalg.qr mode='reduced', to "
                "weft.scipy.linalg.qr mode='economic')",
                {"full_matrices": False},
            ),
        )
    outs = qr_p.bind(primals[0], pivoting=pivoting, full_matrices=full_matrices)
    q, r = outs[:2]
    dx = permute_matrix(tangents[0], outs[2], -1) if pivoting else tangents[0]
    return outs, [*factor_tangents(q, r, dx), *(Zero(type_of(p).tangent()) for p in outs[2:])]


def factor_tangents(q: Any, r: Any, dx: Any) -> tuple[Any, Any]:
    """The tangents of Q and R without further columns. With C = Q^H dx inverse(R), all of Q^H dQ
    follows from C below the diagonal: it is skew-Hermitian, and dR inverse(R) is upper
    triangular."""
    of = type_of(dx)
    m, n = of.shape[-2:]
    first = (0, min(m, n))
    square = part(r, None, first)
    inner = triangular_solve(square, part(dx, None, first), left_side=False, lower=False)
    c = matmul(adjoint(q), inner)
    below = triangle(c, True, -1)
    upper, skew = add(triangle(c, False), adjoint(below)), sub(below, adjoint(below))
    if of.dtype in dtypes.COMPLEX:  # the diagonal of R stays real
        turn = imaginary_diagonal(c)
        upper, skew = sub(upper, turn), add(skew, turn)
    dq = add(inner, matmul(q, sub(skew, c))) if m > n else matmul(q, skew)
    dr = matmul(upper, triangle(square, False))
    if n > m:
        beside = (m, n)
        projected = matmul(adjoint(q), part(dx, None, beside))
        further = sub(projected, matmul(skew, part(r, None, beside)))
        dr = concatenate([dr, further], of.ndim - 1)
    return dq, dr


def imaginary_diagonal(x: Any) -> Any:
    """The imaginary part of the diagonal, as a matrix."""
    part_of = imag(x)
    turned = complex_(zeros_like_array(part_of), part_of)
    return select(on_diagonal(type_of(x)), turned, zeros_like_array(x))


def qr_lower(context: Any, x: Any, *, pivoting: bool, full_matrices: bool) -> list[Any]:
    q, r = context.out_types[:2]
    *batch, m, n = x.type.shape
    k = q.shape[-1]
    zeros, ones = [0] * len(batch), (1,) * q.ndim
    if 0 in (*batch, m, n):
        found = [identity(q.shape, q.dtype), stablehlo.full(0, r.shape, r.dtype)]
        orders = [stablehlo.iota(of.shape, of.dtype, q.ndim - 2) for of in context.out_types[2:]]
        return found + orders
    packed, taus, *orders = (geqp3_lower if pivoting else geqrf_lower)(context, x)
    if k > n:
        high = [0] * (len(batch) + 1) + [k - n]
        reflections = stablehlo.pad(packed, stablehlo.full(0, (), q.dtype), [0] * q.ndim, high)
    else:
        reflections = stablehlo.slice_(packed, (*zeros, 0, 0), (*batch, m, k), ones)
    rows = stablehlo.slice_(packed, (*zeros, 0, 0), (*batch, k, n), ones)
    product = householder_product_lower(context, reflections, taus)
    return [product, kept_triangle(rows, lower=False), *orders]


qr_p = matrix_primitive(
    "qr",
    type_rule=qr_type,
    jvp=qr_jvp,
    lower=qr_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 4 * m * n**2 - 4 * n**3 / 3),
)


# ---- the raw form ------------------------------------------------------------------------------


def geqrf(x: Any) -> tuple[Any, Any]:
    """The QR factorization as LAPACK keeps it: R, with Householder reflections below it.

    x: shape (..., m, n), float32, float64, complex64 or complex128. Gives an array of its type, R
    on and above the diagonal and the reflections below, and their factors, of shape (..., k), k the
    smaller of m and n, as `householder_product` and `ormqr` take them.

    Raises DTypeError and ShapeError. The derivative follows from that of `qr`: Q without further
    columns is I - V U, with the reflections as V and an upper triangular U whose diagonal are their
    factors (G. Ballard and others, Reconstructing Householder vectors from tall-skinny QR, 2014).

    >>> import numpy as np
    >>> packed, taus = geqrf(np.array([[3.0], [4.0]]))
    >>> print(packed, taus)
    [[-5. ]
     [ 0.5]] [1.6]
    """
    packed, taus = geqrf_p.bind(x)
    return packed, taus


def geqrf_type(x: ArrayType) -> list[ArrayType]:
    check_matrix(x)
    return factor_types(x, (x.shape, x.dtype), ((*x.shape[:-2], min(x.shape[-2:])), x.dtype))


def geqrf_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    packed, taus = outs = geqrf_p.bind(*primals)
    return outs, packed_tangents(packed, taus, tangents[0])


def packed_tangents(packed: Any, taus: Any, dx: Any) -> list[Any]:
    """The tangents of a raw factorization, from those of Q and R."""
    of = type_of(packed)
    m, n = of.shape[-2:]
    k = min(m, n)
    square, below = (0, k), (k, m)
    first = part(packed, None, square)
    q = householder_product_p.bind(first, taus)
    dq, dr = factor_tangents(q, triangle(part(packed, square), False), dx)
    reflections = Reflections(first, taus)
    v, u = reflections.v, part(reflections.w, None, square)
    # In a square matrix the last reflection has nothing below the diagonal, and may have a factor
    # of zero. Its column of the inverse of U is not used, so it only has to be finite.
    solvable = with_last_one(u) if k == m else u
    change = neg(dq)
    v_top = part(v, square)
    inner = triangular_solve(
        v_top, part(change, square), left_side=True, lower=True, unit_diagonal=True
    )
    lower = triangle(triangular_solve(solvable, inner, left_side=False), True, -1)
    du = sub(inner, matmul(lower, u))
    dv = matmul(v_top, lower)
    if m > k:
        further = sub(part(change, below), matmul(part(v, below), du))
        dv = concatenate([dv, triangular_solve(solvable, further, left_side=False)], of.ndim - 2)
        dr = concatenate([dr, zeros_like_array(part(packed, below))], of.ndim - 2)
    if n > k:
        dv = concatenate([dv, zeros_like_array(part(packed, None, (k, n)))], of.ndim - 1)
    return [add(dv, dr), diagonal(du)]


def with_last_one(x: Any) -> Any:
    """Each square matrix with its last element replaced by one."""
    of = type_of(x)
    rows = broadcasted_iota(dtypes.int32, of.shape, of.ndim - 2)
    last = bitwise_and(on_diagonal(of), eq(rows, dtypes.int32.type(of.shape[-1] - 1)))
    return select(last, full_like(x, 1), x)


def geqrf_lower(context: Any, x: Any) -> list[Any]:
    *batch, m, n = x.type.shape
    dtype = stablehlo.dtype_of(x.type.element_type)
    taus = (min(m, n),)
    if 0 in (*batch, m, n):
        return [x, stablehlo.full(0, (*batch, *taus), dtype)]
    return lapack_call(context, "geqrf", [x], [((m, n), dtype), (taus, dtype)])


geqrf_p = matrix_primitive(
    "geqrf",
    type_rule=geqrf_type,
    jvp=geqrf_jvp,
    lower=geqrf_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 2 * m * n**2 - 2 * n**3 / 3),
)


# ---- the raw form with columns exchanged -------------------------------------------------------


def geqp3(x: Any) -> tuple[Any, Any, Any]:
    """As `geqrf`, of x with its columns in an order in which the diagonal of R falls in magnitude.

    x: shape (..., m, n), float32, float64, complex64 or complex128. The third result is the order
    of the columns, int32 of shape (..., n). Raises DTypeError and ShapeError. By LAPACK's geqp3.

    >>> import numpy as np
    >>> packed, taus, order = geqp3(np.array([[1.0, 2.0]]))
    >>> print(packed, order)
    [[2. 1.]] [1 0]
    """
    packed, taus, order = geqp3_p.bind(x)
    return packed, taus, order


def geqp3_type(x: ArrayType) -> list[ArrayType]:
    return [*geqrf_type(x), *factor_types(x, ((*x.shape[:-2], *x.shape[-1:]), dtypes.int32))]


def geqp3_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    packed, taus, order = outs = geqp3_p.bind(*primals)
    found = packed_tangents(packed, taus, permute_matrix(tangents[0], order, -1))
    return outs, [*found, Zero(type_of(order).tangent())]


def geqp3_lower(context: Any, x: Any) -> list[Any]:
    *batch, m, n = x.type.shape
    if 0 in (*batch, m, n):
        order = stablehlo.iota((*batch, n), dtypes.int32, len(batch))
        return [*geqrf_lower(context, x), order]
    dtype = stablehlo.dtype_of(x.type.element_type)
    free = stablehlo.full(0, (*batch, n), dtypes.int32)
    found = [((m, n), dtype), ((n,), dtypes.int32), ((min(m, n),), dtype)]
    packed, order, taus = lapack_call(context, "geqp3", [x, free], found, {0: 0, 1: 1})
    # LAPACK counts columns from one.
    return [packed, taus, stablehlo.subtract(order, stablehlo.full(1, (*batch, n), dtypes.int32))]


geqp3_p = matrix_primitive(
    "geqp3",
    type_rule=geqp3_type,
    jvp=geqp3_jvp,
    lower=geqp3_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 2 * m * n**2 - 2 * n**3 / 3),
)
