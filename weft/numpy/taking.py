"""Elements and slices at positions that an array lists: take, take_along_axis, put.

The mode decides about positions out of bounds: fill, clamp to the bounds, or wrap around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal, unknown_option
from weft.arrays.array import Array
from weft.arrays.host_values import cast_values
from weft.core.types import type_of
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftIndexError,
    WeftNotImplementedError,
    WeftValueError,
)
from weft.kinds.checks import (
    axis_of,
    broadcast_shape,
    broadcasted,
    check_fill_is_read,
    check_fits,
    check_flag,
    check_flags,
    check_number,
    convert,
    operands,
    refuse_out,
    strong,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import number_for
from weft.kinds.repeated import repeated
from weft.numpy.creation import asarray
from weft.numpy.indexing import counted_from_start
from weft.numpy.reductions import boolean
from weft.ops.elementwise.arithmetic import add, lt, rem, sub
from weft.ops.elementwise.selection import select as choose_elements
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
        return _of_nothing(x, (*shape[:axis], *of.shape, *shape[axis + 1 :]), mode, fill_value)
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


def _of_nothing(x: Any, shape: tuple[int, ...], mode: str, fill_value: Any) -> Any:
    """The result of taking along an axis without elements: empty, or fill values."""
    if 0 in shape:
        return reshape(x, shape)
    dtype = type_of(x).dtype
    if mode != "fill" or dtype.kind == "K":
        message = "there are no elements to take from an axis of length 0"
        got = f"positions for a result of shape {shape}"
        raise WeftIndexError(message, got=got, wanted="no positions, or mode='fill'")
    value = default_fill(dtype) if fill_value is None else fill_value
    return broadcasted(cast_values(np.asarray(value), dtype)[()], shape)


def wrapped(index: Any, size: int) -> Any:
    """Positions modulo the length of a dimension."""
    dtype = type_of(index).dtype
    if not size:
        return index
    r = rem(index, dtype.type(size))
    return choose_elements(lt(r, dtype.type(0)), add(r, dtype.type(size)), r)


def index_in_mode(index: Any, size: int, mode: str | None, wrap: bool = True) -> tuple[Any, str]:
    """Positions as a gather takes them, and its mode, for the modes of `take`."""
    if mode == "wrap":
        of = type_of(index)
        return wrapped(index if of.dtype.itemsize >= 4 else convert(index, INT32), size), "clip"
    if mode == "clip" or not wrap:
        index = convert(index, INT32) if type_of(index).dtype.itemsize < 4 else index
        return index, mode or "fill"
    return counted_from_start(index, size), mode or "fill"


def _check_take(operation: str, a: Any, indices: Any, mode: Any, fill_value: Any) -> None:
    if mode == "raise":
        message = f"{operation}: mode 'raise' would have to know the values while tracing"
        wanted = "'fill' (NaN out of bounds), 'clip' or 'wrap'"
        fix = Fix("mode", "use mode='clip', 'wrap' or 'fill'", {"mode": "clip"})
        raise refusal(WeftNotImplementedError, message, operation, "mode='raise'", wanted, fix)
    if mode not in (None, "fill", "clip", "wrap", "promise_in_bounds"):
        wanted = "'fill', 'clip', 'wrap' or 'promise_in_bounds'"
        raise unknown_option(operation, "mode", mode, wanted)
    _check_integers(operation, indices)
    if fill_value is not None:
        check_number(fill_value, operation, "fill_value")
        check_fits(operation, fill_value, type_of(a).dtype)
        if mode not in (None, "fill"):
            check_fill_is_read(fill_value, mode, operation)


def _check_integers(operation: str, index: Any) -> None:
    of = type_of(index)
    if of.dtype not in dtypes.INTEGER:
        message = f"{operation} takes integers as positions"
        fix = to_dtype("indices", of.dtype, dtypes.default_int())
        raise refusal(DTypeError, message, operation, str(of), "an integer dtype", fix)


@compiled
def _take(a: Any, indices: Any, *, axis: int | None, mode: Any, fill: Any) -> Any:
    if axis is None:
        a, axis = reshape(a, (type_of(a).size,)), 0
    size = type_of(a).shape[axis]
    index, how = index_in_mode(strong(indices), size, mode)
    return take_axis(a, index, axis, how, fill[1] if fill else None)


def _static_fill(value: Any) -> Any:
    """A fill value as a key that tells 1, 1.0 and True apart; None for none."""
    if value is None:
        return None
    number = value if isinstance(value, (bool, int, float, complex)) else np.asarray(value).item()
    return type(number), number  # 1, 1.0 and True are equal


@repeated
def take(
    a: ArrayLike,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The slices of `a` along `axis` (None: of the flattened array) at positions `indices`.

    Their shape replaces the axis. mode: "fill" (the default) gives fill_value for positions out of
    bounds, "clip" the nearest element, "wrap" wraps around. fill_value: by default NaN, the least
    signed or the greatest unsigned integer. unique_indices, indices_are_sorted: promises about the
    positions, without effect.

    >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    refuse_out("take", out)
    a, indices = operands("take", a, indices)
    check_flags("take", unique_indices=unique_indices, indices_are_sorted=indices_are_sorted)
    _check_take("take", a, indices, mode, fill_value)
    place = None if axis is None else axis_of(axis, type_of(a).ndim, "take")
    size = type_of(a).size if place is None else type_of(a).shape[place]
    if not size and type_of(indices).size:
        message = "take: there are no elements to take from an axis of length 0"
        got = f"{type_of(a)}, positions {type_of(indices)}"
        raise refusal(WeftIndexError, message, "take", got, "no positions")
    return _take(a, indices, axis=place, mode=mode, fill=_static_fill(fill_value))


@compiled
def _take_along(arr: Any, indices: Any, *, axis: int, mode: Any, fill: Any, wrap: bool) -> Any:
    arr, index, numbers, sizes, how = _aligned(arr, indices, axis, mode, wrap)
    if not type_of(arr).size:
        return _of_nothing(arr, type_of(index).shape[:-1], how, fill[1] if fill else None)
    return gather(arr, index, numbers, sizes, mode=how, fill_value=fill[1] if fill else None)


def _common(operation: str, shape: Any, places: Any, axis: int) -> tuple[int, ...]:
    """The shape of an array and of positions along an axis, broadcast but for the axis."""
    return tuple(
        n if d == axis else broadcast_shape(operation, (n,), (shape[d],))[0]
        for d, n in enumerate(places)
    )


def _aligned(arr: Any, indices: Any, axis: int, mode: Any, wrap: bool) -> Any:
    """The operand and positions of a gather along one axis, with the other dimensions matched."""
    shape, of = type_of(arr).shape, type_of(indices)
    common = _common("take_along_axis", shape, of.shape, axis)
    arr = broadcasted(arr, (*common[:axis], shape[axis], *common[axis + 1 :]))
    index = strong(broadcasted(indices, common))
    if mode == "clip" and wrap:  # As an index does: first from the end, then to the bounds.
        index = counted_from_start(index, shape[axis])
    index, how = index_in_mode(index, shape[axis], mode, wrap)
    others = tuple(d for d in range(len(shape)) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return arr, reshape(index, (*common, 1)), numbers, (1,) * len(shape), how


@repeated
def take_along_axis(
    arr: ArrayLike,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool = True,
) -> Array:
    """The elements at positions along `axis` that `indices` lists for every row.

    The other dimensions of the two broadcast together. axis=None flattens the array. mode,
    fill_value: as in `take`, but "clip" counts negative positions from the end first.
    wrap_negative_indices: whether negative positions count from the end, or are out of bounds.

    >>> jnp.take_along_axis(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [0]]), axis=1)
    Array([[2],
           [3]], dtype=int32)
    """
    arr, indices = operands("take_along_axis", arr, indices)
    _check_take("take_along_axis", arr, indices, mode, fill_value)
    if axis is None:
        arr, axis = reshape(arr, (type_of(arr).size,)), 0
    of, index = type_of(arr), type_of(indices)
    if index.ndim != of.ndim:
        counts = f"{index.ndim} dimensions and the array {of.ndim}"
        message, got = f"take_along_axis: the positions have {counts}", f"{of} and indices {index}"
        raise refusal(ShapeError, message, "take_along_axis", got, "as many dimensions")
    place = axis_of(axis, of.ndim, "take_along_axis")
    check_flags("take_along_axis", wrap_negative_indices=wrap_negative_indices)
    fill, wrap = _static_fill(fill_value), bool(wrap_negative_indices)
    return _take_along(arr, indices, axis=place, mode=mode, fill=fill, wrap=wrap)


@compiled
def _put_along(arr: Any, indices: Any, values: Any, *, axis: int, mode: Any) -> Any:
    of, index = type_of(arr), type_of(indices)
    if not of.size:
        return arr
    common = _common("put_along_axis", of.shape, index.shape, axis)
    places, how = index_in_mode(strong(broadcasted(indices, common)), of.shape[axis], mode)
    others = tuple(d for d in range(of.ndim) if d != axis)
    updates = broadcasted(convert(values, of.dtype), common, "put_along_axis")
    numbers = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    return scatter(arr, reshape(places, (*common, 1)), updates, numbers, mode=how)


def put_along_axis(
    arr: ArrayLike,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: Any = None,
) -> Array:
    """A new array with `values` at the positions along `axis` that `indices` lists for every row.

    arr: an array, or what can be made one. mode: as in `put`. inplace: must be False, because
    arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.put_along_axis(jnp.zeros((2, 2)), jnp.array([[1], [0]]), 5.0, 1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    refuse_inplace("put_along_axis", inplace)
    arr, indices, _ = operands("put_along_axis", arr, indices, values)
    _check_integers("put_along_axis", indices)
    of = type_of(arr)
    values = number_for("put_along_axis", values, of.dtype)
    if axis is None:
        flat = put_along_axis(reshape(arr, (of.size,)), indices, values, 0, False, mode=mode)
        return reshape(flat, of.shape)
    place = axis_of(axis, of.ndim, "put_along_axis")
    return _put_along(arr, indices, values, axis=place, mode=mode)


def refuse_inplace(operation: str, inplace: bool) -> None:
    """Raises WeftValueError unless `inplace` is false."""
    check_flag(inplace, operation, "inplace")
    if inplace:
        message = f"{operation}: arrays do not change in place"
        fix = Fix("inplace", "pass inplace=False and use the result", {"inplace": False})
        raise refusal(WeftValueError, message, operation, "inplace=True", "inplace=False", fix)


@compiled
def _put(a: Any, ind: Any, v: Any, *, mode: Any) -> Any:
    of = type_of(a)
    count = type_of(ind).size
    places, how = index_in_mode(strong(reshape(ind, (count,))), of.size, mode)
    size = type_of(v).size
    values = reshape(convert(v, of.dtype), (size,))
    if size < count and size:
        values = concatenate([values] * -(-count // size), 0)
    updates = slicing.slice(values, (0,), (count,))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    flat = scatter(reshape(a, (of.size,)), reshape(places, (count, 1)), updates, numbers, mode=how)
    return reshape(flat, of.shape)


def put(
    a: ArrayLike, ind: Any, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """A new array with values at positions of the flattened array; the values repeat if too few.

    ind: integers; v: the values, in that order. mode: "clip" moves positions out of bounds to the
    ends, "wrap" counts them modulo the size; by default they are left out. inplace: must be False,
    because arrays do not change in place. Raises ValueError otherwise.

    >>> jnp.put(jnp.array([1, 2, 3]), jnp.array([0, 2]), jnp.array([7, 8]), inplace=False)
    Array([7, 2, 8], dtype=int32)
    """
    refuse_inplace("put", inplace)
    a, ind, _ = operands("put", a, ind, v)
    v = number_for("put", v, type_of(a).dtype)
    _check_integers("put", ind)
    if not type_of(a).size or not type_of(v).size or not type_of(ind).size:
        return asarray(a)
    return _put(a, ind, v, mode=mode)


@compiled
def _place(arr: Any, mask: Any, vals: Any) -> Any:
    of = type_of(arr)
    flat = reshape(boolean(mask), (of.size,))
    counts = sub(cumsum(convert(flat, INT32), 0), np.int32(1))
    values = reshape(convert(vals, of.dtype), (type_of(vals).size,))
    chosen = take_axis(values, wrapped(counts, type_of(values).size), 0, "clip")
    return reshape(choose_elements(flat, chosen, reshape(arr, (of.size,))), of.shape)


def place(arr: ArrayLike, mask: Any, vals: Any, *, inplace: bool = True) -> Array:
    """A new array with the values put, one after the other, where the mask holds.

    arr: any shape, which the result and the mask have. mask: booleans. vals: the values, which
    repeat if too few. inplace: must be False, because arrays do not change in place. Raises
    WeftValueError otherwise, ShapeError for a mask of another size.

    >>> jnp.place(jnp.array([1, 2, 3]), jnp.array([True, False, True]), 7, inplace=False)
    Array([7, 2, 7], dtype=int32)
    """
    refuse_inplace("place", inplace)
    arr, mask, _ = operands("place", arr, mask, vals)
    return _place(arr, mask, number_for("place", vals, type_of(arr).dtype))
