"""Diagonals, triangles and positions in grids: diag, trace, tril_indices, unravel_index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, Literal, cast, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.kinds.arguments import (
    DType,
    Flag,
    Function,
    Integer,
    Length,
    OneAxis,
    Operand,
    Operands,
    Out,
    Passed,
    Shape,
    Stored,
    choice,
    of_rank,
)
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcast_shape, broadcasted, convert, operands
from weft.numpy.choosing import concrete_values, nonzero
from weft.numpy.joining import static_array
from weft.numpy.manipulation import repeat_to_length
from weft.numpy.taking import NotInplace, Positions, wrap_positions
from weft.ops.elementwise.arithmetic import div, rem
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
Matrix = Annotated[ArrayLike, of_rank(2, 2, None)]
Matrices = Annotated[ArrayLike, of_rank(2, accepted=None)]
VectorOrMatrix = Annotated[ArrayLike, of_rank(1, 2, None)]
Mode = Annotated[str, choice("raise", "clip", "wrap")]
Order = Annotated[str, choice("C", "F")]


@array_function
def diagonal(a: Matrices, offset: Integer = 0, axis1: OneAxis = 0, axis2: OneAxis = 1) -> Array:
    """The diagonal of the matrices in two axes, as the last dimension of the result.

    axis1, axis2: the axes of the matrices' rows and columns. offset: how far above the main
    diagonal. Raises ShapeError for fewer than 2 dimensions.

    >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    if axis1 == axis2:
        raise WeftValueError("the axes are equal", got=f"{axis1}")
    rest = tuple(d for d in range(a.ndim) if d not in (axis1, axis2))
    x = transpose(a, (*rest, axis1, axis2))
    *left, n, m = x.shape
    row, column = max(0, -offset), max(0, offset)
    size = max(0, min(n - row, m - column))
    if not size:
        return broadcast_in_dim(a.dtype.type(0), (*left, 0), ())
    x = slice_in_dim(x, row, row + size, axis=-2)
    return matrices.diagonal(slice_in_dim(x, column, column + size, axis=-1))


@array_function
def diag(v: VectorOrMatrix, k: Integer = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a vector on that diagonal.

    v: a matrix or a vector. k: the number of the diagonal, counted upwards from the main one.

    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diagonal(v, k) if v.ndim == 2 else _on_diagonal(v, k)


def _on_diagonal(v: Any, k: int) -> Any:
    """The matrix with a vector on its k-th diagonal."""
    size = v.size + abs(k)
    zero = v.dtype.type(0)
    rows = pad(v, zero, [(max(0, -k), max(0, k), 0)])
    spread = broadcast_in_dim(rows, (size, size), (0,))
    row, column = (broadcasted_iota(INT32, (size, size), d) for d in (0, 1))
    return select(row + INT32.type(k) == column, spread, broadcasted(zero, (size, size)))


@array_function
def diagflat(v: Operand, k: Integer = 0) -> Array:
    """The matrix that has the elements of an array, flattened, on its k-th diagonal.

    v: any shape of n elements; the result is square, with n + abs(k) rows, and has its dtype. k:
    the number of the diagonal, counted upwards from the main one.

    >>> jnp.diagflat(jnp.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return _on_diagonal(v.ravel(), k)


@array_function
def trace(
    a: Matrices,
    offset: Integer = 0,
    axis1: OneAxis = 0,
    axis2: OneAxis = 1,
    dtype: DType = None,
    out: Out = None,
) -> Array:
    """The sum of the diagonal of the matrices in two axes.

    offset, axis1, axis2: as in `diagonal`.

    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype)


