"""Joining, splitting and repeating arrays: concatenate, stack, split, tile, repeat, insert, delete.

Joined arrays are promoted to a common dtype first. How often elements repeat, and where arrays
split, must be known while tracing, since they decide shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.argument_errors import integer_of, invalid_value, refusal, refuse_sharding
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import (
    ConcretizationError,
    Fix,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)
from weft.kinds.checks import (
    along,
    axis_of,
    broadcasted,
    check_arrays,
    check_flag,
    common_shape,
    convert,
    length_of,
    one_or_several,
    operand,
    operands,
    promoted,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import number_for, promote_operands
from weft.kinds.repeated import repeated
from weft.numpy.getitem import getitem
from weft.numpy.manipulation import as_operand, atleast_1d, atleast_2d, atleast_3d, reshape
from weft.numpy.taking import take_axis
from weft.ops.elementwise.arithmetic import add, eq, lt, mul
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing import slicing
from weft.ops.indexing.gather import GatherScatterMode
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter_add
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.reduce import reduce_or
from weft.ops.reductions.sorting import sort
from weft.ops.structural import shape as shapes
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.joining import split as split_at
from weft.typing import ArrayLike

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "delete", "dsplit",
    "dstack", "hsplit", "hstack", "insert", "repeat", "split", "stack", "tile", "vsplit", "vstack",
]  # fmt: skip


def static_array(value: Any, operation: str, argument: str) -> np.ndarray[Any, Any]:
    """The values of an argument that must be known while tracing. Raises ConcretizationError."""
    if isinstance(value, Tracer) and value.concrete() is None:
        message = f"{operation}: {argument} must be known while tracing"
        text = f"compute {argument} outside of the traced function, or with NumPy inside it"
        fix = Fix("static", text, {"argument": argument})
        got = value.describe()
        raise refusal(ConcretizationError, message, operation, got, "static values", fix)
    check_unmasked(value)
    return np.asarray(value.concrete() if isinstance(value, Tracer) else value)


def _sequence(operation: str, arrays: Any, dtype: Any = None) -> list[Any]:
    """The arrays to join: those of a sequence, or the slices of an array along its first axis.

    Raises OverflowError for a Python integer beyond `dtype`, or beyond the common dtype.
    """
    _check_one_list(operation, "dtype", dtype)
    if isinstance(arrays, (list, tuple)):
        values = list(arrays)
    else:
        arrays = operand(operation, arrays)
        if not type_of(arrays).ndim:
            message = f"{operation} takes a sequence of arrays"
            got = str(type_of(arrays))
            raise refusal(WeftTypeError, message, operation, got, "a list or tuple of arrays")
        values = [getitem(as_operand(arrays), i) for i in range(type_of(arrays).shape[0])]
    if not values:
        message = f"{operation} takes at least one array"
        raise refusal(WeftValueError, message, operation, "no arrays")
    if dtype is None:
        return list(promote_operands(operation, *values))
    target = dtypes.requested(dtype)
    check_arrays(operation, *values)
    return [
        convert_element_type(x, target)
        if isinstance(x, (np.ndarray, np.generic))
        else number_for(operation, x, target)
        for x in values
    ]


def _check_one_list(operation: str, argument: str, value: Any) -> None:
    """Raises ShapeError if another argument is an array or a list of them: the arrays were
    not passed as one list."""
    if isinstance(value, type):  # such as np.float32, a class of which the values have a shape
        return
    several = isinstance(value, (list, tuple)) and any(hasattr(x, "shape") for x in value)
    if several or getattr(value, "shape", ()) != ():
        message = f"{operation} takes the arrays as one list"
        got = f"an array for {argument}"
        fix = Fix("list", f"put them in a list: {operation}([x, y])", {})
        raise refusal(ShapeError, message, operation, got, f"{operation}([x, y])", fix)


def _of_one_dtype(operation: str, arrays: Any, dtype: Any) -> list[Any]:
    if dtype is None:
        return promoted(operation, *arrays)
    return [convert(x, dtype) for x in arrays]


@compiled
def _join(*arrays: Any, axis: int, dtype: Any) -> Any:
    return join(_of_one_dtype("concatenate", arrays, dtype), axis)


@compiled
def _stack(*arrays: Any, axis: int, dtype: Any) -> Any:
    values = _of_one_dtype("stack", arrays, dtype)
    return join([shapes.expand_dims(x, (axis,)) for x in values], axis)


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """The arrays joined along a dimension they have (None: each flattened first).

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    The result has their common dtype, or `dtype`. Raises ShapeError if the other
    lengths differ, ValueError for arrays without dimensions.

    >>> jnp.concatenate([jnp.arange(2), jnp.arange(3.0)])
    Array([0., 1., 0., 1., 2.], dtype=float32)
    """
    _check_one_list("concatenate", "axis", axis)
    values = _sequence("concatenate", arrays, dtype)
    if axis is None:
        values, axis = [reshape(x, (type_of(x).size,)) for x in values], 0
    ndim = type_of(values[0]).ndim
    if not ndim:
        message = "concatenate: arrays without dimensions cannot be joined"
        wanted = "arrays of one or more dimensions"
        fix = Fix("stack", "use weft.numpy.stack, or pass arrays with dimensions", {})
        raise refusal(WeftValueError, message, "concatenate", str(type_of(values[0])), wanted, fix)
    place = axis_of(axis, ndim, "concatenate")
    target = None if dtype is None else dtypes.requested(dtype)
    return _join(*values, axis=place, dtype=target)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """The arrays joined along a dimension they have: the Array API's name of `concatenate`.

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> concat([np.array([1, 2]), np.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """The arrays, all of one shape, joined along a new dimension at position `axis`.

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    Raises ShapeError if the shapes differ.

    >>> jnp.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    _check_one_list("stack", "axis", axis)
    refuse_out("stack", out)
    values = _sequence("stack", arrays, dtype)
    first = type_of(values[0])
    for x in values:
        if type_of(x).shape != first.shape:
            message = "stack takes arrays of one shape"
            got = ", ".join(str(type_of(v)) for v in values)
            fix = _to_one_shape([type_of(v).shape for v in values])
            raise refusal(ShapeError, message, "stack", got, "equal shapes", fix)
    target = None if dtype is None else dtypes.requested(dtype)
    return _stack(*values, axis=axis_of(axis, first.ndim + 1, "stack"), dtype=target)


def _to_one_shape(shapes: Sequence[tuple[int, ...]]) -> Fix:
    """The fix for arrays that are to be stacked and differ in shape."""
    if common_shape(*shapes) in shapes:
        text = "broadcast them first: weft.numpy.stack(weft.numpy.broadcast_arrays(...))"
        return Fix("broadcast", text, {})
    if {len(shape) for shape in shapes} == {1}:
        text = "join them end to end with weft.numpy.concatenate, or pad them to one length first"
        return Fix("concatenate", text, {})
    return Fix("reshape", "bring them to one shape first: x.reshape(...), or weft.numpy.pad", {})


def vstack(tup: Any, dtype: Any = None) -> Array:
    """The arrays joined along the first of at least two dimensions.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate(list(map(atleast_2d, _sequence("vstack", tup, dtype))), 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """The arrays joined along the second dimension; those of one dimension along that.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    values = list(map(atleast_1d, _sequence("hstack", tup, dtype)))
    return concatenate(values, 0 if type_of(values[0]).ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """The arrays joined along the third of at least three dimensions.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[[1, 3],
            [2, 4]]], dtype=int32)
    """
    return concatenate(list(map(atleast_3d, _sequence("dstack", tup, dtype))), 2, dtype)


def column_stack(tup: Any) -> Array:
    """Arrays of one dimension as the columns of a matrix; matrices joined side by side.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    values = [
        reshape(x, (type_of(x).size, 1)) if type_of(x).ndim < 2 else x
        for x in _sequence("column_stack", tup)
    ]
    return concatenate(values, 1)


@repeated
def append(arr: ArrayLike, values: Any, axis: int | None = None) -> Array:
    """`values` joined to the end of `arr` along `axis` (None: both flattened first).

    >>> jnp.append(jnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    arr, values = promote_operands("append", arr, values)
    if axis is None:
        return concatenate([reshape(x, (type_of(x).size,)) for x in (arr, values)])
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """An array put together from nested lists of blocks; the innermost lists are rows.

    arrays: an array, or a list of arrays or of such lists.

    Raises ValueError if the lists are not nested equally deep.

    >>> jnp.block([[jnp.eye(2), jnp.zeros((2, 1))]])
    Array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    if isinstance(arrays, tuple):
        raise refusal(WeftTypeError, "block takes nested lists, not tuples", "block", "a tuple")
    depth = _depth(arrays)
    leaves = _leaves(arrays)
    check_arrays("block", *leaves)
    met = promote_operands("block", *leaves)
    rank = max([depth, *(type_of(x).ndim for x in met)])
    return _blocks(arrays, depth, rank, iter(met))


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(x) for x in arrays}
    if len(depths) != 1:
        message = "block: the lists are not nested equally deep, or one is empty"
        got = f"depths {sorted(depths)}"
        raise refusal(WeftValueError, message, "block", got, "lists nested equally deep")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> list[Any]:
    return [y for x in arrays for y in _leaves(x)] if isinstance(arrays, list) else [arrays]


