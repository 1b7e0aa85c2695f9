"""`gather`: blocks of an array, at positions that another array lists.

The dimension numbers are those of XLA's gather (https://openxla.org/xla/operation_semantics#gather),
with the index vectors always in the last dimension of the indices. The mode decides about blocks
that are not inside the array, in the lowering, so that every transformation sees one operation.
Mapping over both operands makes batching dimensions: no loop and no list of positions. The
transpose of `gather` is `scatter_add`; its rule is in `scatter`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.host_values import cast_values
from weft.core.access_pattern import Inner, Reads, Step, full_read
from weft.core.jaxpr import Equation
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.errors.argument_errors import integers_of, invalid_type, invalid_value
from weft.ops.declare import emit_reduction, primitive, result_type
from weft.ops.operand_errors import to_dtype, unfit
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "gather"]


Ints = tuple[int, ...]
N = TypeVar("N", bound=tuple[Ints, ...])


class GatherScatterMode(enum.Enum):
    """The treatment of positions out of bounds in a gather or scatter.

    CLIP: moves the block to the nearest position inside. FILL_OR_DROP: a gathered block is filled
    with a constant, a scattered one is dropped. PROMISE_IN_BOUNDS: the caller says that there are
    none; values and derivatives are unspecified where that is wrong.

    >>> GatherScatterMode.from_any("drop")
    <GatherScatterMode.FILL_OR_DROP: 2>
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """Returns the mode named "clip", "fill" or "drop", "promise_in_bounds"; None: fill or drop.

        Raises WeftValueError for another name.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        out = _MODES.get(mode)
        if out is None:
            message = f"there is no gather or scatter mode {mode!r}"
            wanted = '"clip", "fill", "drop" or "promise_in_bounds"'
            raise invalid_value(message, "gather or scatter", "mode", mode, wanted)
        return out


_MODES: dict[Any, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


class GatherDimensionNumbers(NamedTuple):
    """The roles of the dimensions of a gather's operands and result.

    offset_dims: the dimensions of the result that run within a block;
    collapsed_slice_dims: the dimensions of the operand, of block length 1, that the result lacks;
    start_index_map: the dimension of the operand that each element of an index vector is for;
    operand_batching_dims, start_indices_batching_dims: dimensions of operand and indices that go
    together, pair by pair, as if the gather were mapped over them.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


def gather(
    operand: ArrayLike,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Returns blocks of shape `slice_sizes` at positions in the last dimension of the indices.

    `mode` is by default "clip". Mode "fill" writes `fill_value`: by default NaN, the lowest signed
    or the highest unsigned integer, or True. Raises ShapeError if dimension numbers, indices and
    sizes do not fit together.

    Args:
        start_indices: The positions of the blocks' first elements, integers, in the last dimension
            of this array.
        dimension_numbers: Which dimensions of the operand, the positions and the result belong
            together.
        mode: What becomes of blocks out of bounds: "clip" (the default) moves them inside, "fill"
            gives `fill_value`, "promise_in_bounds" says that there are none.
        fill_value: The number for mode "fill".

    >>> rows = GatherDimensionNumbers(
    ...     offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    ... )
    >>> gather(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), rows, (1, 2))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    flags: dict[str, Any] = {
        "unique_indices": bool(unique_indices),
        "indices_are_sorted": bool(indices_are_sorted),
        "mode": GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode),
        "fill_value": None if fill_value is None else np.asarray(fill_value).item(),
    }
    numbers = canonical_numbers(dimension_numbers, GatherDimensionNumbers, "gather")
    sizes = integers_of(slice_sizes, "slice_sizes", "gather")
    if extended_dtypes.is_key(operand):
        tail = type_of(operand).dtype.key_shape
        rank = len(numbers.offset_dims) + type_of(start_indices).ndim - 1
        inner = numbers._replace(offset_dims=(*numbers.offset_dims, *range(rank, rank + len(tail))))
        return extended_dtypes.through_bits(
            operand, lambda bits: gather(bits, start_indices, inner, (*sizes, *tail), **flags)
        )
    return gather_p.bind(
        operand, start_indices, dimension_numbers=numbers, slice_sizes=sizes, **flags
    )


