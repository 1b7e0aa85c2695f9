"""Shapes and orders of elements: reshape, transpose, broadcast, squeeze, flip, roll.

All functions move elements and compute nothing; most of them are one primitive or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError
from weft.kinds.arguments import (
    NEVER,
    Axes,
    EachOperand,
    Flag,
    Integer,
    NoSharding,
    OneAxis,
    Operand,
    Shape,
    choice,
    of_rank,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    check_arrays,
    one_or_several,
    sequence_of,
    shape_of,
)
from weft.kinds.compiled_functions import is_eager
from weft.kinds.kind import Arguments, Kind
from weft.kinds.primitive_function import primitive_function
from weft.numpy.taking import wrap_positions
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing import slicing
from weft.ops.indexing.dynamic_slicing import dynamic_slice
from weft.ops.structural import shape as shapes
from weft.ops.structural.barriers import optimization_barrier
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.joining import rev
from weft.typing import ArrayLike

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis",
    "permute_dims", "ravel", "reshape", "resize", "roll", "rollaxis", "rot90", "squeeze",
    "swapaxes", "transpose", "unstack",
]  # fmt: skip


def as_operand(x: Any) -> Any:
    """The value, as an array if nothing is traced, so that it may be returned unchanged."""
    return as_array(x) if is_eager() else x


def _full_shape(value: Any, call: Arguments) -> tuple[int, ...]:
    """Replaces the one -1 of a shape by the length that fits."""
    old, shape = call.type.shape, shape_of(value)
    unknown = [i for i, size in enumerate(shape) if size < 0]
    if not unknown:
        return shape
    rest = prod(size for size in shape if size >= 0)
    total = prod(old)
    if len(unknown) > 1 or shape[unknown[0]] != -1 or rest == 0 or total % rest:
        message = f"no length for -1 makes {shape} a shape of {total} elements"
        got, wanted = f"shape {old} to {shape}", f"other lengths whose product divides {total}"
        fix = Fix("reshape", "give a shape of the same size, such as (-1,)", {"size": total})
        raise ShapeError(message, got=got, wanted=f"one -1 at most, and {wanted}", fix=fix)
    return tuple(total // rest if size == -1 else size for size in shape)


FullShape = Annotated[Any, Kind(_full_shape, "an integer or several", ("text", 0.5), (-1,))]
Order = Annotated[str, choice("C", "F", "A", means='"C" (also "A") or "F"')]
Vectors = Annotated[ArrayLike, of_rank(1, accepted=None)]
Matrices = Annotated[ArrayLike, of_rank(2, accepted=None)]


@primitive_function
def reshape(
    a: Operand,
    shape: FullShape,
    order: Order = "C",
    *,
    copy: Flag | None = None,
    out_sharding: NoSharding = None,
) -> Array:
    """The same elements in another shape of the same size.

    shape: an integer or a sequence; one length may be -1 and is then found from the others.
    order: "C" reads and writes with the last index fastest, "F" with the first. copy: with True
    the result is a new array, and with False it is `a` itself, or a WeftValueError where the shape
    is another: arrays do not share memory. Raises ShapeError if the sizes differ.

    >>> jnp.reshape(jnp.arange(6), (2, -1)).shape
    (2, 3)
    """
    if copy is False and shape != a.shape:
        message = "arrays of different shapes do not share memory"
        got = f"copy=False for shape {a.shape} to {shape}"
        fix = Fix("copy", "leave copy=False out", {"copy": None})
        raise WeftValueError(message, got=got, wanted="copy=None or True", fix=fix)
    if copy and shape == a.shape:
        # Without an equation the result would be `a` itself.
        return shapes.reshape(optimization_barrier(a), shape)
    return _reshape_in_order(a, shape, order)


def _reshape_in_order(a: Any, shape: tuple[int, ...], order: str) -> Any:
    """Reshapes, reading and writing elements in an order."""
    return _first_index_fastest(a, shape) if order == "F" else shapes.reshape(a, shape)


@array_function
def _first_index_fastest(a: Operand, shape: Shape) -> Any:
    return _reverse_dims(shapes.reshape(_reverse_dims(a), shape[::-1]))


def _reverse_dims(a: Any) -> Any:
    """Reverses the dimensions."""
    return shapes.transpose(a, tuple(range(a.ndim))[::-1])


@primitive_function
def ravel(a: Operand, order: Order = "C", *, out_sharding: NoSharding = None) -> Array:
    """The elements as an array of one dimension, in the given order ("C" or "F").

    order: "C" for the last index fastest, "F" for the first.

    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return _reshape_in_order(a, (a.size,), order)


