"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_value, refusal
from weft.arrays.array import Array
from weft.core.types import type_of, user_value
from weft.errors import Fix, ShapeError, api_boundary
from weft.kinds.checks import axes_of, check_flag, convert, inexact
from weft.kinds.compiled_functions import compiled
from weft.kinds.repeated import repeated
from weft.numpy.linalg.operands import check_matrices
from weft.numpy.reductions import kept, squared_size
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import div, eq, exp, log, mul, ne
from weft.ops.elementwise.flat import flat_sqrt_p
from weft.ops.elementwise.selection import select
from weft.ops.linalg.svd import svd
from weft.ops.reductions.reduce import reduce_max, reduce_min
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, transpose

__all__ = ["check_order", "matrix_norm", "matrix_norm_of", "norm", "vector_norm"]


def _filled(value: float, like: Any) -> Any:
    of = type_of(like)
    return broadcast_in_dim(of.dtype.type(value), of.shape, ())


@compiled
def _vector_norm(x: Any, *, axes: Any, order: Any, keepdims: bool) -> Any:
    shape, result = type_of(x).shape, dtypes.to_real(inexact(type_of(x).dtype))
    x = convert(x, accumulator(inexact(type_of(x).dtype)))
    if order == 2:
        out = flat_sqrt_p.bind(reduce_sum(squared_size(x), axes))
    elif order == 0:
        counted = ne(x, type_of(x).dtype.type(0))
        out = reduce_sum(convert(counted, dtypes.to_real(type_of(x).dtype)), axes)
    else:
        size = abs_(x)
        if order == np.inf and type_of(x).size:
            out = reduce_max(size, axes)
        elif order == -np.inf:
            out = reduce_min(size, axes)
        elif order in (1, np.inf):  # of no elements the greatest magnitude is 0, as the sum
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
    return kept(convert(matrix_norm_of(x, axes, order), result), shape, axes, keepdims)


def matrix_norm_of(x: Any, axes: tuple[int, int], order: Any) -> Any:
    """The norm of matrices in two axes, which are dropped; in a dtype that LAPACK takes."""
    if order == "fro":
        return flat_sqrt_p.bind(reduce_sum(squared_size(x), axes))
    if order in ("nuc", 2, -2):
        ndim = type_of(x).ndim
        s = svd(transpose(x, (*(d for d in range(ndim) if d not in axes), *axes)), compute_uv=False)
        if order == "nuc":
            return reduce_sum(s, (ndim - 2,))
        return _greatest(s, ndim - 2) if order == 2 else reduce_min(s, (ndim - 2,))
    # The greatest (or least) sum of absolute values over columns (1) or rows (inf).
    summed, left = axes if abs(order) == 1 else axes[::-1]
    sums = reduce_sum(abs_(x), (summed,))
    place = left - (left > summed)
    return _greatest(sums, place) if order > 0 else reduce_min(sums, (place,))


def _greatest(x: Any, axis: int) -> Any:
    """The greatest of nonnegative numbers; 0 without elements."""
    return (reduce_max if type_of(x).shape[axis] else reduce_sum)(x, (axis,))


def check_order(operation: str, order: Any, argument: str = "ord") -> None:
    """Raises WeftValueError for an order that no matrix norm has."""
    if isinstance(order, str):
        fine = order in ("fro", "nuc")
    else:
        fine = isinstance(order, (int, float)) and abs(order) in (1, 2, np.inf)
    if not fine:
        message = f"{operation}: there is no matrix norm of order {order!r:.40}"
        wanted = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise invalid_value(message, operation, argument, order, wanted, use="fro")


def _check_vector_order(operation: str, order: Any) -> None:
    if isinstance(order, str) or not isinstance(order, (int, float, np.integer, np.floating)):
        message = f"{operation}: there is no vector norm of order {order!r:.40}"
        wanted = "a number that is known while tracing"
        raise invalid_value(message, operation, "ord", order, wanted, use=2)


