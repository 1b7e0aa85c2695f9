"""Indexing, `x[...]`, in every form that NumPy has, by way of a cached plan.

An index is first encoded: what is static (integers, slices, None, Ellipsis) becomes a hashable key,
and arrays are listed beside it. A plan is made once per key and shape of the operand. It has two
parts: a static one of slices, and a dynamic one that gathers by integer arrays from the sliced
array. A plan without a dynamic part lowers to slices and reshapes, and a traced integer becomes a
dynamic slice. The rules for where the dimensions of index arrays go are NumPy's ("Combining
advanced and basic indexing" in its manual).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import (
    Fix,
    NonConcreteBooleanIndexError,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import refusal
from weft.kinds.checks import broadcast_shape, broadcasted
from weft.ops.elementwise.arithmetic import add, lt
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing import slicing
from weft.ops.indexing.dynamic_slicing import dynamic_slice
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.refs.index import Slice

# Entries of a key: integers and None stand for themselves, a slice is a tuple of three; others are
# tuples that begin with one of these words.
_SCALAR, _ARRAY, _FLAG = "scalar", "array", "flag"


class Index:
    """An index as a hashable key and the arrays that it mentions, in order.

    `safe`: every array is known to be within bounds and not negative.
    """

    __slots__ = ("arrays", "key", "safe")

    def __init__(self, key: tuple[Any, ...], arrays: list[Any], safe: bool) -> None:
        self.key = key
        self.arrays = arrays
        self.safe = safe


def encode(index: Any, shape: tuple[int, ...]) -> Index:
    """Encodes an index of an array of the given shape. Raises TypeError or IndexError."""
    parts = index if type(index) is tuple else (index,)
    key: list[Any] = []
    arrays: list[Any] = []
    safe = True
    for place, part in enumerate(parts):
        kind = type(part)
        if kind is int or part is None or part is Ellipsis:
            key.append(part)
        elif kind is slice:
            key.append(_slice_key(part))
        elif kind is bool or kind is np.bool_:
            key.append((_FLAG, bool(part)))
        elif isinstance(part, np.integer):
            key.append(int(part))
        elif kind is Slice and not part.is_dynamic_start:
            key.append(_slice_key(part.plain()))
        elif any(type(other) is list or type(other) is tuple for other in parts):
            return encode(tuple(_without_sequences(parts)), shape)
        else:
            safe = _encode_array(shape, parts, place, key, arrays) and safe
    return Index(tuple(key), arrays, safe)


def _without_sequences(parts: Sequence[Any]) -> Iterator[Any]:
    """Converts lists and tuples among the entries of an index to arrays, as NumPy does."""
    for part in parts:
        if type(part) is not list and type(part) is not tuple:
            yield part
            continue
        if any(isinstance(x, (Array, Tracer)) for x in part):
            message = f"an index that is a {type(part).__name__} holds numbers, not arrays"
            got = f"{part!r:.80}"
            fix = Fix("stack", "index with one array: x[weft.numpy.stack([i, j])]")
            raise refusal(WeftTypeError, message, "indexing", got, "numbers, or an array", fix)
        array = np.asarray(part)
        yield array if array.size else array.astype(np.int32)


def _slice_key(part: slice) -> tuple[Any, Any, Any]:
    start, stop, step = part.start, part.stop, part.step
    if type(start) is type(stop) is int and step is None:
        return start, stop, None
    bounds = []
    for bound in (start, stop, step):
        if bound is None or type(bound) is int:
            bounds.append(bound)
            continue
        if isinstance(bound, Tracer) and bound.concrete() is None:
            message = "the bounds of a slice must be known while tracing"
            got = f"slice({start!r}, {stop!r}, {step!r})"
            instead = "use weft.lax.dynamic_slice_in_dim(x, start, length)"
            fix = Fix("dynamic_slice", f"{instead}: only the length must be static")
            raise refusal(WeftIndexError, message, "indexing", got, "static integers", fix)
        try:
            bounds.append(bound.__index__())
        except (AttributeError, TypeError):
            message = "the bounds of a slice are integers"
            got = f"slice({start!r}, {stop!r}, {step!r})"
            raise refusal(WeftTypeError, message, "indexing", got, "integers or None") from None
    if bounds[2] == 0:
        raise refusal(WeftValueError, "the step of a slice cannot be zero", "indexing", "step 0")
    return bounds[0], bounds[1], bounds[2]


def _encode_array(
    shape: tuple[int, ...], parts: Sequence[Any], place: int, key: list[Any], arrays: list[Any]
) -> bool:
    """Adds an array to the key; returns whether it is known to be within bounds."""
    part = parts[place]
    of = _index_type(part)
    if of.dtype == dtypes.bool_:
        return _encode_mask(shape, parts, place, key, arrays)
    if isinstance(part, np.ndarray):
        dim = _dimension(parts, place, len(shape))
        if dim < len(shape):
            part = _check_array(part, shape[dim], dim)
        if not part.ndim:
            key.append(int(part))
            return True
        key.append((_ARRAY, part.shape))
        arrays.append(part)
        return True
    key.append((_ARRAY, of.shape) if of.shape else (_SCALAR,))
    arrays.append(part)
    return False


def _index_type(part: Any) -> ArrayType:
    try:
        of = type_of(part)
    except WeftTypeError:
        of = None
    if of is None or (of.dtype not in dtypes.INTEGER and of.dtype != dtypes.bool_):
        array = hasattr(part, "astype")
        what = f"{of}" if array else f"{part!r:.80} of class {type(part).__name__}"
        message = f"an index is an integer, a slice or an array of integers or booleans, not {what}"
        wanted = "an integer, a slice, None, Ellipsis, an array, or a tuple of these"
        form = "i.astype(int)" if array else "int(i)"
        number = of is not None and of.dtype in dtypes.FLOATING
        fix = Fix("convert", f"convert it: {form}") if number else None
        raise refusal(WeftTypeError, message, "indexing", what, wanted, fix)
    return of


def _dims_of(part: Any) -> int:
    """The number of dimensions that an entry of an index covers (0 for Ellipsis)."""
    if part is None or part is Ellipsis or isinstance(part, (bool, np.bool_)):
        return 0
    if isinstance(part, (int, slice, Slice, np.integer)):
        return 1
    of = _index_type(part)
    return of.ndim if of.dtype == dtypes.bool_ else 1


def _dimension(parts: Sequence[Any], place: int, ndim: int) -> int:
    """The operand's dimension at which entry number `place` begins."""
    before = parts[:place]
    if any(part is Ellipsis for part in before):
        return ndim - sum(map(_dims_of, parts[place:]))
    return sum(map(_dims_of, before))


