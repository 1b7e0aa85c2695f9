"""GMRES: the solution of least residual in a growing space, for any regular matrix.

The space is spanned by b, A b, A A b …, of which Arnoldi's iteration makes an orthonormal basis; in
it A is a small Hessenberg matrix H, and the least residual a least squares problem with H. After
`restart` vectors the method starts again from the solution so far.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import weft.numpy as jnp
from weft import tree
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.while_loop import while_loop
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import check_choice, convert, count_of
from weft.numpy.linalg.factorizations import qr
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.sparse.tree_vectors import Operator, difference, norm, plus, solution
from weft.typing import Array, ArrayLike

Tree = TypeVar("Tree")


def _along(basis: Any, w: Any) -> Any:
    """The products of every vector of a basis with w."""
    pairs = zip(tree.leaves(basis), tree.leaves(w), strict=True)
    return sum(
        jnp.tensordot(jnp.conj(v), x, type_of(x).ndim, precision="highest") for v, x in pairs
    )


def _combine_basis(basis: Any, factors: Any) -> Any:
    """The sum of basis vectors, each times a factor."""

    def one(v: Any) -> Any:
        weights = factors if jnp.iscomplexobj(v) else factors.real
        weights = convert(weights, v.dtype)
        return jnp.tensordot(weights, v[: weights.shape[0]], 1, precision="highest")

    return tree.map(one, basis)


def _unit(x: Any, least: Any) -> tuple[Any, Any]:
    """The unit vector and the length of a vector; zeros if the length is at most `least`."""
    length = norm(x)
    fine = length > least
    factor = jnp.where(fine, 1 / jnp.where(fine, length, 1), 0)
    return tree.map(lambda v: v * convert(factor, v.real.dtype), x), jnp.where(fine, length, 0)


def _extend_basis(a: Operator, scale: Any, basis: Any, k: Any) -> tuple[Any, Any]:
    """The basis with one more vector, and the next column of H.

    Classical Gram-Schmidt, done twice: as accurate as the modified one, and all products at once.
    """
    w = scale(a(tree.map(lambda v: v[k], basis)))
    before = norm(w)
    h = _along(basis, w)
    w = difference(w, _combine_basis(basis, h))
    more = _along(basis, w)
    w = difference(w, _combine_basis(basis, more))
    unit, length = _unit(w, jnp.finfo(before.dtype).eps * before)
    basis = tree.map(lambda v, new: v.at[k + 1].set(new), basis, unit)
    return basis, (h + more).at[k + 1].set(convert(length, h.dtype))


def _back_substitute(r: Any, y: Any) -> Any:
    """Solves r x = y for an upper triangular r; zero where r has no pivot."""
    diagonal = jnp.diagonal(r)
    missing = diagonal == 0
    r = r + jnp.diag(convert(missing, r.dtype))
    x = triangular_solve(r, jnp.where(missing, 0, y)[:, None], left_side=True)
    return x[:, 0]


def _gmres_batched(a: Operator, scale: Any, basis: Any, length: Any, bound: Any, count: int) -> Any:
    """The combination of all `count` vectors with least residual, computed at the end."""

    def more(k: Any, state: Any) -> Any:
        basis, h = state
        basis, column = _extend_basis(a, scale, basis, k)
        return basis, h.at[:, k].set(column)

    h = jnp.zeros((count + 1, count), _dtype(basis))
    basis, h = fori_loop(0, count, more, (basis, h))
    q, r = qr(h)
    return basis, _back_substitute(r, jnp.conj(q[0]) * convert(length, h.dtype))


def _apply_rotations(column: Any, rotations: Any, k: Any) -> Any:
    """Applies the rotations of earlier columns to a column of H."""

    def one(i: Any, column: Any) -> Any:
        c, s = rotations[i, 0], rotations[i, 1]
        upper, lower = column[i], column[i + 1]
        column = column.at[i].set(c * upper + s * lower)
        return column.at[i + 1].set(-jnp.conj(s) * upper + c * lower)

    return fori_loop(0, k, one, column)


def _rotation(upper: Any, lower: Any) -> tuple[Any, Any]:
    """The cosine and sine of the rotation that makes `lower` 0."""
    size = jnp.hypot(abs(upper), abs(lower))
    fine = size > 0
    safe = convert(jnp.where(fine, size, 1), upper.dtype)
    magnitude = abs(upper)
    length = convert(jnp.where(magnitude > 0, magnitude, 1), upper.dtype)
    phase = jnp.where(magnitude > 0, upper / length, 1)
    c = jnp.where(fine, convert(magnitude, upper.dtype) / safe, 1)
    return c, jnp.where(fine, phase * jnp.conj(lower) / safe, 0)


def _gmres_incremental(
    a: Operator, scale: Any, basis: Any, length: Any, bound: Any, count: int
) -> Any:
    """`_gmres_batched`, with H made triangular by columns, until the residual is <= `bound`."""
    dtype = _dtype(basis)

    def unfinished(state: Any) -> Any:
        k, _, _, rest, _ = state
        return (k < count) & (abs(rest[k]) > bound)

    def step(state: Any) -> Any:
        k, basis, r, rest, rotations = state
        basis, column = _extend_basis(a, scale, basis, k)
        column = _apply_rotations(column, rotations, k)
        c, s = _rotation(column[k], column[k + 1])
        column = column.at[k].set(c * column[k] + s * column[k + 1]).at[k + 1].set(0)
        rest = rest.at[k + 1].set(-jnp.conj(s) * rest[k]).at[k].set(c * rest[k])
        rotations = rotations.at[k].set(jnp.stack([c, s]))
        return k + 1, basis, r.at[:, k].set(column), rest, rotations

    rest = jnp.zeros(count + 1, dtype).at[0].set(convert(length, dtype))
    start = (0, basis, jnp.zeros((count + 1, count), dtype), rest, jnp.zeros((count, 2), dtype))
    k, basis, r, rest, _ = while_loop(unfinished, step, start)
    # Columns that were not reached have no pivot.
    return basis, _back_substitute(r[:count], rest[:count])


_METHODS = {"batched": _gmres_batched, "incremental": _gmres_incremental}


def _dtype(basis: Any) -> Any:
    return jnp.result_type(*tree.leaves(basis))


def _restart_gmres(
    a: Operator, b: Any, x0: Any, bound: Any, scale: Operator, maxiter: Any, way: str,
    restart: int,
) -> Any:  # fmt: skip
    size = sum(type_of(leaf).size for leaf in tree.leaves(b))
    count = min(restart, size)

    def unfinished(state: Any) -> Any:
        _, length, last, k = state
        # A round that changes nothing is followed by others that change nothing.
        return (length > bound) & (k < maxiter) & (length < last)

    def round(state: Any) -> Any:
        x, length, _, k = state
        unit, size = _unit(scale(difference(b, a(x))), 0)
        basis = tree.map(lambda v: jnp.zeros((count + 1, *v.shape), v.dtype).at[0].set(v), unit)
        inner = bound * size / length
        basis, factors = _METHODS[way](a, scale, basis, size, inner, count)
        x = plus(x, 1, _combine_basis(basis, factors))
        return x, norm(difference(b, a(x))), length, k + 1

    first = norm(difference(b, a(x0)))
    return while_loop(unfinished, round, (x0, first, jnp.full_like(first, jnp.inf), 0))[0]


@overload
def gmres(
    A: Any, b: ArrayLike, x0: Any = ..., *, tol: Any = ..., atol: Any = ..., restart: int = ...,
    maxiter: int | None = ..., M: Any = ..., solve_method: str = ...,
) -> tuple[Array, None]: ...  # fmt: skip
@overload
def gmres(
    A: Any, b: Tree, x0: Any = ..., *, tol: Any = ..., atol: Any = ..., restart: int = ...,
    maxiter: int | None = ..., M: Any = ..., solve_method: str = ...,
) -> tuple[Tree, None]: ...  # fmt: skip
@api_boundary("sparse.linalg.gmres")
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Solves A x = b by generalized minimal residuals, for any regular A.

    `A`, `b`, `x0`, `tol`, `atol`, `M`, results, derivatives and errors: those of `cg`, but
    neither A nor M has to be Hermitian. restart: how many vectors to keep (all in memory).
    maxiter: the largest number of starts, by default ten times the number of unknowns.
    solve_method: "batched" makes all vectors and solves one least squares problem, "incremental"
    one rotation for each, and stops as soon as the residual is small enough. The method also ends
    when a start brings no progress. By Y. Saad and M. H. Schultz, GMRES (1986).

    >>> import weft.numpy as jnp
    >>> x, _ = gmres(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([4.0, 8.0]))
    >>> x.round(4)
    Array([1., 2.], dtype=float32)
    """
    check_choice(solve_method, tuple(_METHODS), "solve_method")
    count = count_of(restart, "restart", 1)
    options = {"tol": tol, "atol": atol, "maxiter": maxiter, "options": (solve_method, count)}
    return solution(_restart_gmres, A, b, x0, M, **options), None
