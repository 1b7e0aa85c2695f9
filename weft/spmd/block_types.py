"""The types of blocks and of whole arrays, given the specs of a shard_map.

A spec splits dimensions over axes of a mesh. A block varies along the axes that its spec mentions,
and is equal on all devices along the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from weft.core.types import ArrayType
from weft.sharding import PartitionSpec
from weft.sharding.mesh import AnyMesh


class Manual(NamedTuple):
    """The mesh of a shard_map, its manual axes (in the order of the mesh), whether the user writes
    casts to varying values (`explicit`), whether one device runs all of it, whether all values
    count as varying (`untyped`), and the size of the all-reduces in which reverse mode joins its
    sums (`bucket_bytes`)."""

    mesh: AnyMesh
    axes: tuple[str, ...]
    explicit: bool = False
    simulated: bool = False
    untyped: bool = False
    bucket_bytes: int | None = None

    def __repr__(self) -> str:
        text = ", ".join(f"{axis!r}: {self.mesh.shape[axis]}" for axis in self.axes)
        marks = [
            *([] if len(self.axes) == len(self.mesh.axis_names) else [f"of {self.mesh}"]),
            *(["explicit"] if self.explicit else []),
            *(["simulated"] if self.simulated else []),
            *([f"bucket_bytes={self.bucket_bytes}"] if self.bucket_bytes is not None else []),
        ]
        return " ".join(["{" + text + "}", *marks])

    def ordered(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes that are manual here, in the order of the mesh."""
        wanted = set(axes)
        return tuple(axis for axis in self.axes if axis in wanted)


def block_type(whole: ArrayType, spec: PartitionSpec, manual: Manual) -> ArrayType:
    """The type of one device's block."""
    shape = tuple(
        size // prod(manual.mesh.shape[axis] for axis in spec.entry_axes(i))
        for i, size in enumerate(whole.shape)
    )
    return whole.update(shape=shape, varying=whole.varying | set(spec.axes()))


def whole_type(block: ArrayType, spec: PartitionSpec, manual: Manual) -> ArrayType:
    """The type of the array of all blocks."""
    shape = tuple(
        size * prod(manual.mesh.shape[axis] for axis in spec.entry_axes(i))
        for i, size in enumerate(block.shape)
    )
    return block.update(shape=shape, varying=block.varying - set(manual.axes))


def leaving_spec(block: ArrayType, manual: Manual) -> PartitionSpec:
    """The spec by which every device's block leaves as part of one array. The blocks are
    concatenated along the first dimension; blocks without dimensions, or with an empty first one,
    first get one of length 1."""
    axes = manual.ordered(block.varying)
    return PartitionSpec(axes) if axes else PartitionSpec()


def insert_dim(spec: PartitionSpec, place: int, axes: Sequence[str] = ()) -> PartitionSpec:
    """Returns the spec of an array with one more dimension at index `place`, split over `axes`."""
    entries = [spec.entry_axes(i) for i in range(max(len(spec), place))]
    return PartitionSpec(*entries[:place], tuple(axes), *entries[place:], sum=spec.sum)
