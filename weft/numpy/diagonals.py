"""Diagonals, triangles and positions in grids: diag, trace, tril_indices, unravel_index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, overload

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.kinds.checks import (
    axis_of,
    broadcast_shape,
    broadcasted,
    check_flag,
    convert,
    length_of,
    operand,
    operands,
    refuse_out,
    shape_of,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import number_for
from weft.kinds.repeated import repeated
from weft.numpy.choosing import known, nonzero
from weft.numpy.joining import static_array
from weft.numpy.manipulation import cycled
from weft.numpy.reductions import sum as sum_
from weft.numpy.taking import refuse_inplace, wrapped
from weft.ops.elementwise.arithmetic import add, div, eq, lt, mul, rem
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.gather import GatherScatterMode
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter
from weft.ops.indexing.slicing import pad, slice_in_dim
from weft.ops.linalg import matrices
from weft.ops.structural.shape import broadcast_in_dim, reshape, transpose
from weft.typing import ArrayLike

__all__ = [
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "fill_diagonal", "indices",
    "ix_", "mask_indices", "ravel_multi_index", "trace", "tril_indices", "tril_indices_from",
    "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip

INT32 = np.dtype(np.int32)


@compiled
def _diagonal(a: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    of = type_of(a)
    rest = tuple(d for d in range(of.ndim) if d not in (axis1, axis2))
    x = transpose(a, (*rest, axis1, axis2))
    n, m = of.shape[axis1], of.shape[axis2]
    left = tuple(of.shape[d] for d in rest)
    rank = len(left)
    low_row, low_column = max(0, -offset), max(0, offset)
    size = max(0, min(n - low_row, m - low_column))
    if not size:
        return broadcast_in_dim(of.dtype.type(0), (*left, 0), ())
    x = slice_in_dim(x, low_row, low_row + size, axis=rank)
    x = slice_in_dim(x, low_column, low_column + size, axis=rank + 1)
    return matrices.diagonal(x)


@repeated
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of the matrices in two axes, as the last dimension of the result.

    axis1, axis2: the axes of the matrices' rows and columns. offset: how far above the main
    diagonal. Raises ShapeError for fewer than 2 dimensions.

    >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    a = operand("diagonal", a)
    ndim = type_of(a).ndim
    if ndim < 2:
        message = "diagonal takes at least two dimensions"
        raise refusal(ShapeError, message, "diagonal", str(type_of(a)))
    one, two = axis_of(axis1, ndim, "diagonal"), axis_of(axis2, ndim, "diagonal")
    if one == two:
        raise WeftValueError("diagonal: the axes are equal", operation="diagonal", got=f"{axis1}")
    return _diagonal(a, offset=integer_of(offset, "diagonal", "offset"), axis1=one, axis2=two)


@compiled
def _diag(v: Any, *, k: int) -> Any:
    n = type_of(v).shape[0]
    size = n + abs(k)
    zero = type_of(v).dtype.type(0)
    rows = pad(v, zero, [(max(0, -k), max(0, k), 0)])
    spread = broadcast_in_dim(rows, (size, size), (0,))
    row, column = (broadcasted_iota(INT32, (size, size), d) for d in (0, 1))
    return select(eq(add(row, INT32.type(k)), column), spread, broadcasted(zero, (size, size)))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a vector on that diagonal.

    v: a matrix or a vector. k: the number of the diagonal, counted upwards from the main one.

    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = operand("diag", v)
    of = type_of(v)
    if of.ndim == 2:
        return diagonal(v, k)
    if of.ndim != 1:
        raise ShapeError("diag takes one or two dimensions", operation="diag", got=str(of))
    return _diag(v, k=integer_of(k, "diag", "k"))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix that has the elements of an array, flattened, on its k-th diagonal.

    v: any shape of n elements; the result is square, with n + abs(k) rows, and has its dtype. k:
    the number of the diagonal, counted upwards from the main one.

    >>> jnp.diagflat(jnp.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = operand("diagflat", v)
    return diag(reshape(v, (type_of(v).size,)), k)


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Array:
    """The sum of the diagonal of the matrices in two axes.

    offset, axis1, axis2: as in `diagonal`.

    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    refuse_out("trace", out)
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


