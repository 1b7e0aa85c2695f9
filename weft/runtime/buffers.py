"""Buffers of the current backend: each function hands its arguments to the backend's method.

The layers above use these; code that is called for every operation may fetch the bound method of
`backend()` once instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.runtime.backends.backend import DeviceLayout
from weft.runtime.client import backend

if TYPE_CHECKING:
    from weft.runtime.stablehlo.mlir import ArrayTypeLike

__all__ = [
    "assemble",
    "block_until_ready",
    "copy_to_device",
    "copy_to_host_async",
    "delete",
    "device_of",
    "from_dlpack",
    "host_memory",
    "is_deleted",
    "is_ready",
    "layout",
    "nbytes",
    "put",
    "put_shards",
    "relabel",
    "replica",
    "shards",
    "single",
    "tiled",
    "to_dlpack",
    "to_numpy",
    "unsafe_pointer",
]

Buffer = Any
Device = Any
Placement = Any


def single(device: Device) -> Placement:
    """The placement on one device."""
    return backend().single(device)


def tiled(devices: Sequence[Device], assignment: np.ndarray[Any, Any] | None) -> Placement:
    """The placement over several devices.

    `assignment` holds positions in `devices`: one axis for each dimension of the array, as long as
    the number of blocks along it, and a last axis with the devices that hold equal copies of a
    block. None: every device holds the whole array.
    """
    return backend().tiled(devices, assignment)


def put(
    array: np.ndarray[Any, Any],
    array_type: ArrayTypeLike,
    device: Device | None = None,
    *,
    copy: bool = True,
) -> Buffer:
    """A NumPy array on a device (by default the first one).

    With `copy=False` the caller promises never to change the array's memory, and a device that can
    use it in place does. Raises WeftTypeError if shape or dtype differ from the type's.
    """
    current = backend()
    return current.put(array, array_type, device or current.default_device, copy)


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A NumPy array to be filled, in memory that `put` with `copy=False` can use in place."""
    return backend().host_memory(shape, dtype)


def put_shards(
    blocks: Sequence[np.ndarray[Any, Any]],
    array_type: ArrayTypeLike,
    placement: Placement,
    devices: Sequence[Device],
    *,
    copy: bool = True,
) -> Buffer:
    """One array of type `array_type` from the blocks of the devices of this process, in their
    order."""
    return backend().put_shards(blocks, array_type, placement, devices, copy)


def assemble(buffers: Sequence[Buffer], array_type: ArrayTypeLike, placement: Placement) -> Buffer:
    """One array from single-device buffers that lie where the placement says; nothing is copied."""
    return backend().assemble(buffers, array_type, placement)


def relabel(buffer: Buffer, array_type: ArrayTypeLike, placement: Placement) -> Buffer:
    """The memory of a buffer as another array; nothing is copied, and deleting one deletes both.

    The devices of `placement` are those of the buffer in the same order, and each holds a block of
    the shape that it has to hold now. Raises DeletedArrayError for a buffer that was deleted or
    donated.
    """
    return backend().relabel(buffer, array_type, placement)


def shards(buffer: Buffer) -> list[Buffer]:
    """The single-device buffers of this process that an array consists of."""
    return backend().shards(buffer)


def replica(buffer: Buffer) -> Buffer:
    """One of the equal single-device buffers of an array of which every device holds a copy."""
    return backend().replica(buffer)


def to_numpy(buffer: Buffer) -> np.ndarray[Any, Any]:
    """The values of a single-device buffer as a read-only array, without a copy where possible.

    Waits for them. Raises DeletedArrayError for a buffer that was deleted or donated.
    """
    return backend().to_numpy(buffer)


def copy_to_device(buffer: Buffer, array_type: ArrayTypeLike, device: Device) -> Buffer:
    """A single-device buffer on another device."""
    return backend().copy_to_device(buffer, array_type, device)


def copy_to_host_async(buffer: Buffer) -> None:
    """Starts bringing a single-device buffer to the host, for a later `to_numpy`."""
    backend().copy_to_host_async(buffer)


def block_until_ready(buffers: Sequence[Buffer]) -> None:
    """Waits until all buffers are computed; an error in computing one is raised here."""
    backend().block_until_ready(buffers)


def is_ready(buffer: Buffer) -> bool:
    """Whether the values are there. Raises DeletedArrayError if they never will be."""
    return backend().is_ready(buffer)


def delete(buffer: Buffer) -> None:
    """Frees the memory now; NumPy views and DLPack users of it keep it alive for themselves."""
    backend().delete(buffer)


def is_deleted(buffer: Buffer) -> bool:
    """Whether the buffer was deleted or donated."""
    return backend().is_deleted(buffer)


def device_of(buffer: Buffer) -> Device:
    """The device of a single-device buffer."""
    return backend().device_of(buffer)


def nbytes(buffer: Buffer) -> int:
    """The memory taken, over all devices of this process."""
    return backend().nbytes(buffer)


def unsafe_pointer(buffer: Buffer) -> int:
    """The address of a single-device buffer."""
    return backend().unsafe_pointer(buffer)


def layout(buffer: Buffer) -> DeviceLayout:
    """How the buffer's elements are ordered in memory."""
    return backend().layout(buffer)


def to_dlpack(buffer: Buffer, stream: int | None = None) -> Any:
    """A DLPack capsule that shares the memory of a single-device buffer."""
    return backend().to_dlpack(buffer, stream)


def from_dlpack(source: Any, type_factory: Callable[..., ArrayTypeLike]) -> Buffer:
    """A buffer that shares the memory of a DLPack exporter (or capsule).

    `type_factory(shape, dtype)` makes the array type that the buffer gets.
    """
    return backend().from_dlpack(source, type_factory)
