"""Shardings as frozen data: which block of an array each device holds. They touch no device."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from weft.errors import (
    Fix,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.sharding.devices import check_devices, is_addressable
from weft.sharding.interning import Interned

Device = Any
Assignment = np.ndarray[Any, Any] | None


DEVICE_MEMORY = "device"
# The memory of a CPU is that of the host, and has all names.
KINDS_OF_MEMORY = (DEVICE_MEMORY, "pinned_host", "unpinned_host")


def check_memory(operation: str, kind: Any, devices: Sequence[Device]) -> None:
    """Raises for a kind of memory that these devices do not have."""
    on_host = all(getattr(device, "platform", "cpu") == "cpu" for device in devices)
    if kind not in KINDS_OF_MEMORY or not on_host:
        raise no_memory(operation, kind)


def no_memory(operation: str, kind: Any) -> WeftValueError | WeftNotImplementedError:
    """The error for an unknown kind of memory."""
    known = kind in KINDS_OF_MEMORY
    message = f"{operation}: arrays lie in the memory of their devices only"
    if not known:
        message = f"{operation}: there is no memory of the kind {kind!r}"
    wanted = "memory_kind='device'" + ("" if known else ", 'pinned_host' or 'unpinned_host'")
    fix = Fix("keyword", "leave memory_kind out", {"keyword": "memory_kind", "value": None})
    error = WeftNotImplementedError if known else WeftValueError
    return error(message, got=f"memory_kind={kind!r:.100}", wanted=wanted, fix=fix)


class Sharding(Interned):
    """How an array is split over devices; an abstract class.

    A subclass says on which devices (`device_list`) and which block each of them holds
    (`assignment`); the rest follows. Shardings are immutable, and equal ones are one object.
    """

    __slots__ = ()

    @property
    def memory_kind(self) -> str:
        """The kind of memory that holds the arrays: "device" unless the sharding says otherwise."""
        return DEVICE_MEMORY

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same sharding in memory of another kind. A CPU has one memory under three names:
        "device", "pinned_host" and "unpinned_host".

        Raises WeftValueError for an unknown kind, and WeftNotImplementedError for the memory of the
        host beside that of an accelerator.
        """
        if kind == self.memory_kind:
            return self
        raise no_memory(type(self).__name__, kind)

    @property
    @abc.abstractmethod
    def device_list(self) -> tuple[Device, ...]:
        """The devices, in the order of their positions in an assignment."""

    @abc.abstractmethod
    def assignment(self, ndim: int) -> Assignment:
        """The assignment of the blocks of an array of `ndim` dimensions to devices.

        The result holds positions in `device_list`. It has one axis for each dimension, as long as
        the number of blocks along it, and a last axis for the devices that hold equal copies.
        None: every device holds the whole array. Raises ShapeError if arrays of `ndim`
        dimensions cannot be laid out so.
        """

    def check_shape(self, operation: str, what: str, shape: Sequence[int]) -> None:
        """Raises ShapeError if an array of this shape cannot be laid out so.

        `what` says which array it is, in the text of the error.
        """
        lengths = checked_shape(operation, shape)
        counts = self.block_counts(len(lengths))
        for dimension, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            if length % count:
                raise _indivisible(operation, what, lengths, dimension, count, self)

    @property
    def canonical(self) -> Sharding:
        """The canonical form of the sharding, the key of arrays."""
        return self

    @property
    def device_set(self) -> frozenset[Device]:
        """The devices that hold a part of the array."""
        return frozenset(self.device_list)

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return len(self.device_list)

    @property
    def addressable_devices(self) -> frozenset[Device]:
        """Those of the devices that belong to this process."""
        return frozenset(filter(is_addressable, self.device_list))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return all(map(is_addressable, self.device_list))

    @property
    @abc.abstractmethod
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""

    def block_counts(self, ndim: int) -> tuple[int, ...]:
        """The number of blocks along each dimension."""
        assignment = self.assignment(ndim)
        return (1,) * ndim if assignment is None else assignment.shape[:-1]

    def block_coordinates(self, ndim: int) -> np.ndarray[Any, Any]:
        """For each device of `device_list`, the number of its block along each dimension."""
        assignment = self.assignment(ndim)
        out = np.zeros((self.num_devices, ndim), np.int64)
        if assignment is not None:
            blocks = np.indices(assignment.shape[:-1]).reshape(ndim, -1).T
            out[assignment.reshape(len(blocks), -1)] = blocks[:, None, :]
        return out

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each device's block. Raises ShapeError if a shape cannot be split so."""
        return _shard_shape(self, checked_shape("shard_shape", global_shape))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """The part of an array of this shape that each device holds, as an index.

        Raises ShapeError if the shape cannot be split so.
        """
        indices = block_slices(self, checked_shape("devices_indices_map", global_shape))
        return dict(zip(self.device_list, indices, strict=True))

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> dict[Device, tuple[slice, ...]]:
        """Like `devices_indices_map`, for the devices of this process only."""
        found = self.devices_indices_map(global_shape)
        return {device: index for device, index in found.items() if is_addressable(device)}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of `ndim` dimensions are split in the same way, on devices in the same
        order."""
        return self is other or _equivalent(self, other, ndim)


@functools.lru_cache(maxsize=4096)
def _equivalent(first: Sharding, second: Sharding, ndim: int) -> bool:
    if first.device_list != second.device_list:
        return False
    return np.array_equal(first.block_coordinates(ndim), second.block_coordinates(ndim))


@functools.lru_cache(maxsize=4096)
def _shard_shape(sharding: Sharding, shape: tuple[int, ...]) -> tuple[int, ...]:
    sharding.check_shape("shard_shape", "an array", shape)
    counts = sharding.block_counts(len(shape))
    return tuple(length // count for length, count in zip(shape, counts, strict=True))


@functools.lru_cache(maxsize=4096)
def block_slices(sharding: Sharding, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], ...]:
    """The index of the block of each device; `slice(None)` for an unsplit dimension."""
    lengths = sharding.shard_shape(shape)
    split = [count > 1 for count in sharding.block_counts(len(shape))]
    return tuple(
        tuple(
            slice(number * length, (number + 1) * length) if cut else slice(None)
            for number, length, cut in zip(numbers, lengths, split, strict=True)
        )
        for numbers in sharding.block_coordinates(len(shape)).tolist()
    )


def checked_shape(operation: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of integers. Raises WeftTypeError for others."""
    try:
        lengths = tuple(map(operator.index, shape))
    except TypeError:
        lengths = (-1,)
    if any(length < 0 for length in lengths):
        message = f"{operation}: a shape is a sequence of integers that are not negative"
        wanted = "a shape, such as (8, 4)"
        fix = Fix("shape", "use x.shape", {"shape": "x.shape"})
        raise WeftTypeError(message, operation=operation, got=repr(shape), wanted=wanted, fix=fix)
    return lengths


