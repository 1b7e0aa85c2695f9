"""The Schur factorization, real and complex."""

from __future__ import annotations

from typing import Annotated, Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape
from weft.kinds.arguments import NoEffect, choice
from weft.kinds.array_function import array_function
from weft.kinds.checks import convert
from weft.numpy.linalg.operands import SquareMatrix, is_complex, restore_dtype, widen_operand
from weft.numpy.vectorizing import over
from weft.ops.linalg import schur as schur_operation
from weft.ops.linalg.matrices import triangle


def complex_schur(a: Any) -> tuple[Any, Any]:
    """T and Z of a = Z T adjoint(Z), T upper triangular, both complex; the dtype is one of
    LAPACK's.

    A real matrix is converted first, so that LAPACK returns the complex form.
    """
    t, z = schur_operation.schur(a.astype(dtypes.to_complex(a.dtype)))
    return triangle(t, False), z


Form = Annotated[str, choice("real", "complex", "r", "c")]


@array_function
def schur(a: SquareMatrix, output: Form = "real") -> tuple[Array, Array]:
    """T and Z of a = Z T adjoint(Z), Z unitary and T upper triangular.

    a: shape (..., n, n). output: "real" (or "r") keeps real matrices real; then T has a block of
    two rows on its diagonal for each pair of complex eigenvalues. "complex" (or "c") makes both
    complex. There is no derivative. By LAPACK's gees.

    Raises WeftValueError for another output, ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> t, z = schur(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> t
    Array([[2., 1.],
           [0., 3.]], dtype=float32)
    """
    x = widen_operand(a)
    if output[0] == "c":
        return complex_schur(x)
    t, z = schur_operation.schur(x)
    return restore_dtype(t, a.dtype), restore_dtype(z, a.dtype)


def triangular_schur(a: Any) -> tuple[Any, Any]:
    """`complex_schur` of one matrix; real eigenvalues of a real matrix stay real.

    On a branch cut, such as that of the root at negative numbers, the rounding error of an
    imaginary part would choose between two results.
    """
    if is_complex(a):
        return complex_schur(a)
    t, z = schur_operation.schur(a)
    return _triangular(t, z, dtypes.to_complex(a.dtype))


def _triangular(t: Any, z: Any, dtype: Any) -> Any:
    """Converts a real Schur form to a complex one."""
    operands = t.astype(dtype), z.astype(dtype)
    return over(_triangular_matrix, operands, (2, 2))


def _triangular_matrix(t: Any, z: Any) -> Any:
    n = t.shape[-1]

    def step(number: Any, state: Any) -> Any:
        # From the last row to the second: a rotation removes the element below the diagonal.
        t, z = state
        m = n - 1 - number
        lower = t[m, m - 1]
        a, b, c, d = t[m - 1, m - 1], t[m - 1, m], lower, t[m, m]
        # The eigenvalue of the block nearer to d, minus d.
        half = (a - d) / 2
        root = jnp.sqrt(half * half + b * c)
        root = jnp.where((half.real * root.real + half.imag * root.imag) > 0, -root, root)
        mu = half + root
        length = jnp.hypot(abs(mu), abs(c))
        none = lower == 0
        safe = convert(jnp.where(none, 1, length), mu.dtype)
        cosine, sine = jnp.where(none, 1, mu / safe), jnp.where(none, 0, c / safe)
        turn = jnp.array([[jnp.conj(cosine), sine], [-sine, cosine]])
        rows = jnp.stack([t[m - 1], t[m]])
        rows = jnp.matmul(turn, rows, precision="highest")
        t = t.at[m - 1].set(rows[0]).at[m].set(rows[1])
        back = jnp.conj(turn).T
        columns = jnp.matmul(jnp.stack([t[:, m - 1], t[:, m]], axis=1), back, precision="highest")
        t = t.at[:, m - 1].set(columns[:, 0]).at[:, m].set(columns[:, 1]).at[m, m - 1].set(0)
        columns = jnp.matmul(jnp.stack([z[:, m - 1], z[:, m]], axis=1), back, precision="highest")
        return t, z.at[:, m - 1].set(columns[:, 0]).at[:, m].set(columns[:, 1])

    # The body of a loop is traced even if it does not run, and fails for 0 rows.
    if n > 1:
        t, z = fori_loop(0, n - 1, step, (t, z))
    return triangle(t, False), z


@array_function
def rsf2csf(T: SquareMatrix, Z: SquareMatrix, check_finite: NoEffect = True) -> tuple[Array, Array]:
    """The complex Schur form of a real one: an upper triangular T, and its Z.

    T and Z: shape (..., n, n), as `schur` gives them. `check_finite` has no effect. Each block of
    two rows is made triangular by a rotation (G. H. Golub and C. F. Van Loan, Matrix Computations,
    7.4). Raises ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> t, z = schur(jnp.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> abs(rsf2csf(t, z)[0]).round(3)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if T.shape[-1] != Z.shape[-1]:
        raise wrong_shape(f"T: {type_of(T)}, Z: {type_of(Z)}", "a T and a Z of one size")
    t, z = widen_operand(T), widen_operand(Z)
    return _triangular(t, z, dtypes.to_complex(jnp.promote_types(t.dtype, z.dtype)))
