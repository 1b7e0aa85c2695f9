"""Shapes and orders of elements: reshape, transpose, broadcast, squeeze, flip, roll.

All functions move elements and compute nothing; most of them are one primitive or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, overload

import numpy as np

from weft.argument_errors import integer_of, refusal, refuse_sharding, unknown_option
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    check_flag,
    one_or_several,
    operand,
    operands,
    sequence_of,
    shape_of,
)
from weft.kinds.compiled_functions import compiled, is_eager
from weft.kinds.repeated import repeated
from weft.numpy.creation import array
from weft.ops.elementwise.arithmetic import add, lt, neg, rem
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing import slicing
from weft.ops.indexing.dynamic_slicing import dynamic_slice
from weft.ops.structural import shape as shapes
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
    """The value, made an array where nothing is traced, so that it may be returned unchanged."""
    return as_array(x) if is_eager() else x


def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The same elements in another shape of the same size.

    shape: an integer or a sequence; one length may be -1 and is then found from the others.
    order: "C" reads and writes with the last index fastest, "F" with the first. copy: with True
    the result is a new array, and with False it is `a` itself, or a WeftValueError where the shape
    is another: arrays do not share memory. Raises ShapeError if the sizes differ.

    >>> jnp.reshape(jnp.arange(6), (2, -1)).shape
    (2, 3)
    """
    refuse_sharding("reshape", out_sharding)
    a = operand("reshape", a)
    old = type_of(a).shape
    if type(shape) is not tuple or -1 in shape or any(type(n) is not int for n in shape):
        shape = _full_shape(old, shape_of(shape, "reshape"))
    if copy is not None:
        _check_copy(copy, shape, old)
    if order == "C" or order == "A":
        if shape == old:
            return array(a, copy=True) if copy else as_operand(a)
        return shapes.reshape(a, shape)
    if order != "F":
        raise unknown_option("reshape", "order", order, "'C' or 'F'")
    return _reshape_fortran(as_operand(a), shape=shape)


def _check_copy(copy: Any, shape: tuple[int, ...], old: tuple[int, ...]) -> None:
    check_flag(copy, "reshape", "copy")
    if not copy and shape != old:
        message = "reshape: arrays of different shapes do not share memory"
        got = f"copy=False for shape {old} to {shape}"
        fix = Fix("copy", "leave copy=False out", {"copy": None})
        raise refusal(WeftValueError, message, "reshape", got, "copy=None or True", fix)


