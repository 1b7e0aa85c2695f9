"""Joining, splitting, reversing and repeating along a dimension.

`concatenate` and `split` transpose to each other; `rev` to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.arrays.conversion import pass_through
from weft.core.access_pattern import same_dims, same_moves
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, DTypeError, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of, integers_of
from weft.ops.declare import linear_jvp, primitive, result_type
from weft.ops.operand_errors import unfit, use_numpy
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import (
    broadcast_in_dim,
    canonical_axis,
    expand_dims,
    move_dim,
    reshape,
)
from weft.ops.structural.tangents import instantiate, jointly_linear_jvp
from weft.runtime import stablehlo
from weft.typing import ArrayLike

Ints = tuple[int, ...]


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Joins arrays of one dtype along a dimension; in the other dimensions they have one length.

    operands: the arrays, at least one, in the order in which they are joined; dimension: the index
    of the dimension along which they are joined.

    Raises WeftValueError for no arrays, DTypeError and ShapeError if they do not fit together.

    >>> concatenate([np.arange(2), np.arange(3)], 0)
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    values = tuple(operands)
    if not values:
        takes, got = "at least one array", ["no arrays"]
        raise unfit(WeftValueError, "concatenate", takes, got, "one or more")
    if any(extended_dtypes.is_key(x) for x in values):
        dtype = _one_dtype([type_of(x) for x in values], "concatenate")
        joined = concatenate([extended_dtypes.key_bits(x) for x in values], dimension)
        return extended_dtypes.wrap_key_bits(joined, dtype)
    return concatenate_p.bind(*values, dimension=integer_of(dimension, "dimension", "concatenate"))


def _one_dtype(types: Sequence[ArrayType], operation: str) -> Any:
    dtype = types[0].dtype
    if any(t.dtype != dtype for t in types):
        fix = use_numpy(operation, "promotes")
        raise unfit(DTypeError, operation, "arrays of one dtype", types, "equal dtypes", fix)
    return dtype


def concatenate_type(*types: ArrayType, dimension: int) -> ArrayType:
    dtype = _one_dtype(types, "concatenate")
    first = types[0]
    if not 0 <= dimension < first.ndim:
        raise AxisError(
            f"concatenate: dimension {dimension} is out of range for arrays of "
            f"{first.ndim} dimensions",
            got=f"dimension {dimension} and {', '.join(map(str, types))}",
            wanted=f"0 <= dimension < {first.ndim}",
        )
    rest = first.shape[:dimension] + first.shape[dimension + 1 :]
    for t in types:
        if t.ndim != first.ndim or t.shape[:dimension] + t.shape[dimension + 1 :] != rest:
            message = f"concatenate: the arrays differ in more than dimension {dimension}"
            wanted = f"shapes that agree except in dimension {dimension}"
            raise ShapeError(message, got=", ".join(map(str, types)), wanted=wanted)
    total = sum(t.shape[dimension] for t in types)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return result_type(types, shape, dtype, all(t.weak_type for t in types))


def concatenate_transpose(ct: Any, *values: Any, dimension: int) -> list[Any]:
    sizes = [type_of(x).shape[dimension] for x in values]
    parts = split(ct, sizes, dimension)
    return [
        part if type(x) is LinearOperand else None for part, x in zip(parts, values, strict=True)
    ]


def concatenate_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int
) -> tuple[Any, int]:
    target = next(dim for dim in dims if dim is not None)
    values = [move_dim(x, dim, target, axis.size) for x, dim in zip(args, dims, strict=True)]
    return concatenate_p.bind(*values, dimension=dimension + (target <= dimension)), target


concatenate_p = Primitive("concatenate")
primitive(
    concatenate_p,
    type_rule=concatenate_type,
    jvp=jointly_linear_jvp(concatenate_p.bind),
    transpose=concatenate_transpose,
    vmap=concatenate_vmap,
    reads=lambda eqn, demands, inner: [
        same_dims(eqn.replace(inputs=[x]), demands, inner)[0] for x in eqn.inputs
    ],
    on_host=lambda *values, dimension: np.concatenate(values, dimension),
    lower=lambda context, *values, dimension: stablehlo.concatenate(values, dimension),
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays of one shape and dtype along a new dimension.

    operands: the arrays, at least one, in the order of their positions along the new dimension.

    Raises ShapeError if the shapes differ, DTypeError if the dtypes do.

    >>> lax.stack([np.arange(2), np.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    values = tuple(operands)
    types = [type_of(x) for x in values]
    if len({t.shape for t in types}) > 1:
        raise unfit(ShapeError, "stack", "arrays of one shape", types, "equal shapes")
    place = canonical_axis(axis, types[0].ndim + 1, "stack") if types else 0
    return concatenate([expand_dims(x, (place,)) for x in values], place)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The elements of an array along a dimension, which they do not have: the inverse of `stack`.

    >>> lax.unstack(np.arange(4).reshape(2, 2), axis=1)
    (Array([0, 2], dtype=int32), Array([1, 3], dtype=int32))
    """
    of = type_of(x)
    place = canonical_axis(axis, of.ndim, "unstack")
    shape = (*of.shape[:place], *of.shape[place + 1 :])
    return tuple([reshape(part, shape) for part in split(x, (1,) * of.shape[place], place)])


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """An array repeated so that it has the shape of another one, dimensions paired from the last.

    arr: the array that is repeated; like_arr: the array that gives the shape of the result; its
    elements and dtype do not matter.

    Raises ShapeError if a dimension of `arr` is neither 1 nor that of the other.

    >>> lax.broadcast_like(np.array([1, 2]), np.zeros((2, 2)))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    shape, of = type_of(like_arr).shape, type_of(arr)
    if broadcast_shapes(of.shape, shape) != shape:
        takes, wanted = "an array that broadcasts to the other's shape", f"a shape within {shape}"
        raise unfit(ShapeError, "broadcast_like", takes, [of], wanted)
    return broadcast_in_dim(arr, shape, range(len(shape) - of.ndim, len(shape)))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Splits an array along a dimension into consecutive parts of the given lengths.

    sizes: the lengths of the parts.

    Raises ShapeError if the lengths do not add up to that of the dimension.

    >>> split(np.arange(5), (2, 3))
    [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    lengths = integers_of(sizes, "sizes", "split")
    place = canonical_axis(axis, type_of(operand).ndim, "split")
    if extended_dtypes.is_key(operand):
        dtype = type_of(operand).dtype
        parts = split(extended_dtypes.key_bits(operand), lengths, place)
        return [extended_dtypes.wrap_key_bits(part, dtype) for part in parts]
    return list(split_p.bind(operand, sizes=lengths, axis=place))


def split_type(x: ArrayType, *, sizes: Ints, axis: int) -> list[ArrayType]:
    canonical_axis(axis, x.ndim, "split")
    if any(size < 0 for size in sizes) or sum(sizes) != x.shape[axis]:
        message = f"split: the sizes do not add up to the length of dimension {axis} of {x}"
        got = f"sizes {sizes} with sum {sum(sizes)}"
        raise ShapeError(message, got=got, wanted=f"sizes of at least 0 with sum {x.shape[axis]}")
    return [
        result_type((x,), (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype, x.weak_type)
        for size in sizes
    ]


def split_jvp(primals: Values, tangents: Values, *, sizes: Ints, axis: int) -> tuple[Any, Any]:
    outs = split(primals[0], sizes, axis)
    if type(tangents[0]) is Zero:
        return outs, [Zero(type_of(out).tangent()) for out in outs]
    return outs, split(tangents[0], sizes, axis)


def split_vmap(
    axis_data: AxisData, args: Values, dims: Dims, *, sizes: Ints, axis: int
) -> tuple[list[Any], list[int | None]]:
    (dim,) = dims
    assert dim is not None
    outs = split_p.bind(args[0], sizes=sizes, axis=axis + (dim <= axis))
    return outs, [dim] * len(outs)


def split_lower(context: Any, x: Any, *, sizes: Ints, axis: int) -> list[Any]:
    low, high, outs = [0] * len(x.type.shape), list(x.type.shape), []
    for size in sizes:
        high[axis] = low[axis] + size
        outs.append(stablehlo.slice_(x, low, high))
        low[axis] += size
    return outs


split_p = primitive(
    Primitive("split", multiple_results=True),
    type_rule=split_type,
    jvp=split_jvp,
    transpose=lambda cts, x, *, sizes, axis: [concatenate(list(map(instantiate, cts)), axis)],
    vmap=split_vmap,
    reads=same_dims,
    moves=same_moves,
    on_host=lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
    lower=split_lower,
    linear=True,
    makes_no_nan=True,
    flops="none",
    reads_part=True,
)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Reverses the order of the elements along the given dimensions.

    dimensions: the indices of the dimensions along which the order is reversed.

    >>> lax.rev(np.array([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=int32)
    """
    axes = integers_of(dimensions, "dimensions", "rev")
    if extended_dtypes.is_key(operand):
        return extended_dtypes.through_bits(operand, lambda bits: rev(bits, axes))
    return rev_p.bind(operand, dimensions=axes) if axes else pass_through(operand)


