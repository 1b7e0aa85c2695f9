"""Linear algebra with sparse matrices: eigenvectors of large ones, and linear systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.base.facades import public_names
from weft.callbacks.primitives import pure_callback
from weft.control_flow.linear_solve import custom_linear_solve
from weft.control_flow.while_loop import while_loop
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.experimental.sparse.base import JAXSparse
from weft.experimental.sparse.single_matrices import CSR, csr_matvec
from weft.runtime.jaxlib.lazy import LazyModule
from weft.typing import Array

__all__ = ["lobpcg_standard", "spsolve"]

__dir__ = public_names(globals())

scipy_sparse: Any = LazyModule("scipy.sparse")
scipy_solvers: Any = LazyModule("scipy.sparse.linalg")


@api_boundary
def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """The solution x of A x = b for a sparse square matrix A, factorized on the host by SciPy.

    data (nse,) of floats, indices (nse,) and indptr (n + 1,) of integers are A as compressed rows,
    without padding; b is (n,). `tol` and `reorder` are for JAX's signature: the factorization
    chooses its own order. Differentiable by `data` and `b`. Raises ShapeError if the shapes do
    not fit.

    Args:
        indices: The column of each element.
        indptr: Where each row begins among the elements.
        data: The elements, row by row: (nse,) of floats.
        b: The right-hand side, (n,) of floats.
        tol, reorder: Has no meaning: the factorization chooses its own order.

    >>> from weft.experimental.sparse.linalg import spsolve
    >>> data, where, rows = jnp.array([2.0, 4.0]), jnp.array([0, 1]), jnp.array([0, 1, 2])
    >>> spsolve(data, where, rows, jnp.array([1.0, 1.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    data, indices, indptr, b = (jnp.asarray(x) for x in (data, indices, indptr, b))
    (n,) = type_of(b).shape if type_of(b).ndim == 1 else (-1,)
    if type_of(indptr).shape != (n + 1,) or type_of(data).shape != type_of(indices).shape:
        message = "the shapes do not fit"
        got = ", ".join(str(type_of(x).shape) for x in (data, indices, indptr, b))
        wanted = "data (nse,), indices (nse,), indptr (n + 1,), b (n,)"
        raise ShapeError(message, got=got, wanted=wanted)

    def matvec(v: Any) -> Any:
        return csr_matvec(CSR((data, indices, indptr), shape=(n, n)), v)

    def solver(transpose: bool) -> Callable[..., Any]:
        def solve(_: Any, right: Any) -> Any:
            shape = ShapeDtypeStruct(type_of(right).shape, type_of(right).dtype)
            on_host = _solve_transposed_on_host if transpose else _solve_on_host
            return pure_callback(
                on_host, shape, data, indices, indptr, right, vmap_method="sequential"
            )

        return solve

    solution: Array = custom_linear_solve(
        matvec, b, solve=solver(False), transpose_solve=solver(True)
    )
    return solution


def _matrix(data: Any, indices: Any, indptr: Any, n: int) -> Any:
    parts = tuple(np.asarray(x) for x in (data, indices, indptr))
    return scipy_sparse.csr_matrix(parts, shape=(n, n))


def _solve_on_host(data: Any, indices: Any, indptr: Any, b: Any) -> Any:
    a = _matrix(data, indices, indptr, len(b)).tocsc()
    return np.asarray(scipy_solvers.spsolve(a, np.asarray(b))).astype(b.dtype)


def _solve_transposed_on_host(data: Any, indices: Any, indptr: Any, b: Any) -> Any:
    # The transpose of compressed rows is compressed columns.
    a = _matrix(data, indices, indptr, len(b)).T
    return np.asarray(scipy_solvers.spsolve(a, np.asarray(b))).astype(b.dtype)


# ---- eigenvectors --------------------------------------------------------------------------------


@api_boundary
def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Array, Array, Array]:
    """The k largest eigenvalues of a symmetric positive definite matrix, with eigenvectors.

    A: an (n, n) matrix (dense, BCOO or BCSR), or a function of (n, k) arrays that applies it; X:
    (n, k) of floats, a first guess, with 5 k < n. Goes on for at most `m` iterations, until the
    residual of each pair, relative to the size of A and of the eigenvalue, is below `tol` (None:
    the machine's precision). Returns the eigenvalues (k,) in decreasing order, the eigenvectors
    (n, k) as columns, and the number of iterations. Raises ShapeError for shapes that do not fit.

    The method is that of A. V. Knyazev, "Toward the Optimal Preconditioned Eigensolver", SIAM J.
    Sci. Comput. 23 (2001), without a preconditioner; its bases are made orthonormal as U. Hetmaniuk
    and R. Lehoucq, "Basis selection in LOBPCG", J. Comput. Phys. 218 (2006), advise.

    Args:
        m: The most iterations.
        tol: The size of a residual that is small enough; None for the machine's precision.

    >>> from weft.experimental.sparse.linalg import lobpcg_standard
    >>> a = jnp.diag(jnp.arange(1.0, 31.0))
    >>> values, vectors, steps = lobpcg_standard(a, jnp.eye(30, 2) + 0.1)
    >>> np.asarray(values).round().tolist()
    [30.0, 29.0]
    """
    X = jnp.asarray(X)
    shape = type_of(X).shape
    dense = not callable(A)
    if dense and not isinstance(A, JAXSparse):
        A = jnp.asarray(A)
    matrix_shape = (A.shape if isinstance(A, JAXSparse) else type_of(A).shape) if dense else None
    square = matrix_shape is None or len(shape) == 2 and matrix_shape == (shape[0], shape[0])
    if len(shape) != 2 or not square or not 0 < 5 * shape[1] < shape[0]:
        message = "the shapes do not fit"
        got = f"A of shape {matrix_shape}, X of shape {shape}"
        raise ShapeError(message, got=got, wanted="(n, n) and (n, k), 5 k < n")
    apply = (lambda v: A @ v) if dense else A
    out: tuple[Array, Array, Array] = _lobpcg(apply, X, int(m), tol)
    return out


def _orthonormal(basis: Any) -> Any:
    """An orthonormal basis of the columns' span; dependent columns become zeros."""
    scale = jnp.linalg.norm(basis, axis=0)
    basis = basis / jnp.where(scale > 0, scale, 1)
    for _ in range(2):
        values, vectors = jnp.linalg.eigh(basis.T @ basis)
        least = jnp.finfo(type_of(basis).dtype).eps * type_of(basis).shape[0]
        kept = values > least * jnp.max(values)
        factors = jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1)), 0)
        basis = (basis @ vectors) * factors
    return basis