@compiled
def _fill_diagonal(a: Any, val: Any, *, wrap: bool) -> Any:
    of = type_of(a)
    shape = of.shape
    values = reshape(convert(val, of.dtype), (type_of(val).size,))
    n = type_of(values).shape[0]
    if not n or not of.size:
        return a  # as NumPy does
    if wrap and of.ndim == 2 and shape[0] > shape[1]:
        step = shape[1] + 1
        flat = reshape(broadcasted_iota(INT32, (of.size,), 0), shape)
        filled = pad(
            cycled(values, -(-of.size // step)), of.dtype.type(0), [(0, step - 1, step - 1)]
        )
        filled = reshape(slice_in_dim(filled, 0, of.size), shape)
        return select(eq(rem(flat, INT32.type(step)), INT32.type(0)), filled, a)
    size, dims = min(shape), tuple(range(of.ndim))
    return scatter(
        a,
        broadcasted_iota(INT32, (size, of.ndim), 0),
        cycled(values, size) if n > 1 else broadcasted(values, (size,)),
        ScatterDimensionNumbers((), dims, dims),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def fill_diagonal(a: ArrayLike, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A new array whose main diagonal is `val`: a number, or values that repeat if too few.

    wrap: whether the diagonal of a tall matrix starts again below its end, after a free row.
    inplace: must be False, because arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 3.0, inplace=False)
    Array([[3., 0.],
           [0., 3.]], dtype=float32)
    """
    check_flag(wrap, "fill_diagonal", "wrap")
    refuse_inplace("fill_diagonal", inplace)
    a, _ = operands("fill_diagonal", a, val)
    of = type_of(a)
    val = number_for("fill_diagonal", val, of.dtype)
    if of.ndim < 2 or (of.ndim > 2 and len(set(of.shape)) > 1):
        message = "fill_diagonal takes a matrix, or more dimensions of one length"
        raise refusal(ShapeError, message, "fill_diagonal", str(of))
    return _fill_diagonal(a, val, wrap=bool(wrap))


def _positions(values: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
    return tuple(as_array(v.astype(dtypes.default_int())) for v in values)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` dimensions of length n.

    n: the length of each dimension.

    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    size, rank = length_of(n, "diag_indices", "n"), length_of(ndim, "diag_indices", "ndim")
    return _positions([np.arange(size)] * rank)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array whose dimensions have one length.

    arr: an array, of which only the shape counts.

    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    of = type_of(operand("diag_indices_from", arr))
    if of.ndim < 2 or len(set(of.shape)) > 1:
        message = "diag_indices_from takes two or more dimensions of one length"
        raise refusal(ShapeError, message, "diag_indices_from", str(of))
    return diag_indices(of.shape[0], of.ndim)


def _sizes(operation: str, n: Any, k: Any, m: Any) -> tuple[int, int, int | None]:
    """Rows, diagonal and columns as integers."""
    columns = None if m is None else integer_of(m, operation, "m")
    return integer_of(n, operation, "n"), integer_of(k, operation, "k"), columns


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on and below the k-th diagonal of a matrix of n rows and m columns.

    n, m: the numbers of rows and of columns; m is n by default. k: the number of the diagonal,
    counted upwards from the main one.

    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = np.tril_indices(*_sizes("tril_indices", n, k, m))
    one, two = _positions([rows, columns])
    return one, two


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on and above the k-th diagonal of a matrix of n rows and m columns.

    n, m: the numbers of rows and of columns; m is n by default. k: the number of the diagonal,
    counted upwards from the main one.

    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = np.triu_indices(*_sizes("triu_indices", n, k, m))
    one, two = _positions([rows, columns])
    return one, two


def _matrix(operation: str, arr: Any) -> tuple[int, ...]:
    of = type_of(operand(operation, arr))
    if of.ndim != 2:
        raise ShapeError(f"{operation} takes a matrix", operation=operation, got=str(of))
    return of.shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions on and below the k-th diagonal of a matrix.

    arr: a matrix, of which only the shape counts. k: the number of the diagonal, counted upwards
    from the main one.

    >>> jnp.tril_indices_from(jnp.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, integer_of(k, "tril_indices_from", "k"), m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions on and above the k-th diagonal of a matrix.

    arr: a matrix, of which only the shape counts. k: the number of the diagonal, counted upwards
    from the main one.

    >>> jnp.triu_indices_from(jnp.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, integer_of(k, "triu_indices_from", "k"), m)


def mask_indices(
    n: int, mask_func: Any, k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """The positions in a square matrix where `mask_func(ones, k)`, for example of `triu`, is not 0.

    n: the length of both dimensions. mask_func: a function that gets a matrix of ones and k, and
    returns a matrix of that shape. k: passed on to it, for `triu` the number of a diagonal. size:
    as in `nonzero`.

    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n = integer_of(n, "mask_indices", "n")
    ones = as_array(np.ones((n, n), dtypes.default_int()))
    return nonzero(mask_func(ones, k), size=size)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Arrays of one dimension reshaped so that indexing with them selects their open mesh.

    args: vectors of integers or booleans, or lists of those. A boolean array stands for the
    positions where it holds, which must be known.

    >>> jnp.arange(6).reshape(2, 3)[jnp.ix_(jnp.array([0, 1]), jnp.array([2, 0]))]
    Array([[2, 0],
           [5, 3]], dtype=int32)
    """
    args = operands("ix_", *[np.asarray(x) if isinstance(x, (list, range)) else x for x in args])
    out = []
    for i, x in enumerate(args):
        of = type_of(x)
        if of.ndim != 1:
            raise ShapeError("ix_ takes arrays of one dimension", operation="ix_", got=str(of))
        if of.dtype == dtypes.bool_:
            places = np.nonzero(known(x, "ix_", "pass integers instead of a mask"))[0]
            x = as_array(places.astype(dtypes.default_int()))
        size = type_of(x).shape[0]
        out.append(reshape(x, (*(1,) * i, size, *(1,) * (len(args) - i - 1))))
    return tuple(out)


@compiled
def _indices(*, shape: Any, dtype: Any, sparse: bool) -> tuple[Any, ...]:
    out = []
    for d in range(len(shape)):
        full = shape if not sparse else tuple(n if e == d else 1 for e, n in enumerate(shape))
        out.append(broadcasted_iota(dtype, full, d))
    return tuple(out)


@overload
def indices(
    dimensions: Sequence[int], dtype: Any = None, sparse: Literal[False] = False
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: Any = None, *, sparse: Literal[True]
) -> tuple[Array, ...]: ...
def indices(
    dimensions: Sequence[int], dtype: Any = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The position of every element of a grid: one array per dimension, stacked in front.

    dimensions: the lengths of the grid. sparse: a tuple of arrays of length 1 in all but one
    dimension instead.

    >>> jnp.indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    check_flag(sparse, "indices", "sparse")
    shape = shape_of(tuple(dimensions), "indices")
    target = dtypes.default_int() if dtype is None else dtypes.requested(dtype)
    if not shape:
        return () if sparse else as_array(np.zeros((0,), target))
    if sparse:
        return _indices(shape=shape, dtype=target, sparse=True)
    return _stacked_indices(shape=shape, dtype=target)


@compiled
def _stacked_indices(*, shape: Any, dtype: Any) -> Any:
    rank = len(shape)
    whole = (rank, *shape)
    which = broadcasted_iota(INT32, whole, 0)
    out = broadcasted_iota(dtype, whole, 1)
    for d in range(1, rank):
        out = select(eq(which, INT32.type(d)), broadcasted_iota(dtype, whole, d + 1), out)
    return out


def unravel_index(indices: Any, shape: Any) -> tuple[Array, ...]:
    """Flat positions as positions in an array of `shape`, one array per dimension.

    indices: integers, an array of any shape.

    Negative positions count from the end; positions out of bounds are moved to the ends.

    >>> jnp.unravel_index(jnp.array([5, 1]), (2, 3))
    (Array([1, 0], dtype=int32), Array([2, 1], dtype=int32))
    """
    indices = operand("unravel_index", indices)
    if type_of(indices).dtype not in dtypes.INTEGER:
        message = "unravel_index takes integers"
        raise refusal(WeftTypeError, message, "unravel_index", str(type_of(indices)))
    return _unravel(indices, shape=shape_of(shape, "unravel_index"))


@compiled
def _unravel(index: Any, *, shape: tuple[int, ...]) -> tuple[Any, ...]:
    of = type_of(index)
    size = prod(shape)
    dtype = of.dtype if of.dtype.itemsize >= 4 else INT32
    rest = convert(index, dtype) if dtype != of.dtype else index
    zero = dtype.type(0)
    if dtype in dtypes.SIGNED:
        rest = select(lt(rest, zero), add(rest, dtype.type(size)), rest)
    rest = smaller(larger(rest, zero), dtype.type(max(0, size - 1)))
    out = []
    for d in range(len(shape)):
        step = dtype.type(max(1, prod(shape[d + 1 :])))
        out.append(convert(div(rest, step), of.dtype))
        rest = rem(rest, step)
    return tuple(out)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Positions in an array of shape `dims` as flat positions.

    multi_index: an array of integers for each dimension. mode: "clip" or "wrap" for positions out
    of bounds; "raise" needs known positions. order: "C" for the last index fastest, "F" for the
    first. dtype: of the result, an integer one.

    >>> jnp.ravel_multi_index((jnp.array([1, 0]), jnp.array([2, 1])), (2, 3))
    Array([5, 1], dtype=int32)
    """
    shape = shape_of(tuple(dims), "ravel_multi_index")
    values = operands("ravel_multi_index", *multi_index)
    if len(values) != len(shape):
        message = f"ravel_multi_index got {len(values)} positions for {len(shape)} dimensions"
        raise ShapeError(message, operation="ravel_multi_index")
    if mode not in ("raise", "clip", "wrap") or order not in ("C", "F"):
        message = "ravel_multi_index: mode is 'raise', 'clip' or 'wrap', order 'C' or 'F'"
        got = f"mode={mode!r}, order={order!r}"
        raise refusal(WeftValueError, message, "ravel_multi_index", got)
    for value, size in zip(values, shape, strict=True):
        if type_of(value).dtype not in dtypes.INTEGER:
            raise WeftTypeError("ravel_multi_index takes integers", got=str(type_of(value)))
        if mode == "raise":
            found = static_array(value, "ravel_multi_index", "multi_index (with mode 'raise')")
            if found.size and (found.min() < 0 or found.max() >= size):
                message = "ravel_multi_index: a position is out of bounds"
                got = f"{found.min()} to {found.max()}"
                raise refusal(WeftValueError, message, "ravel_multi_index", got, f"0 to {size - 1}")
    found = _ravel_index(*values, shape=shape, mode=mode, fortran=order == "F")
    return found if dtype is None else convert(found, dtypes.requested(dtype))


@compiled
def _ravel_index(*values: Any, shape: tuple[int, ...], mode: str, fortran: bool) -> Any:
    dtype = dtypes.default_int()
    whole = broadcast_shape("ravel_multi_index", *[type_of(v).shape for v in values])
    out = broadcasted(dtype.type(0), whole)
    pairs = list(zip(values, shape, strict=True))
    for value, size in reversed(pairs) if fortran else pairs:
        index = convert(value, dtype)
        if mode == "wrap":
            index = wrapped(index, size)
        elif mode == "clip":
            index = smaller(larger(index, dtype.type(0)), dtype.type(size - 1))
        out = add(mul(out, dtype.type(size)), broadcasted(index, whole))
    return out