def canonical_numbers(numbers: Any, kind: type[N], operation: str) -> N:
    """Dimension numbers as tuples of Python integers. Raises WeftTypeError for others."""
    if not isinstance(numbers, kind):
        message = f"{operation}: dimension_numbers is a {kind.__name__}"
        raise invalid_type(message, operation, "dimension_numbers", numbers, kind.__name__)
    make: Any = kind
    return make(*(integers_of(dims, "dimension_numbers", operation) for dims in numbers))


# ---- rules -----------------------------------------------------------------------------------


def increasing(axes: Ints, limit: int) -> bool:
    """Whether axes are increasing and within 0 and limit - 1."""
    return all(0 <= a < limit for a in axes) and all(
        a < b for a, b in zip(axes, axes[1:], strict=False)
    )


def check_index_dtype(operation: str, indices: ArrayType) -> None:
    """Raises DTypeError for indices that are not integers, ShapeError without index vectors."""
    if indices.dtype not in dtypes.INTEGER:
        fix = to_dtype("indices", indices.dtype, dtypes.int32)
        takes, wanted = "integers as indices", "an integer dtype"
        raise unfit(DTypeError, operation, takes, (indices,), wanted, fix)
    if not indices.ndim:
        fix = Fix("expand_dims", "give them a last dimension: indices[..., None]")
        takes, wanted = (
            "indices whose last dimension holds the index vectors",
            "at least one dimension",
        )
        raise unfit(ShapeError, operation, takes, (indices,), wanted, fix)


def check_block_numbers(
    operand: ArrayType, indices: ArrayType, numbers: Sequence[Ints]
) -> str | None:
    """The fault of the dimension numbers that gather and scatter share, or None. Not checked are
    the first ones, of the gather's result or of the scatter's updates."""
    _, dropped, index_map, batching, indices_batching = numbers
    vectors = indices.ndim - 1
    if not increasing(dropped, operand.ndim):
        return "the dimensions that blocks drop must be dimensions of the operand, in order"
    if not increasing(batching, operand.ndim):
        return "the batching dimensions must be dimensions of the operand, in order"
    if set(dropped) & set(batching) or set(index_map) & set(batching):
        return "a batching dimension can be neither dropped nor indexed"
    if len(set(index_map)) != len(index_map) or not all(0 <= d < operand.ndim for d in index_map):
        return "each element of an index vector must be for a dimension of its own"
    if len(index_map) != indices.shape[-1]:
        return (
            f"the index vectors have {indices.shape[-1]} elements, for {len(index_map)} dimensions"
        )
    if len(set(indices_batching)) != len(indices_batching) or not all(
        0 <= d < vectors for d in indices_batching
    ):
        return "the batching dimensions of the indices must be distinct, and not the last one"
    if len(batching) != len(indices_batching) or any(
        operand.shape[a] != indices.shape[b]
        for a, b in zip(batching, indices_batching, strict=True)
    ):
        return "the batching dimensions of operand and indices must come in pairs of equal length"
    return None