def _permutation(value: Any, call: Arguments) -> tuple[int, ...]:
    axes = sequence_of(value, call.name)
    return tuple(axis_of(axis, call.type.ndim) for axis in axes)


def _places(value: Any, call: Arguments) -> tuple[int, ...]:
    return axes_of(value, call.type.ndim, f"{call.operation} ({call.name})")


def _start(value: Any, call: Arguments) -> int:
    ndim = call.type.ndim
    return ndim if value == ndim else axis_of(value, ndim)


def _new_axes(value: Any, call: Arguments) -> tuple[int, ...]:
    axes = tuple(one_or_several(value))
    return axes_of(axes, call.type.ndim + len(axes))


def _required_kind(take: Any, means: str, wrong: tuple[Any, ...], right: Any) -> Kind:
    return Kind(take, means, wrong, right, plain=NEVER)


_WRONG = (99, -99, 0.5, (0, 0))
Permutation = Annotated[
    Any, _required_kind(_permutation, "each axis once", (1, "text", (0, 99)), (0, 1))
]
Places = Annotated[Any, _required_kind(_places, "an axis, or several, each once", _WRONG, 0)]
Start = Annotated[int, _required_kind(_start, "an axis, or the number of axes", _WRONG, 0)]
NewAxes = Annotated[Any, _required_kind(_new_axes, "one or several axes of the result", _WRONG, 0)]


@primitive_function
def transpose(a: Operand, axes: Permutation | None = None) -> Array:
    """The dimensions in another order: that of `axes`, or reversed.

    axes: a permutation of the dimensions; None reverses them.

    Raises ShapeError if `axes` is no permutation.

    >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    return _reverse_dims(a) if axes is None else shapes.transpose(a, axes)


@primitive_function
def permute_dims(a: Operand, /, axes: Permutation) -> Array:
    """The dimensions in the order of `axes`: `transpose` with its axes required.

    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return shapes.transpose(a, axes)


@primitive_function
def matrix_transpose(x: Matrices, /) -> Array:
    """The last two dimensions exchanged. Raises ShapeError for fewer than two.

    >>> jnp.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return _exchange_dims(x, x.ndim - 2, x.ndim - 1)


def _exchange_dims(a: Any, one: int, two: int) -> Any:
    """Exchanges two dimensions."""
    order = list(range(a.ndim))
    order[one], order[two] = two, one
    return shapes.transpose(a, order)


@primitive_function
def swapaxes(a: Operand, axis1: OneAxis, axis2: OneAxis) -> Array:
    """Two dimensions exchanged.

    axis1, axis2: the positions of the two; negative ones count from the end.

    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return _exchange_dims(a, axis1, axis2)


@primitive_function
def moveaxis(a: Operand, source: Places, destination: Places) -> Array:
    """Dimensions moved to other positions; the others keep their order.

    source: the positions of the dimensions that move, an integer or several; destination: for each
    of them its position in the result.

    Raises ShapeError if source and destination do not have the same number of axes.

    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    if len(source) != len(destination):
        message = "source and destination have different numbers of axes"
        got, wanted = f"{source=}, {destination=}", "as many axes in one as in the other"
        raise ShapeError(message, got=got, wanted=wanted)
    return _move_dims(a, source, destination)


def _move_dims(a: Any, old: Sequence[int], new: Sequence[int]) -> Any:
    """Moves some dimensions to new positions."""
    order = [axis for axis in range(a.ndim) if axis not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return shapes.transpose(a, order)


@primitive_function
def rollaxis(a: Operand, axis: OneAxis, start: Start = 0) -> Array:
    """One dimension moved in front of the one that is now at `start`.

    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    return _move_dims(a, (axis,), (start - (start > axis),))


@primitive_function
def expand_dims(a: Operand, axis: NewAxes) -> Array:
    """Dimensions of length 1 put in, at the positions `axis` of the result.

    >>> jnp.expand_dims(jnp.arange(3), 0).shape
    (1, 3)
    """
    return shapes.expand_dims(a, axis)


