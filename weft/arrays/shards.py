"""Blocks of arrays over several devices: which device holds which, and how values get in, out and
from one sharding to another.

A *place* is a device or a sharding over several. The blocks of a place and a type are worked out
once and cached; the functions here work on buffers of the runtime and on NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.arrays.transfers import copy_block, reorder_block, stored_type
from weft.core.types import ArrayType
from weft.errors import Fix, WeftValueError
from weft.runtime import client
from weft.sharding import Layout, NamedSharding, Sharding
from weft.sharding.layout import unless_row_major
from weft.sharding.sharding import block_slices

__all__ = [
    "Parts", "Shard", "gather_blocks", "join", "move", "parts_of", "placement_text", "put_blocks",
    "put_parts", "relayout", "shares", "stored_type",
]  # fmt: skip

Buffer = Any
Device = Any
Place = Any
Index = tuple[slice, ...]
Values = np.ndarray[Any, Any]


class Parts:
    """The parts of an array of a type on the devices of this process.

    `devices` are these devices, in the order of their buffers; device number n holds block number
    `block_of[n]`; `indices` has the index of each of these different blocks and `holders` the
    number of the first device that has it. `placement` is the runtime's object, `block_type` the
    type of one block. `complete`: no value is missing here; `replicated`: there is only one block,
    the whole array.
    """

    __slots__ = (
        "block_of",
        "block_type",
        "complete",
        "devices",
        "holders",
        "indices",
        "place",
        "placement",
        "replicated",
        "stored",
        "type",
    )

    def __init__(self, place: Place, type: ArrayType) -> None:
        self.place = place
        self.type = type
        self.stored = stored_type(type)
        slices: Sequence[Index]
        if isinstance(place, Sharding):
            slices = block_slices(place, type.shape)
            listed = place.device_list
            self.placement = _placement(place, type)
            self.block_type = type.update(shape=place.shard_shape(type.shape))
            count = math.prod(place.block_counts(type.ndim))
        else:
            slices, listed, count = [(slice(None),) * type.ndim], (place,), 1
            self.placement = client.backend().single(place)
            self.block_type = type
        here = client.process_index()
        numbers: dict[tuple[int, ...], int] = {}
        self.devices: list[Device] = []
        self.block_of: list[int] = []
        self.holders: list[int] = []
        self.indices: list[Index] = []
        for device, index in zip(listed, slices, strict=True):
            if device.process_index != here:
                continue
            key = tuple(part.start or 0 for part in index)
            if key not in numbers:
                numbers[key] = len(numbers)
                self.holders.append(len(self.devices))
                self.indices.append(index)
            self.block_of.append(numbers[key])
            self.devices.append(device)
        # An array without elements has blocks that all start at 0.
        self.complete = len(numbers) == count or not type.size
        self.replicated = count == 1


def _placement(sharding: Sharding, type: ArrayType) -> Any:
    assignment = sharding.assignment(type.ndim)
    if assignment is not None:
        # The dimensions that random keys are stored with are not split.
        rows = (1,) * (stored_type(type).ndim - type.ndim)
        assignment = assignment.reshape(*assignment.shape[:-1], *rows, assignment.shape[-1])
    return client.backend().tiled(sharding.device_list, assignment)


@functools.lru_cache(maxsize=4096)
def parts_of(place: Place, type: ArrayType) -> Parts:
    """The parts of an array of this type at this place.

    Raises ShapeError if the type cannot be split so, and WeftValueError for a sharding without
    devices.

    Args:
        place: A device, or a sharding over several devices.
    """
    return Parts(place, type)


def put_blocks(values: Values, type: ArrayType, sharding: Sharding, copy: bool) -> Buffer:
    """A NumPy array (of stored values) as a buffer; each device gets a copy of its block."""
    parts = parts_of(sharding, type)
    return put_parts([_block(values, index) for index in parts.indices], parts, copy)


def _block(values: Values, index: Index) -> Values:
    """A part of an array, as a view."""
    # The ellipsis keeps an array without dimensions an array.
    where: Any = (*index, ...)
    return values[where]


def put_parts(blocks: Sequence[Values], parts: Parts, copy: bool) -> Buffer:
    """A buffer from its different blocks."""
    spread = [blocks[number] for number in parts.block_of]
    return client.backend().put_shards(
        spread, parts.stored, parts.placement, parts.devices, copy=copy
    )


def gather_blocks(buffer: Buffer, parts: Parts) -> Values:
    """All values of a buffer over several devices, as they are stored: read-only. Raises
    WeftValueError if no device of this process holds some of them."""
    if not parts.complete:
        raise _elsewhere(parts)
    backend = client.backend()
    if parts.replicated:
        return backend.to_numpy(backend.replica(buffer))
    shards = backend.shards(buffer)
    fetch([shards[number] for number in parts.holders])
    out = backend.host_memory(parts.stored.shape, parts.stored.dtype)
    for index, number in zip(parts.indices, parts.holders, strict=True):
        out[index] = backend.to_numpy(shards[number])
    out.flags.writeable = False
    return out


def fetch(shards: Sequence[Buffer]) -> None:
    """Starts bringing buffers to the host, all at once; the CPU's are there already."""
    backend = client.backend()
    for shard in shards:
        if backend.device_of(shard).platform != "cpu":
            backend.copy_to_host_async(shard)