def gather_type(
    operand: ArrayType,
    indices: ArrayType,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> ArrayType:
    numbers = dimension_numbers
    check_index_dtype("gather", indices)
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    rank = operand.ndim - len(dropped) + indices.ndim - 1
    wrong = check_block_numbers(operand, indices, numbers)
    if wrong is None:
        # Without positions no block has to fit.
        least = 0 if math.prod(indices.shape[:-1]) else 1
        if len(slice_sizes) != operand.ndim or any(
            not 0 <= size <= max(length, least)
            for size, length in zip(slice_sizes, operand.shape, strict=True)
        ):
            wrong = "there must be a block length for each dimension, at most the operand's length"
        elif any(slice_sizes[d] > 1 for d in dropped):
            wrong = "a block has length 1 (or 0) in the dimensions that the result lacks"
        elif len(numbers.offset_dims) != operand.ndim - len(dropped) or not increasing(
            numbers.offset_dims, rank
        ):
            wrong = "offset_dims must be one dimension of the result per dimension kept, in order"
    if wrong is not None:
        got = f"{operand}, indices {indices}, slice_sizes={slice_sizes}, {numbers}"
        wanted = "dimension numbers and block lengths that fit operand and indices"
        raise ShapeError(f"gather: {wrong}", got=got, wanted=wanted)
    kept = (s for d, s in enumerate(slice_sizes) if d not in dropped)
    listed = iter(indices.shape[:-1])
    shape = [next(kept if d in numbers.offset_dims else listed) for d in range(rank)]
    return result_type((operand, indices), shape, operand.dtype, operand.weak_type)


def gather_jvp(
    primals: Values, tangents: Values, *, fill_value: Any, **params: Any
) -> tuple[Any, Any]:
    operand, indices = primals
    out = gather_p.bind(operand, indices, fill_value=fill_value, **params)
    if type(tangents[0]) is Zero:
        return out, Zero(type_of(out).tangent())
    return out, gather_p.bind(tangents[0], indices, fill_value=0, **params)


def shift_dims(axes: Ints) -> Ints:
    """Dimensions counted with one more in front."""
    return tuple(a + 1 for a in axes)


def gather_vmap(
    axis: AxisData,
    args: Values,
    dims: Dims,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    **params: Any,
) -> tuple[Any, int]:
    operand, indices = args
    numbers = dimension_numbers
    offsets = shift_dims(numbers.offset_dims)
    front: Ints = ()
    if dims[1] is not None:
        indices = move_dim(indices, dims[1], 0, axis.size)
        numbers = numbers._replace(
            start_indices_batching_dims=shift_dims(numbers.start_indices_batching_dims)
        )
    if dims[0] is not None:
        operand = move_dim(operand, dims[0], 0, axis.size)
        numbers = numbers._replace(
            collapsed_slice_dims=shift_dims(numbers.collapsed_slice_dims),
            start_index_map=shift_dims(numbers.start_index_map),
            operand_batching_dims=shift_dims(numbers.operand_batching_dims),
        )
        if dims[1] is None:
            # The mapped dimension runs within a block as long as itself.
            offsets = (0, *offsets)
            slice_sizes = (axis.size, *slice_sizes)
        else:
            front = (0,)
            slice_sizes = (min(1, axis.size), *slice_sizes)
    numbers = numbers._replace(
        offset_dims=offsets,
        operand_batching_dims=front + numbers.operand_batching_dims,
        start_indices_batching_dims=front + numbers.start_indices_batching_dims,
    )
    params |= {"dimension_numbers": numbers, "slice_sizes": slice_sizes}
    if dims[0] is None:
        # Blocks of different elements of the mapped axis now come from one array.
        params |= {"unique_indices": False, "indices_are_sorted": False}
    return gather_p.bind(operand, indices, **params), 0


def stored_dimensions(
    numbers: GatherDimensionNumbers, index_vector_dim: int
) -> stablehlo.GatherDimensions:
    """The dimension numbers in StableHLO's form."""
    return stablehlo.GatherDimensions(
        offset_dims=numbers.offset_dims,
        collapsed_slice_dims=numbers.collapsed_slice_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.start_indices_batching_dims,
        start_index_map=numbers.start_index_map,
        index_vector_dim=index_vector_dim,
    )


def widened_indices(indices: Any, type: ArrayType) -> tuple[Any, Any]:
    """The indices in a dtype that holds every position of an array, and that dtype."""
    if type.dtype.itemsize >= 4:
        return indices, type.dtype
    return stablehlo.convert(indices, np.int32), np.dtype(np.int32)


def scattered_indices(context: Any, indices: Any, types: Sequence[ArrayType]) -> tuple[Any, Any]:
    """The indices of a scatter as `widened_indices`, in 32 bits over several devices. XLA's
    partitioner ends the process at a scatter of one row by a 64-bit index. An index out of bounds
    stays one. The types are those of operand and indices."""
    operand, type = types
    longest, most = max(operand.shape, default=0), np.iinfo(np.int32).max
    split = context.module.devices_to_split_over() > 1
    if not split or type.dtype.itemsize < 8 or longest > most:
        return widened_indices(indices, type)
    low, high = (
        stablehlo.full(bound, type.shape, type.dtype)
        for bound in (0 if type.dtype.kind == "u" else -most, most)
    )
    return stablehlo.convert(stablehlo.clamp(low, indices, high), np.int32), np.dtype(np.int32)


def last_starts(
    shape: Ints, sizes: Sequence[int], index_map: Sequence[int], dtype: Any
) -> np.ndarray[Any, Any]:
    """For each element of an index vector the last position of a block inside."""
    return np.asarray([shape[d] - sizes[d] for d in index_map], dtype)


def gather_lower(
    context: Any,
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Ints,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
    **unique: Any,
) -> Any:
    operand_type, indices_type = context.in_types
    out_shape = context.out_types[0].shape
    if 0 in out_shape:
        return stablehlo.full(0, out_shape, operand_type.dtype)
    indices, dtype = widened_indices(indices, indices_type)
    # Out of bounds, XLA moves the block inside: mode CLIP as it stands.
    out = stablehlo.gather(
        operand,
        indices,
        stored_dimensions(dimension_numbers, indices_type.ndim - 1),
        slice_sizes,
        indices_are_sorted,
    )
    if mode is not GatherScatterMode.FILL_OR_DROP or not dimension_numbers.start_index_map:
        return out
    last = last_starts(operand_type.shape, slice_sizes, dimension_numbers.start_index_map, dtype)
    inside = _blocks_inside(indices, indices_type.shape, last, dtype)
    batch = [d for d in range(len(out_shape)) if d not in dimension_numbers.offset_dims]
    fill = default_fill(operand_type.dtype) if fill_value is None else fill_value
    value = cast_values(np.asarray(fill), operand_type.dtype)
    return stablehlo.select(
        stablehlo.broadcast_in_dim(inside, out_shape, batch),
        out,
        stablehlo.full(value, out_shape, operand_type.dtype),
    )


def _blocks_inside(indices: Any, shape: Ints, last: Any, dtype: Any) -> Any:
    """For each index vector, whether its block is inside the array."""
    bound = stablehlo.broadcast_in_dim(stablehlo.constant(last), shape, (len(shape) - 1,))
    inside = stablehlo.compare(indices, bound, "LE")
    if dtype.kind == "i":
        zero = stablehlo.full(0, shape, dtype)
        inside = stablehlo.and_(inside, stablehlo.compare(indices, zero, "GE"))
    return emit_reduction(inside, stablehlo.constant(True), (len(shape) - 1,), stablehlo.and_)


def gather_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """A block is read along the operand. From block to block the read jumps within a dimension for
    scalar positions, and anywhere for index vectors."""
    operand, indices = (x.type for x in eqn.inputs)
    numbers = eqn.params["dimension_numbers"]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    within = iter(d for d in range(operand.ndim) if d not in dropped)
    pairs = zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims, strict=True)
    together = dict(pairs)
    (along,) = numbers.start_index_map if len(numbers.start_index_map) == 1 else (-1,)
    batch = iter(range(indices.ndim - 1))
    dims = [
        next(within) if d in numbers.offset_dims else together.get(next(batch))
        for d in range(eqn.outputs[0].type.ndim)
    ]
    blocks = max(1, math.prod(indices.shape[:-1]))
    jump = max(1, operand.shape[along] // blocks) if along >= 0 else 1

    def moved(step: Step) -> Step:
        if step.dim < 0:
            return step
        dim = dims[step.dim]
        return Step(along, step.extent, jump) if dim is None else step._replace(dim=dim)

    reads = tuple(r._replace(walk=tuple(map(moved, r.walk)), source=None) for r in demands[0])
    return [reads, (full_read(indices),)]


def default_fill(dtype: Any) -> Any:
    """The value that mode "fill" writes: NaN, or the most conspicuous one of the dtype."""
    if dtype in dtypes.INTEGER:
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return math.nan if dtype in dtypes.INEXACT else True


gather_p = primitive(
    "gather",
    type_rule=gather_type,
    jvp=gather_jvp,
    vmap=gather_vmap,
    reads=gather_reads,
    lower=gather_lower,
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    reads_part=True,
)
