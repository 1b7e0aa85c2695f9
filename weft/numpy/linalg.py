"""`weft.numpy.linalg`: norms, and the products that the Array API standard keeps here."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.types import type_of
from weft.errors import ShapeError, WeftNotImplementedError, WeftValueError
from weft.numpy import diagonals, linear_algebra
from weft.numpy.arguments import axes_of, axis_of, check_arrays, convert, inexact, integer_of
from weft.numpy.compiled import compiled
from weft.numpy.linear_algebra import matmul, tensordot, vecdot
from weft.numpy.manipulation import matrix_transpose
from weft.numpy.reductions import accumulator, kept
from weft.ops.arithmetic import abs as abs_
from weft.ops.arithmetic import add, div, eq, exp, log, mul, ne, sqrt, square
from weft.ops.complex import imag, real
from weft.ops.creation import eye
from weft.ops.reduce import reduce_max, reduce_min
from weft.ops.selection import select
from weft.ops.shape import broadcast_in_dim, reduce_sum, reshape

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


# ---- norms ---------------------------------------------------------------------------------------


def _squares(x: Any) -> Any:
    """The squared absolute values."""
    if type_of(x).dtype in dtypes.COMPLEX:
        return add(square(real(x)), square(imag(x)))
    return square(x)


def _filled(value: float, like: Any) -> Any:
    of = type_of(like)
    return broadcast_in_dim(of.dtype.type(value), of.shape, ())


@compiled
def _vector_norm(x: Any, *, axes: Any, order: Any, keepdims: bool) -> Any:
    shape, result = type_of(x).shape, dtypes.to_real(inexact(type_of(x).dtype))
    x = convert(x, accumulator(inexact(type_of(x).dtype)))
    if order == 2:
        out = sqrt(reduce_sum(_squares(x), axes))
    elif order == 0:
        counted = ne(x, type_of(x).dtype.type(0))
        out = reduce_sum(convert(counted, dtypes.to_real(type_of(x).dtype)), axes)
    else:
        size = abs_(x)
        if order == np.inf:
            out = reduce_max(size, axes)
        elif order == -np.inf:
            out = reduce_min(size, axes)
        elif order == 1:
            out = reduce_sum(size, axes)
        else:
            out = _general_norm(size, axes, float(order))
    return kept(convert(out, result), shape, axes, keepdims)


def _general_norm(size: Any, axes: Any, order: float) -> Any:
    """(sum of |x|**order)**(1/order), by exp and log; zeros are kept out of the logarithm."""
    dtype = type_of(size).dtype
    zero = eq(size, dtype.type(0))
    safe = select(zero, _filled(1.0, size), size)
    powers = exp(mul(log(safe), dtype.type(order)))
    powers = select(zero, _filled(0.0 if order > 0 else np.inf, size), powers)
    total = reduce_sum(powers, axes)
    nothing = eq(total, dtype.type(0))
    root = exp(div(log(select(nothing, _filled(1.0, total), total)), dtype.type(order)))
    return select(nothing, _filled(0.0 if order > 0 else np.inf, total), root)


@compiled
def _matrix_norm(x: Any, *, axes: tuple[int, int], order: Any, keepdims: bool) -> Any:
    shape, result = type_of(x).shape, dtypes.to_real(inexact(type_of(x).dtype))
    x = convert(x, accumulator(inexact(type_of(x).dtype)))
    rows, columns = axes
    if order == "fro":
        out = sqrt(reduce_sum(_squares(x), axes))
    else:
        # The greatest (or least) sum of absolute values over columns (1) or rows (inf).
        summed, left = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = reduce_sum(abs_(x), (summed,))
        place = left - (left > summed)
        out = (reduce_max if order > 0 else reduce_min)(sums, (place,))
    return kept(convert(out, result), shape, axes, keepdims)


def _check_matrix_order(operation: str, order: Any) -> None:
    if order in ("nuc", 2, -2):
        raise WeftNotImplementedError(
            f"{operation}: ord={order!r} needs singular values, and there is no decomposition yet",
            operation=operation,
            got=f"ord={order!r}",
            wanted="'fro', 1, -1, inf or -inf",
        )
    if order not in ("fro", 1, -1, np.inf, -np.inf):
        raise WeftValueError(
            f"{operation}: there is no matrix norm of order {order!r}",
            operation=operation,
            got=f"ord={order!r}",
            wanted="'fro', 1, -1, inf or -inf",
        )


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors (one axis) or matrices (two axes); without both, of all elements.

    ord: for vectors 2 (the default), 1, inf, -inf, 0 (how many are not zero) or any number p; for
    matrices "fro" (the default), 1, -1, inf, -inf. Raises ValueError for others.

    >>> import weft.numpy as jnp
    >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    check_arrays("linalg.norm", x)
    ndim = type_of(x).ndim
    if axis is None and ord is None:
        axes = tuple(range(ndim))
        return _vector_norm(x, axes=axes, order=2, keepdims=bool(keepdims))
    if axis is None and ndim not in (1, 2):
        raise ShapeError(
            f"linalg.norm: ord= with {ndim} dimensions needs axis=",
            operation="linalg.norm",
            got=str(type_of(x)),
            wanted="one or two dimensions, or axis",
        )
    axes = axes_of(axis, ndim, "linalg.norm")
    if len(axes) == 1:
        order = 2 if ord is None else ord
        if isinstance(order, str):
            raise WeftValueError(
                f"linalg.norm: there is no vector norm of order {ord!r}",
                operation="linalg.norm",
                got=f"ord={ord!r}",
                wanted="a number",
            )
        return _vector_norm(x, axes=axes, order=order, keepdims=bool(keepdims))
    if len(axes) != 2:
        raise ShapeError(
            "linalg.norm takes one or two axes", operation="linalg.norm", got=f"axis={axis!r}"
        )
    order = "fro" if ord is None else ord
    _check_matrix_order("linalg.norm", order)
    return _matrix_norm(x, axes=axes, order=order, keepdims=bool(keepdims))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along `axis`, several axes together, or all elements (None)."""
    check_arrays("linalg.vector_norm", x)
    axes = axes_of(axis, type_of(x).ndim, "linalg.vector_norm")
    if isinstance(ord, str):
        raise WeftValueError(
            f"linalg.vector_norm: there is no order {ord!r}", operation="linalg.vector_norm"
        )
    return _vector_norm(x, axes=axes, order=ord, keepdims=bool(keepdims))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two dimensions: "fro", 1, -1, inf or -inf."""
    check_arrays("linalg.matrix_norm", x)
    ndim = type_of(x).ndim
    if ndim < 2:
        raise ShapeError(
            "linalg.matrix_norm takes matrices", operation="linalg.matrix_norm", got=str(type_of(x))
        )
    _check_matrix_order("linalg.matrix_norm", ord)
    return _matrix_norm(x, axes=(ndim - 2, ndim - 1), order=ord, keepdims=bool(keepdims))


# ---- products ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _best_order(sizes: tuple[int, ...]) -> Any:
    """How to bracket a chain of matrices, by dynamic programming over its parts."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], tuple[int, int | None]] = {(i, i): (0, None) for i in range(n)}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = min(
                (
                    cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1],
                    k,
                )
                for k in range(i, j)
            )

    def bracket(i: int, j: int) -> Any:
        k = cost[i, j][1]
        return i if k is None else (bracket(i, k), bracket(k + 1, j))

    return bracket(0, n - 1)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of two or more matrices, bracketed for the fewest multiplications.

    The first and the last may be vectors. Raises ShapeError where lengths do not fit.
    """
    values = list(arrays)
    check_arrays("linalg.multi_dot", *values)
    if len(values) < 2:
        raise WeftValueError(
            "linalg.multi_dot takes two or more arrays", operation="linalg.multi_dot"
        )
    ranks = [type_of(x).ndim for x in values]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ShapeError(
            "linalg.multi_dot takes matrices, and vectors at the ends",
            operation="linalg.multi_dot",
            got=", ".join(str(type_of(x)) for x in values),
        )
    shapes = [type_of(x).shape for x in values]
    if ranks[0] == 1:
        values[0] = reshape(values[0], (1, shapes[0][0]))
    if ranks[-1] == 1:
        values[-1] = reshape(values[-1], (shapes[-1][0], 1))
    for a, b in zip(values, values[1:], strict=False):
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


def matrix_power(a: Any, n: int) -> Any:
    """Square matrices multiplied n times with themselves; n is a static integer, not negative."""
    check_arrays("linalg.matrix_power", a)
    of = type_of(a)
    if of.ndim < 2 or of.shape[-1] != of.shape[-2]:
        raise ShapeError(
            "linalg.matrix_power takes square matrices",
            operation="linalg.matrix_power",
            got=str(of),
        )
    count = integer_of(n, "linalg.matrix_power", "n")
    if count < 0:
        raise WeftNotImplementedError(
            "linalg.matrix_power: a negative power needs the inverse, and there is none yet",
            operation="linalg.matrix_power",
            got=f"n={n}",
            wanted="n >= 0",
        )
    return _matrix_power(a, n=count)


@compiled
def _matrix_power(a: Any, *, n: int) -> Any:
    of = type_of(a)
    if n == 0:
        one = eye(of.dtype, of.shape[-2:])
        return broadcast_in_dim(one, of.shape, (of.ndim - 2, of.ndim - 1))
    out = None
    while n:
        if n % 2:
            out = a if out is None else matmul(out, a)
        n //= 2
        if n:
            a = matmul(a, a)
    return out


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of 3 numbers along `axis`. Raises ShapeError for others."""
    check_arrays("linalg.cross", x1, x2)
    for x in (x1, x2):
        of = type_of(x)
        if of.ndim == 0 or of.shape[axis_of(axis, of.ndim, "linalg.cross")] != 3:
            raise ShapeError(
                "linalg.cross takes vectors of 3 numbers", operation="linalg.cross", got=str(of)
            )
    return linear_algebra.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of every element of one vector with every one of another, as a matrix."""
    check_arrays("linalg.outer", x1, x2)
    if type_of(x1).ndim != 1 or type_of(x2).ndim != 1:
        raise ShapeError(
            "linalg.outer takes two vectors",
            operation="linalg.outer",
            got=f"{type_of(x1)} and {type_of(x2)}",
        )
    return linear_algebra.outer(x1, x2)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two dimensions."""
    return diagonals.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two dimensions."""
    return diagonals.trace(x, offset, -2, -1, dtype)
