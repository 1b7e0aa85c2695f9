"""The LU factorization with partial pivoting, and the permutation of its row swaps."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.rules import Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.ops.declare import emit_reduction, result_type
from weft.ops.elementwise.arithmetic import add, sub
from weft.ops.elementwise.selection import select
from weft.ops.flops import of_factorization
from weft.ops.indexing.creation import full_like
from weft.ops.linalg.matrices import (
    INFO,
    check_matrix,
    factor_types,
    lapack_call,
    matmul,
    matrix_primitive,
    on_diagonal,
    part,
    permute_matrix,
    triangle,
)
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.joining import concatenate
from weft.runtime import stablehlo


def lu(x: Any) -> tuple[Array, Array, Array]:
    """The factors of x[permutation] = L U, where L has ones on its diagonal and U is upper.

    x: shape (..., m, n), float32, float64, complex64 or complex128; k is the smaller of m and n.
    Gives the factors in one array of the type of x (L below the diagonal, U on and above it), the
    pivots, int32 of shape (..., k): row i was exchanged with row pivots[i], one after the other,
    and the permutation that this amounts to, int32 of shape (..., m).

    Raises DTypeError and ShapeError. By LAPACK's getrf. A singular matrix has factors too, with a
    zero on the diagonal of U; there the derivative is not finite. It is that of F. R. de Hoog,
    R. S. Anderssen and M. A. Lukas, Differentiation of matrix functionals using triangular
    factorization (Math. Comp. 80, 2011), for a permutation that stays.

    >>> import numpy as np
    >>> factors, pivots, permutation = lu(np.array([[1.0, 2.0], [2.0, 2.0]]))
    >>> print(factors, pivots, permutation)
    [[2.  2. ]
     [0.5 1. ]] [1 1] [1 0]
    """
    packed, pivots, permutation = lu_p.bind(x)
    return packed, pivots, permutation


def lu_type(x: ArrayType) -> list[ArrayType]:
    check_matrix(x)
    *batch, m, n = x.shape
    pivots, permutation = ((*batch, min(m, n)), dtypes.int32), ((*batch, m), dtypes.int32)
    return factor_types(x, (x.shape, x.dtype), pivots, permutation)


def lu_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    """Of the square parts, inverse(L) dx inverse(U) has inverse(L) dL strictly below the diagonal,
    and dU inverse(U) on and above it."""
    packed, pivots, permutation = outs = lu_p.bind(*primals)
    dx = permute_matrix(tangents[0], permutation, -2)
    m, n = type_of(packed).shape[-2:]
    k = (0, min(m, n))
    square = part(packed, k, k)
    inner = triangular_solve(square, part(dx, k, k), left_side=True, lower=True, unit_diagonal=True)
    inner = triangular_solve(square, inner, left_side=False, lower=False)
    d_lower = matmul(unit_lower(square), triangle(inner, True, -1))
    d_upper = matmul(triangle(inner, False), triangle(square, False))
    found = add(d_lower, d_upper)
    if m > n:
        below = (n, m)
        change = sub(part(dx, below), matmul(part(packed, below), d_upper))
        change = triangular_solve(square, change, left_side=False, lower=False)
        found = concatenate([found, change], type_of(dx).ndim - 2)
    elif n > m:
        beside = (m, n)
        change = sub(part(dx, None, beside), matmul(d_lower, part(packed, None, beside)))
        change = triangular_solve(square, change, left_side=True, lower=True, unit_diagonal=True)
        found = concatenate([found, change], type_of(dx).ndim - 1)
    return outs, [found, *(Zero(type_of(x).tangent()) for x in (pivots, permutation))]


def unit_lower(x: Any) -> Any:
    """The part of each square matrix below the diagonal, with ones on it."""
    return select(on_diagonal(type_of(x)), full_like(x, 1), triangle(x, True, -1))


def lu_lower(context: Any, x: Any) -> list[Any]:
    of, pivots, permutation = context.out_types
    if 0 in of.shape:
        order = stablehlo.iota(permutation.shape, dtypes.int32, of.ndim - 2)
        return [x, stablehlo.full(0, pivots.shape, dtypes.int32), order]
    # Its info reports a zero on the diagonal of U, which is a result like any other.
    found = [(of.shape[-2:], of.dtype), (pivots.shape[-1:], dtypes.int32), INFO]
    packed, swaps, _ = lapack_call(context, "getrf", [x], found)
    # LAPACK counts rows from one.
    swaps = stablehlo.subtract(swaps, stablehlo.full(1, pivots.shape, dtypes.int32))
    return [packed, swaps, order_after(swaps, permutation.shape[-1])]


lu_p = matrix_primitive(
    "lu",
    type_rule=lu_type,
    jvp=lu_jvp,
    lower=lu_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: m * n**2 - n**3 / 3),
)


def solve(a: Any, b: Any) -> Any:
    """Solves a x = b for square matrices a, with equal batch dimensions."""
    packed, _, permutation = lu(a)
    b = permute_matrix(b, permutation, -2)
    x = triangular_solve(packed, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(packed, x, left_side=True, lower=False)


# ---- permutations ------------------------------------------------------------------------------


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """The order of rows after row i was exchanged with row pivots[i], for one i after the other.

    pivots: int32 of shape (..., k), each from 0 to permutation_size - 1, as `lu` gives them; the
    result has shape (..., permutation_size), int32. Pivots out of range are not checked for.

    permutation_size: the number of rows, at least k.

    Raises DTypeError and ShapeError, and WeftValueError if permutation_size is less than k.

    >>> import numpy as np
    >>> print(lu_pivots_to_permutation(np.array([2, 2], np.int32), 3))
    [2 0 1]
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=permutation_size)


