"""Products and powers of matrices, outer and cross products, diagonals and traces, as in the Array
API standard."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from weft.argument_errors import integer_of, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.kinds.checks import axis_of, check_arrays
from weft.kinds.compiled_functions import compiled
from weft.numpy import diagonals, linear_algebra
from weft.numpy.linalg.operands import check_matrices, check_square, returned, widened
from weft.numpy.linalg.solving import identities, solved
from weft.numpy.linear_algebra import matmul
from weft.ops.structural.shape import reshape

__all__ = ["cross", "diagonal", "matrix_power", "multi_dot", "outer", "trace"]


@functools.lru_cache(maxsize=1024)
def _best_order(sizes: tuple[int, ...]) -> Any:
    """The best bracketing of a chain of matrices, by dynamic programming over its parts."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], tuple[int, int | None]] = {(i, i): (0, None) for i in range(n)}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def bracket(i: int, j: int) -> Any:
        k = cost[i, j][1]
        return i if k is None else (bracket(i, k), bracket(k + 1, j))

    return bracket(0, n - 1)


@api_boundary
def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """The product of two or more matrices, bracketed for the fewest multiplications.

    arrays: a list or tuple of two or more matrices, of which the first and the last may be vectors.
    precision: "default", "high" or "highest". Raises ShapeError if lengths do not fit,
    WeftValueError for fewer than two arrays, WeftTypeError.

    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    if not isinstance(arrays, (tuple, list)):
        message = "linalg.multi_dot takes a sequence of arrays"
        got = f"arrays of class {type(arrays).__name__}"
        wanted = "a list or tuple of two or more arrays"
        listed = Fix("list", "pass them as a list: multi_dot([a, b, c])", {})
        raise refusal(WeftTypeError, message, "linalg.multi_dot", got, wanted, listed)
    values = list(arrays)
    check_arrays("linalg.multi_dot", *values)
    if len(values) < 2:
        message = "linalg.multi_dot takes two or more arrays"
        got = f"{len(values)} arrays"
        fix = Fix("single", "use it as it is: arrays[0]") if values else None
        raise refusal(WeftValueError, message, "linalg.multi_dot", got, "two or more", fix)
    ranks = [type_of(x).ndim for x in values]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        message = "linalg.multi_dot takes matrices, and vectors at the ends"
        got = ", ".join(str(type_of(x)) for x in values)
        wanted = "two dimensions each, or one for the first and the last"
        text = "use weft.numpy.matmul, which takes other dimensions, for two at a time: a @ b @ c"
        fix = Fix("matmul", text if min(ranks) else "multiply by a number with *")
        raise refusal(ShapeError, message, "linalg.multi_dot", got, wanted, fix)
    return _bracketed(values, ranks, precision)


def _bracketed(values: list[Any], ranks: list[int], precision: Any) -> Any:
    shapes = [type_of(x).shape for x in values]
    if ranks[0] == 1:
        values[0] = reshape(values[0], (1, shapes[0][0]))
    if ranks[-1] == 1:
        values[-1] = reshape(values[-1], (shapes[-1][0], 1))
    for a, b in itertools.pairwise(values):
        if type_of(a).shape[1] != type_of(b).shape[0]:
            raise linear_algebra.mismatch("linalg.multi_dot", a, b, 1, 0)
    sizes = (*(type_of(x).shape[0] for x in values), type_of(values[-1]).shape[1])
    out = _multi_dot(*values, order=_best_order(sizes), precision=precision)
    shape = type_of(out).shape
    return reshape(out, shape[ranks[0] == 1 : 1 if ranks[-1] == 1 else 2])


@compiled
def _multi_dot(*values: Any, order: Any, precision: Any) -> Any:
    if isinstance(order, int):
        return values[order]
    left, right = (_multi_dot.function(*values, order=o, precision=precision) for o in order)
    return matmul(left, right, precision=precision)


@api_boundary
def matrix_power(a: Any, n: int) -> Array:
    """The n-th powers of square matrices; for negative n, the powers of their inverses.

    a: shape (..., n, n); n: an integer that is known while tracing. Integers stay integers for
    n >= 0. Singular matrices have infinities or NaN as negative powers. Raises ShapeError,
    DTypeError, WeftTypeError.

    >>> jnp.linalg.matrix_power(jnp.array([[1.0, 1.0], [0.0, 1.0]]), -3)
    Array([[ 1., -3.],
           [ 0.,  1.]], dtype=float32)
    """
    check_square("linalg.matrix_power", "a", a)
    return _matrix_power(a, n=integer_of(n, "linalg.matrix_power", "n"))


@compiled
def _matrix_power(a: Any, *, n: int) -> Any:
    if n == 0:
        return identities(a)
    if n < 0:
        wide = widened(a)
        inverse = solved(wide, identities(wide))
        return returned(_matrix_power.function(inverse, n=-n), type_of(a).dtype)
    out = None
    while n:
        if n % 2:
            out = a if out is None else matmul(out, a)
        n //= 2
        if n:
            a = matmul(a, a)
    return out


@api_boundary
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 numbers along `axis`; other dimensions broadcast.

    Raises ShapeError for vectors of another length, AxisError, WeftTypeError.

    >>> jnp.linalg.cross(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    check_arrays("linalg.cross", x1, x2)
    for x in (x1, x2):
        of = type_of(x)
        if of.ndim == 0 or of.shape[axis_of(axis, of.ndim, "linalg.cross")] != 3:
            message = "linalg.cross takes vectors of 3 numbers"
            got = f"{type_of(x1)} and {type_of(x2)}, axis={axis}"
            wanted = "3 elements along the axis"
            shapes = type_of(x1).shape, type_of(x2).shape
            along = [d for d in range(-min(map(len, shapes)), 0) if shapes[0][d] == shapes[1][d]]
            texts = [f"pass axis={d}" for d in along if shapes[0][d] == 3]
            texts += ["use weft.numpy.cross, which takes vectors of 2"] * (of.shape[-1:] == (2,))
            fix = Fix("axis", texts[0]) if texts else None
            raise refusal(ShapeError, message, "linalg.cross", got, wanted, fix)
    return linear_algebra.cross(x1, x2, axis=axis)


@api_boundary
def outer(x1: Any, x2: Any, /) -> Array:
    """The products of every element of one vector with every one of another, as a matrix.

    Raises ShapeError for operands that are not vectors, WeftTypeError.

    >>> jnp.linalg.outer(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array([[3., 4.],
           [6., 8.]], dtype=float32)
    """
    check_arrays("linalg.outer", x1, x2)
    if type_of(x1).ndim != 1 or type_of(x2).ndim != 1:
        message = "linalg.outer takes two vectors"
        got = f"{type_of(x1)} and {type_of(x2)}"
        fix = Fix("outer", "use weft.numpy.outer, which flattens its operands")
        raise refusal(ShapeError, message, "linalg.outer", got, "one dimension each", fix)
    return linear_algebra.outer(x1, x2)


@api_boundary
def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two dimensions, `offset` above the main one.

    Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.diagonal(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([1., 4.], dtype=float32)
    """
    check_matrices("linalg.diagonal", "x", x)
    return diagonals.diagonal(x, integer_of(offset, "linalg.diagonal", "offset"), -2, -1)


@api_boundary
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of the matrices in the last two dimensions.

    offset: how far above the main diagonal. dtype: that of the result, by default as in
    `weft.numpy.sum`. Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.trace(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(5., dtype=float32)
    """
    check_matrices("linalg.trace", "x", x)
    return diagonals.trace(x, integer_of(offset, "linalg.trace", "offset"), -2, -1, dtype)