def join(shards: Sequence[Buffer], parts: Parts) -> Buffer:
    """One buffer from those of the devices of this process, in the order of `parts.devices`.

    Args:
        shards: The buffers, one for each device of this process.
        parts: How the array is split.
    """
    return client.backend().assemble(shards, parts.stored, parts.placement)


def _elsewhere(parts: Parts) -> WeftValueError:
    message = "an array has parts that no device of this process holds"
    wanted = "an array that is on the devices of this process as a whole"
    fix = Fix(
        "process_allgather",
        "call weft.distributed.process_allgather(x, tiled=True) in all processes for the whole "
        "array, or use x.addressable_shards for the parts that are here",
    )
    got = f"{parts.type} with {parts.place}"
    operation = "conversion to a NumPy array"
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


# ---- from one device or sharding to another ------------------------------------------------------

# How a device gets its new block: it has it already ("keep"), another device has it ("copy"), it
# is inside of one ("cut") or made of several ("join"). The first two come with the number of a
# buffer, the others with rows: an index in the new block, the number of a buffer, an index in that.
KEEP, COPY, CUT, JOIN = "keep", "copy", "cut", "join"
Step = tuple[str, Any]


@functools.lru_cache(maxsize=4096)
def _route(source: Place, target: Place, type: ArrayType) -> tuple[Step, ...]:
    """For each device of this process in the target, the source of its block."""
    old, new = parts_of(source, type), parts_of(target, type)
    starts = [_bounds(index, type.shape) for index in old.indices]
    steps: dict[int, Step] = {}
    found: list[Step] = []
    for device, number in zip(new.devices, new.block_of, strict=True):
        if number not in steps:
            steps[number] = _step(_bounds(new.indices[number], type.shape), starts, old)
        kind, where = steps[number]
        if kind == COPY:
            block = old.block_of[where]
            for holder, (other, its) in enumerate(zip(old.devices, old.block_of, strict=True)):
                if other == device and its == block:
                    kind, where = KEEP, holder
        found.append((kind, where))
    return tuple(found)


Bounds = tuple[tuple[int, int], ...]


def _bounds(index: Index, shape: tuple[int, ...]) -> Bounds:
    return tuple(part.indices(length)[:2] for part, length in zip(index, shape, strict=True))


def _step(wanted: Bounds, blocks: Sequence[Bounds], old: Parts) -> Step:
    """How to get a block from the existing ones."""
    rows = []
    covered = 0
    for number, block in enumerate(blocks):
        if block == wanted:
            return COPY, old.holders[number]
        common = [
            (max(low, start), min(high, stop))
            for (low, high), (start, stop) in zip(wanted, block, strict=True)
        ]
        if any(low >= high for low, high in common):
            continue
        to = tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(common, wanted, strict=True))
        of = tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(common, block, strict=True))
        if tuple(common) == wanted:
            return CUT, ((to, old.holders[number], of),)
        rows.append((to, old.holders[number], of))
        covered += math.prod(high - low for low, high in common)
    if covered != math.prod(high - low for low, high in wanted):
        raise _elsewhere(old)
    return JOIN, tuple(rows)