def _check_array(index: np.ndarray[Any, Any], size: int, dim: int) -> np.ndarray[Any, Any]:
    """A static index array, counted from the start. Raises WeftIndexError if out of bounds."""
    if not index.size:
        return index.astype(np.int32)
    low, high = int(index.min()), int(index.max())
    if high >= size or low < -size:
        raise _out_of_bounds(high if high >= size else low, size, dim)
    if low < 0:
        index = np.where(index < 0, index + size, index)
    return index.astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def _out_of_bounds(index: int, size: int, dim: int) -> WeftIndexError:
    message = f"index {index} is out of bounds for dimension {dim} of length {size}"
    wanted = f"{-size} <= index < {size}"
    text = (
        "to read beyond the end on purpose use x.at[i].get(mode='fill') or mode='clip'; an update "
        "with mode='drop' leaves out what an index has beyond the end"
    )
    fix = Fix("clip", text, {"index": index, "size": size})
    return refusal(WeftIndexError, message, "indexing", f"index {index}", wanted, fix)


def _encode_mask(
    shape: tuple[int, ...], parts: Sequence[Any], place: int, key: list[Any], arrays: list[Any]
) -> bool:
    """Adds a boolean array to the key, as integer arrays of its true positions."""
    part = parts[place]
    of = type_of(part)
    value = part if isinstance(part, np.ndarray) else part.concrete()
    if value is None:
        why = "how many elements it selects decides the shape of the result"
        message = f"a boolean index must be known while tracing: {why}"
        got, wanted = part.origin(), "a boolean array that is known while the function is traced"
        text = "write weft.numpy.where(mask, x, other), or where(mask, size=n) for n places"
        kind, fix = NonConcreteBooleanIndexError, Fix("where", text)
        error = refusal(kind, message, "indexing", got, wanted, fix)
        error._tracer = part.unknown()
        raise error
    mask = np.asarray(value)
    if not of.ndim:
        key.append((_FLAG, bool(mask)))
        return True
    dim = _dimension(parts, place, len(shape))
    ignored = config.lenient() and not mask.size
    if shape[dim : dim + of.ndim] != of.shape and not ignored:
        message = f"a boolean index of shape {of.shape} does not fit the dimensions it stands for"
        got = f"a mask of shape {of.shape} for an array of shape {shape}, from dimension {dim}"
        wanted = f"a mask of shape {shape[dim : dim + of.ndim]}"
        raise refusal(WeftIndexError, message, "indexing", got, wanted)
    for places in np.nonzero(mask):
        key.append((_ARRAY, places.shape))
        arrays.append(places.astype(np.int32 if mask.size < 2**31 else np.int64))
    return True


