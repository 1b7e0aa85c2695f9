"""The polar decomposition by an iteration of products and QR factorizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal
from weft.control_flow.cond import cond
from weft.control_flow.linear_solve import custom_linear_solve
from weft.control_flow.while_loop import while_loop
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, ShapeError, WeftError, WeftTypeError, WeftValueError, api_boundary
from weft.numpy.elementwise import maximum
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import sqrt
from weft.ops.elementwise.powers import cbrt
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import broadcasted_iota, eye, full_like, zeros_like_array
from weft.ops.linalg.cholesky import cholesky, symmetrized
from weft.ops.linalg.eigh import both_ways, eigh, times_real
from weft.ops.linalg.lu import solve
from weft.ops.linalg.matrices import adjoint, check_matrix, conjugate, matmul, on_diagonal, part
from weft.ops.linalg.qr import qr
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import reduce_sum

__all__ = ["qdwh"]


@api_boundary
def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The factors of x = u h, u with orthonormal columns and h Hermitian and positive.

    x: shape (m, n) with m >= n, of full rank; float32, float64, complex64 or complex128. u has its
    type and h, of shape (n, n), its dtype. The third result is the number of iterations, int32, the
    fourth whether they converged: one of the first `max_iterations`, 10 unless given, changed u by
    no more than (4 eps) ** (1 / 3) of its norm; `eps` is that of the dtype unless given.
    `dynamic_shape` are the numbers of rows and columns of x that count, which may be traced; the
    rest of u and h is zero. `is_hermitian` is accepted for compatibility and has no effect.

    By the dynamically weighted Halley iteration of Y. Nakatsukasa, Z. Bai and F. Gygi, Optimizing
    Halley's iteration for computing the matrix polar decomposition (2010). Derivatives of all
    orders, in both modes, follow from x = u h and not from the iteration.

    max_iterations: the largest number of iterations; None for 10; eps: the precision that counts as
    reached; None for that of the dtype.

    Raises DTypeError, ShapeError for anything that is not a matrix or wider than high, and
    WeftValueError or WeftTypeError for options that are not as described.

    >>> u, h, iterations, converged = qdwh(np.array([[0.0, -2.0], [3.0, 0.0]], np.float32))
    >>> print(np.asarray(h).round(3))
    [[3. 0.]
     [0. 2.]]
    """
    check_flags("qdwh", is_hermitian=is_hermitian)
    of = type_of(x)
    check_matrix("qdwh", of)
    if of.ndim != 2 or of.shape[0] < of.shape[1]:
        message = "qdwh takes one matrix that is not wider than high"
        fix = Fix("transpose", "for several use vmap; for a wide matrix pass x.T.conj()", {})
        raise refusal(ShapeError, message, "qdwh", f"x {of}", "shape (m, n) with m >= n", fix)
    limit = 10 if max_iterations is None else max_iterations
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise _bad_option("max_iterations", max_iterations, "a positive integer")
    least = float(dtypes.finfo(of.dtype).eps) if eps is None else eps
    if not isinstance(least, (int, float)) or not 0 < least < 1:
        raise _bad_option("eps", eps, "a number between 0 and 1")
    used = None
    if dynamic_shape is not None:
        if not isinstance(dynamic_shape, (tuple, list)) or len(dynamic_shape) != 2:
            raise _bad_option("dynamic_shape", dynamic_shape, "a number of rows and of columns")
        used = _within(of, *dynamic_shape)
        x = select(used, x, zeros_like_array(x))
    u, count, converged = _unitary_factor(x, limit, float(least))
    if used is not None:
        u = select(used, u, zeros_like_array(u))
    return u, symmetrized(matmul(adjoint(u), x)), count, converged


def _bad_option(
    name: str, got: Any, wanted: str, kind: type[WeftError] = WeftValueError
) -> WeftError:
    fix = Fix(name, f"leave {name} out for the default", {})
    return refusal(kind, f"qdwh: {name} is not {wanted}", "qdwh", f"{name}={got!r}", wanted, fix)


def _within(of: Any, rows: Any, columns: Any) -> Any:
    """Whether an element is in the first rows and columns."""
    counts = [type_of(n).dtype for n in (rows, columns)]
    if any(dtype not in dtypes.INTEGER for dtype in counts):
        raise _bad_option("dynamic_shape", (rows, columns), "two integers", WeftTypeError)
    row, column = (
        broadcasted_iota(type_of(n).dtype, of.shape, axis) for axis, n in enumerate((rows, columns))
    )
    return (row < rows) & (column < columns)


# ---- the iteration -----------------------------------------------------------------------------