def move(
    buffer: Buffer,
    type: ArrayType,
    source: Place,
    target: Place,
    copy: bool = False,
    layout: Layout | None = None,
) -> Buffer:
    """A buffer of an array at `source` as a buffer at `target`, in the same layout. Blocks in place
    are shared, unless `copy`; whole blocks go from device to device, and the others through the
    host, which reads only the needed values."""
    old, new = parts_of(source, type), parts_of(target, type)
    steps = _route(source, target, type)
    shards = client.backend().shards(buffer)
    stays = all(step == (KEEP, number) for number, step in enumerate(steps))
    if not copy and old.devices == new.devices and stays:
        return client.backend().relabel(buffer, new.stored, new.placement)
    blocks = _host_blocks(shards, steps, new)
    cut = any(kind == CUT for kind, _ in steps)
    if len(blocks) == len(new.indices) and isinstance(target, Sharding):
        made = put_parts([blocks[number] for number in range(len(blocks))], new, copy=cut)
        return relayout(made, new, None, layout)
    block_type = stored_type(new.block_type)
    found = []
    for (kind, where), number, device in zip(steps, new.block_of, new.devices, strict=True):
        if kind == KEEP and not copy:
            found.append(shards[where])
        elif kind in (KEEP, COPY):
            found.append(copy_block(shards[where], new.block_type, device, layout))
        else:
            # Blocks from the host are row-major.
            made = client.backend().put(blocks[number], block_type, device, copy=cut)
            found.append(reorder_block(made, new.block_type, device, None, layout))
    return join(found, new)


def relayout(buffer: Buffer, parts: Parts, old: Layout | None, new: Layout | None) -> Buffer:
    """A buffer with the elements of each part in another order."""
    if old is new:
        return buffer
    shards = client.backend().shards(buffer)
    found = [
        reorder_block(shard, parts.block_type, device, old, new)
        for shard, device in zip(shards, parts.devices, strict=True)
    ]
    return join(found, parts) if isinstance(parts.place, Sharding) else found[0]


def shares(type: ArrayType, source: Place, target: Place) -> bool:
    """Whether `move` lets both arrays refer to the same memory somewhere."""
    return any(kind == KEEP for kind, _ in _route(source, target, type))


def _host_blocks(shards: Sequence[Buffer], steps: Sequence[Step], new: Parts) -> dict[int, Values]:
    """The new blocks cut from others or joined, by their numbers, on the host."""
    wanted = {
        number: step
        for step, number in zip(steps, new.block_of, strict=True)
        if step[0] in (CUT, JOIN)
    }
    if not wanted:
        return {}
    used = sorted({holder for _, rows in wanted.values() for _, holder, _ in rows})
    fetch([shards[holder] for holder in used])
    values = {holder: client.backend().to_numpy(shards[holder]) for holder in used}
    stored = stored_type(new.block_type)
    out: dict[int, Values] = {}
    for number, (kind, rows) in wanted.items():
        if kind == CUT:
            ((_, holder, index),) = rows
            out[number] = _block(values[holder], index)
            continue
        joined = client.backend().host_memory(stored.shape, stored.dtype)
        for to, holder, index in rows:
            joined[to] = _block(values[holder], index)
        out[number] = joined
    return out


def placement_text(layout: Any, place: Any) -> str:
    """The part of a text for a layout that is not row-major, and for several devices; it begins
    with a comma.

    Args:
        layout: The array's layout; None for row-major.
        place: The array's device or sharding; None where it is not committed.
    """
    layout = unless_row_major(layout)
    order = getattr(layout, "major_to_minor", layout)  # Layout.AUTO has none
    text = f", layout={order}" if layout is not None else ""
    if isinstance(place, NamedSharding):
        return f"{text}, sharding={place.spec}"
    return f"{text}, sharding={place}" if isinstance(place, Sharding) else text


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """The part of an array that one device holds.

    `device` is the one that holds it. `index` says which part it is, as slices of the whole array.
    Devices that hold equal parts are distinguished by `replica_id`, which counts them from 0.
    `data` is the part as an array on its device; None if the device belongs to another process.
    """

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: Any
