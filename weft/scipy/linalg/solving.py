"""Systems of equations with SciPy's arguments: from a matrix, or from its factors."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.argument_errors import invalid_class
from weft.arrays.array import Array
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, api_boundary
from weft.kinds.checks import broadcast_shape, broadcasted, check_flag, computing_dtype, convert
from weft.kinds.compiled_functions import compiled
from weft.numpy.linalg import determinants
from weft.numpy.linalg import solving as numpy_solving
from weft.numpy.linalg.operands import check_matrices, check_square, returned
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.lu import lu_pivots_to_permutation
from weft.ops.linalg.matrices import adjoint, conjugate, matmul, reordered, swapped, triangle
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.argument_checks import one_of, wrong_shape
from weft.scipy.linalg.eigenvalues import mirrored

__all__ = ["cho_solve", "det", "inv", "lu_solve", "solve", "solve_triangular"]

# `overwrite_*` and `check_finite` are advice to a library that works in place; `debug` does nothing
# in SciPy either. All are accepted and have no effect.


def _checked(operation: str, argument: str, a: Any, b: Any, maker: str = "") -> None:
    """Raises ShapeError, DTypeError or WeftTypeError unless a x = b is a system.

    maker: the function that makes the factor given instead of a.
    """
    if maker:
        check_square(operation, argument, a, f"pass what {maker} gives for a square matrix")
    else:
        check_square(operation, argument, a)
    check_matrices(operation, "b", b, least=1)
    left, right = type_of(a), type_of(b)
    if right.shape[0 if right.ndim == 1 else -2] != left.shape[-1]:
        n = left.shape[-1]
        got = f"{argument}: {left}, b: {right}"
        raise wrong_shape(operation, got, f"b of shape ({n},) or (..., {n}, k)")
    broadcast_shape(operation, left.shape[:-2], right.shape[:-2])


def _prepared(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Both in the dtype of the computation, with the same batch dimensions, b of columns; and the
    dtype of the result."""
    given = jnp.result_type(a, b)
    a, b = (convert(x, computing_dtype(given)) for x in (a, b))
    b = b[:, None] if b.ndim == 1 else b
    batch = broadcast_shape("linalg.solve", a.shape[:-2], b.shape[:-2])
    return (broadcasted(a, (*batch, *a.shape[-2:])), broadcasted(b, (*batch, *b.shape[-2:])), given)


def _answer(x: Any, b: Any, given: Any) -> Any:
    """The solution in the dtype of the operands, without the dimension added to a vector."""
    return returned(x[..., 0] if b.ndim == 1 else x, given)


def _substituted(factor: Any, b: Any) -> Any:
    """The solution of L L^H x = b."""
    y = triangular_solve(factor, b, left_side=True, lower=True)
    adjoint_of = {"lower": True, "transpose_a": True, "conjugate_a": True}
    return triangular_solve(factor, y, left_side=True, **adjoint_of)


@compiled
def _solve_hermitian(a: Any, b: Any, *, lower: bool, positive: bool) -> Any:
    x, columns, given = _prepared(a, b)
    x = mirrored(x, lower)
    if not positive:
        return _answer(numpy_solving.solved(x, columns), b, given)
    factor = cholesky(stop_gradient(x), symmetrize_input=False)
    found = custom_linear_solve(
        lambda y: matmul(x, y),
        columns,
        lambda _, y: _substituted(factor, y),
        # For a Hermitian matrix the transpose is the conjugate.
        lambda _, y: conjugate(_substituted(factor, conjugate(y))),
    )
    return _answer(found, b, given)


@compiled
def _solve_symmetric(a: Any, b: Any, *, lower: bool) -> Any:
    x, columns, given = _prepared(a, b)
    half = triangle(x, lower)
    x = half + triangle(swapped(half), not lower, 1 if lower else -1)
    return _answer(numpy_solving.solved(x, columns), b, given)


_ASSUMED = ("gen", "sym", "her", "pos")


@api_boundary
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
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
    check_flag(lower, "linalg.solve", "lower")
    _checked("linalg.solve", "a", a, b)
    one_of("linalg.solve", "assume_a", assume_a, _ASSUMED)
    if assume_a == "gen":
        return numpy_solving.solve(a, b)
    if assume_a == "sym":
        return _solve_symmetric(a, b, lower=bool(lower))
    return _solve_hermitian(a, b, lower=bool(lower), positive=assume_a == "pos")


@compiled
def _solve_triangular(a: Any, b: Any, **options: bool) -> Any:
    x, columns, given = _prepared(a, b)
    return _answer(triangular_solve(x, columns, left_side=True, **options), b, given)


