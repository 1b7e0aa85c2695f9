"""Systems of equations with square matrices: solve, inv, and both for tensors.

One LU factorization serves the value and all derivatives, which are solutions of systems with the
same matrix (M. B. Giles, Collected matrix derivative results for forward and reverse mode
algorithmic differentiation, 2008). A singular matrix gives infinities or NaN, under `jit` and
outside: no exception can depend on values.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.arguments import Axes, Integer
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcast_shape, broadcasted
from weft.numpy.linalg.operands import (
    PromotedNumbers,
    PromotedSquare,
    PromotedVector,
    SquareMatrix,
    Vector,
    restore_dtype,
    widen_operand,
)
from weft.ops.collectives.all_reduce import pbroadcast
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.indexing.creation import broadcasted_iota, eye
from weft.ops.linalg.lu import lu
from weft.ops.linalg.matrices import matmul, permute_matrix
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.reductions.sorting import sort_key_val
from weft.ops.structural.shape import broadcast_in_dim, transpose

# ---- with one factorization ----------------------------------------------------------------------


def _solve_factored(packed: Any, permutation: Any, b: Any) -> Any:
    """Solves A x = b from the factors of A."""
    b = permute_matrix(b, permutation, -2)
    x = triangular_solve(packed, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(packed, x, left_side=True, lower=False)


def _solve_factored_transposed(packed: Any, permutation: Any, b: Any) -> Any:
    """Solves A.T x = b from the factors of A."""
    x = triangular_solve(packed, b, left_side=True, lower=False, transpose_a=True)
    x = triangular_solve(
        packed, x, left_side=True, lower=True, transpose_a=True, unit_diagonal=True
    )
    last = permutation.ndim - 1
    places = broadcasted_iota(dtypes.int32, permutation.shape, last)
    return permute_matrix(x, sort_key_val(permutation, places, last)[1], -2)


def solve_batched(a: Any, b: Any) -> Any:
    """Solves a x = b in one dtype of LAPACK; batch dimensions of `a` broadcast to those of `b`."""
    packed, _, permutation = lu(stop_gradient(a))
    # For an invariant right-hand side the transposed system would communicate.
    differs = type_of(packed).varying - type_of(b).varying
    if differs:
        b = pbroadcast(b, tuple(sorted(differs)))
    batch, n = b.shape[:-2], a.shape[-1]
    # Matrices that are broadcast are factored once.
    a, packed = broadcasted(a, (*batch, n, n)), broadcasted(packed, (*batch, n, n))
    permutation = broadcasted(permutation, (*batch, n))
    return custom_linear_solve(
        lambda x: matmul(a, x),
        b,
        lambda _, y: _solve_factored(packed, permutation, y),
        lambda _, y: _solve_factored_transposed(packed, permutation, y),
    )


def identities(a: Any) -> Any:
    """Identity matrices of the type of square matrices."""
    of = type_of(a)
    one = eye(of.dtype, of.shape[-2:])
    return broadcast_in_dim(one, of.shape, (of.ndim - 2, of.ndim - 1))


def _solve_broadcast(a: Any, b: Any) -> Any:
    """Solves a x = b, for one vector and all matrices, or for matrices that broadcast."""
    dtype = a.dtype
    a, b = widen_operand(a), widen_operand(b)
    if b.ndim == 1:
        b = broadcasted(b[:, None], (*a.shape[:-1], 1))
        return restore_dtype(solve_batched(a, b)[..., 0], dtype)
    if a.ndim == 2 and b.ndim > 2:
        # One matrix for all: the right-hand sides become columns of one.
        beside = b.transpose(b.ndim - 2, *range(b.ndim - 2), b.ndim - 1)
        x = solve_batched(a, beside.reshape(a.shape[0], -1)).reshape(beside.shape)
        return restore_dtype(x.transpose(*range(1, b.ndim - 1), 0, b.ndim - 1), dtype)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2], operation="linalg.solve")
    return restore_dtype(solve_batched(a, broadcasted(b, (*batch, *b.shape[-2:]))), dtype)


@array_function
def solve(a: PromotedSquare, b: PromotedVector) -> Array:
    """The x for which a x = b.

    a: shape (..., n, n); b: shape (n,), one right-hand side for all matrices, or (..., n, k), with
    batch dimensions that broadcast with those of a. The result has the shape of b with the batch
    dimensions of both. A singular matrix gives infinities or NaN. By LAPACK's getrf and trsm; all
    derivatives use the same factorization.

    Raises ShapeError if shapes do not fit, DTypeError, WeftTypeError.

    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    n = a.shape[-1]
    if b.shape[-1 if b.ndim == 1 else -2] != n:
        wanted = f"b of shape ({n},) or (..., {n}, k)"
        text = f"pass a {wanted}"
        if b.shape[-1] == n:
            text = "several vectors are columns: b[..., None] for one each"
        raise ShapeError(
            "b has not as many rows as a",
            got=f"a: {type_of(a)}, b: {type_of(b)}",
            wanted=wanted,
            fix=Fix("expand_dims", text),
        )
    return _solve_broadcast(a, b)


