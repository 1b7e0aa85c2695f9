"""Eigenvalues of Hermitian matrices, of pairs of them, and of tridiagonal matrices."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import check_flag, computing_dtype, convert
from weft.kinds.compiled_functions import compiled
from weft.numpy.linalg.operands import check_square, returned
from weft.ops.linalg import eigh as eigh_operation
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.matrices import adjoint, matmul, on_diagonal, triangle
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.argument_checks import check_dimensions, one_of, refuse, wrong_shape, wrong_value

__all__ = ["eigh", "eigh_tridiagonal", "mirrored"]


def mirrored(x: Any, lower: bool) -> Any:
    """The Hermitian matrices with the given triangle and a real diagonal."""
    strict = triangle(x, lower, -1 if lower else 1)
    diagonal = convert(jnp.real(x), type_of(x).dtype)
    return jnp.where(on_diagonal(type_of(x)), diagonal, strict + adjoint(strict))


@compiled
def _eigh(a: Any, *, lower: bool, values_only: bool) -> Any:
    given = type_of(a).dtype
    x = convert(a, computing_dtype(given))
    v, w = eigh_operation.eigh(x, lower=lower, symmetrize_input=False)
    return returned(w, given) if values_only else (returned(w, given), returned(v, given))


@compiled
def _generalized(a: Any, b: Any, *, lower: bool, values_only: bool, type: int) -> Any:
    given = jnp.result_type(a, b)
    a, b = (mirrored(convert(x, computing_dtype(given)), lower) for x in (a, b))
    factor = cholesky(b, symmetrize_input=False)
    adjoint_of = {"lower": True, "transpose_a": True, "conjugate_a": True}
    if type == 1:
        half = triangular_solve(factor, a, left_side=True, lower=True)
        same = triangular_solve(factor, half, left_side=False, **adjoint_of)
    else:
        same = matmul(matmul(adjoint(factor), a), factor)
    v, w = eigh_operation.eigh(same, symmetrize_input=True)
    if values_only:
        return returned(w, given)
    if type == 3:
        v = matmul(factor, v)
    else:
        v = triangular_solve(factor, v, left_side=True, **adjoint_of)
    return returned(w, given), returned(v, given)


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


@api_boundary
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues, real and rising, and eigenvectors, as columns, of Hermitian matrices.

    a: shape (..., n, n); only the `lower` or the upper triangle is read. With a b of that
    shape, Hermitian and positive definite, of which the same triangle is read, those of a pair:
    type 1 a v = w b v, type 2 a b v = w v, type 3 b a v = w v, scaled so that the adjoint of v
    times b v is one (type 3: times the inverse of b). eigvals_only: the eigenvalues alone.
    `overwrite_a`, `overwrite_b`, `turbo` and `check_finite` have no effect; `eigvals`, a selection,
    is not taken. Derivatives are those of `weft.numpy.linalg.eigh`.

    Args:
        a: The matrices, Hermitian, (..., n, n).
        lower: Whether the lower triangle of a, and of b, is read, not the upper one.
        overwrite_a, overwrite_b, turbo, check_finite: Have no effect.
        eigvals: Must be None: a selection is not taken.
        type: Which problem a pair is: 1, 2 or 3 as above.

    Raises ShapeError, WeftValueError for another type, DTypeError, WeftTypeError, and
    WeftNotImplementedError for eigvals.

    >>> import weft.numpy as jnp
    >>> eigh(jnp.diag(jnp.array([16.0, 2.0])), jnp.diag(jnp.array([4.0, 1.0])), eigvals_only=True)
    Array([2., 4.], dtype=float32)
    """
    check_flag(lower, "linalg.eigh", "lower")
    check_flag(eigvals_only, "linalg.eigh", "eigvals_only")
    name = "linalg.eigh"
    check_square(name, "a", a)
    refuse(name, "eigvals", eigvals, None, "take those of the result that you need: w[lo:hi]")
    one_of(name, "type", type, (1, 2, 3))
    if b is None:
        return _eigh(a, lower=bool(lower), values_only=bool(eigvals_only))
    check_square(name, "b", b)
    if type_of(a).shape != type_of(b).shape:
        raise wrong_shape(name, f"a: {type_of(a)}, b: {type_of(b)}", "a b of the shape of a")
    return _generalized(a, b, lower=bool(lower), values_only=bool(eigvals_only), type=type)


@compiled
def _tridiagonal(d: Any, e: Any, *, values_only: bool, first: int, stop: int) -> Any:
    given = jnp.result_type(d, e)
    d, e = (convert(x, computing_dtype(given)) for x in (d, e))
    d = d.real
    x = jnp.diag(convert(d, e.dtype)) + jnp.diag(e, -1)
    v, w = eigh_operation.eigh(x, lower=True, symmetrize_input=False, subset_by_index=(first, stop))
    return returned(w, given) if values_only else (returned(w, given), returned(v, given))


def _selected(select: Any, range: Any, n: int) -> tuple[int, int]:
    """The selected range of eigenvalues as (start, stop)."""
    name = "linalg.eigh_tridiagonal"
    one_of(name, "select", select, ("a", "i", "v"))
    if select == "a":
        return 0, n
    pair = tuple(range) if isinstance(range, (tuple, list)) else ()
    whole = len(pair) == 2 and all(isinstance(i, (int, np.integer)) for i in pair)
    if select == "i" and whole and 0 <= pair[0] <= pair[1] < n:
        return int(pair[0]), int(pair[1]) + 1
    if select == "v" and len(pair) == 2 and pair[0] < pair[1]:
        return 0, n
    wanted = f'a select_range of two: with "i" numbers from 0 to {n - 1}, with "v" rising bounds'
    raise wrong_value(name, f"select={select!r}, select_range={range!r:.60}", wanted)


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


@api_boundary
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
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
    check_flag(eigvals_only, "linalg.eigh_tridiagonal", "eigvals_only")
    name = "linalg.eigh_tridiagonal"
    check_dimensions(name, "d", d, 1, 1)
    check_dimensions(name, "e", e, 1, 1)
    refuse(name, "tol", tol, None, "leave it out: results are exact to roundoff")
    refuse(name, "key", key, None, "leave it out: nothing is drawn")
    n = type_of(d).shape[0]
    if type_of(e).shape[0] != max(n - 1, 0) or n == 0:
        raise wrong_shape(
            name, f"d: {type_of(d)}, e: {type_of(e)}", "d of n >= 1 elements and e of n - 1"
        )
    first, stop = _selected(select, select_range, n)
    found = _tridiagonal(d, e, values_only=bool(eigvals_only), first=first, stop=stop)
    if select != "v":
        return found
    w = found if eigvals_only else found[0]
    inside = (w > select_range[0]) & (w <= select_range[1])
    return w[inside] if eigvals_only else (w[inside], found[1][:, inside])
