"""Systems of equations with SciPy's arguments: from a matrix, or from its factors."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, WeftTypeError
from weft.errors.argument_errors import wrong_shape
from weft.kinds.arguments import NEVER, Flag, NoEffect, choice, common
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcast_shape, broadcasted, check_choice
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg import determinants
from weft.numpy.linalg import solving as numpy_solving
from weft.numpy.linalg.operands import (
    PromotedSquare,
    SquareMatrix,
    Vector,
    check_matrices,
    matrix_kind,
    restore_dtype,
    widen_operand,
)
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.lu import lu_pivots_to_permutation
from weft.ops.linalg.matrices import (
    adjoint,
    conjugate,
    matmul,
    permute_matrix,
    transpose_matrices,
    triangle,
)
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.linalg.eigenvalues import mirror_triangle

__all__ = ["cho_solve", "det", "inv", "lu_solve", "solve", "solve_triangular"]

# `overwrite_*` and `check_finite` are advice to a library that works in place; `debug` does nothing
# in SciPy either. All are accepted and have no effect.


# ---- arguments -----------------------------------------------------------------------------------


def _right_side(value: Any, call: Arguments) -> Any:
    check_matrices(call.name, value, least=1)
    left, right = call.type, type_of(value)
    n = left.shape[-1]
    if right.shape[0 if right.ndim == 1 else -2] != n:
        got = f"{next(iter(call))}: {left}, b: {right}"
        raise wrong_shape(got, f"b of shape ({n},) or (..., {n}, k)")
    broadcast_shape(left.shape[:-2], right.shape[:-2])
    return value


def _factor(maker: str) -> Kind:
    """The kind of a factor that `maker` returns."""
    advice = f"pass what {maker} gives for a square matrix"
    return matrix_kind("a factor, shape (..., n, n)", 2, True, common, advice)


def _pair(maker: str, second: Any) -> Kind:
    """The kind of a pair that `maker` returns."""

    def take(value: Any, call: Arguments) -> tuple[Any, ...]:
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return (*value,)
        message = f"{call.name} is the pair that {maker} gives"
        wanted = f"a tuple of two, {call.name.replace('_and_', ' and ')}"
        fix = Fix("factor", f"pass {maker}(a)")
        got = f"{call.name}={value!r:.80} of class {type(value).__name__}"
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)

    right = np.eye(3, dtype=np.float32), second
    return Kind(take, f"the pair that {maker} gives", (1, (1,)), right, plain=NEVER)


def _pivots(value: Any, call: Arguments) -> Any:
    check_matrices(call.name, value, least=1)
    of = type_of(value)
    if of.dtype not in dtypes.INTEGER:
        message, fix = "pivots are numbers of rows", Fix("factor", "pass lu_factor(a)")
        raise DTypeError(message, got=f"piv: {of}", wanted="integers", fix=fix)
    if of.shape != call.type.shape[:-1]:
        raise wrong_shape(f"lu: {call.type}, piv: {of}", "one pivot for each row of lu")
    return value


def _turn(value: Any, call: Arguments) -> int:
    names: tuple[Any, ...] = ("N", "T", "C") if isinstance(value, str) else (0, 1, 2)
    check_choice(value, names, call.name)
    return names.index(value)


_vector = matrix_kind("vectors or matrices", 1, together=common)
RightSide = Annotated[Any, dataclasses.replace(_vector, take=_right_side)]
CholeskyFactor = Annotated[Any, _factor("cho_factor")]
LUFactor = Annotated[Any, _factor("lu_factor")]
CholeskyPair = Annotated[Any, _pair("cho_factor", False)]
LUPair = Annotated[Any, _pair("lu_factor", np.arange(3))]
_wrong = ("text", np.ones(3, np.float32))
Pivots = Annotated[Any, Kind(_pivots, "numbers of rows", _wrong, np.arange(3), False, plain=NEVER)]
Assumed = Annotated[str, choice("gen", "sym", "her", "pos")]
WholeTurn = Annotated[int, choice(0, 1, 2)]
Turn = Annotated[Any, Kind(_turn, '0 or "N", 1 or "T", 2 or "C"', ("H", 3, None), plain=NEVER)]


# ---- from a matrix -------------------------------------------------------------------------------


def _system(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype of the computation, with equal batch dimensions, and b as columns."""
    a, b = widen_operand(a), widen_operand(b if b.ndim > 1 else b[:, None])
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return broadcasted(a, (*batch, *a.shape[-2:])), broadcasted(b, (*batch, *b.shape[-2:]))


def _solution(x: Any, b: Any) -> Any:
    """Converts the solution to the operands' dtype, and drops the dimension added to a vector."""
    return restore_dtype(x[..., 0] if b.ndim == 1 else x, b.dtype)


def _solve_cholesky(factor: Any, b: Any) -> Any:
    """Solves L L^H x = b."""
    y = triangular_solve(factor, b, left_side=True, lower=True)
    adjoint_of = {"lower": True, "transpose_a": True, "conjugate_a": True}
    return triangular_solve(factor, y, left_side=True, **adjoint_of)


def _solve_positive(a: Any, b: Any) -> Any:
    """Solves a x = b by Cholesky's factor."""
    factor = cholesky(stop_gradient(a), symmetrize_input=False)
    return custom_linear_solve(
        lambda x: matmul(a, x),
        b,
        lambda _, y: _solve_cholesky(factor, y),
        # For a Hermitian matrix the transpose is the conjugate.
        lambda _, y: conjugate(_solve_cholesky(factor, conjugate(y))),
    )


