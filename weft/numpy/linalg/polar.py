"""The polar decomposition by an iteration of products and QR factorizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.cond import cond
from weft.control_flow.linear_solve import custom_linear_solve
from weft.control_flow.while_loop import while_loop
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, ShapeError, WeftError, WeftTypeError, WeftValueError
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.array_function import array_function
from weft.kinds.checks import check_arrays
from weft.kinds.kind import Arguments, Kind
from weft.numpy.elementwise import maximum
from weft.ops.elementwise.arithmetic import sqrt
from weft.ops.elementwise.powers import cbrt
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, eye, full_like, zeros_like_array
from weft.ops.linalg.cholesky import cholesky, symmetrize
from weft.ops.linalg.eigh import eigh, rows_and_columns, scale_by_real
from weft.ops.linalg.lu import solve
from weft.ops.linalg.matrices import adjoint, check_matrix, conjugate, matmul, on_diagonal, part
from weft.ops.linalg.qr import qr
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.structural.joining import concatenate

# ---- arguments ---------------------------------------------------------------------------------


def _tall(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    of = type_of(value)
    check_matrix(of)
    if of.ndim != 2 or of.shape[0] < of.shape[1]:
        message = "takes one matrix that is not wider than high"
        got, wanted = f"{call.name} {of}", "shape (m, n) with m >= n"
        fix = Fix("transpose", "for several use vmap; for a wide matrix pass x.T.conj()", {})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return value


def _bad_option(
    call: Arguments, got: Any, wanted: str, kind: type[WeftError] = WeftValueError
) -> WeftError:
    fix = Fix(call.name, f"leave {call.name} out for the default", {})
    message = f"{call.name} is not {wanted}"
    return kind(message, got=f"{call.name}={got!r}", wanted=wanted, fix=fix)


def _sizes(value: Any, call: Arguments) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise _bad_option(call, value, "a number of rows and of columns")
    if any(type_of(n).dtype not in dtypes.INTEGER for n in value):
        raise _bad_option(call, (*value,), "two integers", WeftTypeError)
    return value[0], value[1]


def _option(fits: Callable[[Any], bool], means: str, *wrong: Any) -> Kind:
    def take(value: Any, call: Arguments) -> Any:
        if not fits(value):
            raise _bad_option(call, value, means)
        return value

    return Kind(take, means, wrong)


_rows = np.arange(12, dtype=np.float32).reshape(4, 3)
_wrong = ([1, 2], "text", _rows.T, _rows.astype(np.int32))
Tall = Annotated[
    Any, Kind(_tall, "a matrix, shape (m, n), m >= n", _wrong, _rows, static=False, plain=NEVER)
]
Steps = Annotated[
    int, _option(lambda n: isinstance(n, int) and n is not True and n > 0, "a positive integer", 0)
]
Precision = Annotated[
    float,
    _option(lambda x: isinstance(x, (int, float)) and 0 < x < 1, "a number between 0 and 1", 2.0),
]
Sizes = Annotated[Any, Kind(_sizes, "two integers", (3, (1.0, 2.0)), static=False)]


@array_function
def qdwh(
    x: Tall, *, is_hermitian: Flag = False, max_iterations: Steps | None = None, eps: Precision |
    None = None, dynamic_shape: Sizes | None = None,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
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
    if dynamic_shape is not None:
        rows, columns = dynamic_shape
        inside = broadcasted_iota(rows.dtype, x.shape, 0) < rows
        inside = inside & (broadcasted_iota(columns.dtype, x.shape, 1) < columns)
        x = select(inside, x, zeros_like_array(x))
    u, count, converged = unitary_factor(x, max_iterations, eps)
    if dynamic_shape is not None:
        u = select(inside, u, zeros_like_array(u))
    return u, symmetrize(matmul(adjoint(u), x)), count, converged


# ---- the iteration -----------------------------------------------------------------------------


def _iterate(x: Any, limit: int | None, eps: float | None) -> tuple[Any, Any, Any]:
    """The unitary factor of x, the number of iterations, and whether they converged."""
    if not x.size:
        return x, np.int32(0), np.bool_(True)
    limit, tiny = limit or 10, float(dtypes.finfo(x.dtype).eps)
    tolerance = (4 * (eps or tiny)) ** (1 / 3)
    sizes = abs(x)
    # A bound of the largest singular value, so that all are at most one.
    bound = sqrt(sizes.sum(1).max() * sizes.sum(0).max())
    bound = select(bound > 0, bound, full_like(bound, 1))

    def going_on(state: tuple[Any, ...]) -> Any:
        _, _, count, moving = state
        return moving & (count < limit)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        u, low, count, _ = state
        a, b, c = _weights(low)
        following = cond(c > 100, _by_qr, _by_cholesky, u, a, b, c)
        low = low * (a + b * low * low) / (1 + c * low * low)
        low = select(low < 1, low, full_like(low, 1))
        # While the bound of the smallest singular value is tiny, larger ones hardly move.
        moving = (_norm(following - u) > tolerance * _norm(following)) | (low < 1 - 10 * tiny)
        return following, low, count + 1, moving

    # Singular values below eps times the largest count as that.
    state = scale_by_real(x, 1 / bound), full_like(bound, tiny), np.int32(0), np.bool_(True)
    u, _, count, moving = while_loop(going_on, step, state)
    # One step of Newton and Schulz removes the rounding errors.
    return (3 * u - matmul(u, matmul(adjoint(u), u))) / 2, count, ~moving


def _norm(x: Any) -> Any:
    """The Frobenius norm."""
    return sqrt((abs(x) ** 2).sum())


def _weights(low: Any) -> tuple[Any, Any, Any]:
    """The weights a, b, c of an iteration with singular values between `low` and one."""
    squared = low * low
    d = cbrt(4 * maximum(1 - squared, 0) / (squared * squared))
    root = sqrt(1 + d)
    a = root + sqrt(maximum(8 - 4 * d + 8 * (2 - squared) / (squared * root), 0)) / 2
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """b/c u + (a - b/c) / sqrt(c) q_1 q_2^H with [sqrt(c) u; 1] = [q_1; q_2] r, for large c."""
    m, n = u.shape
    ratio, root = b / c, sqrt(c)
    q, _ = qr(concatenate([scale_by_real(u, root), eye(u.dtype, (n, n))], 0), full_matrices=False)
    product = matmul(part(q, (0, m)), adjoint(part(q, (m, m + n))))
    return scale_by_real(u, ratio) + scale_by_real(product, (a - ratio) / root)


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """b/c u + (a - b/c) u (l l^H)^-1 with l l^H = 1 + c u^H u, which is enough for small c."""
    n, ratio = u.shape[1], b / c
    factor = cholesky(scale_by_real(matmul(adjoint(u), u), c) + eye(u.dtype, (n, n)))
    half = triangular_solve(
        factor, u, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    whole = triangular_solve(factor, half, left_side=False, lower=True)
    return scale_by_real(u, ratio) + scale_by_real(whole, a - ratio)


# ---- derivatives -------------------------------------------------------------------------------


unitary_factor = custom_jvp(_iterate, nondiff_argnums=(1, 2))


@unitary_factor.defjvp
def _unitary_jvp(
    limit: int | None, eps: float | None, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """With p = u^H dx and h: u^H du is the skew-Hermitian y for which y h + h y = p - p^H."""
    (x,), (dx,) = primals, tangents
    u, count, converged = outs = unitary_factor(x, limit, eps)
    h = symmetrize(matmul(adjoint(u), x))
    # Zero rows and columns, such as padding, must change nothing.
    padded = on_diagonal(type_of(h)) & rows_and_columns(abs(h).sum(1) <= 0)[0]
    h = h + padded.astype(h.dtype)
    p = matmul(adjoint(u), dx)
    du = matmul(u, _sylvester(h, p - adjoint(p)))
    m, n = x.shape
    if m > n:
        du = du + adjoint(solve(h, adjoint(dx - matmul(u, p))))
    nothing = np.zeros((), dtypes.float0)
    return outs, (du, nothing, nothing)


def _sylvester(h: Any, b: Any) -> Any:
    """Solves y h + h y = b for a positive Hermitian h: linear in b, and differentiable in h also at
    equal eigenvalues."""

    def product(y: Any) -> Any:
        return matmul(y, h) + matmul(h, y)

    def solved(h: Any, b: Any) -> Any:
        v, w = eigh(h)
        columns, rows = rows_and_columns(w)
        turned = scale_by_real(matmul(adjoint(v), matmul(b, v)), 1 / (columns + rows))
        return matmul(v, matmul(turned, adjoint(v)))

    return custom_linear_solve(
        product, b, lambda _, b: solved(h, b), lambda _, b: solved(conjugate(h), b)
    )