@array_function
def inv(a: SquareMatrix) -> Array:
    """The inverses of square matrices, shape (..., n, n).

    A singular matrix gives infinities or NaN. By LAPACK's getrf and trsm; to apply an inverse,
    `solve` is faster and more accurate. Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = widen_operand(a)
    return restore_dtype(solve_batched(x, identities(x)), a.dtype)


@array_function
def tensorinv(a: Vector, ind: Integer = 2) -> Array:
    """The inverse of a tensor as a linear map from its last dimensions to its first `ind`.

    The first `ind` dimensions have as many elements together as the others. In the result, the
    others come first. Raises ShapeError if they have not, WeftValueError for ind below 1.

    >>> jnp.linalg.tensorinv(2 * jnp.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    fitting = [i for i in range(1, a.ndim) if prod(a.shape[:i]) == prod(a.shape[i:])]
    fix = Fix("ind", f"pass ind={fitting[0]}") if fitting else None
    if ind < 1:
        raise WeftValueError("ind is at least 1", got=f"ind={ind}", wanted="1 or more", fix=fix)
    first, rest = a.shape[:ind], a.shape[ind:]
    n = prod(first)
    if n != prod(rest):
        raise ShapeError(
            "it takes tensors that are square",
            got=f"a: {type_of(a)}, ind={ind}: {n} by {prod(rest)} elements",
            wanted="as many elements in the first dimensions as in the others",
            fix=fix,
        )
    return inv(a.reshape(n, n)).reshape(*rest, *first)


def _axes_fix(a: tuple[int, ...], b: tuple[int, ...]) -> Fix | None:
    """The fix that moves dimensions of `a` to the end, for a right side of shape `b`."""
    for axes in itertools.combinations(range(len(a)), max(len(a) - len(b), 0)):
        rest = tuple(n for d, n in enumerate(a) if d not in axes)
        if rest == b and prod(a[d] for d in axes) == prod(b):
            return Fix("axes", f"pass axes={axes}", {"axes": axes})
    return None


@array_function
def tensorsolve(a: PromotedVector, b: PromotedNumbers, axes: Axes | None = None) -> Array:
    """The x for which the sums of a x over the last dimensions of a are b.

    a: shape b.shape + x.shape, of as many elements as both; axes: the dimensions of a to move to
    the end first. Raises ShapeError if shapes do not fit, AxisError.

    >>> jnp.linalg.tensorsolve(2 * jnp.eye(6).reshape(2, 3, 6), jnp.ones((2, 3)))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    shape = a.shape
    if axes is not None:
        a = transpose(a, [*(d for d in range(a.ndim) if d not in axes), *axes])
    rest = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or prod(rest) != b.size:
        raise ShapeError(
            "the shapes do not fit together",
            got=f"a: {type_of(a)}, b: {type_of(b)}",
            wanted="a of the dimensions of b, and after them as many elements as b has",
            fix=_axes_fix(shape, b.shape),
        )
    return _solve_broadcast(a.reshape(b.size, b.size), b.reshape(b.size)).reshape(rest)
