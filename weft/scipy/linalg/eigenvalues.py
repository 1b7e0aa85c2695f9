"""Eigenvalues of Hermitian matrices, of pairs of them, and of tridiagonal matrices."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.arguments import NEVER, Flag, NoEffect, choice, common, of_rank, refused_kind
from weft.kinds.array_function import array_function, python_function
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import PromotedSquare, restore_dtype, widen_operand
from weft.ops.elementwise.selection import select as select_
from weft.ops.linalg import eigh as eigh_operation
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.matrices import adjoint, matmul, on_diagonal, triangle
from weft.ops.linalg.triangular_solve import triangular_solve


def mirror_triangle(x: Any, lower: bool) -> Any:
    """The Hermitian matrices with the given triangle and a real diagonal."""
    strict = triangle(x, lower, -1 if lower else 1)
    return select_(on_diagonal(type_of(x)), x.real.astype(x.dtype), strict + adjoint(strict))


def _generalized_eigh(a: Any, b: Any, type: int, vectors: bool) -> tuple[Any, Any]:
    """Eigenvectors, if asked for, and eigenvalues of a pair of Hermitian matrices."""
    factor = cholesky(b, symmetrize_input=False)
    adjoint_of = {"lower": True, "transpose_a": True, "conjugate_a": True}
    if type == 1:
        half = triangular_solve(factor, a, left_side=True, lower=True)
        same = triangular_solve(factor, half, left_side=False, **adjoint_of)
    else:
        same = matmul(matmul(adjoint(factor), a), factor)
    v, w = eigh_operation.eigh(same, symmetrize_input=True)
    if vectors and type == 3:
        v = matmul(factor, v)
    elif vectors:
        v = triangular_solve(factor, v, left_side=True, **adjoint_of)
    return v, w


Selection = Annotated[
    None, refused_kind("all are computed", "take those of the result that you need: w[lo:hi]")
]
Problem = Annotated[int, choice(1, 2, 3)]


@overload
def eigh(
    a: Any, b: Any = ..., lower: bool = ..., eigvals_only: Literal[False] = ...,
    overwrite_a: bool = ..., overwrite_b: bool = ..., turbo: bool = ..., eigvals: None = ...,
    type: int = ..., check_finite: bool = ...,
) -> tuple[Array, Array]: ...  # fmt: skip


@overload
def eigh(
    a: Any, b: Any = ..., lower: bool = ..., *, eigvals_only: Literal[True],
    overwrite_a: bool = ..., overwrite_b: bool = ..., turbo: bool = ..., eigvals: None = ...,
    type: int = ..., check_finite: bool = ...,
) -> Array: ...  # fmt: skip


@overload
def eigh(
    a: Any, b: Any = ..., lower: bool = ..., eigvals_only: bool = ..., overwrite_a: bool = ...,
    overwrite_b: bool = ..., turbo: bool = ..., eigvals: None = ..., type: int = ...,
    check_finite: bool = ...,
) -> Any: ...  # fmt: skip


@array_function
def eigh(
    a: PromotedSquare, b: PromotedSquare | None = None, lower: Flag = True, eigvals_only: Flag =
    False, overwrite_a: NoEffect = False, overwrite_b: NoEffect = False, turbo: NoEffect = True,
    eigvals: Selection = None, type: Problem = 1, check_finite: NoEffect = True,
) -> Any:  # fmt: skip
    """Eigenvalues, real and rising, and eigenvectors, as columns, of Hermitian matrices.

    a: Hermitian, of shape (..., n, n); lower: whether the lower triangle is read, not the upper
    one. b: a matrix of that shape, Hermitian and positive definite, of which the same triangle is
    read, for the eigenvalues of a pair. type: 1 for a v = w b v, 2 for a b v = w v, 3 for b a v =
    w v; v is scaled so that its adjoint times b v is one (3: times the inverse of b). eigvals_only:
    the eigenvalues alone. `overwrite_a`, `overwrite_b`, `turbo` and `check_finite` have no effect;
    `eigvals`, a selection, is not taken. Derivatives are those of `weft.numpy.linalg.eigh`.

    Raises ShapeError, WeftValueError for another type, DTypeError, WeftTypeError, and
    WeftNotImplementedError for eigvals.

    >>> import weft.numpy as jnp
    >>> eigh(jnp.diag(jnp.array([16.0, 2.0])), jnp.diag(jnp.array([4.0, 1.0])), eigvals_only=True)
    Array([2., 4.], dtype=float32)
    """
    if b is None:
        v, w = eigh_operation.eigh(widen_operand(a), lower=lower, symmetrize_input=False)
    elif a.shape != b.shape:
        raise wrong_shape(f"a: {type_of(a)}, b: {type_of(b)}", "a b of the shape of a")
    else:
        pair = mirror_triangle(widen_operand(a), lower), mirror_triangle(widen_operand(b), lower)
        v, w = _generalized_eigh(*pair, type, not eigvals_only)
    w = restore_dtype(w, a.dtype)
    return w if eigvals_only else (w, restore_dtype(v, a.dtype))


def _range(value: Any, call: Arguments) -> Any:
    select, n = call["select"], call.type.shape[0]
    pair = (*value,) if isinstance(value, (tuple, list)) else ()
    if select == "a":
        return None
    if len(pair) == 2 and select == "v" and pair[0] < pair[1]:
        return pair
    whole = len(pair) == 2 and all(isinstance(i, (int, np.integer)) for i in pair)
    if select == "i" and whole and 0 <= pair[0] <= pair[1] < n:
        return int(pair[0]), int(pair[1])
    wanted = f'a select_range of two: with "i" numbers from 0 to {n - 1}, with "v" rising bounds'
    got = f"select={select!r}, select_range={value!r:.60}"
    raise wrong_value(got, wanted)


_vector = of_rank(1, 1)
Diagonal = Annotated[Any, dataclasses.replace(_vector, together=common)]
# An array that another function checks.
AnyDiagonal = Annotated[Any, dataclasses.replace(_vector, arrays=True)]
Select = Annotated[str, choice("a", "i", "v")]
Range = Annotated[Any, Kind(_range, "what is selected, two numbers", plain=NEVER)]
AnyRange = Annotated[Any, Kind(lambda value, call: value, "two numbers")]
NoTolerance = Annotated[Any, refused_kind("results are exact to roundoff", "leave it out")]
NoKey = Annotated[Any, refused_kind("nothing is drawn", "leave it out")]


@array_function
def _eigh_tridiagonal(
    d: Diagonal, e: Diagonal, eigvals_only: Flag = False, select: Select = "a", select_range:
    Range = None,
) -> Any:  # fmt: skip
    n, dtype = d.shape[0], d.dtype
    if e.shape[0] != max(n - 1, 0) or n == 0:
        got = f"d: {type_of(d)}, e: {type_of(e)}"
        raise wrong_shape(got, "d of n >= 1 elements and e of n - 1")
    first, last = select_range if select == "i" else (0, n - 1)
    d, e = widen_operand(d).real, widen_operand(e)
    v, w = eigh_operation.eigh(
        jnp.diag(d.astype(e.dtype)) + jnp.diag(e, -1),
        lower=True,
        symmetrize_input=False,
        subset_by_index=(first, last + 1),
    )
    return (
        restore_dtype(w, dtype)
        if eigvals_only
        else (restore_dtype(w, dtype), restore_dtype(v, dtype))
    )


@overload
def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: Literal[False] = ..., select: str = ...,
    select_range: tuple[float, float] | None = ..., tol: float | None = ..., key: Any = ...,
) -> tuple[Array, Array]: ...  # fmt: skip


@overload
def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: Literal[True], select: str = ...,
    select_range: tuple[float, float] | None = ..., tol: float | None = ..., key: Any = ...,
) -> Array: ...  # fmt: skip


@overload
def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: bool = ..., select: str = ...,
    select_range: tuple[float, float] | None = ..., tol: float | None = ..., key: Any = ...,
) -> Any: ...  # fmt: skip


@python_function
def eigh_tridiagonal(
    d: AnyDiagonal, e: AnyDiagonal, *, eigvals_only: Flag = False, select: Select = "a",
    select_range: AnyRange = None, tol: NoTolerance = None, key: NoKey = None,
) -> Any:  # fmt: skip
    """Eigenvalues, rising, and eigenvectors, as columns, of Hermitian tridiagonal matrices.

    d: shape (n,), the diagonal, real; e: (n - 1,), the one below it, real or complex. select: "a"
    all, "i" those from select_range[0] to select_range[1], counted from 0, "v" those in the
    half-open interval above select_range[0] up to select_range[1], as many as there are, so not
    inside `jit`. eigvals_only: the eigenvalues alone. The full matrix is formed, so derivatives are
    those of `eigh`; `tol` and `key` belong to other algorithms and are not taken.

    select_range: the first and the last index, or the bounds of the interval, for `select` "i" and
    "v"; tol, key: must be None: they belong to other algorithms.

    Raises ShapeError, WeftValueError for a wrong selection, DTypeError, WeftTypeError, and
    WeftNotImplementedError.

    >>> import weft.numpy as jnp
    >>> eigh_tridiagonal(jnp.zeros(2), jnp.ones(1), eigvals_only=True)
    Array([-1.,  1.], dtype=float32)
    """
    out = _eigh_tridiagonal(d, e, eigvals_only, select, select_range)
    if select != "v":
        return out
    w = out if eigvals_only else out[0]
    inside = (w > select_range[0]) & (w <= select_range[1])
    return w[inside] if eigvals_only else (w[inside], out[1][:, inside])
