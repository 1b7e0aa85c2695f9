"""Static slices and padding, which transpose to each other."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import pass_through
from weft.core.access_pattern import Inner, Reads, Step, same_dims, same_moves
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values
from weft.core.types import ArrayType, type_of
from weft.errors import ShapeError
from weft.ops.declare import linear_jvp, primitive, result_type
from weft.ops.elementwise.arithmetic import sub
from weft.ops.elementwise.selection import select
from weft.ops.structural import extended_dtypes
from weft.ops.structural.padding_sizes import padding_of
from weft.ops.structural.shape import broadcast_in_dim, canonical_axis, move_dim, reduce_sum
from weft.ops.structural.tangents import jointly_linear_jvp
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["pad", "slice", "slice_in_dim"]

Ints = tuple[int, ...]


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None
) -> Array:
    """Returns elements start, start + stride, … below limit of every dimension; bounds are static.

    Args:
        start_indices: The first position, per dimension.
        limit_indices: The position before which it ends, per dimension.
        strides: The distance between elements that are taken, per dimension; None for 1.

    Raises ShapeError if 0 <= start <= limit <= length does not hold, or a stride is not
    positive.

    >>> lax.slice(np.arange(6), (1,), (5,), (2,))
    Array([1, 3], dtype=int32)
    """
    start, limit = tuple(start_indices), tuple(limit_indices)
    steps = (1,) * len(start) if strides is None else tuple(strides)
    shape = type_of(operand).shape
    if limit == shape and not any(start) and all(step == 1 for step in steps):
        return pass_through(operand)
    if extended_dtypes.is_key(operand):
        tail = type_of(operand).dtype.key_shape
        zeros, ones = (0,) * len(tail), (1,) * len(tail)
        return extended_dtypes.through_bits(
            operand, lambda bits: slice(bits, start + zeros, limit + tail, steps + ones)
        )
    return slice_p.bind(operand, start_indices=start, limit_indices=limit, strides=steps)


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Slices along one dimension; negative bounds count from the end, None is the whole.

    Args:
        start_index: The first position; None for 0.
        limit_index: The position before which it ends; None for the length.
        stride: The distance between elements that are taken, at least 1.

    >>> lax.slice_in_dim(np.arange(6), 1, 5, 2)
    Array([1, 3], dtype=int32)
    """
    shape = type_of(operand).shape
    axis = canonical_axis(axis, len(shape), "slice_in_dim")
    length = shape[axis]
    start = 0 if start_index is None else start_index + length * (start_index < 0)
    limit = length if limit_index is None else limit_index + length * (limit_index < 0)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, limit, stride
    return slice(operand, starts, limits, steps)