def _blocks(arrays: Any, depth: int, rank: int, leaves: Iterator[Any]) -> Any:
    """The block of lists nested like `arrays`, whose leaves are taken in order from `leaves`."""
    if not isinstance(arrays, list):
        leaf = next(leaves)
        shape = type_of(leaf).shape
        return shapes.reshape(leaf, (1,) * (rank - len(shape)) + shape)
    inner = [_blocks(x, depth - 1, rank, leaves) for x in arrays]
    return concatenate(inner, axis=-depth)


@compiled
def _split(x: Any, *, bounds: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    length = type_of(x).shape[axis]
    places = (0, *bounds, length)
    sizes = [high - low for low, high in itertools.pairwise(places)]
    if min(sizes) >= 0 and min(places) == 0:
        # One operation, whose transpose joins the parts: those of slices are each padded and added.
        return tuple(split_at(x, sizes, axis))
    out = []
    for low, high in itertools.pairwise(places):
        low = slice(low, None).indices(length)[0]
        high = max(low, slice(None, high).indices(length)[1])
        out.append(slicing.slice_in_dim(x, low, high, axis=axis))
    return tuple(out)


def _parts(operation: str, ary: Any, sections: Any, axis: Any, equal: bool) -> list[Array]:
    ary = operand(operation, ary)
    place = axis_of(axis, type_of(ary).ndim, operation)
    bounds = _bounds(operation, type_of(ary), sections, place, equal)
    return list(_split(as_operand(ary), bounds=bounds, axis=place))


def _bounds(operation: str, of: ArrayType, sections: Any, place: int, equal: bool) -> Any:
    """The positions before which an axis is cut."""
    length = of.shape[place]
    if isinstance(sections, (tuple, list)) or getattr(sections, "ndim", 0) > 0:
        values = [static_array(s, operation, "indices_or_sections") for s in sections]
        return tuple(integer_of(v[()], operation, "each place") for v in values)
    count = integer_of(sections, operation, "indices_or_sections")
    if count < 1:
        message = f"{operation}: the number of parts is {count}"
        raise invalid_value(message, operation, "indices_or_sections", count, "a positive number")
    if equal and length % count:
        message = f"{operation}: {count} equal parts do not fit a dimension of length {length}"
        got = f"{of}, axis {place}, {count} parts"
        wanted = f"a number that divides {length}"
        fix = Fix("array_split", "use array_split, whose parts may differ by one", {})
        raise refusal(WeftValueError, message, operation, got, wanted, fix)
    each, more = divmod(length, count)
    sizes = [each + 1] * more + [each] * (count - more)
    return tuple(int(b) for b in np.cumsum(sizes)[:-1])


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The parts of an array along a dimension: so many equal ones, or cut before given indices.

    indices_or_sections: the number of parts, or a list of the indices before which the array is
    cut.

    Raises ValueError if equal parts do not fit.

    >>> jnp.split(jnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _parts("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The parts of an array along a dimension; the first parts are longer by one if need be.

    indices_or_sections: the number of parts, or a list of the indices before which the array is
    cut.

    >>> [len(part) for part in jnp.array_split(jnp.arange(5), 2)]
    [3, 2]
    """
    return _parts("array_split", ary, indices_or_sections, axis, False)


def _split_along(operation: str, ary: Any, sections: Any, axis: int, least: int) -> list[Array]:
    """The parts along an axis, or the last one before it, of an array of `least` dimensions."""
    ary = operand(operation, ary)
    of = type_of(ary)
    if of.ndim < least:
        message = f"{operation} takes an array of {least} or more dimensions"
        text = "split along another dimension: weft.numpy.split(x, n, axis)"
        fix = Fix("split", text) if of.ndim else None
        raise refusal(ShapeError, message, operation, str(of), f"{least} dimensions or more", fix)
    return _parts(operation, ary, sections, min(axis, of.ndim - 1), True)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the first of at least two dimensions.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.vsplit(jnp.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    least = 1 if config.settings().argument_rule == "jax" else 2
    return _split_along("vsplit", ary, indices_or_sections, 0, least)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the second dimension, or the first of an array that has no other.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.hsplit(jnp.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split_along("hsplit", ary, indices_or_sections, 1, 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the third of at least three dimensions.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.dsplit(jnp.ones((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split_along("dsplit", ary, indices_or_sections, 2, 3)


def tile(A: Any, reps: Any) -> Array:
    """The array as a whole repeated, `reps` times along each dimension (counted from the last).

    A: an array, or what can be made one.

    >>> jnp.tile(jnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    A = operand("tile", A)
    counts = tuple(integer_of(n, "tile", "reps") for n in one_or_several(reps))
    if any(n < 0 for n in counts):
        message = "tile: a number of repetitions is negative"
        raise refusal(WeftValueError, message, "tile", f"{reps}")
    return _tile(as_operand(A), counts=counts)


@compiled
def _tile(x: Any, *, counts: tuple[int, ...]) -> Any:
    shape = type_of(x).shape
    rank = max(len(shape), len(counts))
    shape = (1,) * (rank - len(shape)) + shape
    counts = (1,) * (rank - len(counts)) + counts
    pairs = tuple(size for pair in zip(counts, shape, strict=True) for size in pair)
    spread = shapes.broadcast_in_dim(shapes.reshape(x, shape), pairs, tuple(range(1, 2 * rank, 2)))
    return shapes.reshape(spread, tuple(n * s for n, s in zip(counts, shape, strict=True)))


def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Each element repeated along `axis` (None: of the flattened array).

    repeats: a number for all elements or one for each; it may be traced if total_repeat_length is
    given. total_repeat_length: the length of the result, which is cut off there or filled up with
    the last element.

    >>> jnp.repeat(jnp.array([1, 2]), jnp.array([2, 1]))
    Array([1, 1, 2], dtype=int32)
    """
    refuse_sharding("repeat", out_sharding)
    a, place = along("repeat", a, axis)
    of = type_of(a)
    length = of.shape[place]
    if isinstance(repeats, (list, tuple)):
        repeats = np.asarray(repeats)
    repeats = operand("repeat", repeats)
    if total_repeat_length is not None:
        total = length_of(total_repeat_length, "repeat", "total_repeat_length")
        computed = type_of(repeats).ndim or isinstance(repeats, Tracer)
        if computed or total != length * static_array(repeats, "repeat", "repeats"):
            return _repeat_traced(as_operand(a), repeats, axis=place, total=total)
    counts = static_array(repeats, "repeat", "repeats (without total_repeat_length)")
    if counts.ndim > 1 or counts.size not in (1, length) or (counts.size and counts.min() < 0):
        raise WeftValueError(
            f"repeat: repeats of shape {counts.shape} does not fit a dimension of length {length}",
            operation="repeat",
            got=f"repeats of shape {counts.shape}, {of}, axis {place}",
            wanted=f"a number that is not negative, or {length} of them",
        )
    if counts.size == 1:
        out = _repeat_each(as_operand(a), count=int(counts.reshape(())), axis=place)
    else:
        index = np.repeat(np.arange(length, dtype=np.int32), counts)
        out = _take_places(as_operand(a), index, axis=place)
    if total_repeat_length is None:
        return out
    total, size = int(total_repeat_length), type_of(out).shape[place]
    if total <= size:
        return slicing.slice_in_dim(out, 0, total, axis=place)
    last = slicing.slice_in_dim(out, size - 1, size, axis=place)
    return concatenate([out, _repeat_each(last, count=total - size, axis=place)], place)


@compiled
def _repeat_each(x: Any, *, count: int, axis: int) -> Any:
    shape = type_of(x).shape
    out = shapes.move_dim(x, None, axis + 1, count)
    return shapes.reshape(out, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


# A few slices are joined faster than their elements are gathered.
_MOST_SLICES = 16


@compiled
def _take_places(x: Any, index: Any, *, axis: int) -> Any:
    """The elements of one axis at positions that are within bounds."""
    return take_axis(x, index, axis, "clip")


@compiled
def _repeat_traced(x: Any, repeats: Any, *, axis: int, total: int) -> Any:
    """Marks where each new element begins in the result; the running count numbers the elements."""
    length = type_of(x).shape[axis]
    int32 = np.dtype(np.int32)
    if not length or not total:
        return _take_places.function(x, broadcasted(np.int32(0), (total,)), axis=axis)
    counts = broadcasted(convert(repeats, int32), (length,), "repeat")
    ends = cumsum(counts, 0)
    begins = shapes.reshape(slicing.slice(ends, (0,), (length - 1,)), (length - 1, 1))
    marks = scatter_add(
        broadcasted(np.int32(0), (total,)),
        begins,
        broadcasted(np.int32(1), (length - 1,)),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode=GatherScatterMode.FILL_OR_DROP,
    )
    return _take_places.function(x, cumsum(marks, 0), axis=axis)


def _traced_integers(obj: Any) -> bool:
    """Whether these are integers of which only the type is known."""
    known = not isinstance(obj, Tracer) or obj.concrete() is not None
    return not known and type_of(obj).dtype in dtypes.INTEGER


@compiled
def _order(places: Any, *, length: int, count: int) -> Any:
    """The order of `length` elements and, behind them, of values that go in before `places`."""
    places = broadcasted(_wrapped(places, length), (count,))
    # Element i has the key 2 i + 1, between those of values that go in before and behind it.
    keys = join([np.arange(1, 2 * length, 2, dtype=np.int32), mul(places, np.int32(2))], 0)
    return sort((keys, np.arange(length + count, dtype=np.int32)), 0, num_keys=1)[1]


def _wrapped(places: Any, length: int) -> Any:
    places = convert(places, np.dtype(np.int32))
    of = type_of(places)
    negative = lt(places, broadcasted(np.int32(0), of.shape))
    return select(negative, add(places, np.int32(length)), places)


@compiled
def _others(places: Any, *, length: int) -> Any:
    """All positions but some, which differ."""
    places = shapes.reshape(_wrapped(places, length), (type_of(places).size, 1))
    shape = (type_of(places).shape[0], length)
    numbers = broadcasted(np.arange(length, dtype=np.int32), shape)
    gone = reduce_or(eq(numbers, broadcasted(places, shape)), (0,))
    found = sort((gone, np.arange(length, dtype=np.int32)), 0, num_keys=1)[1]
    return slicing.slice_in_dim(found, 0, length - shape[0])


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """The array without the slices at indices `obj` along `axis` (None: of the flattened array).

    obj: an integer, a slice, or an array of integers or booleans. An array is known while tracing,
    unless its integers differ, which `assume_unique_indices` promises. Raises IndexError for an
    index known to be out of bounds.

    >>> jnp.delete(jnp.array([4, 5, 6]), 1)
    Array([4, 6], dtype=int32)
    """
    arr, place = along("delete", arr, axis)
    check_flag(assume_unique_indices, "delete", "assume_unique_indices")
    of = type_of(arr)
    length = of.shape[place]
    if _traced_integers(obj) and (assume_unique_indices or not type_of(obj).ndim):
        return _take_places(as_operand(arr), _others(obj, length=length), axis=place)
    if not isinstance(obj, slice):
        listed = isinstance(obj, (list, tuple))
        obj = static_array(obj, "delete", "obj")
        if listed and not obj.size:  # NumPy takes an empty list for one of real numbers
            obj = obj.astype(np.int32)
    try:
        kept = np.delete(np.arange(length, dtype=np.int32), obj)
    except IndexError as error:
        got = f"obj={obj!r:.80} for {of}, axis {place}"
        wanted = f"positions between {-length} and {length - 1}"
        raise refusal(WeftIndexError, f"delete: {error}", "delete", got, wanted) from None
    return _take_known(as_operand(arr), kept, place)


def _take_known(x: Any, index: Any, axis: int) -> Any:
    """The elements of one axis at known positions: as slices, where few make them up and other
    positions would be another program anyway."""
    starts = [0, *(np.nonzero(np.diff(index) != 1)[0] + 1).tolist()]
    if not isinstance(x, Tracer) or not index.size or len(starts) > _MOST_SLICES:
        return _take_places(x, index, axis=axis)
    stops = [*starts[1:], index.size]
    bounds = tuple(
        (int(index[start]), int(index[stop - 1]) + 1)
        for start, stop in zip(starts, stops, strict=True)
    )
    return _slices(x, bounds=bounds, axis=axis)


@compiled
def _slices(x: Any, *, bounds: tuple[tuple[int, int], ...], axis: int) -> Any:
    return join([slicing.slice_in_dim(x, low, high, axis=axis) for low, high in bounds], axis)


def insert(arr: ArrayLike, obj: Any, values: Any, axis: int | None = None) -> Array:
    """The array with values put in before indices `obj` along `axis` (None: flattened first).

    obj: an integer, a slice or an array of integers, that count in the original array. `values`
    broadcasts to the shape of the inserted part. Raises IndexError for a place known to be out of
    bounds.

    >>> jnp.insert(jnp.array([1, 3]), 1, 2)
    Array([1, 2, 3], dtype=int32)
    """
    arr, _ = operands("insert", arr, values)
    values = number_for("insert", values, type_of(arr).dtype)
    arr, place = along("insert", arr, axis)
    of = type_of(arr)
    length = of.shape[place]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(length))
    traced = _traced_integers(obj)
    places = obj if traced else static_array(obj, "insert", "obj")
    if places.dtype == np.bool_:
        places = np.nonzero(places)[0]
    if not traced and places.size and (places.min() < -length or places.max() > length):
        message = f"insert: a place is out of bounds for axis {place} of length {length}"
        wanted = f"places between {-length} and {length}"
        raise refusal(WeftIndexError, message, "insert", f"obj={obj!r:.80} for {of}", wanted)
    values_of = type_of(values)
    single = places.ndim == 0
    count = places.size
    if single and values_of.ndim:
        # One index for many values: as in NumPy, the values' first dimension goes along axis.
        padded = (1,) * (of.ndim - values_of.ndim) + values_of.shape
        values = shapes.reshape(as_operand(values), padded)
        count = padded[0]
        values = shapes.move_dim(values, 0, place, count)
    target = (*of.shape[:place], count, *of.shape[place + 1 :])
    values = broadcasted(convert(values, of.dtype), target, "insert")
    whole = concatenate([arr, values], place)
    if traced:
        return _take_places(whole, _order(places, length=length, count=count), axis=place)
    places = np.broadcast_to(np.where(places < 0, places + length, places), (count,))
    keys = np.concatenate([np.arange(1, 2 * length, 2), 2 * places.astype(np.int64)])
    return _take_known(whole, np.argsort(keys, kind="stable").astype(np.int32), place)
