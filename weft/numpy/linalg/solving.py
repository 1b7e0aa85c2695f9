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
from weft.argument_errors import integer_of, invalid_value, refusal
from weft.arrays.array import Array
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, api_boundary
from weft.kinds.checks import axes_of, broadcast_shape, broadcasted, promoted
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import promote_operands
from weft.kinds.repeated import repeated
from weft.numpy.linalg.operands import check_matrices, check_square, returned, widened
from weft.ops.collectives.all_reduce import pbroadcast
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.indexing.creation import broadcasted_iota, eye
from weft.ops.linalg.lu import lu
from weft.ops.linalg.matrices import matmul, reordered
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.reductions.sorting import sort_key_val
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reshape, squeeze, transpose

__all__ = ["identities", "inv", "solve", "solved", "tensorinv", "tensorsolve"]


# ---- with one factorization ----------------------------------------------------------------------


def _substituted(packed: Any, permutation: Any, b: Any) -> Any:
    """The solution of A x = b, from the factors of A."""
    b = reordered(b, permutation, -2)
    x = triangular_solve(packed, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(packed, x, left_side=True, lower=False)


def _substituted_transposed(packed: Any, permutation: Any, b: Any) -> Any:
    """The solution of A.T x = b, from the factors of A."""
    x = triangular_solve(packed, b, left_side=True, lower=False, transpose_a=True)
    x = triangular_solve(
        packed, x, left_side=True, lower=True, transpose_a=True, unit_diagonal=True
    )
    of = type_of(permutation)
    places = broadcasted_iota(dtypes.int32, of.shape, of.ndim - 1)
    return reordered(x, sort_key_val(permutation, places, of.ndim - 1)[1], -2)


def solved(a: Any, b: Any) -> Any:
    """The matrices x for which a x = b, in one dtype that LAPACK takes; batch dimensions of `a`
    broadcast to those of `b`."""
    packed, _, permutation = lu(stop_gradient(a))
    # For an invariant right-hand side the transposed system would communicate.
    differs = type_of(packed).varying - type_of(b).varying
    if differs:
        b = pbroadcast(b, tuple(sorted(differs)))
    batch, n = type_of(b).shape[:-2], type_of(a).shape[-1]
    # Matrices that are broadcast are factored once.
    a, packed = broadcasted(a, (*batch, n, n)), broadcasted(packed, (*batch, n, n))
    permutation = broadcasted(permutation, (*batch, n))
    return custom_linear_solve(
        lambda x: matmul(a, x),
        b,
        lambda _, y: _substituted(packed, permutation, y),
        lambda _, y: _substituted_transposed(packed, permutation, y),
    )


def identities(a: Any) -> Any:
    """Identity matrices of the type of the given square matrices."""
    of = type_of(a)
    one = eye(of.dtype, of.shape[-2:])
    return broadcast_in_dim(one, of.shape, (of.ndim - 2, of.ndim - 1))


@compiled
def _solve(a: Any, b: Any) -> Any:
    given = promoted("linalg.solve", a, b)
    dtype = type_of(given[0]).dtype
    a, b = map(widened, given)
    left, right = type_of(a), type_of(b)
    if right.ndim == 1:
        batch = left.shape[:-2]
        b = broadcasted(expand_dims(b, (1,)), (*batch, left.shape[-1], 1), "linalg.solve")
        return returned(squeeze(solved(a, b), (left.ndim - 1,)), dtype)
    if left.ndim == 2 and right.ndim > 2:
        # One matrix for all: the right-hand sides become columns of one.
        order = (right.ndim - 2, *range(right.ndim - 2), right.ndim - 1)
        beside = transpose(b, order)
        shape = type_of(beside).shape
        found = solved(a, reshape(beside, (shape[0], prod(shape[1:]))))
        back = (*range(1, right.ndim - 1), 0, right.ndim - 1)
        return returned(transpose(reshape(found, shape), back), dtype)
    batch = broadcast_shape("linalg.solve", left.shape[:-2], right.shape[:-2])
    b = broadcasted(b, (*batch, *right.shape[-2:]), "linalg.solve")
    return returned(solved(a, b), dtype)


@api_boundary
@repeated
def solve(a: Any, b: Any) -> Array:
    """The x for which a x = b.

    a: shape (..., n, n); b: shape (n,), one right-hand side for all matrices, or (..., n, k), with
    batch dimensions that broadcast with those of a. The result has the shape of b with the batch
    dimensions of both. A singular matrix gives infinities or NaN. By LAPACK's getrf and trsm; all
    derivatives use the same factorization.

    Raises ShapeError if shapes do not fit, DTypeError, WeftTypeError.

    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    check_square("linalg.solve", "a", a)
    check_matrices("linalg.solve", "b", b, least=1)
    a, b = promote_operands("linalg.solve", a, b)
    left, right = type_of(a), type_of(b)
    if right.shape[-1 if right.ndim == 1 else -2] != left.shape[-1]:
        message = "linalg.solve: b has not as many rows as a"
        wanted = f"b of shape ({left.shape[-1]},) or (..., {left.shape[-1]}, k)"
        text = f"pass a {wanted}"
        if right.shape[-1] == left.shape[-1]:
            text = "several vectors are columns: b[..., None] for one each"
        fix = Fix("expand_dims", text)
        raise refusal(ShapeError, message, "linalg.solve", f"a: {left}, b: {right}", wanted, fix)
    broadcast_shape("linalg.solve", left.shape[:-2], right.shape[:-2])
    return _solve(a, b)


@compiled
def _inverse(a: Any) -> Any:
    x = widened(a)
    return returned(solved(x, identities(x)), type_of(a).dtype)


@api_boundary
@repeated
def inv(a: Any) -> Array:
    """The inverses of square matrices, shape (..., n, n).

    A singular matrix gives infinities or NaN. By LAPACK's getrf and trsm; to apply an inverse,
    `solve` is faster and more accurate. Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    check_square("linalg.inv", "a", a)
    return _inverse(a)


@api_boundary
def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse of a tensor as a linear map from its last dimensions to its first `ind`.

    The first `ind` dimensions have as many elements together as the others. In the result, the
    others come first. Raises ShapeError if they have not, WeftValueError for ind below 1.

    >>> jnp.linalg.tensorinv(2 * jnp.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    check_matrices("linalg.tensorinv", "a", a, least=1)
    count, of = integer_of(ind, "linalg.tensorinv", "ind"), type_of(a)
    fitting = [i for i in range(1, of.ndim) if prod(of.shape[:i]) == prod(of.shape[i:])]
    fix = Fix("ind", f"pass ind={fitting[0]}") if fitting else None
    if count < 1:
        message = "linalg.tensorinv: ind is at least 1"
        raise invalid_value(message, "linalg.tensorinv", "ind", count, "1 or more", fix=fix)
    first, rest = of.shape[:count], of.shape[count:]
    if prod(first) != prod(rest):
        message = "linalg.tensorinv takes tensors that are square"
        got = f"a: {of}, ind={count}: {prod(first)} by {prod(rest)} elements"
        wanted = "as many elements in the first dimensions as in the others"
        raise refusal(ShapeError, message, "linalg.tensorinv", got, wanted, fix)
    n = prod(first)
    return reshape(_inverse(reshape(a, (n, n))), (*rest, *first))


def _moved(a: tuple[int, ...], b: tuple[int, ...]) -> Fix | None:
    """The fix that moves dimensions of `a` to its end, for a right side of shape `b`."""
    for axes in itertools.combinations(range(len(a)), max(len(a) - len(b), 0)):
        rest = tuple(n for d, n in enumerate(a) if d not in axes)
        if rest == b and prod(a[d] for d in axes) == prod(b):
            return Fix("axes", f"pass axes={axes}", {"axes": axes})
    return None


@api_boundary
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """The x for which the sums of a x over the last dimensions of a are b.

    a: shape b.shape + x.shape, of as many elements as both; axes: the dimensions of a to move to
    the end first. Raises ShapeError if shapes do not fit, AxisError.

    >>> jnp.linalg.tensorsolve(2 * jnp.eye(6).reshape(2, 3, 6), jnp.ones((2, 3)))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    check_matrices("linalg.tensorsolve", "a", a, least=1)
    check_matrices("linalg.tensorsolve", "b", b, least=0)
    a, b = promote_operands("linalg.tensorsolve", a, b)
    given = type_of(a).shape
    if axes is not None:
        last = axes_of(axes, type_of(a).ndim, "linalg.tensorsolve")
        order = [d for d in range(type_of(a).ndim) if d not in last]
        a = transpose(a, (*order, *last))
    left, right = type_of(a), type_of(b)
    rest = left.shape[right.ndim :]
    if left.shape[: right.ndim] != right.shape or prod(rest) != right.size:
        message = "linalg.tensorsolve: the shapes do not fit together"
        got = f"a: {left}, b: {right}"
        wanted = "a of the dimensions of b, and after them as many elements as b has"
        fix = _moved(given, right.shape)
        raise refusal(ShapeError, message, "linalg.tensorsolve", got, wanted, fix)
    flat = _solve(reshape(a, (right.size, right.size)), reshape(b, (right.size,)))
    return reshape(flat, rest)
