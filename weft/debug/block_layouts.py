"""Which devices hold which block of an array: the data that pictures are drawn from."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from weft.sharding import AbstractMesh, NamedSharding, PartitionSpec
from weft.sharding.mesh import AnyMesh
from weft.sharding.sharding import Sharding

# A label is to fit into a cell: of more devices the middle is left out.
MOST_NUMBERS = 8

Block = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TableView:
    """The two dimensions of a table: `rows` runs down and `columns` across; None for one that an
    array does not have."""

    rows: int | None
    columns: int | None

    def at(self, block: Block, row: int, column: int) -> Block:
        """The block in a row and a column of the table that begins with `block`."""
        found = list(block)
        if self.rows is not None:
            found[self.rows] = row
        if self.columns is not None:
            found[self.columns] = column
        return tuple(found)


@dataclasses.dataclass(frozen=True)
class BlockLayout:
    """The blocks of an array and their devices.

    counts: the number of blocks along each dimension; lengths: that of a block; holders: for each
    block the numbers of its devices, ascending; platform: of the devices. With `axes`, the
    dimensions are mesh axes of these names, and a block is an index along each.
    """

    counts: tuple[int, ...]
    lengths: tuple[int, ...]
    holders: Mapping[Block, Sequence[int]]
    platform: str
    axes: tuple[str, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.counts)

    def range(self, dimension: int, number: int) -> str:
        """The indices of a block along a dimension, such as `0:4`; along a mesh axis `i=0`."""
        if self.axes:
            return f"{self.axes[dimension]}={number}"
        length = self.lengths[dimension]
        return f"{number * length}:{(number + 1) * length}"

    def label(self, block: Block) -> str:
        """The devices of a block, such as `CPU 0,1`."""
        return device_label(self.platform, self.holders[block])

    @cached_property
    def ranks(self) -> dict[Block, int]:
        """For each block its place when blocks are ordered by their first device: neighbours in a
        mesh get different colours by it."""
        ordered = sorted(self.holders, key=lambda block: self.holders[block][0])
        return {block: rank for rank, block in enumerate(ordered)}

    @property
    def last_two(self) -> TableView:
        """The last two dimensions."""
        return TableView(
            self.ndim - 2 if self.ndim > 1 else None, self.ndim - 1 if self.ndim else None
        )

    @property
    def split_two(self) -> TableView:
        """The last two split dimensions, or the last two."""
        if self.ndim < 3:
            return self.last_two
        split = [dimension for dimension, count in enumerate(self.counts) if count > 1]
        whole = [dimension for dimension in range(self.ndim) if dimension not in split]
        rows, columns = sorted([*whole, *split][-2:])
        return TableView(rows, columns)

    def slices(self, view: TableView) -> list[Block]:
        """The blocks with index 0 along the two dimensions of a view: one for each table."""
        drawn = (view.rows, view.columns)
        numbers = [range(1 if d in drawn else count) for d, count in enumerate(self.counts)]
        return list(itertools.product(*numbers))

    def slice_title(self, view: TableView, block: Block) -> str:
        """The part of the array that a table shows, as an index such as `[0:2, :, :]`."""
        drawn = (view.rows, view.columns)
        if self.axes:
            rest = [self.range(d, n) for d, n in enumerate(block) if d not in drawn]
            return ", ".join(rest)
        ranges = [":" if d in drawn else self.range(d, n) for d, n in enumerate(block)]
        return f"[{', '.join(ranges)}]"


def layout_of(shape: Sequence[int], sharding: Sharding, *, abstract: bool = False) -> BlockLayout:
    """The blocks of an array of a shape that the sharding can split. With `abstract`, the devices
    of an abstract mesh are numbered by their places in it; otherwise such a mesh raises
    WeftValueError."""
    ndim = len(shape)
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
    if abstract and isinstance(mesh, AbstractMesh):
        numbers, platform = list(range(mesh.size)), "device"
    else:
        numbers = [int(device.id) for device in sharding.device_list]
        platform = str(sharding.device_list[0].platform).upper()
    counts = sharding.block_counts(ndim)
    holders: dict[Block, list[int]] = {}
    for number, block in zip(numbers, sharding.block_coordinates(ndim).tolist(), strict=True):
        holders.setdefault(tuple(block), []).append(number)
    for held in holders.values():
        held.sort()
    lengths = tuple(length // count for length, count in zip(shape, counts, strict=True))
    return BlockLayout(counts, lengths, holders, platform)


def layout_over(mesh: AnyMesh, axes: Sequence[str]) -> BlockLayout:
    """The devices of a mesh, as the blocks of a value that differs along some of its axes."""
    sizes = tuple(mesh.shape[axis] for axis in axes)
    found = layout_of(sizes, NamedSharding(mesh, PartitionSpec(*axes)), abstract=True)
    return dataclasses.replace(found, axes=tuple(axes))


def abbreviate_range(count: int, most: int) -> list[int | None]:
    """The numbers below `count`; of too many the first and the last, and None."""
    if count <= most:
        return list(range(count))
    first, last = most // 2, (most - 1) // 2
    return [*range(first), None, *range(count - last, count)]


def device_label(platform: str, numbers: Sequence[Any]) -> str:
    """Devices in short, such as `CPU 0,1`: of many the first two, the last and the number."""
    if len(numbers) > MOST_NUMBERS:
        text = f"{numbers[0]},{numbers[1]},…,{numbers[-1]} ({len(numbers)})"
    else:
        text = ",".join(map(str, numbers))
    return f"{platform} {text}"
