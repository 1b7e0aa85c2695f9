"""Elements and slices at positions that an array lists: take, take_along_axis, put.

The mode decides about positions out of bounds: fill, clamp to the bounds, or wrap around.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.host_values import cast_values
from weft.core.types import type_of, user_value
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftIndexError,
    WeftNotImplementedError,
    WeftValueError,
)
from weft.errors.argument_errors import unknown_option
from weft.kinds.arguments import NEVER, Axis, Flag, Operand, Out, Stored, take_number
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_arrays,
    check_fill_is_read,
    check_fits,
    convert,
    strong,
)
from weft.kinds.kind import Arguments, Kind
from weft.numpy.indexing import counted_from_start
from weft.numpy.reductions import boolean
from weft.ops.elementwise.arithmetic import add, lt, rem
from weft.ops.elementwise.selection import select as choose_elements
from weft.ops.flags import check_flag
from weft.ops.indexing import slicing
from weft.ops.indexing.gather import GatherDimensionNumbers, default_fill, gather
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter
from weft.ops.operand_errors import to_dtype
from weft.ops.reductions.cumulative import cumsum
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import reshape
from weft.typing import ArrayLike

__all__ = ["place", "put", "put_along_axis", "take", "take_along_axis"]

INT32 = np.dtype(np.int32)


def take_axis(x: Any, index: Any, axis: int, mode: str, fill_value: Any = None) -> Any:
    """The slices of `x` at nonnegative positions; the index's shape replaces the axis."""
    shape, of = type_of(x).shape, type_of(index)
    rank = of.ndim
    if not shape[axis]:
        return _take_from_empty(x, (*shape[:axis], *of.shape, *shape[axis + 1 :]), mode, fill_value)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(d if d < axis else d + rank - 1 for d in range(len(shape)) if d != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return gather(
        x,
        reshape(index, (*of.shape, 1)),
        numbers,
        slice_sizes=tuple(1 if d == axis else s for d, s in enumerate(shape)),
        mode=mode,
        fill_value=fill_value,
    )


def _take_from_empty(x: Any, shape: tuple[int, ...], mode: str, fill_value: Any) -> Any:
    """The result for an axis without elements: empty, or fill values."""
    if 0 in shape:
        return reshape(x, shape)
    dtype = type_of(x).dtype
    if mode != "fill" or dtype.kind == "K":
        message = "there are no elements to take from an axis of length 0"
        got = f"positions for a result of shape {shape}"
        raise WeftIndexError(message, got=got, wanted="no positions, or mode='fill'")
    value = default_fill(dtype) if fill_value is None else fill_value
    return broadcasted(cast_values(np.asarray(value), dtype)[()], shape)


def wrap_positions(index: Any, size: int) -> Any:
    """Positions modulo the length of a dimension."""
    dtype = type_of(index).dtype
    if not size:
        return index
    r = rem(index, dtype.type(size))
    return choose_elements(lt(r, dtype.type(0)), add(r, dtype.type(size)), r)


def index_in_mode(index: Any, size: int, mode: str | None, wrap: bool = True) -> tuple[Any, str]:
    """Positions and mode of a gather, for the modes of `take`."""
    if mode == "wrap":
        of = type_of(index)
        return wrap_positions(
            index if of.dtype.itemsize >= 4 else convert(index, INT32), size
        ), "clip"
    if mode == "clip" or not wrap:
        index = convert(index, INT32) if type_of(index).dtype.itemsize < 4 else index
        return index, mode or "fill"
    return counted_from_start(index, size), mode or "fill"


def _positions(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    of = type_of(value)
    if of.dtype not in dtypes.INTEGER:
        message = "takes integers as positions"
        fix = to_dtype("indices", of.dtype, dtypes.default_int())
        got = f"{call.name} of type {of}"
        raise DTypeError(message, got=got, wanted="an integer dtype", fix=fix)
    return user_value(value) if isinstance(value, np.generic) else value


def _mode(value: Any, call: Arguments) -> Any:
    name = call.operation
    if value == "raise":
        message = "mode 'raise' would have to know the values while tracing"
        wanted = "'fill' (NaN out of bounds), 'clip' or 'wrap'"
        fix = Fix("mode", "use mode='clip', 'wrap' or 'fill'", {"mode": "clip"})
        raise WeftNotImplementedError(message, got="mode='raise'", wanted=wanted, fix=fix)
    if value not in ("fill", "clip", "wrap", "promise_in_bounds"):
        wanted = "'fill', 'clip', 'wrap' or 'promise_in_bounds'"
        raise unknown_option(name, "mode", value, wanted)
    return value


def _fill(value: Any, call: Arguments) -> Any:
    value = take_number(value, call)
    check_fits(value, call.type.dtype)
    if call["mode"] not in (None, "fill"):
        check_fill_is_read(value, call["mode"], call.operation)
    return value if isinstance(value, (bool, int, float, complex)) else np.asarray(value).item()


def _inplace(value: Any, call: Arguments) -> None:
    check_flag(value, call.name)
    if value:
        fix = Fix("inplace", "pass inplace=False and use the result", {"inplace": False})
        message, got, wanted = "arrays do not change in place", "inplace=True", "inplace=False"
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


_positions_kind = Kind(
    _positions,
    "integers",
    ("text", [0], 1.5, None),
    np.zeros((1, 1), np.int32),
    static=False,
    plain=NEVER,
)
Positions = Annotated[ArrayLike, _positions_kind]
Mode = Annotated[Any, Kind(_mode, "what becomes of positions out of bounds", ("raise", "no"))]
FillValue = Annotated[Any, Kind(_fill, "a number", ("text", [1]), late=True)]
# A scatter decides which modes there are.
AnyMode = Annotated[Any, Kind(lambda value, call: value, "as in a scatter of `weft.lax`")]
_inplace_kind = Kind(
    _inplace, "False: arrays do not change in place", (True, "no"), plain=frozenset((False,))
)
NotInplace = Annotated[bool, _inplace_kind]


@array_function
def take(
    a: Operand,
    indices: Positions,
    axis: Axis = None,
    out: Out = None,
    mode: Mode = None,
    unique_indices: Flag = False,
    indices_are_sorted: Flag = False,
    fill_value: FillValue = None,
) -> Array:
    """The slices of `a` along `axis` (None: of the flattened array) at positions `indices`.

    Their shape replaces the axis. mode: "fill" (the default) gives fill_value for positions out of
    bounds, "clip" the nearest element, "wrap" wraps around. fill_value: by default NaN, the least
    signed or the greatest unsigned integer. unique_indices, indices_are_sorted: promises about the
    positions, without effect.

    >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    size = a.size if axis is None else a.shape[axis]
    if not size and indices.size:
        message = "there are no elements to take from an axis of length 0"
        got = f"{a.type}, positions {indices.type}"
        raise WeftIndexError(message, got=got, wanted="no positions")
    if axis is None:
        a, axis = reshape(a, (size,)), 0
    index, mode = index_in_mode(strong(indices), size, mode)
    return take_axis(a, index, axis, mode, fill_value)


def _common(shape: Any, places: Any, axis: int) -> tuple[int, ...]:
    """Broadcasts the shapes of an array and of positions, except along the axis."""
    return tuple(
        n if d == axis else broadcast_shape((n,), (shape[d],))[0] for d, n in enumerate(places)
    )


def _align(arr: Any, indices: Any, axis: int, mode: Any, wrap: bool) -> Any:
    """The operands of a gather along one axis, with the other dimensions matched."""
    shape, of = type_of(arr).shape, type_of(indices)
    common = _common(shape, of.shape, axis)
    arr = broadcasted(arr, (*common[:axis], shape[axis], *common[axis + 1 :]))
    index = strong(broadcasted(indices, common))
    if mode == "clip" and wrap:  # As an index does: first from the end, then to the bounds.
        index = counted_from_start(index, shape[axis])
    index, mode = index_in_mode(index, shape[axis], mode, wrap)
    others = tuple(d for d in range(len(shape)) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return arr, reshape(index, (*common, 1)), numbers, (1,) * len(shape), mode


@array_function
def take_along_axis(
    arr: Operand,
    indices: Positions,
    axis: Axis = -1,
    mode: Mode = None,
    fill_value: FillValue = None,
    *,
    wrap_negative_indices: Flag = True,
) -> Array:
    """The elements at positions along `axis` that `indices` lists for every row.

    The other dimensions of the two broadcast together. axis=None flattens the array. mode,
    fill_value: as in `take`, but "clip" counts negative positions from the end first.
    wrap_negative_indices: whether negative positions count from the end, or are out of bounds.

    >>> jnp.take_along_axis(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [0]]), axis=1)
    Array([[2],
           [3]], dtype=int32)
    """
    if axis is None:
        arr, axis = reshape(arr, (arr.size,)), 0
    if indices.ndim != arr.ndim:
        counts = f"{indices.ndim} dimensions and the array {arr.ndim}"
        got = f"{arr.type} and indices {indices.type}"
        raise ShapeError(f"the positions have {counts}", got=got, wanted="as many dimensions")
    arr, index, numbers, sizes, mode = _align(arr, indices, axis, mode, wrap_negative_indices)
    if not arr.size:
        return _take_from_empty(arr, index.shape[:-1], mode, fill_value)
    return gather(arr, index, numbers, sizes, mode=mode, fill_value=fill_value)


@array_function
def put_along_axis(
    arr: Operand,
    indices: Positions,
    values: Stored,
    axis: Axis,
    inplace: NotInplace = True,
    *,
    mode: AnyMode = None,
) -> Array:
    """A new array with `values` at the positions along `axis` that `indices` lists for every row.

    arr: an array, or what can be made one. mode: as in `put`. inplace: must be False, because
    arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.put_along_axis(jnp.zeros((2, 2)), jnp.array([[1], [0]]), 5.0, 1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    x, axis = (arr, axis) if axis is not None else (reshape(arr, (arr.size,)), 0)
    if not x.size:
        return reshape(arr, arr.shape)
    common = _common(x.shape, indices.shape, axis)
    places, mode = index_in_mode(strong(broadcasted(indices, common)), x.shape[axis], mode)
    others = tuple(d for d in range(x.ndim) if d != axis)
    updates = broadcasted(convert(values, x.dtype), common)
    numbers = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    out = scatter(x, reshape(places, (*common, 1)), updates, numbers, mode=mode)
    return reshape(out, arr.shape)


@array_function
def put(
    a: Operand, ind: Positions, v: Stored, mode: AnyMode = None, *, inplace: NotInplace = True
) -> Array:
    """A new array with values at positions of the flattened array; the values repeat if too few.

    ind: integers; v: the values, in that order. mode: "clip" moves positions out of bounds to the
    ends, "wrap" counts them modulo the size; by default they are left out. inplace: must be False,
    because arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.put(jnp.array([1, 2, 3]), jnp.array([0, 2]), jnp.array([7, 8]), inplace=False)
    Array([7, 2, 8], dtype=int32)
    """
    if not (a.size and v.size and ind.size):
        return reshape(a, a.shape)
    places, mode = index_in_mode(strong(reshape(ind, (ind.size,))), a.size, mode)
    values = reshape(convert(v, a.dtype), (v.size,))
    if v.size < ind.size:
        values = concatenate([values] * -(-ind.size // v.size), 0)
    updates = slicing.slice(values, (0,), (ind.size,))
    flat, places = reshape(a, (a.size,)), reshape(places, (ind.size, 1))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    return reshape(scatter(flat, places, updates, numbers, mode=mode), a.shape)


@array_function
def place(arr: Operand, mask: Operand, vals: Stored, *, inplace: NotInplace = True) -> Array:
    """A new array with the values put, one after the other, where the mask holds.

    arr: any shape, which the result and the mask have. mask: booleans. vals: the values, which
    repeat if too few. inplace: must be False, because arrays do not change in place. Raises
    WeftValueError otherwise, ShapeError for a mask of another size.

    >>> jnp.place(jnp.array([1, 2, 3]), jnp.array([True, False, True]), 7, inplace=False)
    Array([7, 2, 7], dtype=int32)
    """
    flat = reshape(boolean(mask), (arr.size,))
    counts = cumsum(convert(flat, INT32), 0) - np.int32(1)
    values = reshape(convert(vals, arr.dtype), (vals.size,))
    values = take_axis(values, wrap_positions(counts, vals.size), 0, "clip")
    return reshape(choose_elements(flat, values, reshape(arr, (arr.size,))), arr.shape)