@api_boundary
@repeated
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of vectors (one axis) or matrices (two axes); without both, of all elements.

    ord: for vectors 2 (the default), 1, inf, -inf, 0 (how many are not zero) or any number p; for
    matrices "fro" (the default), "nuc", 1, -1, 2, -2, inf, -inf, as in `matrix_norm`. The result is
    real, in the precision of x, and float16 and bfloat16 are summed in float32. Where all elements
    are 0, its derivative is taken to be 0.

    Raises WeftValueError for another ord, ShapeError for another number of axes, AxisError,
    DTypeError, WeftTypeError.

    >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    check_flag(keepdims, "linalg.norm", "keepdims")
    check_matrices("linalg.norm", "x", x, least=0)
    x = user_value(x)
    ndim = type_of(x).ndim
    if axis is None and ord is None:
        axes = tuple(range(ndim))
        return _vector_norm(x, axes=axes, order=2, keepdims=bool(keepdims))
    if axis is None and ndim not in (1, 2):
        message = f"linalg.norm: ord= with {ndim} dimensions needs axis="
        got = f"x: {type_of(x)}, ord={ord!r}"
        wanted = "one or two dimensions, or axis"
        text = "pass axis=-1 for vectors, axis=(-2, -1) for matrices"
        fix = Fix("axis", text if ndim else "use abs(x), which is the norm of a number")
        raise refusal(ShapeError, message, "linalg.norm", got, wanted, fix)
    axes = axes_of(axis, ndim, "linalg.norm")
    if len(axes) == 1:
        order = 2 if ord is None else ord
        _check_vector_order("linalg.norm", order)
        return _vector_norm(x, axes=axes, order=order, keepdims=bool(keepdims))
    if len(axes) != 2:
        message = "linalg.norm takes one or two axes"
        wanted = "an axis, or two; vector_norm takes any number"
        order = "" if ord is None else f", ord={ord!r}"
        text = f"use weft.numpy.linalg.vector_norm(x, axis={axes}{order})"
        fix = Fix("axis", "pass axis=(-2, -1)" if isinstance(ord, str) else text)
        raise refusal(ShapeError, message, "linalg.norm", f"axis={axis!r}", wanted, fix)
    order = "fro" if ord is None else ord
    check_order("linalg.norm", order)
    _check_elements("linalg.norm", x, axes, order)
    return _matrix_norm(x, axes=axes, order=order, keepdims=bool(keepdims))


def _check_elements(operation: str, x: Any, axes: tuple[int, ...], order: Any) -> None:
    """Raises ShapeError for a norm that is a least element, where there are no elements."""
    if order not in (-1, -2, -np.inf):
        return
    rows, columns = (type_of(x).shape[axis] for axis in axes)
    missing = {-1: "columns", -2: "singular values", -np.inf: "rows"}[order]
    if {-1: columns, -2: min(rows, columns), -np.inf: rows}[order] == 0:
        message = f"{operation}: there is no least of no {missing}, so no norm of order {order!r}"
        wanted = "one row and one column or more, or ord='fro'"
        fix = Fix("ord", "pass ord='fro'", {"ord": "fro"})
        raise refusal(ShapeError, message, operation, f"x: {type_of(x)}", wanted, fix)


@api_boundary
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The norm of vectors along `axis`, several axes together, or all elements (None).

    ord: 2, 1, inf, -inf, 0 (how many are not zero) or any number p. Raises WeftValueError for
    anything that is not a number, AxisError, DTypeError, WeftTypeError.

    >>> jnp.linalg.vector_norm(jnp.array([3.0, -4.0]), ord=1)
    Array(7., dtype=float32)
    """
    check_flag(keepdims, "linalg.vector_norm", "keepdims")
    check_matrices("linalg.vector_norm", "x", x, least=0)
    x = user_value(x)
    axes = axes_of(axis, type_of(x).ndim, "linalg.vector_norm")
    _check_vector_order("linalg.vector_norm", ord)
    return _vector_norm(x, axes=axes, order=ord, keepdims=bool(keepdims))


@api_boundary
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices in the last two dimensions.

    ord: "fro", the root of the sum of squares; "nuc", 2 and -2, the sum, the greatest and the least
    of the singular values; 1 and -1, the greatest and the least sum of magnitudes of a column; inf
    and -inf, of a row. Raises WeftValueError for another ord, ShapeError, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, -4.0]]), ord="nuc")
    Array(7., dtype=float32)
    """
    check_flag(keepdims, "linalg.matrix_norm", "keepdims")
    check_matrices("linalg.matrix_norm", "x", x)
    ndim = type_of(x).ndim
    check_order("linalg.matrix_norm", ord)
    axes = (ndim - 2, ndim - 1)
    _check_elements("linalg.matrix_norm", x, axes, ord)
    return _matrix_norm(x, axes=axes, order=ord, keepdims=bool(keepdims))
