"""Joining, splitting and repeating arrays: concatenate, stack, split, tile, repeat, insert, delete.

Joined arrays are promoted to a common dtype first. How often elements repeat, and where arrays
split, must be known while tracing, since they decide shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import check_unmasked, type_of
from weft.errors import (
    ConcretizationError,
    Fix,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import integer_of, refusal
from weft.kinds.arguments import (
    NEVER,
    Axis,
    Flag,
    Length,
    NoSharding,
    OneAxis,
    Operand,
    Out,
    Passed,
    Promoted,
    Stored,
    take_dtype,
)
from weft.kinds.array_function import array_function, constant, python_function
from weft.kinds.checks import (
    axis_of,
    broadcasted,
    check_arrays,
    common_shape,
    convert,
    one_or_several,
    operand,
    promote_values,
)
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for, promote_operands
from weft.numpy.getitem import getitem
from weft.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d
from weft.numpy.taking import take_axis
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

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "delete", "dsplit",
    "dstack", "hsplit", "hstack", "insert", "repeat", "split", "stack", "tile", "vsplit", "vstack",
]  # fmt: skip

INT32 = np.dtype(np.int32)


def static_array(value: Any, argument: str) -> np.ndarray[Any, Any]:
    """The values of an argument that must be known while tracing. Raises ConcretizationError."""
    if isinstance(value, Tracer) and value.concrete() is None:
        message, got = f"{argument} must be known while tracing", value.describe()
        text = f"compute {argument} outside of the traced function, or with NumPy inside it"
        fix = Fix("static", text, {"argument": argument})
        raise ConcretizationError(message, got=got, wanted="static values", fix=fix)
    check_unmasked(value)
    return np.asarray(value.concrete() if isinstance(value, Tracer) else value)


def _arrays(value: Any, call: Arguments) -> tuple[Any, ...]:
    """The arrays to join: those of a sequence, or the slices of an array along its first axis.

    Raises OverflowError for a Python integer beyond the given dtype, or beyond the common one.
    """
    operation, dtype = call.operation, call.get("dtype")
    if isinstance(value, (list, tuple)):
        values = [*value]
    else:
        array = operand(operation, value)
        array = array if isinstance(array, (Array, Tracer)) else constant(array)
        if not type_of(array).ndim:
            message = "takes a sequence of arrays"
            got = str(type_of(array))
            raise WeftTypeError(message, got=got, wanted="a list or tuple of arrays")
        values = [getitem(array, i) for i in range(type_of(array).shape[0])]
    if not values:
        message = "takes at least one array"
        raise WeftValueError(message, got="no arrays")
    if dtype is None:
        return promote_operands(operation, *values)
    check_arrays(*values)
    # At once, not by way of the default width.
    return tuple(
        convert_element_type(x, dtype)
        if isinstance(x, (np.ndarray, np.generic))
        else number_for(x, dtype)
        for x in values
    )


def _check_one_list(value: Any, call: Arguments) -> None:
    """Raises ShapeError if another argument is an array or a list of arrays: they were not passed
    as one list."""
    if isinstance(value, type):  # such as np.float32, a class of which the values have a shape
        return
    several = isinstance(value, (list, tuple)) and any(hasattr(x, "shape") for x in value)
    if several or getattr(value, "shape", ()) != ():
        name, got = call.operation, f"an array for {call.name}"
        fix = Fix("list", f"put them in a list: {name}([x, y])", {})
        message = "takes the arrays as one list"
        raise ShapeError(message, got=got, wanted=f"{name}([x, y])", fix=fix)


def _joined_dtype(value: Any, call: Arguments) -> Any:
    _check_one_list(value, call)
    return take_dtype(value, call)


def _joined_axis(value: Any, call: Arguments) -> int:
    _check_one_list(value, call)
    if not call.type.ndim:
        wanted = "arrays of one or more dimensions"
        fix = Fix("stack", "use weft.numpy.stack, or pass arrays with dimensions", {})
        message = "arrays without dimensions cannot be joined"
        raise WeftValueError(message, got=str(call.type), wanted=wanted, fix=fix)
    return axis_of(value, call.type.ndim)


def _new_axis(value: Any, call: Arguments) -> int:
    _check_one_list(value, call)
    return axis_of(value, call.type.ndim + 1)


_arrays_kind = Kind(
    _arrays,
    "a sequence of arrays, or an array whose first dimension counts them",
    (1, "text"),
    [np.ones((2, 3), np.float32)] * 2,
    static=False,
    plain=NEVER,
    late=True,
)
_axis_kind = Kind(_joined_axis, "an axis, or None for the flattened arrays", (99, 0.5), late=True)
_new_axis_kind = Kind(_new_axis, "an axis of the result", (99, 0.5), 0, plain=NEVER, late=True)
Arrays = Annotated[Any, _arrays_kind]
JoinedAxis = Annotated[Any, _axis_kind]
NewAxis = Annotated[int, _new_axis_kind]
JoinedDType = Annotated[Any, Kind(_joined_dtype, "a dtype, or None for the common one", ("text",))]


def _join_arrays(arrays: Sequence[Any], axis: int, dtype: Any = None) -> Any:
    """Joins arrays along an existing dimension, in a dtype or in their common one."""
    if dtype is None:
        return join(promote_values("concatenate", *arrays), axis)
    return join([convert(x, dtype) for x in arrays], axis)


@array_function
def concatenate(arrays: Arrays, axis: JoinedAxis = 0, dtype: JoinedDType = None) -> Array:
    """The arrays joined along a dimension they have (None: each flattened first).

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    The result has their common dtype, or `dtype`. Raises ShapeError if the other
    lengths differ, ValueError for arrays without dimensions.

    >>> jnp.concatenate([jnp.arange(2), jnp.arange(3.0)])
    Array([0., 1., 0., 1., 2.], dtype=float32)
    """
    if axis is None:
        return _join_arrays([x.ravel() for x in arrays], 0, dtype)
    return _join_arrays(arrays, axis, dtype)


@array_function
def concat(arrays: Arrays, /, *, axis: JoinedAxis = 0) -> Array:
    """The arrays joined along a dimension they have: the Array API's name of `concatenate`.

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> concat([np.array([1, 2]), np.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


@array_function
def stack(arrays: Arrays, axis: NewAxis = 0, out: Out = None, dtype: JoinedDType = None) -> Array:
    """The arrays, all of one shape, joined along a new dimension at position `axis`.

    arrays: a list or tuple of arrays, or an array whose first dimension counts them.

    Raises ShapeError if the shapes differ.

    >>> jnp.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if len({x.shape for x in arrays}) > 1:
        got = ", ".join(str(x.type) for x in arrays)
        fix = _to_one_shape([x.shape for x in arrays])
        raise ShapeError("the arrays differ in shape", got=got, wanted="equal shapes", fix=fix)
    return _join_arrays([shapes.expand_dims(x, (axis,)) for x in arrays], axis, dtype)


def _to_one_shape(shapes: Sequence[tuple[int, ...]]) -> Fix:
    """The fix for `stack` of arrays that differ in shape."""
    if common_shape(*shapes) in shapes:
        text = "broadcast them first: weft.numpy.stack(weft.numpy.broadcast_arrays(...))"
        return Fix("broadcast", text, {})
    if {len(shape) for shape in shapes} == {1}:
        text = "join them end to end with weft.numpy.concatenate, or pad them to one length first"
        return Fix("concatenate", text, {})
    return Fix("reshape", "bring them to one shape first: x.reshape(...), or weft.numpy.pad", {})


@array_function
def vstack(tup: Arrays, dtype: JoinedDType = None) -> Array:
    """The arrays joined along the first of at least two dimensions.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return _join_arrays([*map(atleast_2d, tup)], 0, dtype)


@array_function
def hstack(tup: Arrays, dtype: JoinedDType = None) -> Array:
    """The arrays joined along the second dimension; those of one dimension along that.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    values = [*map(atleast_1d, tup)]
    return _join_arrays(values, 0 if values[0].ndim == 1 else 1, dtype)


@array_function
def dstack(tup: Arrays, dtype: JoinedDType = None) -> Array:
    """The arrays joined along the third of at least three dimensions.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[[1, 3],
            [2, 4]]], dtype=int32)
    """
    return _join_arrays([*map(atleast_3d, tup)], 2, dtype)


@array_function
def column_stack(tup: Arrays) -> Array:
    """Arrays of one dimension as the columns of a matrix; matrices joined side by side.

    tup: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return _join_arrays([x.reshape(x.size, 1) if x.ndim < 2 else x for x in tup], 1)