def rev_type(x: ArrayType, *, dimensions: Ints) -> ArrayType:
    if len(set(dimensions)) != len(dimensions) or not all(0 <= d < x.ndim for d in dimensions):
        got, wanted = f"dimensions {dimensions} of {x}", f"each of 0 to {x.ndim - 1} at most once"
        raise AxisError(f"rev: the dimensions {dimensions} do not fit {x}", got=got, wanted=wanted)
    return result_type((x,), x.shape, x.dtype, x.weak_type)


def rev_vmap(axis: AxisData, args: Values, dims: Dims, *, dimensions: Ints) -> tuple[Any, int]:
    (dim,) = dims
    assert dim is not None
    return rev(args[0], tuple(d + (dim <= d) for d in dimensions)), dim


rev_p = primitive(
    "rev",
    type_rule=rev_type,
    jvp=linear_jvp(rev),
    transpose=lambda ct, x, *, dimensions: [rev(ct, dimensions)],
    vmap=rev_vmap,
    reads=same_dims,
    moves=same_moves,
    on_host=lambda x, dimensions: np.flip(x, dimensions),
    lower=lambda context, x, *, dimensions: stablehlo.reverse(x, dimensions),
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)


# ---- shapes ----------------------------------------------------------------------------------


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeats an array as a whole `reps[i]` times along each dimension i.

    reps: how often the array is repeated, per dimension.

    Raises ShapeError if there is not one number for each dimension.

    >>> lax.tile(np.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    counts, of = integers_of(reps, "reps", "tile"), type_of(operand)
    if len(counts) != of.ndim or any(count < 0 for count in counts):
        message, got = f"tile: {counts} does not fit {of}", f"reps {counts} and {of}"
        wanted = "one number of repetitions for each dimension"
        fix = use_numpy("tile", "adds dimensions") if min(counts, default=0) >= 0 else None
        raise ShapeError(message, operation="tile", got=got, wanted=wanted, fix=fix)
    pairs = [size for pair in zip(counts, of.shape, strict=True) for size in pair]
    spread = broadcast_in_dim(operand, pairs, tuple(range(1, 2 * of.ndim, 2)))
    return reshape(spread, tuple(c * s for c, s in zip(counts, of.shape, strict=True)))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merges the dimensions from start up to (not including) stop into one.

    Dimensions count as in a slice of the shape: negative from the end, None for the end. Raises
    AxisError if stop is before start.

    start_dimension: the first dimension that is merged; stop_dimension: the dimension before which
    merging stops, by default the end.

    >>> lax.collapse(np.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = type_of(operand).shape
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if low > high:
        raise AxisError(
            f"collapse: dimensions {start_dimension} to {stop_dimension} are no range of {shape}",
            operation="collapse",
            got=f"start_dimension {start_dimension}, stop_dimension {stop_dimension}",
            wanted="start_dimension <= stop_dimension",
        )
    return reshape(operand, (*shape[:low], prod(shape[low:high]), *shape[high:]))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Adds leading dimensions of length 1 up to `rank` dimensions. Raises ShapeError for fewer.

    >>> lax.broadcast_to_rank(np.array([1, 2]), 3).shape
    (1, 1, 2)
    """
    shape = type_of(x).shape
    if len(shape) > rank:
        message = f"broadcast_to_rank: an array of {len(shape)} dimensions cannot have {rank}"
        got, wanted = f"shape {shape}", f"at most {rank} dimensions"
        raise ShapeError(message, operation="broadcast_to_rank", got=got, wanted=wanted)
    return reshape(x, (*(1,) * (rank - len(shape)), *shape))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape to which all of the given ones broadcast, by NumPy's rule.

    shapes: the shapes, each a sequence of lengths.

    Raises ShapeError if there is none.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(*(1,) * (rank - len(shape)), *shape) for shape in shapes]
    out = []
    for lengths in zip(*padded, strict=True):
        found = {length for length in lengths if length != 1}
        if len(found) > 1:
            message = "the shapes do not broadcast to one"
            got = ", ".join(str(tuple(shape)) for shape in shapes)
            wanted = "in each dimension, counted from the last, equal lengths or 1"
            raise ShapeError(message, operation="broadcast_shapes", got=got, wanted=wanted)
        out.append(found.pop() if found else 1)
    return tuple(out)
