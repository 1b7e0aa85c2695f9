"""The primitives that change only the shape, and the sum that undoes a broadcast.

`broadcast_in_dim` and `reduce_sum` transpose to each other, as `reshape` and `transpose` do to
themselves: every other rule in `ops/` that moves or repeats dimensions is written with these four.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import pass_through
from weft.core.access_pattern import Inner, Reads, full_read, regrouped
from weft.core.jaxpr import Equation
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, DTypeError, Fix, ShapeError, WeftValueError, with_operation
from weft.errors.argument_errors import integer_of, integers_of, refuse_sharding
from weft.ops.declare import emit_reduction, linear_jvp, primitive, result_type
from weft.ops.flops import of_reduction
from weft.ops.operand_errors import to_dtype
from weft.ops.structural import extended_dtypes
from weft.ops.structural.narrow import in_accumulator, with_narrow
from weft.runtime import stablehlo
from weft.typing import ArrayLike

Ints = tuple[int, ...]


def canonical_axis(axis: int, ndim: int, operation: str = "") -> int:
    """Returns an axis between 0 and ndim - 1. Raises AxisError if `axis` is out of range.

    Args:
        ndim: How many dimensions the array has.
        operation: The name of an operation without a boundary, for errors.
        axis: The axis, counted from the front or, if negative, from the end.
    """
    index = integer_of(axis, "an axis", operation)
    if not -ndim <= index < ndim:
        text = f"axis {axis} is out of range for an array of {ndim} dimensions"
        message = with_operation(operation, text)
        got = f"axis {axis}"
        raise AxisError(message, operation=operation, got=got, wanted=f"{-ndim} <= axis < {ndim}")
    return index % ndim if ndim else 0


def canonical_axes(
    axes: int | Sequence[int] | None, ndim: int, operation: str = ""
) -> tuple[int, ...]:
    """Returns axes between 0 and ndim - 1 (None: all). Raises AxisError if one repeats.

    Args:
        axes: An axis or several, counted from the front or, if negative, from the end.
        ndim: How many dimensions the array has.
        operation: The name of an operation without a boundary, for errors.
    """
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if not isinstance(axes, (tuple, list)) else tuple(axes)
    out = tuple(canonical_axis(axis, ndim, operation) for axis in given)
    if len(set(out)) != len(out):
        message = with_operation(operation, "an axis is given twice")
        got = f"axes {given} of an array of {ndim} dimensions"
        raise AxisError(message, operation=operation, got=got, wanted="each axis once")
    return out


def broadcast_in_dim(
    operand: Any,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: None = None,
) -> Array:
    """Broadcasts to `shape`; dimension i of the operand becomes `broadcast_dimensions[i]`.

    Operand dimensions have length 1 or that of their target, and no two have the same one. Raises
    ShapeError otherwise.

    broadcast_dimensions: for each dimension of the operand, its index in the result.

    >>> lax.broadcast_in_dim(np.array([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    refuse_sharding("broadcast_in_dim", out_sharding)
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if len(dims) == type_of(operand).ndim and (order := sorted(dims)) != list(dims):
        operand = transpose(operand, sorted(range(len(dims)), key=dims.__getitem__))
        dims = tuple(order)
    if type_of(operand).shape == shape and dims == tuple(range(len(shape))):
        return pass_through(operand)
    if extended_dtypes.is_key(operand):
        tail = type_of(operand).dtype.key_shape
        whole = (*shape, *tail)
        return extended_dtypes.through_bits(
            operand,
            lambda bits: broadcast_in_dim(bits, whole, (*dims, *range(len(shape), len(whole)))),
        )
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: None = None) -> Array:
    """Adds leading dimensions of the given sizes.

    sizes: the lengths of the new dimensions, which come first in the result.

    >>> lax.broadcast(np.array([1, 2]), (2,))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    refuse_sharding("broadcast", out_sharding)
    shape = (*sizes, *type_of(operand).shape)
    return broadcast_in_dim(
        operand, shape, tuple(range(len(shape) - type_of(operand).ndim, len(shape)))
    )


def broadcast_in_dim_type(x: ArrayType, *, shape: Ints, broadcast_dimensions: Ints) -> ArrayType:
    dims = broadcast_dimensions
    fits = (
        len(dims) == x.ndim
        and all(0 <= d < len(shape) for d in dims)
        and all(a < b for a, b in zip(dims, dims[1:], strict=False))
        and all(x.shape[i] in (1, shape[d]) for i, d in enumerate(dims))
    )
    if not fits:
        raise ShapeError(
            f"broadcast_in_dim: {x} does not broadcast to shape {shape} "
            f"with broadcast_dimensions={dims}",
            got=f"{x}, shape={shape}, broadcast_dimensions={dims}",
            wanted="one target dimension of its own per operand dimension, of equal length or "
            "where the operand's length is 1",
        )
    return result_type((x,), shape, x.dtype, x.weak_type)


def broadcast_in_dim_transpose(
    ct: Any, x: Any, *, shape: Ints, broadcast_dimensions: Ints
) -> list[Any]:
    kept = {d: x.type.shape[i] for i, d in enumerate(broadcast_dimensions)}
    axes = tuple(d for d in range(len(shape)) if d not in kept or kept[d] != shape[d])
    return [reshape(reduce_sum(ct, axes), x.type.shape)]


def broadcast_in_dim_vmap(
    axis: AxisData, args: Values, dims: Dims, *, shape: Ints, broadcast_dimensions: Ints
) -> tuple[Any, int]:
    x = move_dim(args[0], dims[0], 0, axis.size)
    moved = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim(x, (axis.size, *shape), moved), 0


def broadcast_in_dim_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    shape = eqn.inputs[0].type.shape
    dims = [-1] * len(eqn.params["shape"])
    for i, d in enumerate(eqn.params["broadcast_dimensions"]):
        dims[d] = i if shape[i] != 1 else -1
    return [tuple(read.along(dims) for read in demands[0])]


def broadcast_in_dim_on_host(
    x: np.ndarray[Any, Any], *, shape: Ints, broadcast_dimensions: Ints
) -> np.ndarray[Any, Any]:
    lengths = [1] * len(shape)
    for dim, length in zip(broadcast_dimensions, x.shape, strict=True):
        lengths[dim] = length
    return np.broadcast_to(x.reshape(lengths), shape)


def reshape(
    operand: Any,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: None = None,
) -> Array:
    """Returns the same elements, in row-major order, in another shape of the same size.

    dimensions: a permutation of the operand's dimensions, done first. Raises ShapeError if the
    sizes differ.

    new_sizes: the shape of the result.

    >>> lax.reshape(np.arange(4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    refuse_sharding("reshape", out_sharding)
    one = isinstance(new_sizes, int) and config.lenient()
    new_sizes = integers_of((new_sizes,) if one else new_sizes, "new_sizes", "reshape")
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    if type_of(operand).shape == new_sizes:
        return pass_through(operand)
    if extended_dtypes.is_key(operand):
        tail = type_of(operand).dtype.key_shape
        return extended_dtypes.through_bits(
            operand, lambda bits: reshape(bits, (*new_sizes, *tail))
        )
    return reshape_p.bind(operand, shape=new_sizes)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Inserts dimensions of length 1, at the given indices of the result's shape.

    array: the array that gets further dimensions; dimensions: the indices of the new dimensions in
    the result; negative ones count from the end.

    >>> lax.expand_dims(np.array([1, 2]), (0, 2)).shape
    (1, 2, 1)
    """
    old = type_of(array).shape
    ndim = len(old) + len(tuple(dimensions))
    places = set(canonical_axes(tuple(dimensions), ndim, "expand_dims"))
    lengths = iter(old)
    return reshape(array, tuple(1 if i in places else next(lengths) for i in range(ndim)))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drops dimensions of length 1. Raises ShapeError if one is longer.

    array: the array that loses dimensions; dimensions: the indices of the dimensions that are
    dropped; negative ones count from the end.

    >>> lax.squeeze(np.ones((1, 3)), (0,)).shape
    (3,)
    """
    shape = type_of(array).shape
    dropped = set(canonical_axes(tuple(dimensions), len(shape), "squeeze"))
    if any(shape[d] != 1 for d in dropped):
        message = (
            f"squeeze: only dimensions of length 1 can be dropped, not {sorted(dropped)} of {shape}"
        )
        got = f"shape {shape}, dimensions {sorted(dropped)}"
        raise ShapeError(message, operation="squeeze", got=got, wanted="dimensions of length 1")
    return reshape(array, tuple(s for i, s in enumerate(shape) if i not in dropped))


def reshape_type(x: ArrayType, *, shape: Ints) -> ArrayType:
    if prod(shape) != x.size or any(s < 0 for s in shape):
        message = f"reshape: {x} has {x.size} elements and shape {shape} has {prod(shape)}"
        got, wanted = f"{x} and shape {shape}", f"a shape of {x.size} elements"
        fix = Fix("reshape", f"use a shape of {x.size} elements, such as (-1,)", {"size": x.size})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return result_type((x,), shape, x.dtype, x.weak_type)


def reshape_vmap(axis: AxisData, args: Values, dims: Dims, *, shape: Ints) -> tuple[Any, int]:
    return reshape(move_dim(args[0], dims[0], 0, axis.size), (axis.size, *shape)), 0


def reshape_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    old, new = eqn.inputs[0].type.shape, eqn.params["shape"]
    return [tuple(r._replace(walk=tuple(regrouped(r.walk, new, old))) for r in demands[0])]


def reshape_moves(eqn: Equation, result: int) -> tuple[int, Ints] | None:
    """The kept dimensions if only ones of length 1 are added or dropped, else None."""
    old, new = eqn.inputs[0].type.shape, eqn.params["shape"]
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        return None
    places = iter([i for i, n in enumerate(old) if n != 1])
    return 0, tuple(-1 if n == 1 else next(places) for n in new)


def transpose(operand: Any, permutation: Sequence[int]) -> Array:
    """Permutes the dimensions: dimension i of the result is `permutation[i]` of the operand.

    permutation: for each dimension of the result, its index in the operand.

    Raises ShapeError if `permutation` is none.

    >>> lax.transpose(np.array([[1, 2], [3, 4]]), (1, 0))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    permutation = tuple(permutation)
    if permutation == tuple(range(type_of(operand).ndim)):
        return pass_through(operand)
    if extended_dtypes.is_key(operand):
        return extended_dtypes.through_bits(
            operand,
            lambda bits: transpose(bits, (*permutation, *range(len(permutation), bits.ndim))),
        )
    return transpose_p.bind(operand, permutation=permutation)


def transpose_type(x: ArrayType, *, permutation: Ints) -> ArrayType:
    if sorted(permutation) != list(range(x.ndim)):
        message = f"transpose: {permutation} is no permutation of the dimensions of {x}"
        got, wanted = f"{x} and permutation {permutation}", f"each of 0 to {x.ndim - 1} once"
        raise ShapeError(message, got=got, wanted=wanted)
    return result_type((x,), tuple(x.shape[d] for d in permutation), x.dtype, x.weak_type)


def inverse_permutation(permutation: Sequence[int]) -> Ints:
    """Returns the inverse of a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def transpose_vmap(
    axis: AxisData, args: Values, dims: Dims, *, permutation: Ints
) -> tuple[Any, int]:
    (dim,) = dims
    assert dim is not None
    return transpose(args[0], (dim, *(d + (d >= dim) for d in permutation))), 0


def move_dim(x: Any, source: int | None, target: int, size: int) -> Any:
    """Moves a dimension to index `target`; if there is none (None), broadcasts one of `size`.

    vmap rules bring mapped dimensions into line with it.

    Args:
        x: The array.
        source: The index of the dimension in `x`, or None.
        target: The position of the dimension in the result.
        size: The length of a new dimension.

    >>> from weft.extend.interpreters import batching
    >>> batching.move_dim(np.ones((2, 3)), 1, 0, 3).shape, batching.move_dim(1.0, None, 0, 4).shape
    ((3, 2), (4,))
    """
    type = type_of(x)
    if source is None:
        shape = type.shape[:target] + (size,) + type.shape[target:]
        return broadcast_in_dim(x, shape, tuple(d + (d >= target) for d in range(type.ndim)))
    if source == target:
        return x
    order = [d for d in range(type.ndim) if d != source]
    order.insert(target, source)
    return transpose(x, order)


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: None = None) -> Array:
    """Sums over the given axes, which are dropped.

    >>> lax.reduce_sum(np.array([[1, 2], [3, 4]]), (0,))
    Array([4, 6], dtype=int32)
    """
    refuse_sharding("reduce_sum", out_sharding)
    axes = tuple(axes)
    if not config.settings().allow_f16_reductions:
        _refuse_half(type_of(operand))
    return reduce_sum_p.bind(operand, axes=axes) if axes else pass_through(operand)


def _refuse_half(of: ArrayType) -> None:
    """Raises WeftValueError for a sum of 16-bit numbers: see `allow_f16_reductions`."""
    if of.dtype in (dtypes.float16, dtypes.bfloat16):
        message = "reduce_sum: 16-bit numbers are not added up here"
        wanted = "float32 or wider, because the setting allow_f16_reductions is False"
        fix = to_dtype("x", of.dtype, dtypes.float32)
        raise WeftValueError(message, operation="reduce_sum", got=str(of), wanted=wanted, fix=fix)


def reduced_shape(x: ArrayType, axes: tuple[int, ...], operation: str) -> tuple[int, ...]:
    """Returns the shape without the given axes, which must be in range and distinct.

    Args:
        x: The type of the operand.
        axes: The axes to leave out, each between 0 and ndim - 1.
        operation: The name of an operation without a boundary, for errors.
    """
    canonical_axes(axes, x.ndim, operation)
    return tuple(s for i, s in enumerate(x.shape) if i not in axes)


def reduce_sum_type(x: ArrayType, *, axes: Ints) -> ArrayType:
    if x.dtype not in with_narrow(dtypes.NUMERIC):
        message = f"reduce_sum: {x} does not hold numbers"
        fix = to_dtype("x", x.dtype, dtypes.int32)
        raise DTypeError(message, got=str(x), wanted="numbers", fix=fix)
    return result_type((x,), reduced_shape(x, axes, "reduce_sum"), x.dtype, x.weak_type)


def reduce_sum_transpose(ct: Any, x: Any, *, axes: Ints) -> list[Any]:
    shape = x.type.shape
    return [broadcast_in_dim(ct, shape, tuple(d for d in range(len(shape)) if d not in axes))]


def reduce_vmap_axes(axes: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], int]:
    """Returns the axes of a reduction of a mapped operand, and the result's mapped dimension.

    Args:
        axes: The axes that one element is reduced along.
        dim: The mapped dimension of the operand.
    """
    moved = tuple(a + (a >= dim) for a in axes)
    return moved, dim - sum(a < dim for a in moved)


def reduce_sum_vmap(axis: AxisData, args: Values, dims: Dims, *, axes: Ints) -> tuple[Any, int]:
    assert dims[0] is not None
    moved, dim = reduce_vmap_axes(axes, dims[0])
    return reduce_sum_p.bind(args[0], axes=moved), dim


def reduction_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """XLA reduces an array in the order of memory, whichever axes go, transposed or not."""
    return [(full_read(x.type, folds=True),) for x in eqn.inputs]


def reduce_sum_lower(context: Any, x: Any, *, axes: Ints) -> Any:
    zero = stablehlo.constant(0, (), context.in_types[0].dtype)
    return emit_reduction(x, zero, axes, stablehlo.add)


broadcast_in_dim_p = primitive(
    "broadcast_in_dim",
    type_rule=broadcast_in_dim_type,
    jvp=linear_jvp(broadcast_in_dim),
    transpose=broadcast_in_dim_transpose,
    vmap=broadcast_in_dim_vmap,
    reads=broadcast_in_dim_reads,
    on_host=broadcast_in_dim_on_host,
    lower=lambda context, x, *, shape, broadcast_dimensions: stablehlo.broadcast_in_dim(
        x, shape, broadcast_dimensions
    ),
    cheap=True,
    view=True,
    linear=True,
    wide_cotangents=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)
reshape_p = primitive(
    "reshape",
    type_rule=reshape_type,
    jvp=linear_jvp(lambda x, *, shape: reshape(x, shape)),
    transpose=lambda ct, x, **shape: [reshape(ct, x.type.shape)],
    vmap=reshape_vmap,
    reads=reshape_reads,
    moves=reshape_moves,
    on_host=lambda x, shape: x.reshape(shape),
    lower=lambda context, x, *, shape: stablehlo.reshape(x, shape),
    cheap=True,
    view=True,
    linear=True,
    wide_cotangents=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    moves_nothing=True,
)
transpose_p = primitive(
    "transpose",
    type_rule=transpose_type,
    jvp=linear_jvp(transpose),
    transpose=lambda ct, x, *, permutation: [transpose(ct, inverse_permutation(permutation))],
    vmap=transpose_vmap,
    reads=lambda eqn, demands, inner: [
        tuple(read.along(eqn.params["permutation"]) for read in demands[0])
    ],
    moves=lambda eqn, result: (0, eqn.params["permutation"]),
    on_host=lambda x, permutation: x.transpose(permutation),
    lower=lambda context, x, *, permutation: stablehlo.transpose(x, permutation),
    cheap=True,
    view=True,
    linear=True,
    wide_cotangents=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)
reduce_sum_p = primitive(
    "reduce_sum",
    type_rule=reduce_sum_type,
    jvp=linear_jvp(reduce_sum),
    transpose=reduce_sum_transpose,
    vmap=reduce_sum_vmap,
    reads=reduction_reads,
    lower=in_accumulator(reduce_sum_lower),
    fuses_operands=True,
    linear=True,
    flops=of_reduction(),
)
