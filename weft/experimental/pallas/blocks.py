"""Blocks of arrays: how a `BlockSpec` divides an operand, and cutting and putting back blocks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.effects import RefType
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.shape_struct import described_type
from weft.core.trace import Tracer
from weft.core.types import ArrayType
from weft.errors import Fix, ShapeError, WeftNotImplementedError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import describe_value, refusal
from weft.experimental.pallas.captures import check_arguments, check_captures
from weft.experimental.pallas.grid import running_at
from weft.experimental.pallas.kernels import (
    Blocked,
    BlockSpec,
    BoundedSlice,
    Element,
    MemorySpace,
    Squeezed,
)
from weft.interpreters.staging import function_name, trace_to_jaxpr
from weft.ops.elementwise.arithmetic import mul
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.creation import full
from weft.ops.indexing.dynamic_slicing import dynamic_slice, dynamic_update_slice
from weft.ops.indexing.slicing import pad
from weft.ops.structural.shape import reshape
from weft.refs.reference import new_reference, with_staged_refs

__all__ = [
    "INDEX",
    "Operand",
    "buffer",
    "check_arguments",
    "check_captures",
    "operand",
    "unwritten_value",
]

INDEX = ArrayType((), np.dtype(np.int32))  # the type of the indices of a grid

_OPERATION = "pallas_call"


def unwritten_value(dtype: Any, fill: str = "least") -> Any:
    """The number that stands where a kernel has not written: NaN; the least integer, or with the
    `fill` "greatest" the greatest; False. With the fill "zero" it is 0."""
    dtype = np.dtype(dtype)
    if fill == "zero" or dtype == np.bool_:
        return np.zeros((), dtype)[()]
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        return np.array(info.min if fill == "least" else info.max).astype(dtype)[()]
    return np.array(np.nan).astype(dtype)[()]


def buffer(described: Any, fill: str = "least") -> Any:
    """The array that a scratch buffer begins with; semaphores begin with a count of 0."""
    of = described_type(described).update(weak_type=False)
    if getattr(described, "memory_space", None) is MemorySpace.SEMAPHORE:
        fill = "zero"
    return full(of.shape, unwritten_value(of.dtype, fill), of.dtype)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The arguments of index maps: the lengths of the grid's axes, and the types and the tree of
    the prefetched scalars, which are known before blocks are cut."""

    lengths: Sequence[Any]
    scalars: Sequence[ArrayType]
    scalar_tree: Any


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand and its blocks: `name` says which it is, `type` is that of the whole array,
    `dims` has a description per dimension, and `index_map` is recorded."""

    name: str
    type: ArrayType
    dims: tuple[Any, ...]
    index_map: ClosedJaxpr | None

    @functools.cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of a block, 1 where the kernel does not see the dimension."""
        return tuple(1 if isinstance(dim, Squeezed) else dim.block_size for dim in self.dims)

    @functools.cached_property
    def ref_type(self) -> RefType:
        """The type of the reference that the kernel gets."""
        seen = zip(self.dims, self.lengths, strict=True)
        shape = tuple(n for dim, n in seen if not isinstance(dim, Squeezed))
        return RefType(self.type.update(shape=shape))

    @functools.cached_property
    def _padding(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after each dimension that makes all blocks full."""
        found = []
        for n, dim, length in zip(self.type.shape, self.dims, self.lengths, strict=True):
            low, high = dim.padding if isinstance(dim, Element) else (0, 0)
            found.append((low, high + -(n + low + high) % length if length else high))
        return tuple(found)

    @functools.cached_property
    def _padded_shape(self) -> tuple[int, ...]:
        pairs = zip(self.type.shape, self._padding, strict=True)
        return tuple(n + low + high for n, (low, high) in pairs)

    def empty(self, fill: str) -> Any:
        """The array before anything is written."""
        return full(self.type.shape, unwritten_value(self.type.dtype, fill), self.type.dtype)

    def padded(self, value: Any, fill: str) -> Any:
        """The array with what blocks at its edges have too much."""
        if self._padded_shape == self.type.shape:
            return value
        widths = [(low, high, 0) for low, high in self._padding]
        return pad(value, unwritten_value(self.type.dtype, fill), widths)

    def without_padding(self, value: Any) -> Any:
        """The array without that."""
        if self._padded_shape == self.type.shape:
            return value
        return pad(
            value,
            unwritten_value(self.type.dtype),
            [(-low, -high, 0) for low, high in self._padding],
        )

    def starts(self, indices: Sequence[Any], scalars: Sequence[Any]) -> list[Any] | None:
        """Where the block begins, per dimension; None if it is the whole array."""
        if self.lengths == self._padded_shape:
            return None
        if self.index_map is None:
            return [0] * len(self.dims)
        refs = [new_reference(value) for value in scalars]
        found = eval_jaxpr(self.index_map, (), *indices, *refs)
        return [
            mul(start, np.int32(length)) if isinstance(dim, Blocked) else start
            for start, dim, length in zip(found, self.dims, self.lengths, strict=True)
        ]

    def cut(self, value: Any, starts: list[Any] | None) -> Any:
        """The block of a padded array that begins at `starts`, as the kernel sees it."""
        part = value if starts is None else dynamic_slice(value, starts, self.lengths)
        shape = self.ref_type.shape
        return part if shape == self.lengths else reshape(part, shape)

    def put(self, value: Any, starts: list[Any] | None, block: Any) -> Any:
        """The padded array with another block."""
        if self.ref_type.shape != self.lengths:
            block = reshape(block, self.lengths)
        return block if starts is None else dynamic_update_slice(value, block, starts)


def operand(name: str, spec: BlockSpec, of: ArrayType, grid: Grid) -> Operand:
    """An operand of this type, over a grid.

    Raises ShapeError for a block of another rank, WeftNotImplementedError for blocks whose size is
    not known, and where the index map takes or returns something else than it should, WeftTypeError
    and WeftValueError.
    """
    shape = of.shape if spec.block_shape is None else tuple(spec.block_shape)
    if len(shape) != len(of.shape):
        message = f"{_OPERATION}: the block of {name} has another rank than the array"
        fix = Fix("block_shape", f"pass a block_shape with {len(of.shape)} entries")
        raise refusal(ShapeError, message, _OPERATION, f"{shape} for {of}", None, fix)
    dims = tuple(_dimension(name, entry) for entry in shape)
    if spec.index_map is None:
        return Operand(name, of, dims, None)
    return Operand(name, of, dims, _trace_index_map(name, spec.index_map, len(dims), grid))


def _dimension(name: str, entry: Any) -> Any:
    if entry is None:
        return Squeezed()
    if isinstance(entry, BoundedSlice):
        message = f"{_OPERATION}: the blocks of {name} have no fixed size"
        fix = Fix("blocked", "use blocks of one size, pl.Blocked or pl.Element, and mask the rest")
        got, wanted = repr(entry), "a size that is known when the kernel is traced"
        raise refusal(WeftNotImplementedError, message, _OPERATION, got, wanted, fix)
    if isinstance(entry, (Blocked, Element, Squeezed)):
        return entry
    if not isinstance(entry, bool) and hasattr(entry, "__index__"):
        return Blocked(entry.__index__())
    message = f"{_OPERATION}: an entry of the block_shape of {name} is no length"
    wanted = "an int, None, pl.Blocked, pl.Element or pl.Squeezed"
    fix = Fix("length", "pass the length of a block")
    raise refusal(WeftTypeError, message, _OPERATION, describe_value(entry), wanted, fix)


def _trace_index_map(name: str, function: Callable[..., Any], rank: int, grid: Grid) -> ClosedJaxpr:
    what = f"the index map of {name}"
    count, more = len(grid.lengths), len(grid.scalar_tree.children())
    takes = f"{count} indices: those of the grid"
    if more:
        takes += f", and {more} references to scalars"
    check_arguments(what, function, count + more, {}, takes)

    def flat(*values: Any) -> list[Any]:
        given = with_staged_refs(values)
        with running_at(given[:count], grid.lengths):
            out = function(*given[:count], *grid.scalar_tree.unflatten(given[count:]))
        found = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(found) != rank:
            message = f"{_OPERATION}: {what} returns {len(found)} indices for {rank} dimensions"
            fix = Fix("indices", f"return one index per dimension of the block: {rank}")
            got, wanted = f"{out!r:.100}", f"{rank} integers"
            raise refusal(WeftValueError, message, _OPERATION, got, wanted, fix)
        return [_index(what, value) for value in found]

    types: list[Any] = [INDEX] * count + [RefType(of) for of in grid.scalars]
    name = function_name(function)
    jaxpr, consts = trace_to_jaxpr(flat, types, transformation=_OPERATION, name=name)
    check_captures(what, function, consts)
    return ClosedJaxpr(jaxpr, consts)


def _index(what: str, value: Any) -> Any:
    if isinstance(value, Tracer) and not value.shape and dtypes.issubdtype(value.dtype, np.integer):
        return convert_element_type(value, INDEX.dtype)
    try:
        return np.int32(value.__index__())
    except (AttributeError, TypeError):
        pass
    message = f"{_OPERATION}: {what} returns something else than integers"
    fix = Fix("integer", "return integers: i // 2, not i / 2")
    raise refusal(WeftTypeError, message, _OPERATION, f"{value!r:.100}", "an integer", fix)