@array_function
def append(arr: Promoted, values: Promoted, axis: Axis = None) -> Array:
    """`values` joined to the end of `arr` along `axis` (None: both flattened first).

    >>> jnp.append(jnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    return join([arr.ravel(), values.ravel()] if axis is None else [arr, values], axis or 0)


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
    check_arrays(*leaves, operation="block")
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
    """Joins blocks nested like `arrays`, whose leaves come in order from `leaves`."""
    if not isinstance(arrays, list):
        leaf = next(leaves)
        shape = type_of(leaf).shape
        return shapes.reshape(leaf, (1,) * (rank - len(shape)) + shape)
    inner = [_blocks(x, depth - 1, rank, leaves) for x in arrays]
    return concatenate(inner, axis=-depth)


def _sections(value: Any, call: Arguments) -> int | tuple[int, ...]:
    if isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) > 0:
        values = [static_array(s, call.name) for s in value]
        return tuple(integer_of(v[()], "each place") for v in values)
    count = integer_of(value, call.name)
    if count < 1:
        message = f"the number of parts is {count}"
        raise WeftValueError(message, got=f"{call.name}={count!r:.80}", wanted="a positive number")
    return count


_SECTIONS = "the number of parts, or the indices before which the array is cut"
Sections = Annotated[Any, Kind(_sections, _SECTIONS, ("text", 0, 0.5), 1, plain=NEVER)]


def _split(x: Any, sections: int | tuple[int, ...], axis: int, equal: bool = True) -> list[Any]:
    """Splits an array along an axis: into so many parts, or before given positions."""
    length = x.shape[axis]
    if isinstance(sections, int):
        each, more = divmod(length, sections)
        if equal and more:
            message = f"{sections} equal parts do not fit a dimension of length {length}"
            got, wanted = f"{x.type}, axis {axis}", f"a number that divides {length}"
            fix = Fix("array_split", "use array_split, whose parts may differ by one", {})
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        sections = tuple(each * i + min(i, more) for i in range(1, sections))
    places = (0, *sections, length)
    sizes = [high - low for low, high in pairwise(places)]
    if min(sizes) >= 0 and min(places) == 0:
        # One operation, whose transpose joins the parts: those of slices are each padded and added.
        return [*split_at(x, sizes, axis)]
    out = []
    for low, high in pairwise(places):
        low = slice(low, None).indices(length)[0]
        high = max(low, slice(None, high).indices(length)[1])
        out.append(slicing.slice_in_dim(x, low, high, axis=axis))
    return out


def _split_along(x: Any, sections: int | tuple[int, ...], axis: int, least: int) -> list[Any]:
    """Splits along an axis, or the last one before it; the array has `least` dimensions."""
    if x.ndim < least:
        wanted = f"{least} or more"
        text = "split along another dimension: weft.numpy.split(x, n, axis)"
        fix = Fix("split", text) if x.ndim else None
        message = f"the array has fewer than {least} dimensions"
        raise ShapeError(message, got=str(x.type), wanted=wanted, fix=fix)
    return _split(x, sections, min(axis, x.ndim - 1))


@array_function
def split(ary: Operand, indices_or_sections: Sections, axis: OneAxis = 0) -> list[Array]:
    """The parts of an array along a dimension: so many equal ones, or cut before given indices.

    indices_or_sections: the number of parts, or a list of the indices before which the array is
    cut.

    Raises ValueError if equal parts do not fit.

    >>> jnp.split(jnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split(ary, indices_or_sections, axis)


@array_function
def array_split(ary: Operand, indices_or_sections: Sections, axis: OneAxis = 0) -> list[Array]:
    """The parts of an array along a dimension; the first parts are longer by one if need be.

    indices_or_sections: the number of parts, or a list of the indices before which the array is
    cut.

    >>> [len(part) for part in jnp.array_split(jnp.arange(5), 2)]
    [3, 2]
    """
    return _split(ary, indices_or_sections, axis, equal=False)


@array_function
def vsplit(ary: Operand, indices_or_sections: Sections) -> list[Array]:
    """`split` along the first of at least two dimensions.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.vsplit(jnp.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    least = 1 if config.settings().argument_rule == "jax" else 2
    return _split_along(ary, indices_or_sections, 0, least)


@array_function
def hsplit(ary: Operand, indices_or_sections: Sections) -> list[Array]:
    """`split` along the second dimension, or the first of an array that has no other.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.hsplit(jnp.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split_along(ary, indices_or_sections, 1, 1)


@array_function
def dsplit(ary: Operand, indices_or_sections: Sections) -> list[Array]:
    """`split` along the third of at least three dimensions.

    indices_or_sections: as in `split`.

    >>> [part.shape for part in jnp.dsplit(jnp.ones((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split_along(ary, indices_or_sections, 2, 3)


def _repetitions(value: Any, call: Arguments) -> tuple[int, ...]:
    counts = tuple(integer_of(n, call.name) for n in one_or_several(value))
    if any(n < 0 for n in counts):
        message = "a number of repetitions is negative"
        raise WeftValueError(message, got=f"{value}")
    return counts


def take_listed(value: Any, call: Arguments) -> Any:
    """An operand that may be a list of numbers."""
    listed = isinstance(value, (list, tuple))
    return operand(call.operation, np.asarray(value) if listed else value, call.name)


_COUNTS = "an integer of 0 or more, or one for each element"
# Not an operand: if its values are known, they decide the shape.
Counts = Annotated[Any, Kind(take_listed, _COUNTS, ("text",), 2, plain=NEVER)]
_REPETITIONS = "an integer of 0 or more, or several"
Repetitions = Annotated[Any, Kind(_repetitions, _REPETITIONS, ("text", 0.5, -1), 2, plain=NEVER)]


@array_function
def tile(A: Operand, reps: Repetitions) -> Array:
    """The array as a whole repeated, `reps` times along each dimension (counted from the last).

    A: an array, or what can be made one.

    >>> jnp.tile(jnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    rank = max(A.ndim, len(reps))
    shape = (1,) * (rank - A.ndim) + A.shape
    reps = (1,) * (rank - len(reps)) + reps
    pairs = tuple(size for pair in zip(reps, shape, strict=True) for size in pair)
    spread = shapes.broadcast_in_dim(shapes.reshape(A, shape), pairs, tuple(range(1, 2 * rank, 2)))
    return shapes.reshape(spread, tuple(n * s for n, s in zip(reps, shape, strict=True)))


@python_function
def repeat(
    a: Operand,
    repeats: Counts,
    axis: Axis = None,
    *,
    total_repeat_length: Length | None = None,
    out_sharding: NoSharding = None,
) -> Array:
    """Each element repeated along `axis` (None: of the flattened array).

    repeats: a number for all elements or one for each; it may be traced if total_repeat_length is
    given. total_repeat_length: the length of the result, which is cut off there or filled up with
    the last element.

    >>> jnp.repeat(jnp.array([1, 2]), jnp.array([2, 1]))
    Array([1, 1, 2], dtype=int32)
    """
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    length, total = a.shape[axis], total_repeat_length
    if total is not None:
        computed = type_of(repeats).ndim or isinstance(repeats, Tracer)
        if computed or total != length * static_array(repeats, "repeats"):
            return _repeat_traced(a, repeats, axis, total)
    counts = static_array(repeats, "repeats (without total_repeat_length)")
    if counts.ndim > 1 or counts.size not in (1, length) or (counts.size and counts.min() < 0):
        message = f"repeats of shape {counts.shape} does not fit a dimension of length {length}"
        got = f"repeats of shape {counts.shape}, {a.type}, axis {axis}"
        wanted = f"a number that is not negative, or {length} of them"
        raise WeftValueError(message, got=got, wanted=wanted)
    if counts.size == 1:
        return _repeat_each(a, int(counts.reshape(())), axis)
    return _take_places(a, np.repeat(np.arange(length, dtype=np.int32), counts), axis)


@array_function
def _repeat_each(x: Operand, count: Length, axis: OneAxis) -> Any:
    out = shapes.move_dim(x, None, axis + 1, count)
    return shapes.reshape(out, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


# A few slices are joined faster than their elements are gathered.
_MOST_SLICES = 16


@array_function
def _take_places(x: Operand, index: Operand, axis: OneAxis) -> Any:
    """The elements of one axis at positions within bounds."""
    return take_axis(x, index, axis, "clip")


@array_function
def _repeat_traced(x: Operand, repeats: Operand, axis: OneAxis, total: Length) -> Any:
    """Marks the first copy of each element; a running count numbers the elements."""
    length, zeros = x.shape[axis], broadcasted(np.int32(0), (total,))
    if not length or not total:
        return take_axis(x, zeros, axis, "clip")
    ends = cumsum(broadcasted(convert(repeats, INT32), (length,), "repeat"), 0)
    begins = shapes.reshape(slicing.slice(ends, (0,), (length - 1,)), (length - 1, 1))
    marks = scatter_add(
        zeros,
        begins,
        broadcasted(np.int32(1), (length - 1,)),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode=GatherScatterMode.FILL_OR_DROP,
    )
    return take_axis(x, cumsum(marks, 0), axis, "clip")


def _traced_integers(obj: Any) -> bool:
    """Whether these are integers of unknown value."""
    known = not isinstance(obj, Tracer) or obj.concrete() is not None
    return not known and type_of(obj).dtype in dtypes.INTEGER


@array_function
def _order(places: Operand, length: Length, count: Length) -> Any:
    """The order that inserts `count` values, which follow `length` elements, before `places`."""
    places = broadcasted(_count_from_start(places, length), (count,))
    # Element i has the key 2 i + 1, between those of values that go in before and behind it.
    keys = join([np.arange(1, 2 * length, 2, dtype=np.int32), places * np.int32(2)], 0)
    return sort((keys, np.arange(length + count, dtype=np.int32)), 0, num_keys=1)[1]


def _count_from_start(places: Any, length: int) -> Any:
    """Counts all positions from the start; negative ones count from the end."""
    places = convert(places, INT32)
    return select(places < np.int32(0), places + np.int32(length), places)


@array_function
def _remaining(places: Operand, length: Length) -> Any:
    """All positions but some different ones."""
    places = shapes.reshape(_count_from_start(places, length), (places.size, 1))
    shape = (places.shape[0], length)
    numbers = np.arange(length, dtype=np.int32)
    gone = reduce_or(broadcasted(numbers, shape) == broadcasted(places, shape), (0,))
    order = sort((gone, numbers), 0, num_keys=1)[1]
    return slicing.slice_in_dim(order, 0, length - shape[0])


@python_function
def delete(
    arr: Operand, obj: Passed, axis: Axis = None, *, assume_unique_indices: Flag = False
) -> Array:
    """The array without the slices at indices `obj` along `axis` (None: of the flattened array).

    obj: an integer, a slice, or an array of integers or booleans. An array is known while tracing,
    unless its integers differ, which `assume_unique_indices` promises. Raises IndexError for an
    index known to be out of bounds.

    >>> jnp.delete(jnp.array([4, 5, 6]), 1)
    Array([4, 6], dtype=int32)
    """
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, axis)
    length = arr.shape[axis]
    if _traced_integers(obj) and (assume_unique_indices or not type_of(obj).ndim):
        return _take_places(arr, _remaining(obj, length), axis)
    if not isinstance(obj, slice):
        listed = isinstance(obj, (list, tuple))
        obj = static_array(obj, "obj")
        if listed and not obj.size:  # NumPy takes an empty list for one of real numbers
            obj = obj.astype(np.int32)
    try:
        index = np.delete(np.arange(length, dtype=np.int32), obj)
    except IndexError as error:
        got = f"obj={obj!r:.80} for {arr.type}, axis {axis}"
        wanted = f"positions between {-length} and {length - 1}"
        raise WeftIndexError(str(error), got=got, wanted=wanted) from None
    return _take_known(arr, index, axis)


def _take_known(x: Any, index: Any, axis: int) -> Any:
    """The elements of one axis at known positions: as slices if they are few, since other positions
    would be another program anyway."""
    starts = [0, *(np.nonzero(np.diff(index) != 1)[0] + 1).tolist()]
    traced = isinstance(x, Tracer)
    if not traced or not index.size or len(starts) > _MOST_SLICES:
        return _take_places(x, index, axis)
    bounds = [(int(index[i]), int(index[j - 1]) + 1) for i, j in pairwise([*starts, index.size])]
    return join([slicing.slice_in_dim(x, low, high, axis=axis) for low, high in bounds], axis)


@python_function
def insert(arr: Operand, obj: Passed, values: Stored, axis: Axis = None) -> Array:
    """The array with values put in before indices `obj` along `axis` (None: flattened first).

    obj: an integer, a slice or an array of integers, that count in the original array. `values`
    broadcasts to the shape of the inserted part. Raises IndexError for a place known to be out of
    bounds.

    >>> jnp.insert(jnp.array([1, 3]), 1, 2)
    Array([1, 2, 3], dtype=int32)
    """
    arr, axis = (arr.ravel(), 0) if axis is None else (arr, axis)
    length = arr.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(length))
    traced = _traced_integers(obj)
    places = obj if traced else static_array(obj, "obj")
    if places.dtype == np.bool_:
        places = np.nonzero(places)[0]
    if not traced and places.size and (places.min() < -length or places.max() > length):
        message = f"a place is out of bounds for axis {axis} of length {length}"
        wanted = f"places between {-length} and {length}"
        raise WeftIndexError(message, got=f"obj={obj!r:.80} for {arr.type}", wanted=wanted)
    count = places.size
    if not places.ndim and values.ndim:
        # One index for many values: as in NumPy, the values' first dimension goes along axis.
        padded = (1,) * (arr.ndim - values.ndim) + values.shape
        count = padded[0]
        values = shapes.move_dim(shapes.reshape(values, padded), 0, axis, count)
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    whole = concatenate([arr, broadcasted(convert(values, arr.dtype), shape)], axis)
    if traced:
        return _take_places(whole, _order(places, length, count), axis)
    places = np.broadcast_to(np.where(places < 0, places + length, places), (count,))
    keys = np.concatenate([np.arange(1, 2 * length, 2), 2 * places.astype(np.int64)])
    return _take_known(whole, np.argsort(keys, kind="stable").astype(np.int32), axis)