def slice_type(
    x: ArrayType, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> ArrayType:
    bounds = list(zip(start_indices, limit_indices, x.shape, strict=False))
    if (
        not len(start_indices) == len(limit_indices) == len(strides) == x.ndim
        or any(not 0 <= low <= high <= size for low, high, size in bounds)
        or any(step < 1 for step in strides)
    ):
        got = f"start {start_indices}, limit {limit_indices}, strides {strides} of {x}"
        wanted = "0 <= start <= limit <= length and a positive stride in every dimension"
        raise ShapeError(f"slice: the bounds do not fit {x}", got=got, wanted=wanted)
    shape = tuple(
        -((low - high) // step)
        for low, high, step in zip(start_indices, limit_indices, strides, strict=True)
    )
    return result_type((x,), shape, x.dtype, x.weak_type)


def slice_transpose(
    ct: Any, x: Any, *, start_indices: Ints, strides: Ints, **limits: Any
) -> list[Any]:
    ct_shape = type_of(ct).shape
    config = []
    for size, low, step, length in zip(ct_shape, start_indices, strides, x.type.shape, strict=True):
        covered = low + (size - 1) * step + 1 if size else low
        config.append((low, length - covered, step - 1))
    return [pad(ct, type_of(ct).dtype.type(0), config)]


def slice_vmap(axis: AxisData, args: Values, dims: Dims, **bounds: Ints) -> tuple[Any, int]:
    (dim,) = dims
    assert dim is not None
    whole = {"start_indices": 0, "limit_indices": axis.size, "strides": 1}
    wider = {name: (*ns[:dim], whole[name], *ns[dim:]) for name, ns in bounds.items()}
    return slice_p.bind(args[0], **wider), dim


def slice_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    strides = eqn.params["strides"]

    def stepped(step: Step) -> Step:
        return step if step.dim < 0 else step._replace(step=step.step * strides[step.dim])

    return [tuple(r._replace(walk=tuple(map(stepped, r.walk)), source=None) for r in demands[0])]


def slice_on_host(x: np.ndarray[Any, Any], **bounds: Ints) -> np.ndarray[Any, Any]:
    dims = zip(
        *(bounds[name] for name in ("start_indices", "limit_indices", "strides")), strict=True
    )
    return x[tuple(builtins.slice(*of_dim) for of_dim in dims)]


slice_p = primitive(
    "slice",
    type_rule=slice_type,
    jvp=linear_jvp(slice),
    transpose=slice_transpose,
    vmap=slice_vmap,
    reads=slice_reads,
    moves=same_moves,
    on_host=slice_on_host,
    lower=lambda context, x, *, start_indices, limit_indices, strides: stablehlo.slice_(
        x, start_indices, limit_indices, strides
    ),
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    reads_part=True,
)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Adds a value before, after and between the elements of each dimension.

    `padding_config` has (low, high, interior) per dimension; negative low and high cut off. The
    value has no dimensions and the dtype of the operand.

    padding_value: the value of the new elements.

    >>> lax.pad(np.array([1, 2, 3]), np.int32(0), [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """
    config = padding_of(padding_config, "pad", ("low", "high", "interior"))
    if isinstance(padding_value, (bool, int, float, complex)):
        padding_value = dtypes.number(padding_value, type_of(operand).dtype)
    if not any(any(entry) for entry in config):
        return pass_through(operand)
    return pad_p.bind(operand, padding_value, padding_config=config)


Config = tuple[tuple[int, int, int], ...]


def pad_type(x: ArrayType, value: ArrayType, *, padding_config: Config) -> ArrayType:
    shape = tuple(
        low + size + max(0, size - 1) * inner + high
        for size, (low, high, inner) in zip(x.shape, padding_config, strict=False)
    )
    if (
        len(padding_config) != x.ndim
        or value.shape
        or value.dtype != x.dtype
        or any(size < 0 for size in shape)
        or any(inner < 0 for _, _, inner in padding_config)
    ):
        raise ShapeError(
            f"pad: the padding does not fit {x}",
            got=f"{x}, a padding value of type {value}, padding_config {padding_config}",
            wanted="(low, high, interior >= 0) per dimension, a value without dimensions and of "
            "the operand's dtype, and lengths that stay positive",
        )
    return result_type((x, value), shape, x.dtype, x.weak_type and value.weak_type)


def pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Config) -> list[Any]:
    ct_x = ct_value = None
    if type(x) is LinearOperand or type(value) is LinearOperand:
        inverse = [(-low, -high, 0) for low, high, _ in padding_config]
        steps = [inner + 1 for _, _, inner in padding_config]
        inside = pad(ct, type_of(ct).dtype.type(0), inverse)
        shape = type_of(inside).shape
        ct_x = slice(inside, (0,) * len(shape), shape, steps)
    if type(value) is LinearOperand:
        # The operand's part is subtracted from the sum: no element is of both it and the padding.
        axes = tuple(range(type_of(ct).ndim))
        ct_value = sub(reduce_sum(ct, axes), reduce_sum(ct_x, axes))
    return [ct_x if type(x) is LinearOperand else None, ct_value]


def pad_vmap(
    axis: AxisData, args: Values, dims: Dims, *, padding_config: Config
) -> tuple[Any, int]:
    x, value = args
    x_dim, value_dim = dims
    if value_dim is None:
        assert x_dim is not None
        config = padding_config[:x_dim] + ((0, 0, 0),) + padding_config[x_dim:]
        return pad_p.bind(x, value, padding_config=config), x_dim
    # A value per element: pad with zeros, and put the values where the padding is.
    x = move_dim(x, x_dim, 0, axis.size)
    config = ((0, 0, 0), *padding_config)
    padded = pad(x, type_of(x).dtype.type(0), config)
    inside = pad(broadcast_in_dim(np.bool_(True), type_of(x).shape, ()), np.bool_(False), config)
    return select(inside, padded, broadcast_in_dim(value, type_of(padded).shape, (0,))), 0


def elements_left(size: int, low: int, high: int, inner: int) -> tuple[int, int, int, int]:
    """Of a padded dimension its length, the first element kept, the end of those kept, and the
    place of the first one; zeros where none is kept."""
    step = inner + 1
    length = low + size + max(0, size - 1) * inner + high
    first = max(0, -(low // step))
    last = min(size, -((low - length) // step))
    return (length, first, last, low + first * step) if first < last else (length, 0, 0, 0)


def pad_lower(context: Any, x: Any, value: Any, *, padding_config: Config) -> Any:
    """Slices before it pads, instead of padding with negative edges. At these XLA's partitioner
    ends the process (with interior padding), or takes two pads of one array with equally long
    blocks for the same."""
    shape = context.in_types[0].shape
    if any(low < 0 or high < 0 for low, high, _ in padding_config):
        left = [elements_left(n, *config) for n, config in zip(shape, padding_config, strict=True)]
        firsts, lasts = [first for _, first, _, _ in left], [last for _, _, last, _ in left]
        x = stablehlo.slice_(x, firsts, lasts, [1] * len(shape))
        padding_config = tuple(
            (start, length - start - (last - first) - max(0, last - first - 1) * inner, inner)
            for (length, first, last, start), (_, _, inner) in zip(
                left, padding_config, strict=True
            )
        )
    if not any(map(any, padding_config)):
        return x
    low, high, inner = zip(*padding_config, strict=True)
    return stablehlo.pad(x, value, low, high, inner)


def pad_on_host(
    x: np.ndarray[Any, Any], value: np.ndarray[Any, Any], *, padding_config: Config
) -> np.ndarray[Any, Any]:
    shape, sources, targets = [], [], []
    for size, (low, high, inner) in zip(x.shape, padding_config, strict=True):
        length, first, last, start = elements_left(size, low, high, inner)
        step = inner + 1
        shape.append(length)
        sources.append(builtins.slice(first, last))
        targets.append(builtins.slice(start, start + (last - first) * step, step))
    out = np.full(shape, value, x.dtype)
    if out.size:
        out[tuple(targets)] = x[tuple(sources)]
    return out


pad_p = Primitive("pad")
primitive(
    pad_p,
    type_rule=pad_type,
    jvp=jointly_linear_jvp(pad_p.bind, 0, 1),
    transpose=pad_transpose,
    vmap=pad_vmap,
    reads=same_dims,
    on_host=pad_on_host,
    lower=pad_lower,
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)