def _indivisible(
    operation: str, what: str, shape: tuple[int, ...], dimension: int, count: int, how: Sharding
) -> ShapeError:
    length = shape[dimension]
    padded = -(-length // count) * count
    fixed = shape[:dimension] + (padded,) + shape[dimension + 1 :]
    message = (
        f"{operation}: dimension {dimension} of {what} cannot be split into {count} equal blocks"
    )
    got = f"shape {shape!r} with {how}"
    wanted = f"a multiple of {count} in place of {length}"
    text = f"pad dimension {dimension} to {padded}, or do not split it"
    fix = Fix("pad", text, {"shape": fixed, "dimension": dimension})
    return ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    device: the device that holds the array; memory_kind: "device" (the same as None), or on a CPU
    one of the other names of its memory.

    Raises WeftTypeError for anything that is not a device.

    >>> from weft.sharding import SingleDeviceSharding
    >>> SingleDeviceSharding(weft.devices()[0]).shard_shape((4, 2))
    (4, 2)
    """

    __slots__ = ("_kind", "device", "device_list")

    device: Device
    device_list: tuple[Device, ...]
    _kind: str
    # Kept for good: devices are few, and every array is asked for its sharding.
    _kept: ClassVar[dict[Device, Any]] = {}

    @api_boundary
    def __new__(cls, device: Device, *, memory_kind: str | None = None) -> Self:
        if memory_kind not in (None, DEVICE_MEMORY):
            check_devices("SingleDeviceSharding", (device,))
            check_memory("SingleDeviceSharding", memory_kind, (device,))
            key = (device, memory_kind)
            return cls._made_of(key, device=device, device_list=(device,), _kind=memory_kind)
        try:
            out: Self = cls._kept[device]
            return out
        except (KeyError, TypeError):  # a TypeError where it is not hashable, so no device
            check_devices("SingleDeviceSharding", (device,))
        made: Self = cls._made_of(device, device=device, device_list=(device,), _kind=DEVICE_MEMORY)
        cls._kept[device] = made
        return made

    @property
    def memory_kind(self) -> str:
        return self._kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    @property
    def canonical(self) -> SingleDeviceSharding:
        plain = self._kind == DEVICE_MEMORY
        return self if plain else SingleDeviceSharding(self.device)

    def assignment(self, ndim: int) -> Assignment:
        return None

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def __repr__(self) -> str:
        kind = "" if self._kind == DEVICE_MEMORY else f", memory_kind={self._kind!r}"
        return f"SingleDeviceSharding({self.device}{kind})"


class TiledSharding(Sharding):
    """Blocks dealt out over devices in an order that no spec over a mesh describes.

    The compiler may choose such a sharding for a result. `assignment` has the form that
    `Sharding.assignment` describes, and thereby belongs to arrays of one number of dimensions;
    None means a copy on each device.

    devices: the devices, in the order in which the assignment counts them.

    Raises WeftTypeError for anything that is neither a device nor an array of integers, and
    WeftValueError unless every device stands in the assignment exactly once.

    >>> from weft.sharding import TiledSharding
    >>> devices = weft.devices()[:3]
    >>> TiledSharding(devices, np.array([[2], [0], [1]])).devices_indices_map((6,))[devices[2]]
    (slice(0, 2, None),)
    """

    __slots__ = ("device_list", "stored")

    device_list: tuple[Device, ...]
    stored: Assignment

    @api_boundary
    def __new__(cls, devices: Sequence[Device], assignment: Any) -> Self:
        listed = tuple(devices)
        check_devices("TiledSharding", listed)
        order = None if assignment is None else _checked_assignment(assignment, len(listed))
        if order is None or order.shape[-1] == len(listed):
            return cls._made_of((listed, None), device_list=listed, stored=None)
        key = (listed, order.shape, order.tobytes())
        return cls._made_of(key, device_list=listed, stored=order)

    def assignment(self, ndim: int) -> Assignment:
        order = self.stored
        if order is None:
            return None
        if order.ndim - 1 != ndim:
            message = f"a layout of arrays of {order.ndim - 1} dimensions is none of others"
            got = f"an array of {ndim} dimensions with {self}"
            wanted = f"an array of {order.ndim - 1} dimensions"
            text = f"use it for arrays of rank {order.ndim - 1}"
            fix = Fix("reshape", text, {"ndim": order.ndim - 1})
            raise ShapeError(message, operation="TiledSharding", got=got, wanted=wanted, fix=fix)
        return order

    @property
    def is_fully_replicated(self) -> bool:
        return self.stored is None

    def __repr__(self) -> str:
        if self.stored is None:
            return f"TiledSharding({self.num_devices} devices, replicated)"
        *blocks, copies = self.stored.shape
        of = f", {copies} copies each" if copies > 1 else ""
        return f"TiledSharding({self.num_devices} devices, blocks {tuple(blocks)!r}{of})"


def _checked_assignment(assignment: Any, devices: int) -> np.ndarray[Any, Any]:
    """An assignment with the copies of a block in ascending order, for equality."""
    try:
        order = np.asarray(assignment)
    except ValueError:  # rows of different lengths
        order = np.empty(0, object)
    if order.dtype.kind not in "iu" or not order.ndim:
        message = "TiledSharding: an assignment is an array of integers"
        got = f"{assignment!r:.200}"
        wanted = "positions of devices: an axis for each dimension, and one for the copies"
        fix = Fix("assignment", "use None for a copy on each device", {"assignment": None})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if sorted(order.ravel().tolist()) != list(range(devices)):
        message = "TiledSharding: an assignment has the position of each device exactly once"
        got = f"{order.ravel().tolist()!r:.200} for {devices} devices"
        wanted = f"the numbers from 0 to {devices - 1}"
        fix = Fix("assignment", "use None for a copy on each device", {"assignment": None})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    order = np.sort(order.astype(np.int64), axis=-1)
    order.flags.writeable = False
    return order
