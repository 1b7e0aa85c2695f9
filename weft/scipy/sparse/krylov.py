"""Conjugate gradients, and stabilized biconjugate gradients for non-Hermitian matrices.

Both keep a few vectors and multiply by the matrix, which may be given as a function.
Vectors may be pytrees. Derivatives are those of a solution: no step of an iteration is
differentiated, and a derivative costs one more system.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import weft.numpy as jnp
from weft.control_flow.while_loop import while_loop
from weft.errors import api_boundary
from weft.scipy.sparse.tree_vectors import (
    Operator,
    difference,
    dot,
    norm,
    plus,
    scale_tree,
    solution,
)
from weft.typing import Array, ArrayLike

Tree = TypeVar("Tree")


def _conjugate_gradients(
    a: Operator, b: Any, x0: Any, bound: Any, scale: Operator, maxiter: Any
) -> Any:
    """The algorithm of M. R. Hestenes and E. Stiefel (1952), with a preconditioner."""

    def unfinished(state: Any) -> Any:
        _, r, _, _, k = state
        return (norm(r) > bound) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        ap = a(p)
        alpha = gamma / dot(p, ap).real
        x, r = plus(x, alpha, p), plus(r, -alpha, ap)
        z = scale(r)
        following = dot(r, z).real
        return x, r, plus(z, following / gamma, p), following, k + 1

    r = difference(b, a(x0))
    z = scale(r)
    return while_loop(unfinished, step, (x0, r, z, dot(r, z).real, 0))[0]


@overload
def cg(
    A: Any, b: ArrayLike, x0: Any = ..., *, tol: Any = ..., atol: Any = ...,
    maxiter: int | None = ..., M: Any = ...,
) -> tuple[Array, None]: ...  # fmt: skip
@overload
def cg(
    A: Any, b: Tree, x0: Any = ..., *, tol: Any = ..., atol: Any = ..., maxiter: int | None = ...,
    M: Any = ...,
) -> tuple[Tree, None]: ...  # fmt: skip
@api_boundary("sparse.linalg.cg")
def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """Solves A x = b by conjugate gradients, A Hermitian and positive definite.

    A: a function that maps trees like b linearly to trees like b, or a matrix of shape (n, n) where
    b is a vector. b: an array or a tree of arrays; integers are computed as floating numbers.
    x0: the first guess, by default zeros. tol, atol: the iteration ends when the norm of b - A x is
    at most the larger of tol times the norm of b and atol. maxiter: the largest number of steps, by
    default ten times the number of unknowns. M: a function or a matrix that multiplies
    approximately by the inverse of A, itself Hermitian and positive definite. Returns x and None,
    where SciPy returns a status.

    Derivatives, in both modes, are those of a solution; x0 and M have none. By M. R. Hestenes and
    E. Stiefel, Methods of conjugate gradients for solving linear systems (1952).

    Raises WeftTypeError, DTypeError, ShapeError, TreeError and WeftValueError for arguments that do
    not fit.

    >>> import weft.numpy as jnp
    >>> x, _ = cg(lambda x: 4.0 * x, jnp.array([4.0, 8.0]))
    >>> x
    Array([1., 2.], dtype=float32)
    """
    options = {"tol": tol, "atol": atol, "maxiter": maxiter, "hermitian": True}
    return solution(_conjugate_gradients, A, b, x0, M, **options), None


def _bicgstab(a: Operator, b: Any, x0: Any, bound: Any, scale: Operator, maxiter: Any) -> Any:
    """The algorithm of H. A. van der Vorst (1992), preconditioned from the right."""

    def unfinished(state: Any) -> Any:
        r, k, broken = state[1], state[-2], state[-1]
        return (norm(r) > bound) & (k < maxiter) & ~broken

    def step(state: Any) -> Any:
        x, r, p, v, rho, alpha, omega, k, _ = state
        following = dot(shadow, r)
        beta = (following / rho) * (alpha / omega)
        p = plus(r, beta, plus(p, -omega, v))
        scaled_p = scale(p)
        v = a(scaled_p)
        alpha = following / dot(shadow, v)
        s = plus(r, -alpha, v)
        # Where half a step is enough, the other half would divide 0 by 0.
        done = norm(s) <= bound
        scaled_s = scale(s)
        t = a(scaled_s)
        square = dot(t, t)
        omega = jnp.where(done, 0, dot(t, s) / jnp.where(done, jnp.ones_like(square), square))
        x = plus(plus(x, alpha, scaled_p), omega, scaled_s)
        broken = (omega == 0) | (alpha == 0) | ~jnp.isfinite(abs(alpha) + abs(omega))
        return x, plus(s, -omega, t), p, v, following, alpha, omega, k + 1, broken

    shadow = r = difference(b, a(x0))
    one = jnp.ones_like(dot(r, r))
    nothing = scale_tree(0.0, r)
    start = (x0, r, nothing, nothing, one, one, one, 0, jnp.zeros_like(one, dtype=bool))
    return while_loop(unfinished, step, start)[0]


@overload
def bicgstab(
    A: Any, b: ArrayLike, x0: Any = ..., *, tol: Any = ..., atol: Any = ...,
    maxiter: int | None = ..., M: Any = ...,
) -> tuple[Array, None]: ...  # fmt: skip
@overload
def bicgstab(
    A: Any, b: Tree, x0: Any = ..., *, tol: Any = ..., atol: Any = ..., maxiter: int | None = ...,
    M: Any = ...,
) -> tuple[Tree, None]: ...  # fmt: skip
@api_boundary("sparse.linalg.bicgstab")
def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """Solves A x = b by stabilized biconjugate gradients, for any regular A.

    `A`, `b`, `x0`, `tol`, `atol`, `maxiter`, `M`, results, derivatives and errors: those of `cg`,
    but neither A nor M has to be Hermitian. Where the method breaks down, x is the last one it
    found. By H. A. van der Vorst, Bi-CGSTAB (1992).

    >>> import weft.numpy as jnp
    >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([4.0, 8.0]))
    >>> x
    Array([1., 2.], dtype=float32)
    """
    options = {"tol": tol, "atol": atol, "maxiter": maxiter}
    return solution(_bicgstab, A, b, x0, M, **options), None
