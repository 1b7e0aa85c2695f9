"""Reads (`dynamic_slice`) and replaces (`dynamic_update_slice`) blocks at computed positions.

A block is always moved inside the array. Where positions are mapped, the two become a gather and a
scatter with batching dimensions, over those dimensions only in which a block has room to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.base.util import one_each
from weft.core.access_pattern import same_dims, same_moves
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, ShapeError, WeftIndexError
from weft.errors.argument_errors import integer_of, integers_of
from weft.ops.declare import linear_primitive, primitive, result_type
from weft.ops.elementwise.arithmetic import add, lt
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.block_positions import clamp_positions, moving, write_block
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather, gather_vmap
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter_p, scatter_vmap
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.operand_errors import to_dtype, unfit
from weft.ops.structural import extended_dtypes
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import canonical_axis, expand_dims, move_dim, reshape, squeeze
from weft.ops.structural.tangents import jointly_linear_jvp, zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "index_in_dim", "index_take",
]  # fmt: skip


def _positions(
    operation: str,
    shape: Sequence[int],
    start_indices: Any,
    allow_negative_indices: bool | Sequence[bool],
) -> list[Any]:
    """A position per dimension; negative ones count from the end where allowed."""
    listed = isinstance(start_indices, (tuple, list))
    starts = list(start_indices) if listed else _elements(operation, start_indices)
    if len(starts) != len(shape):
        got, takes = (
            f"{len(starts)} positions for shape {tuple(shape)}",
            "one position for each dimension",
        )
        raise unfit(ShapeError, operation, takes, [got], f"{len(shape)} positions")
    allowed = one_each(allow_negative_indices, len(starts))
    return [
        _position(start, length, negative)
        for start, length, negative in zip(starts, shape, allowed, strict=True)
    ]


def _elements(operation: str, indices: Any) -> list[Any]:
    of = type_of(indices)
    if of.ndim != 1:
        takes = "positions as a sequence, or as an array of one dimension"
        raise unfit(ShapeError, operation, takes, (of,), "one dimension")
    if isinstance(indices, np.ndarray):
        return list(indices)
    return [reshape(slice_in_dim(indices, i, i + 1), ()) for i in range(of.shape[0])]


def _position(start: Any, length: int, allow_negative: bool) -> Any:
    """A position counted from the front, as an integer scalar."""
    if isinstance(start, (int, np.integer)) and not isinstance(start, bool):
        start = int(start)
        start = start + length if start < 0 and allow_negative else start
        # Blocks outside move inside anyway, so that every position fits a narrow integer.
        return np.int32(max(-1, min(start, length))) if length < 2**31 else np.int64(start)
    of = type_of(start)
    if of.dtype.kind != "i" or not allow_negative:
        return start
    if not dtypes.fits(length, of.dtype):
        start = convert_element_type(start, np.int32 if length < 2**31 else np.int64)
    return _wrap_indices(start, length)


def _wrap_indices(indices: Any, length: int) -> Any:
    """An array of indices counted from the front."""
    dtype = type_of(indices).dtype
    if dtype.kind != "i":
        return indices
    return select(lt(indices, dtype.type(0)), add(indices, dtype.type(length)), indices)


def _check_positions(operation: str, starts: Sequence[ArrayType]) -> None:
    for start in starts:
        takes, wanted = "integers without dimensions as positions", "integer scalars"
        if start.shape:
            raise unfit(ShapeError, operation, takes, starts, wanted)
        if start.dtype not in dtypes.INTEGER:
            fix = to_dtype("start", start.dtype, dtypes.int32)
            raise unfit(DTypeError, operation, takes, starts, wanted, fix)


def _common_dtype(types: Sequence[ArrayType]) -> Any:
    """A signed dtype that holds positions of all the given types."""
    wide = any(t.dtype.itemsize == 8 or t.dtype == dtypes.uint32 for t in types)
    return dtypes.int64 if wide else dtypes.int32


def _stored_positions(
    context: Any,
    starts: Sequence[Any],
    types: Sequence[ArrayType],
    shape: Sequence[int],
    sizes: Sequence[int],
) -> list[Any]:
    """Converts the positions of a block to one dtype that holds them all, as XLA requires. On
    several devices also clamps them: XLA's partitioner drops a block that reaches outside."""
    dtype = _common_dtype(types)
    positions = [stablehlo.convert(start, dtype) for start in starts]
    if context.module.devices_to_split_over() <= 1:
        return positions
    return clamp_positions(positions, shape, sizes, dtype)