@primitive_function
def squeeze(a: Operand, axis: Axes | None = None) -> Array:
    """The array without dimensions of length 1: those of `axis`, or all. Raises ShapeError for
    others.

    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    ones = tuple(d for d, size in enumerate(a.shape) if size == 1)
    return shapes.squeeze(a, ones if axis is None else axis)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which all the shapes broadcast. Raises ShapeError if there is none.

    shapes: tuples of lengths, or single lengths.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    name = "broadcast_shapes"
    return broadcast_shape(*[shape_of(s, name) for s in shapes], operation=name)


@primitive_function
def broadcast_to(array: Operand, shape: Shape, *, out_sharding: NoSharding = None) -> Array:
    """The array repeated along new and length-1 dimensions to a shape.

    array: an array, or what can be made one.

    Raises ShapeError if it does not broadcast to it.

    >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    return broadcasted(array, shape)


@array_function
def broadcast_arrays(*args: EachOperand) -> list[Array]:
    """All arrays repeated to their common shape. Raises ShapeError if there is none.

    args: arrays or numbers.

    >>> [x.shape for x in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shape(*[x.shape for x in args])
    return [broadcasted(x, shape) for x in args]


def _atleast(ndim: int, arys: Sequence[Any]) -> Any:
    out = []
    for x in arys:
        last = (1,) if ndim == 3 and x.ndim in (1, 2) else ()
        new = (1,) * (ndim - x.ndim - len(last)) + x.shape + last
        out.append(shapes.reshape(x, new))
    return out[0] if len(out) == 1 else out


@overload
def atleast_1d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(*arys: ArrayLike) -> list[Array]: ...
@primitive_function
def atleast_1d(*arys: EachOperand) -> Any:
    """Each array with at least one dimension.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_1d(jnp.array(3.0)).shape
    (1,)
    """
    return _atleast(1, arys)


@overload
def atleast_2d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(*arys: ArrayLike) -> list[Array]: ...
@primitive_function
def atleast_2d(*arys: EachOperand) -> Any:
    """Each array with at least two dimensions, put in front.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_2d(jnp.arange(3)).shape
    (1, 3)
    """
    return _atleast(2, arys)


@overload
def atleast_3d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(*arys: ArrayLike) -> list[Array]: ...
@primitive_function
def atleast_3d(*arys: EachOperand) -> Any:
    """Each array with at least three dimensions, put around the ones it has.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_3d(jnp.ones((2, 3))).shape
    (2, 3, 1)
    """
    return _atleast(3, arys)


@primitive_function
def flip(m: Operand, axis: Axes = None) -> Array:
    """The elements in reverse order along `axis` (None: along all).

    m: an array, or what can be made one.

    >>> jnp.flip(jnp.array([1, 2, 3]))
    Array([3, 2, 1], dtype=int32)
    """
    return rev(m, axis)


@primitive_function
def fliplr(m: Matrices) -> Array:
    """The elements in reverse order along the second dimension.

    m: an array of two dimensions or more.

    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return rev(m, (1,))


@primitive_function
def flipud(m: Vectors) -> Array:
    """The elements in reverse order along the first dimension.

    m: an array of one dimension or more.

    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return rev(m, (0,))


def _plane(value: Any, call: Arguments) -> tuple[int, ...]:
    axes = sequence_of(value, call.name)
    if len(axes) != 2:
        raise WeftValueError("takes two axes", got=f"axes={value}")
    one, two = (axis_of(axis, call.type.ndim) for axis in axes)
    if one == two:
        raise WeftValueError("the axes are equal", got=f"axes={value}")
    return one, two


Plane = Annotated[Any, _required_kind(_plane, "two axes", (1, (0, 0), (0,), (0, 99)), (0, 1))]


@array_function
def rot90(m: Matrices, k: Integer = 1, axes: Plane = (0, 1)) -> Array:
    """The array turned k times by 90 degrees in a plane, from the first axis towards the second.

    m: an array of two dimensions or more. k: how many times, where negative numbers turn it the
    other way.

    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    one, two = axes
    turns = k % 4
    if turns == 2:
        return rev(m, axes)
    if turns == 1:
        m = rev(m, (two,))
    if turns:
        m = _exchange_dims(m, one, two)
    return rev(m, (two,) if turns == 3 else ())


def _shifts(value: Any, call: Arguments) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        several = (*value,)
    else:
        several = (value,) if type_of(value).ndim == 0 else (*value,)
    check_arrays(*several, argument=call.name)
    for x in several:
        if type_of(x).dtype not in dtypes.INTEGER | dtypes.BOOLEAN:
            message, got = f"{call.name} is an integer, or several", f"{call.name}={x!r:.80}"
            raise WeftTypeError(message, got=got, wanted="integers, such as int(shift)")
    whole = (int, np.integer, np.bool_, np.ndarray)
    shifts = [int(x) if isinstance(x, whole) else x for x in several]
    # Shifts that are equal but for whole turns are one program.
    axes, shape = call["axis"], call.type.shape
    lengths = (call.type.size,) if axes is None else tuple(shape[axis] for axis in axes)
    if len(lengths) != len(shifts):
        return tuple(shifts)
    pairs = zip(shifts, lengths, strict=True)
    return tuple([x % n if isinstance(x, int) and n else x for x, n in pairs])


