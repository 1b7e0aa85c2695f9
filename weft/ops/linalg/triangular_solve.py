"""Solves systems of equations whose matrix is triangular."""

from __future__ import annotations

from typing import Any

from weft.arrays.array import Array
from weft.core.jaxpr import Equation
from weft.core.primitive import Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError
from weft.ops.declare import result_type
from weft.ops.elementwise.arithmetic import neg
from weft.ops.flags import check_flags
from weft.ops.flops import sums_of_products
from weft.ops.linalg.matrices import (
    batch_in_front,
    check_dtypes,
    check_matrix,
    conjugate,
    lapack_call,
    linear_only,
    matmul,
    matrix_primitive,
    transpose_matrices,
    triangle,
)
from weft.ops.structural.shape import expand_dims, move_dim, reshape, squeeze
from weft.ops.structural.tangents import add_tangents
from weft.runtime import stablehlo


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solves op(a) x = b (with `left_side`) or x op(a) = b for triangular matrices a.

    a: shape (..., m, m); b: (..., m, n) with `left_side`, otherwise (..., n, m), or (..., m) for
    one right-hand side; the result has the shape of b. Batch dimensions are equal. float32,
    float64, complex64 or complex128. op transposes and conjugates as asked. Only the lower (or
    upper) triangle of a is read; with `unit_diagonal` its diagonal counts as ones.

    Args:
        lower: Whether the lower triangle of a is read, not the upper one.
        transpose_a: Whether op transposes a.
        conjugate_a: Whether op takes the complex conjugates of a.

    Raises DTypeError and ShapeError for operands that do not fit. By LAPACK's trsm.

    >>> import numpy as np
    >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([[2.0], [9.0]])
    >>> print(triangular_solve(a, b, left_side=True, lower=True))
    [[1.]
     [2.]]
    """
    flags = check_flags(
        "triangular_solve",
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    ndim = type_of(b).ndim
    if ndim != type_of(a).ndim - 1:
        return triangular_solve_p.bind(a, b, **flags)
    axes = (ndim,) if left_side else (ndim - 1,)
    return squeeze(triangular_solve_p.bind(a, expand_dims(b, axes), **flags), axes)


def triangular_solve_type(a: ArrayType, b: ArrayType, *, left_side: bool, **_: Any) -> ArrayType:
    check_matrix(a, square=True)
    check_dtypes("a", a, "b", b)
    shared = b.shape[-2 if left_side else -1] if b.ndim > 1 else None
    if a.shape[:-2] != b.shape[:-2] or a.ndim != b.ndim or shared != a.shape[-1]:
        side = "b has as many rows as a" if left_side else "b has as many columns as a has rows"
        message = "triangular_solve: the operands do not fit together"
        got = f"a {a} and b {b}, left_side={left_side}"
        fix = Fix(
            "left_side",
            "pass left_side=True for a x = b, left_side=False for x a = b; "
            "weft.numpy.broadcast_to gives equal batch dimensions",
        )
        raise ShapeError(message, got=got, wanted=f"equal batch dimensions, and {side}", fix=fix)
    return result_type((a, b), b.shape, b.dtype)


def triangular_solve_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    """From op(a) dx = db - op(da) x, where da has the triangle that is read."""
    (a, b), (da, db) = primals, tangents
    x = triangular_solve_p.bind(a, b, **params)
    found: Any = Zero(type_of(x).tangent())
    if type(db) is not Zero:
        found = triangular_solve_p.bind(a, db, **params)
    if type(da) is not Zero:
        da = triangle(da, params["lower"], _inner(params))
        da = transpose_matrices(da) if params["transpose_a"] else da
        da = conjugate(da) if params["conjugate_a"] else da
        moved = matmul(da, x) if params["left_side"] else matmul(x, da)
        found = add_tangents(found, neg(triangular_solve_p.bind(a, moved, **params)))
    return x, found


def _inner(params: dict[str, Any]) -> int:
    """The first diagonal that is read, without a unit diagonal."""
    if not params["unit_diagonal"]:
        return 0
    return -1 if params["lower"] else 1


def triangular_solve_transpose(ct: Any, a: Any, b: Any, **params: Any) -> list[Any]:
    if type(b) is not LinearOperand:
        raise linear_only("triangular_solve", "b", "a")
    flipped = params | {"transpose_a": not params["transpose_a"]}
    return [None, triangular_solve_p.bind(a, ct, **flipped)]


def triangular_solve_vmap(
    axis: AxisData, args: Values, dims: Dims, **params: Any
) -> tuple[Any, int]:
    (a, b), (of_a, of_b) = args, dims
    if of_a is not None or type_of(a).ndim > 2:
        return batch_in_front(triangular_solve_p, axis, args, dims, **params)
    # One matrix for all: mapped right-hand sides become columns.
    own = 1 if params["left_side"] else 0
    b = move_dim(b, of_b, own, axis.size)
    shape = type_of(b).shape
    merged = (shape[0], shape[1] * shape[2]) if own else (shape[0] * shape[1], shape[2])
    solved = triangular_solve_p.bind(a, reshape(b, merged), **params)
    return reshape(solved, shape), own


def triangular_solve_lower(
    context: Any,
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    of = context.out_types[0]
    if conjugate_a and not transpose_a:
        a = stablehlo.conj(a) if of.dtype.kind == "c" else a
        conjugate_a = False
    if context.platform != "cpu" or 0 in of.shape:
        change = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
        return stablehlo.triangular_solve(
            a, b, left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, transpose_a=change
        )
    attributes = {
        "side": "L" if left_side else "R",
        "uplo": "L" if lower else "U",
        "trans_x": ("C" if conjugate_a else "T") if transpose_a else "N",
        "diag": "U" if unit_diagonal else "N",
    }
    result = (of.shape[-2:], of.dtype)
    (solved,) = lapack_call(context, "trsm", [a, b], [result], {1: 0}, **attributes)
    return solved


def _of_substitution(eqn: Equation) -> Work:
    a, b = (x.type for x in eqn.inputs)
    return sums_of_products(b, float(b.size) * a.shape[-1] / 2)


triangular_solve_p = matrix_primitive(
    "triangular_solve",
    type_rule=triangular_solve_type,
    jvp=triangular_solve_jvp,
    transpose=triangular_solve_transpose,
    vmap=triangular_solve_vmap,
    lower=triangular_solve_lower,
    flops=_of_substitution,
)
