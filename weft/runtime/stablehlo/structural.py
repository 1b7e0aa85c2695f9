"""StableHLO operations that make, convert, move and pick elements.

Each function emits one operation at the current insertion point and works out its result type. See
the StableHLO specification, https://github.com/openxla/stablehlo/blob/main/docs/spec.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.errors import WeftValueError
from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import (
    context,
    dtype_of,
    element_type,
    ir,
    op1,
    ranked,
    tensor_type,
)
from weft.runtime.stablehlo.mlir import stablehlo as hlo

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

# ---- making and converting ---------------------------------------------------------------------


def constant(
    value: Any, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> ir.Value:
    """A constant array: `value` (a number or an array), or one number repeated to `shape`.

    Args:
        dtype: The dtype of the constant; None for that of `value`.
        value: A number or an array.
        shape: The lengths to which a number is repeated; None for those of `value`.
    """
    if dtype is not None and not np.dtype(dtype).itemsize:
        value, dtype = False, np.bool_
    with np.errstate(over="ignore"):  # 1e300 in float32 is infinity, as it is for an array
        array = np.asarray(value, dtype)
    target = array.shape if shape is None else tuple(shape)
    compact = attrs.dense_value(array, dtype)
    if compact.shape != target and compact.size != 1:
        message = "a constant has as many elements as its shape, or one"
        got = f"{array.size} elements"
        raise WeftValueError(message, operation="constant", got=got, wanted=f"shape {target}")
    config = {"value": attrs.elements(compact, target)}
    return op1("stablehlo.constant", (), tensor_type(target, compact.dtype), config)


def known_integer(value: ir.Value) -> int | None:
    """The number of an integer without dimensions that a constant makes; None for other values.

    Args:
        value: A value of the module that is built.
    """
    made = getattr(value.owner, "name", None)
    if made != "stablehlo.constant" or value.type.shape:
        return None
    return int(np.array(ir.DenseIntElementsAttr(value.owner.attributes["value"])))


def full(value: Any, shape: Sequence[int], dtype: DTypeLike) -> ir.Value:
    """An array of one number.

    Args:
        value: The number that every element has.
    """
    return constant(value, shape, dtype)


def iota(shape: Sequence[int], dtype: DTypeLike, dimension: int) -> ir.Value:
    """0, 1, 2, … along one dimension.

    Args:
        dimension: The dimension along which the numbers grow; along others they repeat.
    """
    config = {"iota_dimension": attrs.integer(dimension)}
    return op1("stablehlo.iota", (), tensor_type(shape, dtype), config)


def convert(x: ir.Value, dtype: DTypeLike) -> ir.Value:
    """The same numbers in another dtype; nothing is emitted if the dtype is the same."""
    element = element_type(dtype)
    if x.type.element_type == element:
        return x
    return op1("stablehlo.convert", (x,), ranked(x.type.shape, element))


def bitcast_convert(x: ir.Value, dtype: DTypeLike) -> ir.Value:
    """The same bits in another dtype: to a narrower one a last dimension appears, to a wider one it
    disappears.

    Args:
        dtype: The dtype as which the bits are read.
    """
    shape = tuple(x.type.shape)
    old, new = _bits(dtype_of(x.type.element_type)), _bits(np.dtype(dtype))
    if new < old:
        shape = (*shape, old // new)
    elif new > old:
        shape = shape[:-1]
    return op1("stablehlo.bitcast_convert", (x,), tensor_type(shape, dtype))


def _bits(dtype: np.dtype[Any]) -> int:
    name = dtype.name
    if name in ("int2", "uint2"):
        return 2
    if name in ("int4", "uint4") or name.startswith("float4"):
        return 4
    return 8 * dtype.itemsize


# ---- shape -------------------------------------------------------------------------------------


def broadcast_in_dim(x: ir.Value, shape: Sequence[int], dimensions: Sequence[int]) -> ir.Value:
    """Repeats x to `shape`; dimension i of x becomes dimension `dimensions[i]`.

    Args:
        dimensions: For each dimension of x, in rising order, that of the result.
        shape: The lengths of the result.
    """
    config = {"broadcast_dimensions": attrs.integers(dimensions)}
    return op1("stablehlo.broadcast_in_dim", (x,), ranked(shape, x.type.element_type), config)


def reshape(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The same elements in row-major order in another shape."""
    return op1("stablehlo.reshape", (x,), ranked(shape, x.type.element_type))


