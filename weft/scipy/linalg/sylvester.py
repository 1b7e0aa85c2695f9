"""The matrix equation A X + X B = C.

Schur factorizations of A and B make it triangular, to be solved column by column (R. H. Bartels and
G. W. Stewart, Solution of the matrix equation AX + XB = C, 1972). The equation is linear in X, so
its derivatives are solutions of such equations, and no step is differentiated.
"""

from __future__ import annotations

from typing import Annotated, Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.arguments import choice
from weft.kinds.array_function import array_function
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import PromotedMatrix, PromotedSquare, restore_dtype, widen_operand
from weft.numpy.linalg.solving import solve_batched
from weft.numpy.vectorizing import over
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.linalg.eig import eig
from weft.ops.linalg.matrices import adjoint, matmul, transpose_matrices
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.linalg.schur import complex_schur


def _triangular_columns(r: Any, s: Any, f: Any) -> Any:
    """Solves r Y + Y s = f for upper triangular r and s."""
    one = jnp.eye(r.shape[-1], dtype=r.dtype)

    def step(k: Any, y: Any) -> Any:
        # Columns from k on are still zeros.
        right = f[:, k] - jnp.matmul(y, s[:, k], precision="highest")
        column = triangular_solve(r + s[k, k] * one, right[:, None], left_side=True)
        return y.at[:, k].set(column[:, 0])

    return fori_loop(0, s.shape[-1], step, jnp.zeros_like(f))


def _by_schur(a: Any, b: Any) -> Any:
    """The eigenvalues of a and b, and a function that solves the equation for a given C."""
    (r, u), (s, v) = complex_schur(a), complex_schur(b)

    def solve(c: Any) -> Any:
        y = _triangular_columns(r, s, matmul(matmul(adjoint(u), c), v))
        return matmul(matmul(u, y), adjoint(v))

    return jnp.diagonal(r), jnp.diagonal(s), solve


def _by_eigenvectors(a: Any, b: Any) -> Any:
    (x, u), (y, v) = (eig(m, compute_left_eigenvectors=False) for m in (a, b))

    def solve(c: Any) -> Any:
        # The second system has V on the right.
        scaled = matmul(solve_batched(u, c), v) / (x[:, None] + y[None, :])
        return matmul(matmul(u, scaled), solve_batched(v, jnp.eye(v.shape[-1], dtype=v.dtype)))

    return x, y, solve


def sylvester(a: Any, b: Any, c: Any, *, by_schur: bool = True, tol: float = 0.0) -> Any:
    """Solves a X + X b = c for X, all in one dtype that LAPACK takes.

    NaN where the sum of an eigenvalue of each has a magnitude of at most `tol`.
    """
    dtype = type_of(c).dtype
    wide = dtypes.to_complex(dtype)
    method = _by_schur if by_schur else _by_eigenvectors
    x, y, solve = method(*(convert(stop_gradient(m), wide) for m in (a, b)))
    sums = abs(x[:, None] + y[None, :])
    singular = jnp.any(sums <= tol)

    def narrow(out: Any) -> Any:
        return jnp.where(singular, jnp.nan, out if dtype in dtypes.COMPLEX else out.real)

    def forward(_: Any, right: Any) -> Any:
        return narrow(solve(convert(right, wide)))

    def backward(_: Any, right: Any) -> Any:
        # Factored again: transposed factors are not upper triangular.
        _, _, other = method(*(convert(stop_gradient(transpose_matrices(m)), wide) for m in (a, b)))
        return narrow(other(convert(right, wide)))

    return custom_linear_solve(lambda z: matmul(a, z) + matmul(z, b), c, forward, backward)


def _not_negative(value: Any, call: Arguments) -> float:
    if not isinstance(value, (int, float)) or value < 0:
        raise wrong_value(f"tol={value!r:.80}", "a tol of 0 or more")
    return float(value)


Method = Annotated[str, choice("schur", "eigen")]
NotNegative = Annotated[float, Kind(_not_negative, "a number of 0 or more", ("text", -1))]


@array_function
def solve_sylvester(
    A: PromotedSquare, B: PromotedSquare, C: PromotedMatrix, *, method: Method = "schur", tol:
    NotNegative = 1e-8,
) -> Array:  # fmt: skip
    """The X for which A X + X B = C.

    A: shape (..., m, m), B: (..., n, n), C and X: (..., m, n), promoted to one dtype, with batch
    dimensions that broadcast. method: "schur", by R. H.
    Bartels and G. W. Stewart (1972), or "eigen", by eigenvectors, for A and B that have enough of
    them. Where an eigenvalue of A and one of B add up to no more than `tol` in magnitude, there is
    no single solution and X is NaN. Derivatives are solutions of such equations.

    B: a square matrix, (..., n, n); C: the right-hand side, (..., m, n).

    Raises ShapeError if shapes do not fit, WeftValueError for another method and a tol below 0,
    DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> one = jnp.eye(2)
    >>> solve_sylvester(one, 3 * one, 8 * one)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    if C.shape[-2:] != (A.shape[-1], B.shape[-1]):
        got = f"A: {type_of(A)}, B: {type_of(B)}, C: {type_of(C)}"
        fitting = f"a C of shape {(*C.shape[:-2], A.shape[-1], B.shape[-1])}"
        raise wrong_shape(got, fitting)

    def solve(a: Any, b: Any, c: Any) -> Any:
        return c if 0 in c.shape else sylvester(a, b, c, by_schur=method == "schur", tol=tol)

    wide = widen_operand(A), widen_operand(B), widen_operand(C)
    return restore_dtype(over(solve, wide, (2, 2, 2)), A.dtype)
