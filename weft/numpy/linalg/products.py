"""Products and powers of matrices, outer and cross products, diagonals and traces, as in the Array
API standard."""

from __future__ import annotations

import functools
import itertools
from typing import Annotated, Any

import numpy as np

from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError
from weft.kinds.arguments import NEVER, DType, Integer, Precision, Promoted
from weft.kinds.array_function import array_function
from weft.kinds.checks import axis_of, check_arrays
from weft.kinds.kind import Arguments, Kind
from weft.numpy import diagonals, linear_algebra
from weft.numpy.linalg.operands import Matrix, SquareMatrix, restore_dtype, widen_operand
from weft.numpy.linalg.solving import identities, solve_batched
from weft.numpy.linear_algebra import matmul

# ---- chains and powers ---------------------------------------------------------------------------


def _chain(value: Any, call: Arguments) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        message = "takes a sequence of arrays"
        got = f"arrays of class {type(value).__name__}"
        wanted = "a list or tuple of two or more arrays"
        listed = Fix("list", "pass them as a list: multi_dot([a, b, c])", {})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=listed)
    check_arrays(*value)
    if len(value) < 2:
        message = "takes two or more arrays"
        fix = Fix("single", "use it as it is: arrays[0]") if value else None
        raise WeftValueError(message, got=f"{len(value)} arrays", wanted="two or more", fix=fix)
    ranks = [type_of(x).ndim for x in value]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        message = "takes matrices, and vectors at the ends"
        got = ", ".join(str(type_of(x)) for x in value)
        wanted = "two dimensions each, or one for the first and the last"
        text = "use weft.numpy.matmul, which takes other dimensions, for two at a time: a @ b @ c"
        fix = Fix("matmul", text if min(ranks) else "multiply by a number with *")
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return tuple(value)


_rows = np.ones((3, 4), np.float32)
_chain_kind = Kind(
    _chain,
    "two or more matrices, of which the first and the last may be vectors",
    (_rows, [], [_rows]),
    (_rows, _rows.T),
    static=False,
    plain=NEVER,
)
Chain = Annotated[Any, _chain_kind]


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


@array_function
def multi_dot(arrays: Chain, *, precision: Precision = None) -> Array:
    """The product of two or more matrices, bracketed for the fewest multiplications.

    arrays: a list or tuple of two or more matrices, of which the first and the last may be vectors.
    precision: "default", "high" or "highest". Raises ShapeError if lengths do not fit,
    WeftValueError for fewer than two arrays, WeftTypeError.

    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    values = list(arrays)
    row, column = values[0].ndim == 1, values[-1].ndim == 1
    values[0] = values[0][None] if row else values[0]
    values[-1] = values[-1][:, None] if column else values[-1]
    for a, b in itertools.pairwise(values):
        if a.shape[1] != b.shape[0]:
            raise linear_algebra.mismatch(a, b, 1, 0)

    def product(order: Any) -> Any:
        if isinstance(order, int):
            return values[order]
        left, right = map(product, order)
        return matmul(left, right, precision=precision)

    out = product(_best_order((*(x.shape[0] for x in values), values[-1].shape[1])))
    return out.reshape(out.shape[row : 1 if column else 2])


@array_function
def matrix_power(a: SquareMatrix, n: Integer) -> Array:
    """The n-th powers of square matrices; for negative n, the powers of their inverses.

    a: shape (..., n, n); n: an integer that is known while tracing. Integers stay integers for
    n >= 0. Singular matrices have infinities or NaN as negative powers. Raises ShapeError,
    DTypeError, WeftTypeError.

    >>> jnp.linalg.matrix_power(jnp.array([[1.0, 1.0], [0.0, 1.0]]), -3)
    Array([[ 1., -3.],
           [ 0.,  1.]], dtype=float32)
    """
    if n == 0:
        return identities(a)
    x, power = a, abs(n)
    if n < 0:
        x = widen_operand(a)
        x = solve_batched(x, identities(x))
    out: Any = None
    while power:
        if power % 2:
            out = x if out is None else matmul(out, x)
        power //= 2
        if power:
            x = matmul(x, x)
    return restore_dtype(out, a.dtype) if n < 0 else out


# ---- functions of `weft.numpy` in the standard's form --------------------------------------------


@array_function
def cross(x1: Promoted, x2: Promoted, /, *, axis: Integer = -1) -> Array:
    """The cross product of vectors of 3 numbers along `axis`; other dimensions broadcast.

    Raises ShapeError for vectors of another length, AxisError, WeftTypeError.

    >>> jnp.linalg.cross(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    for x in (x1, x2):
        if x.ndim == 0 or x.shape[axis_of(axis, x.ndim, "linalg.cross")] != 3:
            along = range(-min(x1.ndim, x2.ndim), 0)
            texts = [f"pass axis={d}" for d in along if x1.shape[d] == x2.shape[d] == 3]
            texts += ["use weft.numpy.cross, which takes vectors of 2"] * (x.shape[-1:] == (2,))
            raise ShapeError(
                "it takes vectors of 3 numbers",
                got=f"{type_of(x1)} and {type_of(x2)}, axis={axis}",
                wanted="3 elements along the axis",
                fix=Fix("axis", texts[0]) if texts else None,
            )
    return linear_algebra.cross(x1, x2, axis=axis)


@array_function
def outer(x1: Promoted, x2: Promoted, /) -> Array:
    """The products of every element of one vector with every one of another, as a matrix.

    Raises ShapeError for operands that are not vectors, WeftTypeError.

    >>> jnp.linalg.outer(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array([[3., 4.],
           [6., 8.]], dtype=float32)
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(
            "it takes two vectors",
            got=f"{type_of(x1)} and {type_of(x2)}",
            wanted="one dimension each",
            fix=Fix("outer", "use weft.numpy.outer, which flattens its operands"),
        )
    return linear_algebra.outer(x1, x2)


@array_function
def diagonal(x: Matrix, /, *, offset: Integer = 0) -> Array:
    """The diagonals of the matrices in the last two dimensions, `offset` above the main one.

    Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.diagonal(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([1., 4.], dtype=float32)
    """
    return diagonals.diagonal(x, offset, -2, -1)


@array_function
def trace(x: Matrix, /, *, offset: Integer = 0, dtype: DType = None) -> Array:
    """The sums of the diagonals of the matrices in the last two dimensions.

    offset: how far above the main diagonal. dtype: that of the result, by default as in
    `weft.numpy.sum`. Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.trace(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(5., dtype=float32)
    """
    return diagonals.trace(x, offset, -2, -1, dtype)