def _rolled_axes(value: Any, call: Arguments) -> tuple[int, ...]:
    ndim = call.type.ndim
    return tuple([axis_of(axis, ndim) for axis in one_or_several(value)])


_shift_kind = _required_kind(_shifts, "an integer or several, known or not", ("text", 1.5), 1)
Shifts = Annotated[Any, dataclasses.replace(_shift_kind, static=False, fixed=True, late=True)]
RolledAxes = Annotated[Any, Kind(_rolled_axes, "an axis, or several, also again", (99, -99, 0.5))]


@array_function
def roll(a: Operand, shift: Shifts, axis: RolledAxes = None) -> Array:
    """The elements moved by `shift` along `axis`; those moved past the end enter at the start.

    shift: an integer or a sequence of them, one per axis (or one for all); it may be traced. axis:
    None rolls the elements in row-major order. Raises ShapeError if the numbers do not fit, and
    WeftTypeError for a shift that is no integer, which NumPy truncates.

    >>> jnp.roll(jnp.array([1, 2, 3]), 1)
    Array([3, 1, 2], dtype=int32)
    """
    if axis is None:
        flat = _roll(shapes.reshape(a, (a.size,)), shift, (0,) * len(shift))
        return shapes.reshape(flat, a.shape)
    if len(shift) != len(axis) and 1 not in (len(shift), len(axis)):
        message = f"got {len(shift)} shifts for {len(axis)} axes"
        raise ShapeError(message, got=f"{shift=!r}, {axis=!r}", wanted="one shift per axis")
    n = max(len(shift), len(axis)) if shift and axis else 0
    return _roll(a, shift * (n // max(len(shift), 1)), axis * (n // max(len(axis), 1)))


def _roll(a: Any, shifts: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    """Rolls along axes, by one shift each."""
    if not all(isinstance(by, int) for by in shifts):
        for by, dim in zip(shifts, axes, strict=True):
            a = _roll_by_array(a, by, dim) if a.shape[dim] else a
        return a
    total = dict.fromkeys(axes, 0)
    for by, dim in zip(shifts, axes, strict=True):
        total[dim] += by
    for dim, by in total.items():
        length = a.shape[dim]
        if length and by % length:
            end = slicing.slice_in_dim(a, length - by % length, length, axis=dim)
            a = join([end, slicing.slice_in_dim(a, 0, length - by % length, axis=dim)], dim)
    return a


def _roll_by_array(a: Any, by: Any, dim: int) -> Any:
    """Rolls along one axis by a traced number."""
    begin: list[Any] = [np.int32(0)] * a.ndim
    begin[dim] = wrap_positions(-convert_element_type(by, np.dtype(np.int32)), a.shape[dim])
    return dynamic_slice(join([a, a], dim), begin, a.shape, allow_negative_indices=False)


@array_function
def resize(a: Operand, new_shape: Shape) -> Array:
    """The elements in another shape, repeated or truncated to fit.

    new_shape: the lengths of the result, an integer or several.

    >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    if any(length < 0 for length in new_shape):
        raise ShapeError("a length is negative", got=f"{new_shape}")
    wanted = prod(new_shape)
    if a.size == 0:
        zero = a.dtype.type(0)
        return broadcasted(zero, new_shape) if wanted else shapes.reshape(a, new_shape)
    return shapes.reshape(repeat_to_length(shapes.reshape(a, (a.size,)), wanted), new_shape)


def repeat_to_length(values: Any, size: int) -> Any:
    """The first `size` elements of a vector that begins again at its end.

    The copies are one broadcast: a concatenation would name the vector once for each.
    """
    n = type_of(values).shape[0]
    copies = -(-size // n)
    spread = shapes.broadcast_in_dim(values, (copies, n), (1,))
    return slicing.slice(shapes.reshape(spread, (copies * n,)), (0,), (size,))


@array_function
def unstack(x: Vectors, /, *, axis: OneAxis = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, without that dimension.

    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    return tuple(
        shapes.squeeze(slicing.slice_in_dim(x, i, i + 1, axis=axis), (axis,))
        for i in range(x.shape[axis])
    )