def _index_vectors(axis: AxisData, starts: Sequence[Any], dims: Dims, moving: Sequence[int]) -> Any:
    """The positions in `moving` as index vectors, one per mapped element."""
    dtype = _common_dtype([type_of(starts[d]) for d in moving])
    columns = [
        expand_dims(move_dim(convert_element_type(starts[d], dtype), dims[d], 0, axis.size), (1,))
        for d in moving
    ]
    return concatenate(columns, 1) if columns else zeros(ArrayType((axis.size, 0), dtype))


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Returns the block of shape `slice_sizes` at a computed position.

    `start_indices` has an integer per dimension, negative ones counting from the end; a block that
    would reach outside is moved inside. Raises ShapeError for a block larger than the array.

    >>> dynamic_slice(np.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    sizes = integers_of(slice_sizes, "slice_sizes", "dynamic_slice")
    starts = _positions(
        "dynamic_slice", type_of(operand).shape, start_indices, allow_negative_indices
    )
    return _dynamic_slice(operand, starts, sizes)


def _dynamic_slice(operand: Any, starts: Sequence[Any], sizes: tuple[int, ...]) -> Any:
    if extended_dtypes.is_key(operand):
        tail = type_of(operand).dtype.key_shape
        more = [np.int32(0)] * len(tail)
        return extended_dtypes.through_bits(
            operand, lambda bits: _dynamic_slice(bits, [*starts, *more], (*sizes, *tail))
        )
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_slice_type(
    operand: ArrayType, *starts: ArrayType, slice_sizes: tuple[int, ...]
) -> ArrayType:
    _check_positions("dynamic_slice", starts)
    if not len(slice_sizes) == len(starts) == operand.ndim or any(
        not 0 <= size <= length for size, length in zip(slice_sizes, operand.shape, strict=True)
    ):
        message = f"dynamic_slice: a block of shape {slice_sizes} does not fit into {operand}"
        got = f"{operand}, {len(starts)} positions, slice_sizes={slice_sizes}"
        wanted = "0 <= size <= length, and one position, for every dimension"
        raise ShapeError(message, got=got, wanted=wanted)
    return result_type((operand, *starts), slice_sizes, operand.dtype, operand.weak_type)


def dynamic_slice_transpose(
    ct: Any, operand: Any, *starts: Any, slice_sizes: tuple[int, ...]
) -> list[Any]:
    updated = dynamic_update_slice_p.bind(zeros(operand.type), ct, *starts)
    return [updated, *[None] * len(starts)]


def dynamic_slice_vmap(
    axis: AxisData, args: Values, dims: Dims, *, slice_sizes: tuple[int, ...]
) -> tuple[Any, int]:
    operand, *starts = args
    dim = dims[0]
    if all(d is None for d in dims[1:]):
        assert dim is not None
        starts.insert(dim, np.int32(0))
        sizes = (*slice_sizes[:dim], axis.size, *slice_sizes[dim:])
        return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes), dim
    shape = [n for d, n in enumerate(type_of(operand).shape) if d != dim]
    room = moving(shape, slice_sizes)
    numbers = GatherDimensionNumbers(tuple(range(len(shape))), (), room)
    return gather_vmap(
        axis,
        [operand, _index_vectors(axis, starts, dims[1:], room)],
        [dim, 0],
        dimension_numbers=numbers,
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def dynamic_slice_lower(
    context: Any, operand: Any, *starts: Any, slice_sizes: tuple[int, ...]
) -> Any:
    of, *types = context.in_types
    positions = _stored_positions(context, starts, types, of.shape, slice_sizes)
    return stablehlo.dynamic_slice(operand, positions, slice_sizes) if positions else operand


def _window(
    shape: Sequence[int], starts: Sequence[np.ndarray[Any, Any]], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """A NumPy index of the block at `starts`, clamped to the array."""
    window = []
    for length, start, size in zip(shape, starts, sizes, strict=True):
        first = min(max(int(start), 0), length - size)
        window.append(slice(first, first + size))
    return tuple(window)


def dynamic_slice_on_host(
    operand: np.ndarray[Any, Any], *starts: np.ndarray[Any, Any], slice_sizes: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    return operand[_window(operand.shape, starts, slice_sizes)]


dynamic_slice_p = linear_primitive(
    "dynamic_slice",
    type_rule=dynamic_slice_type,
    transpose=dynamic_slice_transpose,
    vmap=dynamic_slice_vmap,
    reads=same_dims,
    moves=same_moves,
    on_host=dynamic_slice_on_host,
    lower=dynamic_slice_lower,
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    reads_part=True,
)


def dynamic_update_slice(
    operand: ArrayLike,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Returns the operand with the block at a computed position replaced by `update`.

    Positions are read as by `dynamic_slice`. Raises ShapeError for an update of another rank or
    larger than the array, DTypeError for one of another dtype.

    start_indices: the position of the block's first element, an integer per dimension, which may be
    traced.

    >>> dynamic_update_slice(np.zeros(4, np.int32), np.array([7, 8]), (1,))
    Array([0, 7, 8, 0], dtype=int32)
    """
    starts = _positions(
        "dynamic_update_slice", type_of(operand).shape, start_indices, allow_negative_indices
    )
    return _dynamic_update_slice(operand, update, starts)


def _dynamic_update_slice(operand: Any, update: Any, starts: Sequence[Any]) -> Any:
    if extended_dtypes.is_key(operand) and extended_dtypes.is_key(update):
        dtype = type_of(operand).dtype
        more = [np.int32(0)] * len(dtype.key_shape)
        bits = extended_dtypes.key_bits(operand), extended_dtypes.key_bits(update)
        return extended_dtypes.wrap_key_bits(
            dynamic_update_slice_p.bind(*bits, *starts, *more), dtype
        )
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_slice_type(
    operand: ArrayType, update: ArrayType, *starts: ArrayType
) -> ArrayType:
    _check_positions("dynamic_update_slice", starts)
    if operand.dtype != update.dtype:
        message = "dynamic_update_slice takes an update of the operand's dtype"
        got, wanted = f"{operand} and update {update}", "equal dtypes"
        fix = to_dtype("update", update.dtype, operand.dtype)
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    if not update.ndim == len(starts) == operand.ndim or any(
        size > length for size, length in zip(update.shape, operand.shape, strict=True)
    ):
        message = f"dynamic_update_slice: the update {update} does not fit into {operand}"
        got = f"{operand}, update {update}, {len(starts)} positions"
        wanted = "an update of the operand's rank, nowhere longer, and a position per dimension"
        raise ShapeError(message, got=got, wanted=wanted)
    weak = operand.weak_type and update.weak_type
    return result_type((operand, update, *starts), operand.shape, operand.dtype, weak)


def dynamic_update_slice_transpose(ct: Any, operand: Any, update: Any, *starts: Any) -> list[Any]:
    of = type_of(update)
    ct_operand = ct_update = None
    if type(operand) is LinearOperand:
        nothing = zeros(type_of(ct).update(shape=of.shape))
        ct_operand = dynamic_update_slice_p.bind(ct, nothing, *starts)
    if type(update) is LinearOperand:
        ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=of.shape)
    return [ct_operand, ct_update, *[None] * len(starts)]


def dynamic_update_slice_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[Any, int]:
    operand, update, *starts = args
    if all(d is None for d in dims[2:]):
        dim = next(d for d in dims[:2] if d is not None)
        operand = move_dim(operand, dims[0], dim, axis.size)
        update = move_dim(update, dims[1], dim, axis.size)
        starts.insert(dim, np.int32(0))
        return dynamic_update_slice_p.bind(operand, update, *starts), dim
    shapes = [
        [n for d, n in enumerate(type_of(x).shape) if d != mapped]
        for x, mapped in zip(args[:2], dims[:2], strict=True)
    ]
    room = moving(*shapes)
    numbers = ScatterDimensionNumbers(tuple(range(len(shapes[0]))), (), room)
    return scatter_vmap(scatter_p)(
        axis,
        [operand, _index_vectors(axis, starts, dims[2:], room), update],
        [dims[0], 0, dims[1]],
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )


def dynamic_update_slice_lower(context: Any, operand: Any, update: Any, *starts: Any) -> Any:
    of, block, *types = context.in_types
    positions = _stored_positions(context, starts, types, of.shape, block.shape)
    if not positions:
        return update
    return write_block(context, operand, update, positions, of.shape, block.shape)


def dynamic_update_slice_on_host(
    operand: np.ndarray[Any, Any], update: np.ndarray[Any, Any], *starts: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    out = operand.copy()
    out[_window(operand.shape, starts, update.shape)] = update
    return out


dynamic_update_slice_p = Primitive("dynamic_update_slice")
primitive(
    dynamic_update_slice_p,
    type_rule=dynamic_update_slice_type,
    jvp=jointly_linear_jvp(dynamic_update_slice_p.bind, 0, 1),
    transpose=dynamic_update_slice_transpose,
    vmap=dynamic_update_slice_vmap,
    on_host=dynamic_update_slice_on_host,
    lower=dynamic_update_slice_lower,
    linear=True,
    makes_no_nan=True,
    flops="none",
    updates=1,
)


# ---- along one dimension ---------------------------------------------------------------------


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Returns `slice_size` elements along one dimension, from a computed position.

    start_index: the position of the first element, an integer that may be traced; the block is
    moved inside the array where it would reach beyond it.

    >>> lax.dynamic_slice_in_dim(np.arange(5), 2, 2)
    Array([2, 3], dtype=int32)
    """
    shape = type_of(operand).shape
    place = canonical_axis(axis, len(shape), "dynamic_slice_in_dim")
    starts: list[Any] = [np.int32(0)] * len(shape)
    starts[place] = _position(start_index, shape[place], allow_negative_indices)
    sizes = (
        *shape[:place],
        integer_of(slice_size, "slice_size", "dynamic_slice_in_dim"),
        *shape[place + 1 :],
    )
    return _dynamic_slice(operand, starts, sizes)


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: Any,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Returns the operand with elements along one dimension replaced from a computed position on.

    The update has the operand's length in the other dimensions.

    update: the new elements, of the dtype of the operand; start_index: the position of the first
    element that is replaced, an integer that may be traced; the block is moved inside the array
    where it would reach beyond it.

    >>> lax.dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    shape = type_of(operand).shape
    place = canonical_axis(axis, len(shape), "dynamic_update_slice_in_dim")
    starts: list[Any] = [np.int32(0)] * len(shape)
    starts[place] = _position(start_index, shape[place], allow_negative_indices)
    return _dynamic_update_slice(operand, update, starts)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Returns the elements at a computed position along a dimension, which is dropped or kept.

    index: the position, an integer that may be traced; out of bounds it is moved inside; keepdims:
    whether the dimension stays, with length 1.

    >>> dynamic_index_in_dim(np.arange(6).reshape(3, 2), 1, keepdims=False)
    Array([2, 3], dtype=int32)
    """
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_index_in_dim(
    operand: ArrayLike, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Returns the operand with the elements at a computed position along a dimension replaced.

    The update may have that dimension, with length 1, or lack it.

    update: the new elements, of the dtype of the operand; index: the position, an integer that may
    be traced; out of bounds it is moved inside.

    >>> lax.dynamic_update_index_in_dim(np.zeros(3), 5.0, 1, 0)
    Array([0., 5., 0.], dtype=float32)
    """
    ndim = type_of(operand).ndim
    place = canonical_axis(axis, ndim, "dynamic_update_index_in_dim")
    if type_of(update).ndim != ndim:
        update = expand_dims(update, (place,))
    return dynamic_update_slice_in_dim(
        operand, update, index, place, allow_negative_indices=allow_negative_indices
    )


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Returns the elements at a fixed position along a dimension, which is dropped or kept.

    A negative index counts from the end. Raises WeftIndexError if it is out of bounds.

    index: the position, an integer that is known while tracing; keepdims: whether the dimension
    stays, with length 1.

    >>> lax.index_in_dim(np.array([[1, 2], [3, 4]]), 1, keepdims=False)
    Array([3, 4], dtype=int32)
    """
    shape = type_of(operand).shape
    place = canonical_axis(axis, len(shape), "index_in_dim")
    found, length = integer_of(index, "index", "index_in_dim"), shape[place]
    if not -length <= found < length:
        message = f"index_in_dim: index {found} is out of bounds for a dimension of length {length}"
        got = f"index {found} along dimension {place} of shape {shape}"
        wanted = f"{-length} <= index < {length}"
        raise WeftIndexError(message, operation="index_in_dim", got=got, wanted=wanted)
    found %= length
    out = slice_in_dim(operand, found, found + 1, axis=place)
    return out if keepdims else squeeze(out, (place,))


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Array:
    """Returns the blocks at positions that vectors of indices give along some dimensions.

    `idxs` has one vector of integers per dimension in `axes`, all of one length, whose dimension
    comes first in the result (or is a single array of shape (len(axes), n)). Negative indices count
    from the end; those out of bounds are moved inside.

    src: the array from which the blocks are taken.

    >>> lax.index_take(np.arange(6).reshape(3, 2), [np.array([-1, 0])], (0,))
    Array([[4, 5],
           [0, 1]], dtype=int32)
    """
    shape = type_of(src).shape
    places = tuple(canonical_axis(axis, len(shape), "index_take") for axis in axes)
    if isinstance(idxs, (tuple, list)):
        columns = list(idxs)
    else:
        columns = [index_in_dim(idxs, i, keepdims=False) for i in range(type_of(idxs).shape[0])]
    vectors = [
        expand_dims(_wrap_indices(column, shape[place]), (1,))
        for column, place in zip(columns, places, strict=True)
    ]
    kept = tuple(range(1, len(shape) - len(places) + 1))
    return gather(
        src,
        concatenate(vectors, 1),
        GatherDimensionNumbers(kept, tuple(sorted(places)), places),
        tuple(1 if d in places else length for d, length in enumerate(shape)),
        mode=GatherScatterMode.CLIP,
    )
