"""Reading and writing part of an array at an index that may hold slices of traced starts."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np

from weft.core.trace import Tracer
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim, dynamic_update_slice_in_dim
from weft.runtime.jaxlib.lazy import pending_nodes


@dataclasses.dataclass(frozen=True)
class Slice:
    """`size` elements from `start`, every `stride`-th; the start may be a traced integer.

    Args:
        start: The first position; it may be a traced integer.
        size: How many elements are taken.
        stride: The step between positions.

    >>> x = weft.new_ref(jnp.arange(5))
    >>> x[weft.ds(jnp.int32(1), 3)]
    Array([1, 2, 3], dtype=int32)
    """

    start: Any
    size: int
    stride: int = 1

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is an array."""
        return not isinstance(self.start, int)

    @property
    def is_dynamic_size(self) -> bool:
        """Always False: sizes are static."""
        return False

    @property
    def extent(self) -> int:
        """The extent, (size - 1) * stride + 1."""
        return (self.size - 1) * self.stride + 1 if self.size else 0

    def plain(self) -> slice:
        """Python's slice, for a start that is a number."""
        return slice(self.start, self.start + self.extent, self.stride)


pending_nodes.append(
    (
        Slice,
        lambda value: ((value.start,), (value.size, value.stride)),
        lambda static, children: Slice(children[0], *static),
        None,
    )
)  # not registered at once, which would load jaxlib


def dslice(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """A slice of `size` elements from `start`; of `start` elements from 0 if no size is given.

    `start` may be a traced integer, `size` and `stride` are Python's. `dslice(None)` takes all.
    Raises WeftTypeError for a size that is traced, WeftValueError for a stride below 1.

    Args:
        start: The first position; it may be a traced integer.
        size: How many elements are taken.
        stride: The step between positions.

    >>> weft.ds(1, 2)
    Slice(start=1, size=2, stride=1)
    >>> weft.ds(None)
    slice(None, None, None)
    """
    if start is None:
        return slice(None)
    step = 1 if stride is None else operator.index(stride)
    if step < 1:
        message = "a slice goes forward"
        fix = Fix("stride", "pass a stride of at least 1", {"stride": 1})
        raise WeftValueError(message, operation="ds", got=f"stride={stride}", wanted="1", fix=fix)
    if size is None:
        start, size = 0, start
    if isinstance(size, Tracer):
        message = "the size of a slice is known when the program is traced"
        fix = Fix("size", "pass a Python int, and mask what is too much", {"size": 1})
        got = size.describe()
        raise WeftTypeError(message, operation="ds", got=got, wanted="an int", fix=fix)
    if isinstance(start, np.integer):
        start = int(start)
    return Slice(start, operator.index(size), step)


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def has_windows(index: Any) -> bool:
    """Whether an index holds slices of the class `Slice`."""
    return type(index) is Slice or (
        type(index) is tuple and any(type(part) is Slice for part in index)
    )


def with_moved_starts(index: Any) -> tuple[Any, ...]:
    """The index with starts as arrays, clamped so that each slice is inside the array."""
    return tuple(
        dataclasses.replace(part, start=np.int32(part.start))
        if type(part) is Slice and not part.is_dynamic_start
        else part
        for part in _parts(index)
    )


def windows(index: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, Slice]], tuple[Any, ...]]:
    """The slices of traced starts with their dimensions, and the index into the rest. Raises
    ShapeError for a slice of a known start that is not within the array."""
    parts = _parts(index)
    if not any(type(part) is Slice for part in parts):
        return [], parts
    taken = sum(
        getattr(part, "ndim", 0) if getattr(part, "dtype", None) == np.bool_ else 1
        for part in parts
        if part is not None and part is not Ellipsis
    )
    found: list[tuple[int, Slice]] = []
    rest: list[Any] = []
    dim = 0
    for part in parts:
        if type(part) is Slice:
            if part.is_dynamic_start:
                found.append((dim, part))
                rest.append(slice(None, None, part.stride))
            else:
                _check_within(part, shape[dim])
                rest.append(part.plain())
        else:
            rest.append(part)
        if part is Ellipsis:
            dim += len(shape) - taken
        elif part is not None:
            dim += 1
    return found, tuple(rest)


def _check_within(part: Slice, length: int) -> None:
    if 0 <= part.start and part.start + part.extent <= length:
        return
    message = "a slice reaches past the end of a dimension"
    start = min(max(part.start, 0), length)
    size = max(0, -(-(length - start) // part.stride))
    fix = Fix("within", f"take what there is: ds({start}, {size})", {"start": start, "size": size})
    got = f"{part} of a dimension of {length}"
    raise ShapeError(message, operation="ds", got=got, wanted="elements that exist", fix=fix)


def _window(x: Any, parts: list[tuple[int, Slice]]) -> Any:
    for dim, part in parts:
        x = dynamic_slice_in_dim(x, part.start, part.extent, dim)
    return x


def read(x: Any, index: Any) -> Any:
    """The part of an array at an index."""
    if index is Ellipsis:
        return x
    found, rest = windows(index, x.shape)
    return _window(x, found)[rest]


def update_at(x: Any, index: Any, value: Any, method: str) -> Any:
    """The array with the part at an index changed by a method of `x.at[...]`, such as "set"."""
    found, rest = windows(index, x.shape)
    if not found:
        return getattr(x.at[rest], method)(value)
    # From the outside in: each window is cut out of the one before, and put back in turn.
    wholes = [x]
    for window in found:
        wholes.append(_window(wholes[-1], [window]))
    part = getattr(wholes[-1].at[rest], method)(value)
    for whole, (dim, taken) in zip(wholes[-2::-1], found[::-1], strict=True):
        part = dynamic_update_slice_in_dim(whole, part, taken.start, dim)
    return part


def indexed_shape(shape: tuple[int, ...], index: Any) -> tuple[int, ...]:
    """The shape of the part at an index. Raises IndexError if it does not fit the shape."""

    found, rest = windows(index, shape)
    lengths = list(shape)
    for dim, part in found:
        lengths[dim] = part.extent

    def example(part: Any) -> Any:
        if getattr(part, "shape", None) is not None:
            kind = np.bool_ if part.dtype == np.bool_ else np.intp
            return np.zeros(part.shape, kind)
        return part

    whole = np.broadcast_to(np.empty((), np.bool_), lengths)
    return whole[tuple(example(part) for part in rest)].shape