def _full_shape(old: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with its one -1 replaced by the length that fits."""
    unknown = [i for i, size in enumerate(shape) if size < 0]
    if not unknown:
        return shape
    rest = prod(size for size in shape if size >= 0)
    total = prod(old)
    if len(unknown) > 1 or shape[unknown[0]] != -1 or rest == 0 or total % rest:
        message = f"reshape: no length for -1 makes {shape} a shape of {total} elements"
        wanted = f"one -1 at most, and other lengths whose product divides {total}"
        fix = Fix("reshape", "give a shape of the same size, such as (-1,)", {"size": total})
        raise refusal(ShapeError, message, "reshape", f"shape {old} to {shape}", wanted, fix)
    return tuple(total // rest if size == -1 else size for size in shape)


@compiled
def _reshape_fortran(a: Any, *, shape: tuple[int, ...]) -> Any:
    backward = shapes.transpose(a, tuple(range(type_of(a).ndim))[::-1])
    return shapes.transpose(shapes.reshape(backward, shape[::-1]), tuple(range(len(shape)))[::-1])


@repeated
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: None = None) -> Array:
    """The elements as an array of one dimension, in the given order ("C" or "F").

    order: "C" for the last index fastest, "F" for the first.

    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    refuse_sharding("ravel", out_sharding)
    a = operand("ravel", a)
    return reshape(a, (type_of(a).size,), order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The dimensions in another order: that of `axes`, or reversed.

    axes: a permutation of the dimensions; None reverses them.

    Raises ShapeError if `axes` is no permutation.

    >>> jnp.transpose(jnp.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = operand("transpose", a)
    ndim = type_of(a).ndim
    if axes is None:
        order = tuple(range(ndim))[::-1]
    else:
        given = sequence_of(axes, "transpose", "axes")
        order = tuple(axis_of(axis, ndim, "transpose") for axis in given)
    return shapes.transpose(as_operand(a), order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """The dimensions in the order of `axes`: `transpose` with its axes required.

    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return transpose(a, sequence_of(axes, "permute_dims", "axes"))


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two dimensions exchanged. Raises ShapeError for fewer than two.

    >>> jnp.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    x = operand("matrix_transpose", x)
    ndim = type_of(x).ndim
    if ndim < 2:
        message = f"matrix_transpose takes at least two dimensions, not {ndim}"
        wanted = "an array of two or more dimensions"
        raise refusal(ShapeError, message, "matrix_transpose", str(type_of(x)), wanted)
    return shapes.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


@repeated
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two dimensions exchanged.

    axis1, axis2: the positions of the two; negative ones count from the end.

    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = operand("swapaxes", a)
    ndim = type_of(a).ndim
    order = list(range(ndim))
    one, two = axis_of(axis1, ndim, "swapaxes"), axis_of(axis2, ndim, "swapaxes")
    order[one], order[two] = order[two], order[one]
    return shapes.transpose(as_operand(a), order)


@repeated
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Dimensions moved to other positions; the others keep their order.

    source: the positions of the dimensions that move, an integer or several; destination: for each
    of them its position in the result.

    Raises ShapeError if source and destination do not have the same number of axes.

    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = operand("moveaxis", a)
    ndim = type_of(a).ndim
    old = axes_of(source, ndim, "moveaxis (source)")
    new = axes_of(destination, ndim, "moveaxis (destination)")
    if len(old) != len(new):
        message = "moveaxis: source and destination have different numbers of axes"
        got = f"source={source}, destination={destination}"
        raise refusal(ShapeError, message, "moveaxis", got, "as many axes in one as in the other")
    order = [axis for axis in range(ndim) if axis not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return shapes.transpose(as_operand(a), order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One dimension moved in front of the one that is now at `start`.

    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = operand("rollaxis", a)
    ndim = type_of(a).ndim
    axis = axis_of(axis, ndim, "rollaxis")
    start = axis_of(start, ndim, "rollaxis") if start != ndim else ndim
    return moveaxis(a, axis, start - (start > axis))


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Dimensions of length 1 put in, at the positions `axis` of the result.

    >>> jnp.expand_dims(jnp.arange(3), 0).shape
    (1, 3)
    """
    a = operand("expand_dims", a)
    axes = tuple(one_or_several(axis))
    ndim = type_of(a).ndim + len(axes)
    return shapes.expand_dims(as_operand(a), axes_of(axes, ndim, "expand_dims"))


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """The array without dimensions of length 1: those of `axis`, or all. Raises ShapeError for
    others.

    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    a = operand("squeeze", a)
    of = type_of(a)
    ones = tuple(d for d, size in enumerate(of.shape) if size == 1)
    axes = ones if axis is None else axes_of(axis, of.ndim, "squeeze")
    return shapes.squeeze(as_operand(a), axes)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which all the shapes broadcast. Raises ShapeError if there is none.

    shapes: tuples of lengths, or single lengths.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return broadcast_shape("broadcast_shapes", *[shape_of(s, "broadcast_shapes") for s in shapes])


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Array:
    """The array repeated along new and length-1 dimensions to a shape.

    array: an array, or what can be made one.

    Raises ShapeError if it does not broadcast to it.

    >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    refuse_sharding("broadcast_to", out_sharding)
    array = operand("broadcast_to", array)
    return broadcasted(as_operand(array), shape_of(shape, "broadcast_to"))


def broadcast_arrays(*args: Any) -> list[Array]:
    """All arrays repeated to their common shape. Raises ShapeError if there is none.

    args: arrays or numbers.

    >>> [x.shape for x in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
    [(2, 3), (2, 3)]
    """
    args = operands("broadcast_arrays", *args)
    shape = broadcast_shape("broadcast_arrays", *[type_of(x).shape for x in args])
    return [broadcasted(as_operand(x), shape) for x in args]


def _atleast(ndim: int, name: str, arys: Sequence[Any]) -> Any:
    arys = operands(name, *arys)
    out = []
    for x in arys:
        old = type_of(x).shape
        last = (1,) if ndim == 3 and len(old) in (1, 2) else ()
        new = (1,) * (ndim - len(old) - len(last)) + old + last
        out.append(shapes.reshape(as_operand(x), new))
    return out[0] if len(out) == 1 else out


@overload
def atleast_1d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(*arys: ArrayLike) -> list[Array]: ...
def atleast_1d(*arys: Any) -> Any:
    """Each array with at least one dimension.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_1d(jnp.array(3.0)).shape
    (1,)
    """
    return _atleast(1, "atleast_1d", arys)


@overload
def atleast_2d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(*arys: ArrayLike) -> list[Array]: ...
@repeated
def atleast_2d(*arys: Any) -> Any:
    """Each array with at least two dimensions, put in front.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_2d(jnp.arange(3)).shape
    (1, 3)
    """
    return _atleast(2, "atleast_2d", arys)


@overload
def atleast_3d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(*arys: ArrayLike) -> list[Array]: ...
def atleast_3d(*arys: Any) -> Any:
    """Each array with at least three dimensions, put around the ones it has.

    arys: arrays or numbers; for several of them the result is a list.

    >>> jnp.atleast_3d(jnp.ones((2, 3))).shape
    (2, 3, 1)
    """
    return _atleast(3, "atleast_3d", arys)


@repeated
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """The elements in reverse order along `axis` (None: along all).

    m: an array, or what can be made one.

    >>> jnp.flip(jnp.array([1, 2, 3]))
    Array([3, 2, 1], dtype=int32)
    """
    m = operand("flip", m)
    axes = axes_of(axis, type_of(m).ndim, "flip")
    return rev(m, axes) if axes else as_operand(m)


def _at_least(m: Any, ndim: int, operation: str) -> None:
    m = operand(operation, m)
    if type_of(m).ndim < ndim:
        message = f"{operation} takes an array of {ndim} or more dimensions, not {type_of(m).ndim}"
        raise refusal(ShapeError, message, operation, str(type_of(m)), f"{ndim} or more dimensions")


def fliplr(m: ArrayLike) -> Array:
    """The elements in reverse order along the second dimension.

    m: an array of two dimensions or more.

    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    _at_least(m, 2, "fliplr")
    return rev(m, (1,))


def flipud(m: ArrayLike) -> Array:
    """The elements in reverse order along the first dimension.

    m: an array of one dimension or more.

    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    _at_least(m, 1, "flipud")
    return rev(m, (0,))


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned k times by 90 degrees in a plane, from the first axis towards the second.

    m: an array of two dimensions or more. k: how many times, where negative numbers turn it the
    other way.

    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    _at_least(m, 2, "rot90")
    ndim = type_of(m).ndim
    if len(sequence_of(axes, "rot90", "axes")) != 2:
        raise WeftValueError("rot90 takes two axes", operation="rot90", got=f"axes={axes}")
    one, two = (axis_of(axis, ndim, "rot90") for axis in axes)
    if one == two:
        raise WeftValueError("rot90: the axes are equal", operation="rot90", got=f"axes={axes}")
    turns = integer_of(k, "rot90", "k") % 4
    return _rot90(as_operand(m), turns=turns, one=one, two=two)


@compiled
def _rot90(m: Any, *, turns: int, one: int, two: int) -> Any:
    if turns == 0:
        return m
    if turns == 2:
        return rev(m, (one, two))
    order = list(range(type_of(m).ndim))
    order[one], order[two] = two, one
    if turns == 1:
        return shapes.transpose(rev(m, (two,)), order)
    return rev(shapes.transpose(m, order), (two,))


def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """The elements moved by `shift` along `axis`; those moved past the end enter at the start.

    shift: an integer or a sequence of them, one per axis (or one for all); it may be traced. axis:
    None rolls the elements in row-major order. Raises ShapeError if the numbers do not fit.

    >>> jnp.roll(jnp.array([1, 2, 3]), 1)
    Array([3, 1, 2], dtype=int32)
    """
    a = operand("roll", a)
    of = type_of(a)
    if axis is None:
        flat = roll(reshape(a, (of.size,)), shift, 0) if of.ndim != 1 else None
        return reshape(flat, of.shape) if flat is not None else roll(a, shift, 0)
    axes = [axis_of(x, of.ndim, "roll") for x in one_or_several(axis)]
    shifts = _shifts(shift)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        message = f"roll got {len(shifts)} shifts for {len(axes)} axes"
        got = f"shift={shift!r}, axis={axis!r}"
        raise refusal(ShapeError, message, "roll", got, "one shift per axis")
    n = max(len(shifts), len(axes)) if shifts and axes else 0
    shifts, axes = shifts * (n // max(len(shifts), 1)), axes * (n // max(len(axes), 1))
    if all(isinstance(s, (int, np.integer)) for s in shifts):
        total = dict.fromkeys(axes, 0)
        for s, d in zip(shifts, axes, strict=True):
            total[d] += int(s)
        plan = tuple((d, s % of.shape[d]) for d, s in total.items() if of.shape[d])
        return _roll_static(as_operand(a), plan=tuple((d, s) for d, s in plan if s))
    return _roll_dynamic(as_operand(a), *map(as_operand, shifts), axes=tuple(axes))


def _shifts(shift: Any) -> list[Any]:
    if isinstance(shift, (tuple, list)):
        return list(shift)
    of = type_of(shift)
    if of.ndim == 0:
        return [int(shift) if isinstance(shift, np.ndarray) else shift]
    return list(shift)


@compiled
def _roll_static(a: Any, *, plan: tuple[tuple[int, int], ...]) -> Any:
    for dim, by in plan:
        length = type_of(a).shape[dim]
        end = slicing.slice_in_dim(a, length - by, length, axis=dim)
        a = join([end, slicing.slice_in_dim(a, 0, length - by, axis=dim)], dim)
    return a


@compiled
def _roll_dynamic(a: Any, *shifts: Any, axes: tuple[int, ...]) -> Any:
    for by, dim in zip(shifts, axes, strict=True):
        sizes = type_of(a).shape
        if not sizes[dim]:
            continue
        by = convert_element_type(by, np.dtype(np.int32))
        start = np.int32(sizes[dim])
        begin: list[Any] = [np.int32(0)] * len(sizes)
        begin[dim] = _remainder(neg(by), start)
        a = dynamic_slice(join([a, a], dim), begin, sizes, allow_negative_indices=False)
    return a


def _remainder(x: Any, n: Any) -> Any:
    """x modulo a positive n, between 0 and n - 1."""
    r = rem(x, n)
    return select(lt(r, np.int32(0)), add(r, n), r)


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements in another shape, repeated or cut off as its size asks.

    new_shape: the lengths of the result, an integer or several.

    >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    a = operand("resize", a)
    shape = shape_of(new_shape, "resize")
    size, wanted = type_of(a).size, prod(shape)
    if any(length < 0 for length in shape):
        raise ShapeError("resize: a length is negative", operation="resize", got=f"{shape}")
    if size == 0:
        return broadcasted(type_of(a).dtype.type(0), shape) if wanted else reshape(a, shape)
    return _resize(as_operand(a), shape=shape)


@compiled
def _resize(a: Any, *, shape: tuple[int, ...]) -> Any:
    return shapes.reshape(cycled(shapes.reshape(a, (type_of(a).size,)), prod(shape)), shape)


def cycled(values: Any, size: int) -> Any:
    """The first `size` elements of a vector that begins again at its end.

    The copies are one broadcast: a concatenation would name the vector once for each.
    """
    n = type_of(values).shape[0]
    copies = -(-size // n)
    spread = shapes.broadcast_in_dim(values, (copies, n), (1,))
    return slicing.slice(shapes.reshape(spread, (copies * n,)), (0,), (size,))


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, without that dimension.

    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = operand("unstack", x)
    of = type_of(x)
    if not of.ndim:
        raise ShapeError("unstack takes an array with dimensions", operation="unstack", got=str(of))
    return _unstack(as_operand(x), axis=axis_of(axis, of.ndim, "unstack"))


@compiled
def _unstack(x: Any, *, axis: int) -> tuple[Any, ...]:
    return tuple(
        shapes.squeeze(slicing.slice_in_dim(x, i, i + 1, axis=axis), (axis,))
        for i in range(type_of(x).shape[axis])
    )