def transpose(x: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Permutes dimensions: dimension i of the result is dimension `permutation[i]` of x.

    Args:
        permutation: Every dimension of x once, in the order of the result.
    """
    shape = x.type.shape
    made = ranked([shape[axis] for axis in permutation], x.type.element_type)
    return op1("stablehlo.transpose", (x,), made, {"permutation": attrs.integers(permutation)})


def slice_(
    x: ir.Value, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None
) -> ir.Value:
    """The elements start, start + stride, … below limit, in every dimension.

    Args:
        start: The first position, per dimension.
        limit: The position behind the last, per dimension.
        strides: The step between positions, per dimension; None for 1.
    """
    steps = tuple(strides) if strides is not None else (1,) * len(start)
    shape = [
        max(0, -((low - high) // step)) for low, high, step in zip(start, limit, steps, strict=True)
    ]
    config = {
        "start_indices": attrs.integers(start),
        "limit_indices": attrs.integers(limit),
        "strides": attrs.integers(steps),
    }
    return op1("stablehlo.slice", (x,), ranked(shape, x.type.element_type), config)


def pad(
    x: ir.Value,
    value: ir.Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> ir.Value:
    """Adds `value` before, after and between elements; negative low and high cut off.

    Args:
        low: How many elements are added before the first, per dimension.
        high: How many elements are added after the last, per dimension.
        interior: How many elements are added between two, per dimension; None for none.
        value: The scalar that is added.
    """
    between = tuple(interior) if interior is not None else (0,) * len(low)
    shape = [
        max(0, before + size + max(0, size - 1) * inner + after)
        for size, before, after, inner in zip(x.type.shape, low, high, between, strict=True)
    ]
    config = {
        "edge_padding_low": attrs.integers(low),
        "edge_padding_high": attrs.integers(high),
        "interior_padding": attrs.integers(between),
    }
    return op1("stablehlo.pad", (x, value), ranked(shape, x.type.element_type), config)


def concatenate(values: Sequence[ir.Value], dimension: int) -> ir.Value:
    """Joins arrays along a dimension.

    Args:
        values: The arrays to join; they differ along this dimension only.
        dimension: The dimension along which they are joined.
    """
    shape = list(values[0].type.shape)
    shape[dimension] = sum(value.type.shape[dimension] for value in values)
    made = ranked(shape, values[0].type.element_type)
    return op1("stablehlo.concatenate", values, made, {"dimension": attrs.integer(dimension)})


def reverse(x: ir.Value, dimensions: Sequence[int]) -> ir.Value:
    """Reverses the order of elements along dimensions.

    Args:
        dimensions: The dimensions to reverse.
    """
    return op1("stablehlo.reverse", (x,), x.type, {"dimensions": attrs.integers(dimensions)})


def dynamic_slice(x: ir.Value, start: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """A block of a fixed size at a position given by scalars; the position is kept in bounds.

    Args:
        start: The position of the block's first element: an integer scalar per dimension.
        sizes: The lengths of the block, per dimension.
    """
    made = ranked(sizes, x.type.element_type)
    config = {"slice_sizes": attrs.integers(sizes)}
    return op1("stablehlo.dynamic_slice", (x, *start), made, config)


def dynamic_update_slice(x: ir.Value, update: ir.Value, start: Sequence[ir.Value]) -> ir.Value:
    """x with a block replaced; the position is kept in bounds.

    Args:
        update: The block's new content; it has as many dimensions as x.
        start: The position of the block's first element: an integer scalar per dimension.
    """
    return op1("stablehlo.dynamic_update_slice", (x, update, *start), x.type)


class GatherDimensions(NamedTuple):
    """The dimension numbers of a gather, named as in the StableHLO specification.

    Args:
        offset_dims: The dimensions of the result that run through a block.
        collapsed_slice_dims: The dimensions of the operand in which blocks have length 1 and which
            the result does not have.
        operand_batching_dims: The dimensions of the operand that are paired with those of the
            indices.
        start_indices_batching_dims: The dimensions of the indices that are paired with
            `operand_batching_dims`.
        start_index_map: The dimension of the operand that each component of an index belongs to.
        index_vector_dim: The dimension of the indices that holds the components; the rank where an
            index is one number.
    """

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0


@functools.lru_cache(maxsize=4096)
def _gather_numbers(dimensions: GatherDimensions) -> ir.Attribute:
    return hlo.GatherDimensionNumbers.get(*dimensions, context=context())


def gather(
    operand: ir.Value,
    start_indices: ir.Value,
    dimensions: GatherDimensions,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> ir.Value:
    """Blocks of a fixed size at the positions that `start_indices` lists.

    Args:
        operand: The array from which blocks are taken.
        dimensions: Which dimensions of operand, indices and result belong together.
        slice_sizes: The lengths of a block, per dimension of the operand.
        indices_are_sorted: Whether the caller promises that the positions are in order.
        start_indices: The positions of blocks, integers along the dimension `index_vector_dim`.
    """
    dropped = {*dimensions.collapsed_slice_dims, *dimensions.operand_batching_dims}
    kept = [size for axis, size in enumerate(slice_sizes) if axis not in dropped]
    listed = list(start_indices.type.shape)
    if dimensions.index_vector_dim < len(listed):
        del listed[dimensions.index_vector_dim]
    offsets, batches = iter(kept), iter(listed)
    own = set(dimensions.offset_dims)
    shape = [next(offsets if i in own else batches) for i in range(len(kept) + len(listed))]
    config = {
        "dimension_numbers": _gather_numbers(dimensions),
        "slice_sizes": attrs.integers(slice_sizes),
        "indices_are_sorted": attrs.boolean(indices_are_sorted),
    }
    made = ranked(shape, operand.type.element_type)
    return op1("stablehlo.gather", (operand, start_indices), made, config)