@array_function
def fill_diagonal(
    a: Matrices, val: Stored, wrap: Flag = False, *, inplace: NotInplace = True
) -> Array:
    """A new array whose main diagonal is `val`: a number, or values that repeat if too few.

    wrap: whether the diagonal of a tall matrix starts again below its end, after a free row.
    inplace: must be False, because arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 3.0, inplace=False)
    Array([[3., 0.],
           [0., 3.]], dtype=float32)
    """
    if a.ndim > 2:
        _check_one_length(a)
    values = convert(val, a.dtype).ravel()
    if not values.size or not a.size:
        return cast("Array", a)  # as NumPy does
    if wrap and a.ndim == 2 and a.shape[0] > a.shape[1]:
        step = a.shape[1] + 1
        places = broadcasted_iota(INT32, (a.size,), 0).reshape(a.shape)
        repeated = repeat_to_length(values, -(-a.size // step))
        spread = pad(repeated, a.dtype.type(0), [(0, step - 1, step - 1)])
        spread = slice_in_dim(spread, 0, a.size).reshape(a.shape)
        return select(rem(places, INT32.type(step)) == INT32.type(0), spread, a)
    size, dims = min(a.shape), tuple(range(a.ndim))
    return scatter(
        a,
        broadcasted_iota(INT32, (size, a.ndim), 0),
        repeat_to_length(values, size) if values.size > 1 else broadcasted(values, (size,)),
        ScatterDimensionNumbers((), dims, dims),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _check_one_length(a: Any) -> None:
    if len(set(a.shape)) > 1:
        wanted = "dimensions of one length"
        raise ShapeError("the dimensions differ in length", got=str(a.type), wanted=wanted)


def _positions(values: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
    return tuple(as_array(v.astype(dtypes.default_int())) for v in values)


@python_function
def diag_indices(n: Length, ndim: Length = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` dimensions of length n.

    n: the length of each dimension.

    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    return _positions([np.arange(n)] * ndim)


@python_function
def diag_indices_from(arr: Matrices) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array whose dimensions have one length.

    arr: an array, of which only the shape counts.

    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    _check_one_length(arr)
    return diag_indices(arr.shape[0], arr.ndim)


@python_function
def tril_indices(n: Integer, k: Integer = 0, m: Integer | None = None) -> tuple[Array, Array]:
    """The positions on and below the k-th diagonal of a matrix of n rows and m columns.

    n, m: the numbers of rows and of columns; m is n by default. k: the number of the diagonal,
    counted upwards from the main one.

    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = np.tril_indices(n, k, m)
    one, two = _positions([rows, columns])
    return one, two


@python_function
def triu_indices(n: Integer, k: Integer = 0, m: Integer | None = None) -> tuple[Array, Array]:
    """The positions on and above the k-th diagonal of a matrix of n rows and m columns.

    n, m: the numbers of rows and of columns; m is n by default. k: the number of the diagonal,
    counted upwards from the main one.

    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = np.triu_indices(n, k, m)
    one, two = _positions([rows, columns])
    return one, two


@python_function
def tril_indices_from(arr: Matrix, k: Integer = 0) -> tuple[Array, Array]:
    """The positions on and below the k-th diagonal of a matrix.

    arr: a matrix, of which only the shape counts. k: the number of the diagonal, counted upwards
    from the main one.

    >>> jnp.tril_indices_from(jnp.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return tril_indices(arr.shape[0], k, arr.shape[1])


@python_function
def triu_indices_from(arr: Matrix, k: Integer = 0) -> tuple[Array, Array]:
    """The positions on and above the k-th diagonal of a matrix.

    arr: a matrix, of which only the shape counts. k: the number of the diagonal, counted upwards
    from the main one.

    >>> jnp.triu_indices_from(jnp.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return triu_indices(arr.shape[0], k, arr.shape[1])


@python_function
def mask_indices(
    n: Integer, mask_func: Function, k: Passed = 0, *, size: Length | None = None
) -> tuple[Array, ...]:
    """The positions in a square matrix where `mask_func(ones, k)`, for example of `triu`, is not 0.

    n: the length of both dimensions. mask_func: a function that gets a matrix of ones and k, and
    returns a matrix of that shape. k: passed on to it, for `triu` the number of a diagonal. size:
    as in `nonzero`.

    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
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
            places = np.nonzero(concrete_values(x, "pass integers instead of a mask"))[0]
            x = as_array(places.astype(dtypes.default_int()))
        size = type_of(x).shape[0]
        out.append(reshape(x, (*(1,) * i, size, *(1,) * (len(args) - i - 1))))
    return tuple(out)


@overload
def indices(
    dimensions: Sequence[int], dtype: Any = None, sparse: Literal[False] = False
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: Any = None, *, sparse: Literal[True]
) -> tuple[Array, ...]: ...
@array_function
def indices(
    dimensions: Shape, dtype: DType = None, sparse: Flag = False
) -> Array | tuple[Array, ...]:
    """The position of every element of a grid: one array per dimension, stacked in front.

    dimensions: the lengths of the grid. sparse: a tuple of arrays of length 1 in all but one
    dimension instead.

    >>> jnp.indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    dtype, rank = dtype or dtypes.default_int(), len(dimensions)
    if sparse:
        ones = (1,) * rank
        lengths = [(*ones[:d], n, *ones[d + 1 :]) for d, n in enumerate(dimensions)]
        return tuple([broadcasted_iota(dtype, shape, d) for d, shape in enumerate(lengths)])
    if not rank:
        return broadcasted(dtype.type(0), (0,))
    shape = (rank, *dimensions)
    which = broadcasted_iota(INT32, shape, 0)
    out = broadcasted_iota(dtype, shape, 1)
    for d in range(1, rank):
        out = select(which == INT32.type(d), broadcasted_iota(dtype, shape, d + 1), out)
    return out


@array_function
def unravel_index(indices: Positions, shape: Shape) -> tuple[Array, ...]:
    """Flat positions as positions in an array of `shape`, one array per dimension.

    indices: integers, an array of any shape.

    Negative positions count from the end; positions out of bounds are moved to the ends.

    >>> jnp.unravel_index(jnp.array([5, 1]), (2, 3))
    (Array([1, 0], dtype=int32), Array([2, 1], dtype=int32))
    """
    index_dtype = indices.dtype
    dtype = index_dtype if index_dtype.itemsize >= 4 else INT32
    zero, size = dtype.type(0), prod(shape)
    rest = convert(indices, dtype)
    if dtype in dtypes.SIGNED:
        rest = select(rest < zero, rest + dtype.type(size), rest)
    rest = smaller(larger(rest, zero), dtype.type(max(0, size - 1)))
    out = []
    for d in range(len(shape)):
        step = dtype.type(max(1, prod(shape[d + 1 :])))
        out.append(convert(div(rest, step), index_dtype))
        rest = rem(rest, step)
    return tuple(out)


@python_function
def ravel_multi_index(
    multi_index: Operands,
    dims: Shape,
    mode: Mode = "raise",
    order: Order = "C",
    *,
    dtype: DType = None,
) -> Array:
    """Positions in an array of shape `dims` as flat positions.

    multi_index: an array of integers for each dimension. mode: "clip" or "wrap" for positions out
    of bounds; "raise" needs known positions. order: "C" for the last index fastest, "F" for the
    first. dtype: of the result, an integer one.

    >>> jnp.ravel_multi_index((jnp.array([1, 0]), jnp.array([2, 1])), (2, 3))
    Array([5, 1], dtype=int32)
    """
    if len(multi_index) != len(dims):
        raise ShapeError(f"got {len(multi_index)} positions for {len(dims)} dimensions")
    for index, size in zip(multi_index, dims, strict=True):
        if index.dtype not in dtypes.INTEGER:
            raise WeftTypeError("positions are integers", got=str(index.type))
        if mode == "raise":
            values = static_array(index, "multi_index (with mode 'raise')")
            if values.size and (values.min() < 0 or values.max() >= size):
                got = f"{values.min()} to {values.max()}"
                wanted = f"0 to {size - 1}"
                raise WeftValueError("a position is out of bounds", got=got, wanted=wanted)
    return _ravel_index(multi_index, dims, mode, order, dtype)


@array_function
def _ravel_index(multi_index: Operands, dims: Shape, mode: Mode, order: Order, dtype: DType) -> Any:
    default = dtypes.default_int()
    shape = broadcast_shape(*[x.shape for x in multi_index], operation="ravel_multi_index")
    out = broadcasted(default.type(0), shape)
    pairs = list(zip(multi_index, dims, strict=True))
    for index, size in reversed(pairs) if order == "F" else pairs:
        index = convert(index, default)
        if mode == "wrap":
            index = wrap_positions(index, size)
        elif mode == "clip":
            index = smaller(larger(index, default.type(0)), default.type(size - 1))
        out = out * default.type(size) + broadcasted(index, shape)
    return convert(out, dtype or default)
