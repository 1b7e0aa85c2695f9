"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError
from weft.errors.argument_errors import invalid_value
from weft.kinds.arguments import NEVER, Axes, Flag
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, inexact
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import Matrix, Numbers
from weft.numpy.reductions import keep_dims, squared_size
from weft.ops.elementwise.arithmetic import exp, log
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.stable_sums import flat_sqrt_p
from weft.ops.linalg.svd import svd
from weft.ops.reductions.reduce import reduce_min
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import transpose

# ---- orders --------------------------------------------------------------------------------------


def _vector_order(value: Any, call: Arguments) -> Any:
    if isinstance(value, str) or not isinstance(value, (int, float, np.integer, np.floating)):
        message = f"{call.operation}: there is no vector norm of order {value!r:.40}"
        wanted = "a number that is known while tracing"
        raise invalid_value(message, call.operation, call.name, value, wanted, use=2)
    return value


def matrix_order(value: Any, call: Arguments) -> Any:
    """The order of a matrix norm. Raises WeftValueError for other values."""
    if isinstance(value, str):
        fine = value in ("fro", "nuc")
    else:
        fine = isinstance(value, (int, float)) and abs(value) in (1, 2, np.inf)
    if not fine:
        message = f"{call.operation}: there is no matrix norm of order {value!r:.40}"
        wanted = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise invalid_value(message, call.operation, call.name, value, wanted, use="fro")
    return value


def _order(value: Any, call: Arguments) -> Any:
    of, axis = call.type, call["axis"]
    count = of.ndim if axis is None else len(axis)
    if count == 1:
        return 2 if value is None else _vector_order(value, call)
    if count == 2:
        return "fro" if value is None else matrix_order(value, call)
    if axis is not None:
        wanted = "an axis, or two; vector_norm takes any number"
        order = "" if value is None else f", ord={value!r}"
        text = f"use weft.numpy.linalg.vector_norm(x, axis={axis}{order})"
        fix = Fix("axis", "pass axis=(-2, -1)" if isinstance(value, str) else text)
        message = "takes one or two axes"
        raise ShapeError(message, got=f"axis={axis!r}", wanted=wanted, fix=fix)
    if value is not None:
        message = f"ord= with {count} dimensions needs axis="
        wanted = "one or two dimensions, or axis"
        text = "pass axis=-1 for vectors, axis=(-2, -1) for matrices"
        fix = Fix("axis", text if count else "use abs(x), which is the norm of a number")
        raise ShapeError(message, got=f"x: {of}, ord={value!r}", wanted=wanted, fix=fix)
    return 2


_WRONG = ("?", [1])
_MATRICES = "an order of norms of matrices"
VectorOrder = Annotated[Any, Kind(_vector_order, "a number", _WRONG, plain=NEVER)]
MatrixOrder = Annotated[Any, Kind(matrix_order, _MATRICES, _WRONG, plain=NEVER)]
Order = Annotated[Any, Kind(_order, "an order, for the axes", _WRONG, plain=NEVER, late=True)]


# ---- norms ---------------------------------------------------------------------------------------