@array_function
def solve(
    a: PromotedSquare, b: RightSide, lower: Flag = False, overwrite_a: NoEffect = False,
    overwrite_b: NoEffect = False, debug: NoEffect = False, check_finite: NoEffect = True, assume_a:
    Assumed = "gen",
) -> Array:  # fmt: skip
    """The x for which a x = b.

    a: shape (..., n, n); b: (n,), or (..., n, k) with batch dimensions that broadcast with those of
    a. assume_a: "gen", any matrix, by its LU factors; "pos", Hermitian and positive definite, by
    Cholesky's factor (NaN where it is not); "sym" and "her", symmetric and Hermitian, by LU factors
    too. For these, only the upper triangle is read, or the `lower` one. `overwrite_a`,
    `overwrite_b`, `debug` and `check_finite` have no effect. Derivatives are those of a solution.

    lower: whether the lower triangle of a is read, not the upper one, unless a is any matrix.

    Raises WeftValueError for another assume_a, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> solve(jnp.array([[4.0, 0.0], [0.0, 16.0]]), jnp.array([4.0, 8.0]), assume_a="pos")
    Array([1. , 0.5], dtype=float32)
    """
    if assume_a == "gen":
        return numpy_solving.solve(a, b)
    x, columns = _system(a, b)
    if assume_a == "sym":
        half = triangle(x, lower)
        x = half + triangle(transpose_matrices(half), not lower, 1 if lower else -1)
    else:
        x = mirror_triangle(x, lower)
    solved = _solve_positive if assume_a == "pos" else numpy_solving.solve_batched
    return _solution(solved(x, columns), b)


@array_function
def solve_triangular(
    a: PromotedSquare, b: RightSide, trans: Turn = 0, lower: Flag = False, unit_diagonal: Flag =
    False, overwrite_b: NoEffect = False, debug: NoEffect = None, check_finite: NoEffect = True,
) -> Array:  # fmt: skip
    """The x for which a x = b, a upper triangular, or `lower`; the other triangle is not read.

    a and b: shapes as for `solve`. trans: 1 or "T" solves with the transposed a, 2 or "C" with its
    adjoint. unit_diagonal: the diagonal counts as ones. `overwrite_b`, `debug` and `check_finite`
    have no effect. By LAPACK's trsm.

    a: a triangular matrix, (..., n, n); lower: whether a is lower triangular, not upper.

    Raises WeftValueError for another trans, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> solve_triangular(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    x, columns = _system(a, b)
    turn = {"transpose_a": trans > 0, "conjugate_a": trans == 2}
    out = triangular_solve(
        x, columns, left_side=True, lower=lower, unit_diagonal=unit_diagonal, **turn
    )
    return _solution(out, b)


# ---- from factors --------------------------------------------------------------------------------


@array_function
def _cho_solve(c: CholeskyFactor, b: RightSide, lower: Flag = False) -> Array:
    factor, columns = _system(c, b)
    return _solution(_solve_cholesky(factor if lower else adjoint(factor), columns), b)


@python_function
def cho_solve(
    c_and_lower: CholeskyPair, b: Vector, overwrite_b: NoEffect = False, check_finite: NoEffect =
    True,
) -> Array:  # fmt: skip
    """The x for which a x = b, from the result of `cho_factor` for a.

    b: shape (n,) or (..., n, k). Only one triangle of the factor is read; derivatives
    by it are derivatives by that triangle. `overwrite_b` and `check_finite` have no effect. Raises
    ShapeError, DTypeError and WeftTypeError.

    c_and_lower: the pair that `cho_factor` returns: the factor, and whether it is a lower triangle.

    >>> import weft.numpy as jnp
    >>> cho_solve((2 * jnp.eye(2), False), jnp.array([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, lower)


@array_function
def _lu_solve(lu: LUFactor, piv: Pivots, b: RightSide, trans: WholeTurn = 0) -> Array:
    factors, columns = _system(lu, b)
    order = lu_pivots_to_permutation(piv.astype(dtypes.int32), lu.shape[-1])
    order = broadcasted(order, columns.shape[:-1])

    turn = {"transpose_a": trans > 0, "conjugate_a": trans == 2}

    def substituted(y: Any, lower: bool) -> Any:
        return triangular_solve(
            factors, y, left_side=True, lower=lower, unit_diagonal=lower, **turn
        )

    if trans == 0:
        out = substituted(substituted(permute_matrix(columns, order, -2), True), False)
    else:
        inverse = order.argsort(-1).astype(dtypes.int32)
        out = permute_matrix(substituted(substituted(columns, False), True), inverse, -2)
    return _solution(out, b)


@python_function
def lu_solve(
    lu_and_piv: LUPair, b: Vector, trans: WholeTurn = 0, overwrite_b: NoEffect = False,
    check_finite: NoEffect = True,
) -> Array:  # fmt: skip
    """The x for which a x = b, from the result of `lu_factor` for a.

    b: shape (n,) or (..., n, k). trans: 1 solves with the transposed a, 2 with its adjoint.
    `overwrite_b` and `check_finite` have no effect.

    lu_and_piv: the pair that `lu_factor` returns: the factors in one array, and the pivots.

    Raises WeftValueError for another trans, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> lu_solve((2 * jnp.eye(2), jnp.array([0, 1])), jnp.array([4.0, 8.0]))
    Array([2., 4.], dtype=float32)
    """
    packed, pivots = lu_and_piv
    return _lu_solve(packed, pivots, b, trans)


# ---- inverses and determinants -------------------------------------------------------------------


@array_function
def inv(a: SquareMatrix, overwrite_a: NoEffect = False, check_finite: NoEffect = True) -> Array:
    """The inverses of square matrices; `weft.numpy.linalg.inv`.

    `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return numpy_solving.inv(a)


@array_function
def det(a: SquareMatrix, overwrite_a: NoEffect = False, check_finite: NoEffect = True) -> Array:
    """The determinants of square matrices; `weft.numpy.linalg.det`.

    `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    return determinants.det(a)