@api_boundary
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
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
    check_flag(lower, "linalg.solve_triangular", "lower")
    check_flag(unit_diagonal, "linalg.solve_triangular", "unit_diagonal")
    _checked("linalg.solve_triangular", "a", a, b)
    names: tuple[Any, ...] = ("N", "T", "C") if isinstance(trans, str) else (0, 1, 2)
    one_of("linalg.solve_triangular", "trans", trans, names)
    turn = {"transpose_a": trans != names[0], "conjugate_a": trans == names[2]}
    return _solve_triangular(a, b, lower=bool(lower), unit_diagonal=bool(unit_diagonal), **turn)


def _pair(operation: str, argument: str, given: Any, maker: str) -> tuple[Any, Any]:
    """Raises WeftTypeError unless an argument is a pair, as another function returns it."""
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return given[0], given[1]
    message = f"{operation}: {argument} is the pair that {maker} gives"
    wanted = f"a tuple of two, {argument.replace('_and_', ' and ')}"
    raise invalid_class(message, operation, argument, given, wanted, fix=_factor(maker))


def _factor(maker: str) -> Fix:
    return Fix("factor", f"pass {maker}(a)")


@compiled
def _cho_solve(c: Any, b: Any, *, lower: bool) -> Any:
    factor, columns, given = _prepared(c, b)
    return _answer(_substituted(factor if lower else adjoint(factor), columns), b, given)


@api_boundary
def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The x for which a x = b, from the result of `cho_factor` for a.

    b: shape (n,) or (..., n, k). Only one triangle of the factor is read; derivatives
    by it are derivatives by that triangle. `overwrite_b` and `check_finite` have no effect. Raises
    ShapeError, DTypeError and WeftTypeError.

    c_and_lower: the pair that `cho_factor` returns: the factor, and whether it is a lower triangle.

    >>> import weft.numpy as jnp
    >>> cho_solve((2 * jnp.eye(2), False), jnp.array([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    name = "linalg.cho_solve"
    c, lower = _pair(name, "c_and_lower", c_and_lower, "cho_factor")
    check_flag(lower, name, "lower")
    _checked(name, "c", c, b, "cho_factor")
    return _cho_solve(c, b, lower=bool(lower))


@compiled
def _lu_solve(packed: Any, pivots: Any, b: Any, *, transposed: bool, conjugated: bool) -> Any:
    turn = {"transpose_a": transposed, "conjugate_a": conjugated}
    factors, columns, given = _prepared(packed, b)
    n = factors.shape[-1]
    order = lu_pivots_to_permutation(convert(pivots, jnp.int32), n)
    order = broadcasted(order, (*columns.shape[:-2], n))

    def substituted(y: Any, lower: bool) -> Any:
        return triangular_solve(
            factors, y, left_side=True, lower=lower, unit_diagonal=lower, **turn
        )

    if not transposed:
        found = substituted(substituted(reordered(columns, order, -2), True), False)
    else:
        inverse = convert(jnp.argsort(order, axis=-1), jnp.int32)
        found = reordered(substituted(substituted(columns, False), True), inverse, -2)
    return _answer(found, b, given)


@api_boundary
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The x for which a x = b, from the result of `lu_factor` for a.

    b: shape (n,) or (..., n, k). trans: 1 solves with the transposed a, 2 with its adjoint.
    `overwrite_b` and `check_finite` have no effect.

    lu_and_piv: the pair that `lu_factor` returns: the factors in one array, and the pivots.

    Raises WeftValueError for another trans, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> lu_solve((2 * jnp.eye(2), jnp.array([0, 1])), jnp.array([4.0, 8.0]))
    Array([2., 4.], dtype=float32)
    """
    name = "linalg.lu_solve"
    packed, pivots = _pair(name, "lu_and_piv", lu_and_piv, "lu_factor")
    _checked(name, "lu", packed, b, "lu_factor")
    check_matrices(name, "piv", pivots, least=1)
    if type_of(pivots).dtype not in dtypes.INTEGER:
        message = f"{name}: pivots are numbers of rows"
        got = f"piv: {type_of(pivots)}"
        fix = _factor("lu_factor")
        raise DTypeError(message, operation=name, got=got, wanted="integers", fix=fix)
    if type_of(pivots).shape != type_of(packed).shape[:-1]:
        got = f"lu: {type_of(packed)}, piv: {type_of(pivots)}"
        raise wrong_shape(name, got, "one pivot for each row of lu")
    one_of(name, "trans", trans, (0, 1, 2))
    return _lu_solve(packed, pivots, b, transposed=trans > 0, conjugated=trans == 2)


@api_boundary
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices; `weft.numpy.linalg.inv`.

    `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return numpy_solving.inv(a)


@api_boundary
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices; `weft.numpy.linalg.det`.

    `overwrite_a` and `check_finite` have no effect. Raises ShapeError, DTypeError, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    return determinants.det(a)