def _without(basis: Any, space: Any) -> Any:
    """Columns orthogonalized against orthonormal ones (twice is enough)."""
    for _ in range(2):
        basis = basis - space @ (space.T @ basis)
    return basis


def _lobpcg(apply: Callable[[Any], Any], X: Any, m: int, tol: Any) -> tuple[Any, Any, Any]:
    dtype = type_of(X).dtype
    n, k = type_of(X).shape
    tol = jnp.finfo(dtype).eps if tol is None else tol
    X = _orthonormal(X)
    AX = apply(X)

    def residual(theta: Any, X: Any, AX: Any) -> tuple[Any, Any]:
        rest = AX - X * theta
        # The norm of A from below, by what it does to the basis.
        size = jnp.max(jnp.linalg.norm(AX, axis=0))
        norms = jnp.linalg.norm(rest, axis=0)
        return rest, norms / (10 * n * (size + jnp.abs(theta)))

    def going(state: Any) -> Any:
        step, _, _, _, _, errors = state
        return (step < m) & jnp.any(errors > tol)

    def improved(state: Any) -> Any:
        step, X, P, AX, theta, _ = state
        rest, _ = residual(theta, X, AX)
        P = _orthonormal(_without(P, X))
        rest = _orthonormal(_without(_without(rest, X), P))
        basis = jnp.concatenate([X, P, rest], 1)
        image = apply(basis)
        reduced = basis.T @ image
        # Directions that are zero must not be chosen.
        missing = jnp.sum(basis * basis, 0) < 0.5
        low = -2 * jnp.linalg.norm(reduced) - 1
        reduced = (reduced + reduced.T) / 2 + jnp.diag(jnp.where(missing, low, 0))
        values, vectors = jnp.linalg.eigh(reduced)
        theta, chosen = values[::-1][:k], vectors[:, ::-1][:, :k]
        # What the new vectors have outside of the old ones is the next direction.
        P = basis[:, k:] @ chosen[k:]
        X, AX = basis @ chosen, image @ chosen
        X = X / jnp.linalg.norm(X, axis=0)
        AX = apply(X)
        theta = jnp.sum(X * AX, 0)
        return step + 1, X, P, AX, theta, residual(theta, X, AX)[1]

    theta = jnp.sum(X * AX, 0)
    start = (jnp.zeros((), "int32"), X, jnp.zeros_like(X), AX, theta, residual(theta, X, AX)[1])
    step, X, _, _, theta, _ = while_loop(going, improved, start)
    order = jnp.argsort(-theta)
    return theta[order], X[:, order], step