def _vector_norm(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    dtype = inexact(x.dtype)
    shape, x = x.shape, x.astype(accumulator(dtype))
    if order == 2:
        out = flat_sqrt_p.bind(squared_size(x).sum(axes))
    elif order == 0:
        out = (x != 0).astype(dtypes.to_real(x.dtype)).sum(axes)
    elif order == np.inf and x.size:
        out = abs(x).max(axes)
    elif order == -np.inf:
        out = reduce_min(abs(x), axes)
    elif order in (1, np.inf):  # of no elements the greatest magnitude is 0, as the sum
        out = abs(x).sum(axes)
    else:
        out = _general_norm(abs(x), axes, float(order))
    return keep_dims(out.astype(dtypes.to_real(dtype)), shape, axes, keepdims)


def _fill(value: float, like: Any) -> Any:
    return broadcasted(like.dtype.type(value), like.shape)


def _general_norm(size: Any, axes: tuple[int, ...], order: float) -> Any:
    """(sum of |x|**order)**(1/order), by exp and log; zeros are kept out of the logarithm."""
    of_zero = 0.0 if order > 0 else np.inf
    zero = size == 0
    powers = exp(log(select(zero, _fill(1, size), size)) * order)
    total = select(zero, _fill(of_zero, size), powers).sum(axes)
    nothing = total == 0
    root = exp(log(select(nothing, _fill(1, total), total)) / order)
    return select(nothing, _fill(of_zero, total), root)


def _matrix_norm(x: Any, axes: tuple[int, int], order: Any, keepdims: bool) -> Any:
    _check_elements(x, axes, order)
    dtype = inexact(x.dtype)
    out = matrix_norm_of(x.astype(accumulator(dtype)), axes, order)
    return keep_dims(out.astype(dtypes.to_real(dtype)), x.shape, axes, keepdims)


def _check_elements(x: Any, axes: tuple[int, int], order: Any) -> None:
    """Raises ShapeError for a norm that is a minimum over no elements."""
    if order not in (-1, -2, -np.inf):
        return
    rows, columns = (x.shape[axis] for axis in axes)
    missing = {-1: "columns", -2: "singular values", -np.inf: "rows"}[order]
    if {-1: columns, -2: min(rows, columns), -np.inf: rows}[order] == 0:
        raise ShapeError(
            f"there is no least of no {missing}, so no norm of order {order!r}",
            got=f"x: {type_of(x)}",
            wanted="one row and one column or more, or ord='fro'",
            fix=Fix("ord", "pass ord='fro'", {"ord": "fro"}),
        )


def matrix_norm_of(x: Any, axes: tuple[int, int], order: Any) -> Any:
    """The norm of matrices in two axes, which are dropped; the dtype is one of LAPACK's."""
    if order == "fro":
        return flat_sqrt_p.bind(squared_size(x).sum(axes))
    if order in ("nuc", 2, -2):
        x = transpose(x, (*(d for d in range(x.ndim) if d not in axes), *axes))
        s = svd(x, compute_uv=False)
        if order == "nuc":
            return s.sum(-1)
        return _greatest(s, s.ndim - 1) if order == 2 else s.min(-1)
    # The greatest (or least) sum of absolute values over columns (1) or rows (inf).
    summed, left = axes if abs(order) == 1 else axes[::-1]
    sums = abs(x).sum(summed)
    place = left - (left > summed)
    return _greatest(sums, place) if order > 0 else sums.min(place)


def _greatest(x: Any, axis: int) -> Any:
    """The maximum of nonnegative numbers; 0 for none."""
    return x.max(axis) if x.shape[axis] else x.sum(axis)


@array_function
def norm(x: Numbers, ord: Order = None, axis: Axes | None = None, keepdims: Flag = False) -> Array:
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
    axes: Any = tuple(range(x.ndim)) if axis is None else axis
    return (_matrix_norm if len(axes) == 2 else _vector_norm)(x, axes, ord, keepdims)


@array_function
def vector_norm(
    x: Numbers, /, *, axis: Axes = None, keepdims: Flag = False, ord: VectorOrder = 2
) -> Array:
    """The norm of vectors along `axis`, several axes together, or all elements (None).

    ord: 2, 1, inf, -inf, 0 (how many are not zero) or any number p. Raises WeftValueError for
    anything that is not a number, AxisError, DTypeError, WeftTypeError.

    >>> jnp.linalg.vector_norm(jnp.array([3.0, -4.0]), ord=1)
    Array(7., dtype=float32)
    """
    return _vector_norm(x, axis, ord, keepdims)


@array_function
def matrix_norm(x: Matrix, /, *, keepdims: Flag = False, ord: MatrixOrder = "fro") -> Array:
    """The norm of the matrices in the last two dimensions.

    ord: "fro", the root of the sum of squares; "nuc", 2 and -2, the sum, the greatest and the least
    of the singular values; 1 and -1, the greatest and the least sum of magnitudes of a column; inf
    and -inf, of a row. Raises WeftValueError for another ord, ShapeError, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, -4.0]]), ord="nuc")
    Array(7., dtype=float32)
    """
    return _matrix_norm(x, (x.ndim - 2, x.ndim - 1), ord, keepdims)