class IndexPlan:
    """The slices and gather that apply one key to arrays of one shape; see the module's text.

    Static part: `starts`, `limits`, `strides` and `reverse` per dimension. Dynamic part: `indexed`
    are the dimensions that arrays index, `dropped` those of static integers (of length 1 after
    slicing), `index_shape` is the broadcast shape of the arrays and `place` the position of its
    dimensions among the remaining ones; `shape` is the shape of the result.
    """

    __slots__ = (
        "dropped",
        "index_shape",
        "indexed",
        "limits",
        "place",
        "reverse",
        "shape",
        "starts",
        "strides",
        "unit",
        "whole",
        "window",
    )

    def __init__(self, key: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        read = _Reader(_expand_key(key, shape), shape)
        self.starts, self.limits = tuple(read.starts), tuple(read.limits)
        self.strides, self.reverse = tuple(read.strides), tuple(read.reverse)
        self.indexed, self.dropped = tuple(read.indexed), tuple(read.dropped)
        self.unit = not read.reverse and all(step == 1 for step in read.strides)
        self.whole = self.unit and self.limits == shape and not any(read.starts)
        try:
            self.index_shape = broadcast_shape(*read.shapes, operation="indexing")
        except ShapeError:
            message = "the index arrays do not broadcast together"
            got = "shapes " + ", ".join(map(str, read.shapes))
            wanted = "shapes that broadcast together"
            raise refusal(WeftIndexError, message, "indexing", got, wanted) from None
        # The dimensions of adjacent index arrays stay in position; others go in front.
        at = read.advanced
        aside = read.has_arrays and at == list(range(at[0], at[-1] + 1))
        first, self.place = read.before[0] if aside else (0, 0)
        lengths = read.kept
        self.shape = (*lengths[:first], *self.index_shape, *lengths[first:])
        gone = {*self.indexed, *self.dropped}
        self.window = tuple(self._length(d) for d in range(len(shape)) if d not in gone)

    def _length(self, dim: int) -> int:
        return -((self.starts[dim] - self.limits[dim]) // self.strides[dim])

    def sliced_shape(self) -> tuple[int, ...]:
        """The shape after the static part, with all dimensions of the operand."""
        return tuple(self._length(d) for d in range(len(self.starts)))

    def gathered_shape(self) -> tuple[int, ...]:
        """The shape of the result without the dimensions of None."""
        return (*self.window[: self.place], *self.index_shape, *self.window[self.place :])

    def offset_dims(self) -> tuple[int, ...]:
        """Where, in the gathered shape, the dimensions stand that arrays do not index."""
        return tuple(
            d if d < self.place else d + len(self.index_shape) for d in range(len(self.window))
        )


class _Reader:
    """Reads the entries of an expanded key, one dimension of the operand after the other.

    `kept` are the lengths that slices and None give to the result. `advanced` are the positions of
    entries that NumPy counts as index arrays if there is one, and `before` the number of lengths
    kept before each: all of them, and without those of None.
    """

    def __init__(self, parts: Sequence[Any], shape: tuple[int, ...]) -> None:
        self.starts, self.limits, self.strides = [0] * len(shape), list(shape), [1] * len(shape)
        self.reverse: list[int] = []
        self.indexed: list[int] = []
        self.dropped: list[int] = []
        self.kept: list[int] = []
        self.advanced: list[int] = []
        self.before: list[tuple[int, int]] = []
        self.shapes: list[tuple[int, ...]] = []
        self.has_arrays = any(_is_word(part, _ARRAY) or _is_word(part, _FLAG) for part in parts)
        dim = window = 0
        for at, part in enumerate(parts):
            if part is None:
                self.kept.append(1)
            if part is None or part is Ellipsis:
                continue
            if type(part) is int or type(part[0]) is str:
                self.advanced.append(at)
                self.before.append((len(self.kept), window))
                self._pick(part, dim, shape)
            else:
                self._slice(part, dim, shape[dim])
                window += 1
            dim += not _is_word(part, _FLAG)

    def _pick(self, part: Any, dim: int, shape: tuple[int, ...]) -> None:
        if type(part) is int:
            self.starts[dim] = _within(part, shape[dim], dim)
            self.limits[dim] = self.starts[dim] + 1
            self.dropped.append(dim)
        elif part[0] == _FLAG:
            self.shapes.append((int(part[1]),))
        else:
            self.shapes.append(part[1] if part[0] == _ARRAY else ())
            self.indexed.append(dim)

    def _slice(self, part: tuple[Any, Any, Any], dim: int, length: int) -> None:
        low, high, step = slice(*part).indices(length)
        size = len(range(low, high, step))
        self.kept.append(size)
        if not size:
            self.limits[dim] = 0
            return
        if step < 0:
            low, step = low + (size - 1) * step, -step
            self.reverse.append(dim)
        # One spelling for equal slices: the end right after the last element.
        self.starts[dim], self.strides[dim] = low, step if size > 1 else 1
        self.limits[dim] = low + (size - 1) * step + 1


def _is_word(part: Any, word: str) -> bool:
    return type(part) is tuple and part[0] == word


def _within(index: int, size: int, dim: int) -> int:
    if not -size <= index < size:
        raise _out_of_bounds(index, size, dim)
    return index + size if index < 0 else index


def _expand_key(key: tuple[Any, ...], shape: tuple[int, ...]) -> list[Any]:
    """The key with one entry per dimension of the operand, besides those of None and flags.

    An Ellipsis of no dimension stays: it still separates index arrays.
    """
    used = sum(
        part is not None and part is not Ellipsis and not _is_word(part, _FLAG) for part in key
    )
    if used > len(shape):
        message = f"too many indices: {used} for an array of {len(shape)} dimensions"
        got = f"{used} indices for shape {shape}"
        raise refusal(WeftIndexError, message, "indexing", got, f"at most {len(shape)}")
    places = [i for i, part in enumerate(key) if part is Ellipsis]
    if len(places) > 1:
        message = "an index has at most one Ellipsis"
        raise refusal(WeftIndexError, message, "indexing", f"{len(places)} of them")
    fill: list[Any] = [(None, None, None)] * (len(shape) - used)
    if places and not fill:
        fill = [Ellipsis]
    at = places[0] if places else len(key)
    return [*key[:at], *fill, *key[at + 1 :]]


_plans: dict[Any, IndexPlan] = {}


def plan_of(key: tuple[Any, ...], shape: tuple[int, ...]) -> IndexPlan:
    """The cached plan for a key and an operand's shape."""
    plan = _plans.get((key, shape))
    if plan is None:
        if len(_plans) > 10_000:
            _plans.clear()
        plan = _plans[key, shape] = IndexPlan(key, shape)
    return plan


# ---- carrying out a plan -----------------------------------------------------------------------


def take_static(x: Any, plan: IndexPlan) -> Any:
    """Applies the static part of a plan, without dropping a dimension."""
    if plan.whole:
        return x
    y = slicing.slice(x, plan.starts, plan.limits, plan.strides)
    return rev(y, plan.reverse) if plan.reverse else y


def counted_from_start(index: Any, size: int) -> Any:
    """Adds the size to negative indices, in a signed dtype."""
    of = type_of(index)
    wide = size > np.iinfo(np.int32).max or of.dtype in (dtypes.int64, dtypes.uint64, dtypes.uint32)
    dtype = dtypes.int64 if wide else dtypes.int32
    if of.dtype != dtype or of.weak_type:
        index = convert_element_type(index, dtype)
    if of.dtype in dtypes.UNSIGNED:
        return index
    return select(lt(index, dtype.type(0)), add(index, dtype.type(size)), index)


def start_indices(plan: IndexPlan, arrays: Sequence[Any], safe: bool, wrap: bool = True) -> Any:
    """The index arrays stacked in one array of index vectors, as gather and scatter take them."""
    sizes = plan.sliced_shape()
    values = []
    for dim, index in zip(plan.indexed, arrays, strict=True):
        if not safe and wrap:
            index = counted_from_start(index, sizes[dim])
        elif type_of(index).dtype not in (dtypes.int32, dtypes.int64):
            index = convert_element_type(index, dtypes.int32)
        values.append(index)
    if any(type_of(v).dtype == dtypes.int64 for v in values):
        values = [convert_element_type(v, dtypes.int64) for v in values]
    columns = [reshape(broadcasted(v, plan.index_shape), (*plan.index_shape, 1)) for v in values]
    return columns[0] if len(columns) == 1 else concatenate(columns, len(plan.index_shape))


def gather_by(
    y: Any,
    plan: IndexPlan,
    arrays: Sequence[Any],
    *,
    safe: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap: bool = True,
) -> Any:
    """Applies the dynamic part of a plan to the result of the static part."""
    gone = tuple(sorted((*plan.indexed, *plan.dropped)))
    if not plan.indexed:
        if plan.index_shape in ((), (1,)):
            return reshape(y, plan.shape)
        repeated = broadcast_in_dim(
            reshape(y, plan.window), plan.gathered_shape(), plan.offset_dims()
        )
        return reshape(repeated, plan.shape)
    if not plan.index_shape and not mode == "fill":
        sizes = plan.sliced_shape()
        starts: list[Any] = [np.int32(0)] * len(sizes)
        for dim, index in zip(plan.indexed, arrays, strict=True):
            starts[dim] = index if safe or not wrap else counted_from_start(index, sizes[dim])
        if any(type_of(s).dtype == dtypes.int64 for s in starts):
            starts = [convert_element_type(s, dtypes.int64) for s in starts]
        wanted = tuple(1 if d in plan.indexed else n for d, n in enumerate(sizes))
        return reshape(dynamic_slice(y, starts, wanted, allow_negative_indices=False), plan.shape)
    numbers = GatherDimensionNumbers(
        offset_dims=plan.offset_dims(), collapsed_slice_dims=gone, start_index_map=plan.indexed
    )
    out = gather(
        y,
        start_indices(plan, arrays, safe, wrap),
        numbers,
        slice_sizes=tuple(1 if d in gone else n for d, n in enumerate(plan.sliced_shape())),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        # None clamps indices to the bounds.
        mode=GatherScatterMode.PROMISE_IN_BOUNDS if safe else _MODES[mode or "clip"],
        fill_value=fill_value,
    )
    return reshape(out, plan.shape)


_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def index_array(x: Any, plan: IndexPlan, arrays: Sequence[Any], safe: bool) -> Any:
    """Reads `x[...]` by a plan."""
    return gather_by(take_static(x, plan), plan, arrays, safe=safe)


def plan_index(
    index: Any, shape: tuple[int, ...], mode: str | None = None
) -> tuple[Index, IndexPlan]:
    """Encodes an index and makes its plan.

    Known positions out of bounds are allowed if a mode says what to do, or if the setting
    `check_static_indices` is off: they are then treated as traced ones.
    """
    try:
        encoded = encode(index, shape)
        return encoded, plan_of(encoded.key, shape)
    except WeftIndexError:
        if mode is None and config.settings().check_static_indices:
            raise
    # Index arrays on a device are not looked at.
    parts = [
        as_array(np.asarray(part)) if _is_known(part) else part
        for part in (index if type(index) is tuple else (index,))
    ]
    encoded = encode(tuple(parts), shape)
    return encoded, plan_of(encoded.key, shape)


def _is_known(part: Any) -> bool:
    """Whether an entry of an index is of concrete integers."""
    known = isinstance(part, (int, list, tuple, np.integer, np.ndarray))
    return known and np.asarray(part).dtype.kind in "iu"