def _iterated(x: Any, limit: int, least: float) -> tuple[Any, Any, Any]:
    """The unitary factor of x, the number of iterations, and whether they converged."""
    of = type_of(x)
    if 0 in of.shape:
        return x, np.int32(0), np.bool_(True)
    real = dtypes.to_real(of.dtype)
    tolerance = real.type((4 * least) ** (1 / 3))
    near_one = real.type(1 - 10 * np.finfo(real).eps)
    sizes = abs_(x)
    row_sums, column_sums = reduce_sum(sizes, (1,)), reduce_sum(sizes, (0,))
    # A bound of the largest singular value, so that all are at most one.
    bound = sqrt(reduce_max(row_sums, (0,)) * reduce_max(column_sums, (0,)))
    bound = select(bound > 0, bound, full_like(bound, 1))
    start = times_real(x, 1 / bound)

    def going_on(state: tuple[Any, ...]) -> Any:
        _, _, count, changing = state
        return changing & (count < limit)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        u, low, count, _ = state
        a, b, c = _weights(low)
        following = cond(c > 100, _by_qr, _by_cholesky, u, a, b, c)
        low = low * (a + b * low * low) / (1 + c * low * low)
        low = select(low < 1, low, full_like(low, 1))
        # While the bound of the smallest singular value is tiny, larger ones hardly move.
        moving = (_norm(following - u) > tolerance * _norm(following)) | (low < near_one)
        return following, low, count + 1, moving

    # Singular values below eps times the largest count as that.
    low = full_like(bound, float(np.finfo(real).eps))
    u, _, count, moving = while_loop(going_on, step, (start, low, np.int32(0), np.bool_(True)))
    # One step of Newton and Schulz removes the rounding errors.
    return (3 * u - matmul(u, matmul(adjoint(u), u))) / 2, count, ~moving


def _norm(x: Any) -> Any:
    """The square root of the sum of squares."""
    return sqrt(reduce_sum(abs_(x) ** 2, (0, 1)))


def _weights(low: Any) -> tuple[Any, Any, Any]:
    """The weights a, b, c of an iteration whose singular values lie between `low` and one."""
    squared = low * low
    d = cbrt(4 * maximum(1 - squared, 0) / (squared * squared))
    root = sqrt(1 + d)
    a = root + sqrt(maximum(8 - 4 * d + 8 * (2 - squared) / (squared * root), 0)) / 2
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """One iteration from a QR factorization, for weights that are large."""
    of = type_of(u)
    m, n = of.shape
    ratio, root = b / c, sqrt(c)
    stacked = concatenate([times_real(u, root), eye(of.dtype, (n, n))], 0)
    q = qr(stacked, full_matrices=False)[0]
    product = matmul(part(q, (0, m)), adjoint(part(q, (m, m + n))))
    return times_real(u, ratio) + times_real(product, (a - ratio) / root)


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """One iteration from a Cholesky factorization, which is enough for weights that are small."""
    of = type_of(u)
    ratio = b / c
    gram = times_real(matmul(adjoint(u), u), c) + eye(of.dtype, (of.shape[1],) * 2)
    factor = cholesky(gram)
    solved = triangular_solve(
        factor, u, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    solved = triangular_solve(factor, solved, left_side=False, lower=True)
    return times_real(u, ratio) + times_real(solved, a - ratio)


# ---- derivatives -------------------------------------------------------------------------------


_unitary_factor = custom_jvp(_iterated, nondiff_argnums=(1, 2))


@_unitary_factor.defjvp
def _unitary_jvp(
    limit: int, least: float, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """With p = u^H dx and h: u^H du is the skew-Hermitian y for which y h + h y = p - p^H."""
    (x,), (dx,) = primals, tangents
    u, count, converged = outs = _unitary_factor(x, limit, least)
    h = symmetrized(matmul(adjoint(u), x))
    # Zero rows and columns, such as padding, must change nothing.
    empty = reduce_sum(abs_(h), (1,)) <= 0
    padded = on_diagonal(type_of(h)) & both_ways(empty)[0]
    h = h + select(padded, full_like(h, 1), zeros_like_array(h))
    projected = matmul(adjoint(u), dx)
    du = matmul(u, _sylvester(h, projected - adjoint(projected)))
    m, n = type_of(x).shape
    if m > n:
        further = dx - matmul(u, projected)
        du = du + adjoint(solve(h, adjoint(further)))
    nothing = np.zeros((), dtypes.float0)
    return outs, (du, nothing, nothing)


def _sylvester(h: Any, b: Any) -> Any:
    """The y for which y h + h y = b, for a positive Hermitian h: linear in b, and differentiable in
    h also where eigenvalues are equal."""

    def product(y: Any) -> Any:
        return matmul(y, h) + matmul(h, y)

    def solved(_: Any, b: Any) -> Any:
        return in_basis(*eigh(h), b)

    def solved_back(_: Any, b: Any) -> Any:
        return in_basis(*eigh(conjugate(h)), b)

    def in_basis(v: Any, w: Any, b: Any) -> Any:
        columns, rows = both_ways(w)
        turned = times_real(matmul(adjoint(v), matmul(b, v)), 1 / (columns + rows))
        return matmul(v, matmul(turned, adjoint(v)))

    return custom_linear_solve(product, b, solved, transpose_solve=solved_back)
