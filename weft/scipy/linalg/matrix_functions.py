"""Functions of matrices by the Schur factorization: the square root, and functions of the user.

A function of a triangular matrix is found column by column, since it commutes with the matrix: each
column is a triangular system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, overload

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.loops import map as map_
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, WeftTypeError
from weft.errors.argument_errors import unsupported_argument, wrong_shape
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import check_arrays, check_dimensions, convert
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import SquareMatrix, check_square, matrix_kind, widen_operand
from weft.ops.linalg.matrices import adjoint, matmul
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.linalg.schur import triangular_schur
from weft.scipy.linalg.sylvester import sylvester

__all__ = ["funm", "sqrtm"]


def _triangular_root(t: Any) -> Any:
    """The square root of an upper triangular matrix."""
    n = t.shape[-1]
    one, rows = jnp.eye(n, dtype=t.dtype), jnp.arange(n)
    values = jnp.sqrt(jnp.diagonal(t))

    def step(j: Any, root: Any) -> Any:
        # Columns from j on only have their diagonal, and rows from j on must not change.
        above = rows < j
        system = jnp.where(above[:, None] & above[None, :], root, 0) + values[j] * one
        # A singular matrix may have a root, too, if the right elements are zero.
        empty = (jnp.diagonal(system) == 0) | ~above
        system = jnp.where(empty[:, None], one, system)
        right = jnp.where(empty, 0, t[:, j])
        column = triangular_solve(system, right[:, None], left_side=True)[:, 0]
        return root.at[:, j].set(jnp.where(above, column, root[:, j]))

    return fori_loop(1, n, step, jnp.diag(values))


@custom_jvp
def _root(a: Any) -> Any:
    t, z = triangular_schur(a)
    return matmul(matmul(z, _triangular_root(t)), adjoint(z))


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    root = _root(a)
    return root, sylvester(root, root, convert(da, type_of(root).dtype))


def _one_block(value: Any, call: Arguments) -> None:
    if value != 1:
        why = "columns are one block"
        raise unsupported_argument(call.operation, call.name, value, why, "leave it out", 1)


OneBlock = Annotated[int, Kind(_one_block, "1", (2,), plain=NEVER)]


@array_function
def sqrtm(A: SquareMatrix, blocksize: OneBlock = 1) -> Array:
    """The principal square root X of square matrices: X X = A, the eigenvalues of X to the right.

    A: shape (..., n, n). The result is complex, since its dtype cannot depend on values. Singular
    matrices may have no root; then the result is not one. By Schur factorizations (A. Bjorck and S.
    Hammarling, A Schur method for the square root of a matrix, 1983); the derivative of the root of
    a regular matrix solves a Sylvester equation. Only a `blocksize` of 1 is taken.

    Raises ShapeError, DTypeError, WeftTypeError and WeftNotImplementedError.

    >>> import weft.numpy as jnp
    >>> sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    x = widen_operand(A)
    if not x.size:
        return x.astype(dtypes.to_complex(x.dtype))
    if x.ndim == 2:
        return _root(x)
    return map_(_root, x.reshape(-1, *x.shape[-2:])).reshape(x.shape)


def _parlett(t: Any, values: Any) -> tuple[Any, Any]:
    """The function of an upper triangular matrix, and the least distance between eigenvalues."""
    n = t.shape[-1]
    one, rows = jnp.eye(n, dtype=t.dtype), jnp.arange(n)
    diagonal = jnp.diagonal(t)

    def step(j: Any, f: Any) -> Any:
        above = rows < j
        column = jnp.where(above, t[:, j], 0)
        right = jnp.matmul(f, column, precision="highest") - column * values[j]
        system = jnp.where(above[:, None] & above[None, :], t - diagonal[j] * one, one)
        # Equal eigenvalues: the quotient is taken without its divisor, as in SciPy.
        system = system + jnp.diag(convert(jnp.diagonal(system) == 0, t.dtype))
        out = triangular_solve(system, -right[:, None], left_side=True)[:, 0]
        return f.at[:, j].set(jnp.where(above, -out, f[:, j]))

    distances = abs(diagonal[:, None] - diagonal[None, :])
    least = jnp.min(jnp.where(jnp.tri(n, k=-1, dtype=bool), distances, jnp.inf), initial=jnp.inf)
    out = jnp.diag(values)
    return fori_loop(1, n, step, out) if n > 1 else out, least


def _error(t: Any, f: Any, least: Any) -> Any:
    """SciPy's estimate of the relative error."""
    eps = jnp.finfo(least.dtype).eps
    least = jnp.where(least == 0, eps, least)
    strict = jnp.max(jnp.sum(abs(jnp.triu(t, 1)), axis=0), initial=0.0)
    error = jnp.minimum(1, jnp.maximum(eps, eps / least * strict))
    bad = ~jnp.all(jnp.isfinite(f))
    return jnp.where(bad, jnp.inf, error)


def _one_square(value: Any, call: Arguments) -> Any:
    check_square(call.name, value)
    check_dimensions(call.name, value, 2, 2)
    return value


def _function(value: Any, call: Arguments) -> Any:
    if not callable(value):
        message = "takes a function second"
        wanted = "a function of an array of eigenvalues"
        fix = Fix("function", "pass a function: weft.numpy.exp")
        raise WeftTypeError(message, got=f"{call.name}={value!r:.80}", wanted=wanted, fix=fix)
    return value


OneSquare = Annotated[
    Any, dataclasses.replace(matrix_kind("a matrix, shape (n, n)", 2, True), take=_one_square)
]
Function = Annotated[
    Callable[[Any], Any], Kind(_function, "a function", (3, None), abs, plain=NEVER)
]


@overload
def funm(A: Any, func: Callable[[Any], Any], disp: Literal[True] = ...) -> Array: ...


@overload
def funm(A: Any, func: Callable[[Any], Any], *, disp: Literal[False]) -> tuple[Array, Array]: ...


@overload
def funm(A: Any, func: Callable[[Any], Any], disp: bool = ...) -> Any: ...


@python_function
def funm(A: OneSquare, func: Function, disp: Flag = True) -> Any:
    """Applies a function of numbers to a square matrix.

    A: shape (n, n); func: maps n complex eigenvalues to as many values. The result is complex. With
    disp=False it comes with an estimate of its relative error, which is large where eigenvalues are
    close; nothing is printed either way. There is no derivative: see `expm` and `sqrtm` for
    functions that have one. By B. N. Parlett, A recurrence among the elements of functions of
    triangular matrices (1976).

    disp: whether only the result is returned; False returns a pair with an estimate of its error.

    Raises ShapeError, WeftTypeError for a func that is not a function, and DTypeError.

    >>> import weft.numpy as jnp
    >>> funm(jnp.array([[4.0, 0.0], [0.0, 9.0]]), jnp.sqrt).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    t, z = triangular_schur(widen_operand(A))
    values = func(t.diagonal())
    check_arrays(values)
    if type_of(values).shape != (t.shape[-1],):
        got = f"func gives {type_of(values)} for {t.shape[-1]} eigenvalues"
        raise wrong_shape(got, "a func that gives a value for each eigenvalue")
    f, least = _parlett(t, convert(values, t.dtype))
    out = matmul(matmul(z, f), adjoint(z))
    return out if disp else (out, _error(t, f, least))