def pivots_type(pivots: ArrayType, *, permutation_size: int) -> ArrayType:
    if pivots.dtype != dtypes.int32:
        message, got = f"does not take {pivots.dtype}", f"pivots of type {pivots}"
        fix = to_dtype("pivots", pivots.dtype, dtypes.int32)
        raise DTypeError(message, got=got, wanted="int32", fix=fix)
    if pivots.ndim < 1:
        message, got = "takes pivots with a dimension", f"pivots of type {pivots}"
        raise ShapeError(message, got=got, wanted="shape (..., k)")
    if not isinstance(permutation_size, int) or permutation_size < pivots.shape[-1]:
        message = "permutation_size is too small"
        got = f"permutation_size={permutation_size!r}, and pivots of type {pivots}"
        wanted = f"an integer of {pivots.shape[-1]} or more: the number of rows"
        fix = Fix("permutation_size", f"pass {pivots.shape[-1]}, or the rows of a tall matrix")
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    return result_type((pivots,), (*pivots.shape[:-1], permutation_size), dtypes.int32)


def order_after(pivots: Any, size: int) -> Any:
    """Emits a loop for the order of the rows 0, 1, … after all exchanges."""
    *batch, count = pivots.type.shape
    axis, shape = len(batch), (*batch, size)
    order = stablehlo.iota(shape, dtypes.int32, axis)
    if 0 in (*batch, count):
        return order

    def number(n: int) -> Any:
        return stablehlo.full(n, (), dtypes.int32)

    def condition(state: list[Any]) -> Any:
        return stablehlo.compare(state[0], number(count), "LT")

    def one_row(state: list[Any]) -> list[Any]:
        i, order, pivots = state
        j = stablehlo.reshape(stablehlo.dynamic_slice(pivots, [i], (1,)), ())
        here, there = (stablehlo.dynamic_slice(order, [k], (1,)) for k in (i, j))
        swapped = stablehlo.dynamic_update_slice(order, there, [i])
        swapped = stablehlo.dynamic_update_slice(swapped, here, [j])
        return [stablehlo.add(i, number(1)), swapped, pivots]

    def rows(state: list[Any]) -> list[Any]:
        i, order, pivots = state
        place = [*(number(0) for _ in batch), i]
        # Every element of a row is compared, which costs less than gathering one element of each
        # row of a batch at its own index.
        here = stablehlo.dynamic_slice(order, place, (*batch, 1))
        there = stablehlo.dynamic_slice(pivots, place, (*batch, 1))
        here, there = (
            stablehlo.broadcast_in_dim(stablehlo.reshape(x, batch), shape, range(axis))
            for x in (here, there)
        )
        at = stablehlo.iota(shape, dtypes.int32, axis)
        is_there = stablehlo.compare(at, there, "EQ")
        zeros = stablehlo.full(0, shape, dtypes.int32)
        moved = stablehlo.select(is_there, order, zeros)
        moved = emit_reduction(moved, number(0), [axis], stablehlo.add)
        moved = stablehlo.broadcast_in_dim(moved, shape, range(axis))
        is_here = stablehlo.compare(at, stablehlo.broadcast_in_dim(i, shape, ()), "EQ")
        swapped = stablehlo.select(is_here, moved, stablehlo.select(is_there, here, order))
        return [stablehlo.add(i, number(1)), swapped, pivots]

    body = rows if batch else one_row
    return stablehlo.while_([number(0), order, pivots], condition, body)[1]


lu_pivots_to_permutation_p: Primitive = matrix_primitive(
    "lu_pivots_to_permutation",
    type_rule=pivots_type,
    lower=lambda context, pivots, *, permutation_size: order_after(pivots, permutation_size),
    flops="none",
)
