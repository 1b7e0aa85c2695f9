"""Buffers of jaxlib's runtime: in from NumPy, out to NumPy, between devices, to and from DLPack.

These functions run for every array that a user touches, so they are thin. jaxlib's own objects
are the buffers. Three dangers of the C++ side are fenced in here: some methods end the process
when the buffer was deleted or shared through DLPack, a transfer may still read the host's memory
after the call, and a byte order that is not the machine's is not noticed.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from weft.errors import DeletedArrayError, WeftError, WeftTypeError, WeftValueError
from weft.runtime.backends.backend import DeviceLayout
from weft.runtime.backends.device_placement import is_tiled, single
from weft.runtime.backends.xla_layouts import device_layout
from weft.runtime.jaxlib.native import extension, without_jax
from weft.runtime.stablehlo.mlir import ArrayTypeLike

Buffer = Any
Device = Any
Placement = Any
RuntimeFault: Any = extension.JaxRuntimeError

_batched_device_put: Any = extension.batched_device_put
_COPY_NOW: Any = extension.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ZERO_COPY: Any = extension.HostBufferSemantics.ZERO_COPY

# XLA on the CPU uses host memory in place where it has this alignment.
_ALIGNMENT = 64
# From this size on, NumPy's copy into memory that XLA then uses in place is faster than XLA's copy.
_LARGE = 32 << 20


# ---- in ------------------------------------------------------------------------------------------


def put(
    array: np.ndarray[Any, Any], array_type: ArrayTypeLike, device: Device, copy: bool
) -> Buffer:
    """A NumPy array on one device; see `Backend.put`."""
    if array.dtype != array_type.dtype or array.shape != array_type.shape:
        array = _to_type(array, array_type)
    semantics = _COPY_NOW if copy else _ZERO_COPY
    if copy and array.nbytes >= _LARGE and device.platform == "cpu":
        array, semantics = aligned_copy(array), _ZERO_COPY
    return _batched_device_put(
        array_type, single(device), (array,), (device,), True, False, semantics, True
    )


def putting(
    array_type: ArrayTypeLike, device: Device
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]] | None:
    """The one call that `put` makes for arrays of exactly this type; see `Backend.putting`."""
    size = array_type.dtype.itemsize * math.prod(array_type.shape)
    if size >= _LARGE or not array_type.dtype.isnative:
        return None
    before = (array_type, single(device))
    return _batched_device_put, before, ((device,), True, False, _COPY_NOW, True)


def put_shards(
    shards: Sequence[np.ndarray[Any, Any]],
    array_type: ArrayTypeLike,
    placement: Placement,
    devices: Sequence[Device],
    copy: bool = True,
) -> Buffer:
    """One array from one block per device; see `Backend.put_shards`."""
    dtype = array_type.dtype
    if copy and _copied_by_xla(shards, dtype):
        return _batched_device_put(
            array_type, placement, shards, devices, True, False, _COPY_NOW, True
        )
    # Copies are made here and handed over for good, each one for all devices that get it.
    made: dict[int, np.ndarray[Any, Any]] = {}
    blocks = []
    for shard in shards:
        block = made.get(id(shard))
        if block is None:
            block = _native_order(shard)
            if block.dtype != dtype:
                _refuse_type(block, array_type)
            if copy:
                block = aligned_copy(block) if block.nbytes >= _LARGE else block.copy()
            made[id(shard)] = block
        blocks.append(block)
    return _batched_device_put(
        array_type, placement, blocks, devices, True, False, _ZERO_COPY, True
    )


def _copied_by_xla(shards: Sequence[np.ndarray[Any, Any]], dtype: np.dtype[Any]) -> bool:
    """Whether XLA copies these blocks itself, which is faster. It fails with "bad function call" if
    two start at one address, and copies a block of several devices for each of them."""
    if not all(s.dtype == dtype and s.nbytes < _LARGE and s.dtype.isnative for s in shards):
        return False
    addresses = {s.__array_interface__["data"][0] for s in shards}
    return len(addresses) == len(shards)


def _to_type(array: np.ndarray[Any, Any], array_type: ArrayTypeLike) -> np.ndarray[Any, Any]:
    array = _native_order(array)
    if array.dtype != array_type.dtype or array.shape != array_type.shape:
        _refuse_type(array, array_type)
    return array


def _native_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _refuse_type(array: np.ndarray[Any, Any], array_type: ArrayTypeLike) -> NoReturn:
    message = "the data do not have the type they were announced with"
    got = f"{array.dtype}{list(array.shape)}"
    wanted = f"{array_type.dtype}{list(array_type.shape)}"
    raise WeftTypeError(message, operation="device_put", got=got, wanted=wanted)


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A row-major copy in memory that XLA can use in place."""
    out = host_memory(array.shape, array.dtype)
    out[...] = array
    return out


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialized array, in memory that XLA can use in place."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % _ALIGNMENT
    return memory[offset : offset + size].view(dtype).reshape(shape)


def assemble(buffers: Sequence[Buffer], array_type: ArrayTypeLike, placement: Placement) -> Buffer:
    """One array from single-device buffers; see `Backend.assemble`."""
    made = extension.ArrayImpl(
        array_type, placement, list(buffers), committed=True, _skip_checks=True
    )
    return _mark_shared(made)


def relabel(buffer: Buffer, array_type: ArrayTypeLike, placement: Placement) -> Buffer:
    """The memory of a buffer as another array; see `Backend.relabel`."""
    if is_deleted(buffer):
        raise deleted_buffer_error("device_put")
    return _mark_shared(buffer._rewrap_with_aval_and_sharding(array_type, placement))


# ---- out -----------------------------------------------------------------------------------------


def to_numpy(buffer: Buffer) -> np.ndarray[Any, Any]:
    """The values of a single-device buffer; see `Backend.to_numpy`."""
    # The buffer protocol waits for the values and shares the memory. jaxlib's own conversion takes
    # longer. It serves what the protocol does not know: bfloat16, say, and memory of other devices.
    try:
        return np.asarray(memoryview(buffer))
    except (BufferError, RuntimeFault):
        pass
    try:
        array: np.ndarray[Any, Any] = _copy_out(buffer)[0]
    except RuntimeFault as error:
        raise fault(error, [buffer]) from error
    if array.flags.writeable:
        array.flags.writeable = False
    return array


@without_jax
def _copy_out(buffer: Buffer) -> Any:
    return buffer._single_device_array_to_np_array_did_copy()


def copy_to_host_async(buffer: Buffer) -> None:
    """Starts a transfer to the host."""
    if buffer.is_deleted():
        raise deleted_buffer_error("copy_to_host_async")
    buffer._copy_single_device_array_to_host_async()


def shards(buffer: Buffer) -> list[Buffer]:
    """The single-device buffers of this process in an array."""
    if is_deleted(buffer):
        raise deleted_buffer_error("shards")
    return _parts(_mark_shared(buffer)) if is_tiled(buffer._sharding) else [buffer]


def replica(buffer: Buffer) -> Buffer:
    """One of the equal single-device buffers of an array; see `Backend.replica`."""
    if is_deleted(buffer):
        raise deleted_buffer_error("shards")
    return _replica(_mark_shared(buffer)) if is_tiled(buffer._sharding) else buffer


@without_jax
def _replica(buffer: Buffer) -> Any:
    return buffer._fully_replicated_shard()


@without_jax
def _parts(buffer: Buffer) -> Any:
    return buffer._arrays


def copy_to_device(buffer: Buffer, array_type: ArrayTypeLike, device: Device) -> Buffer:
    """A copy on another device, through the host where the platforms differ."""
    if buffer.is_deleted():
        raise deleted_buffer_error("device_put")
    if device_of(buffer).client is not device.client:
        return put(to_numpy(buffer), array_type, device, True)
    return _batched_device_put(
        array_type, single(device), (buffer,), (device,), True, False, _COPY_NOW, True
    )


# ---- state ---------------------------------------------------------------------------------------


def block_until_ready(buffers: Sequence[Buffer]) -> None:
    """Waits for buffers."""
    try:
        extension.batched_block_until_ready(buffers)
    except RuntimeFault as error:
        raise fault(error, buffers) from error


# Buffers over several devices whose parts others hold too, by identity. Parts may be deleted one by
# one; XLA looks at the first one only, and ends the process when it comes to use the others.
_shared_parts: dict[int, weakref.ref[Any]] = {}


def _mark_shared(buffer: Buffer) -> Buffer:
    """Records that others may hold parts of the buffer, and returns it."""
    number = id(buffer)
    if number not in _shared_parts:
        _shared_parts[number] = weakref.ref(buffer, lambda _: _shared_parts.pop(number, None))
    return buffer


def is_deleted(buffer: Buffer) -> bool:
    """Whether the buffer, or a part of it, was deleted or donated."""
    if buffer.is_deleted():
        return True
    if id(buffer) not in _shared_parts or not is_tiled(buffer._sharding):
        return False
    return any(part.is_deleted() for part in _parts(buffer))


def is_ready(buffer: Buffer) -> bool:
    """Whether the values are there. (jaxlib ends the process for a deleted buffer.)"""
    if is_deleted(buffer):
        raise deleted_buffer_error("is_ready")
    return bool(buffer.is_ready())


def device_of(buffer: Buffer) -> Device:
    """The device of a single-device buffer."""
    return buffer._sharding._device


def nbytes(buffer: Buffer) -> int:
    """The memory taken, over the devices of this process."""
    return sum(int(part.on_device_size_in_bytes()) for part in shards(buffer))


def unsafe_pointer(buffer: Buffer) -> int:
    """The address of a single-device buffer."""
    if buffer.is_deleted():
        raise deleted_buffer_error("unsafe_buffer_pointer")
    return int(buffer.unsafe_buffer_pointer())


def layout(buffer: Buffer) -> DeviceLayout:
    """The order of the elements in memory."""
    if buffer.is_deleted():
        raise deleted_buffer_error("layout")
    return device_layout(buffer._pjrt_layout)


def deleted_buffer_error(operation: str | None = None) -> DeletedArrayError:
    """The error for a buffer whose memory is gone."""
    message = "the array has been deleted, or its buffer was donated to a call"
    return DeletedArrayError(message, operation=operation)


explanations: list[Callable[[str], WeftError | None]] = []
"""Functions that know why the runtime may have failed with a message, beside the program itself."""


def fault(error: Exception, buffers: Sequence[Buffer]) -> WeftError:
    """The error for the user when the runtime fails on these buffers. An error that a Python
    callback raised is part of the message, with the line where it did."""
    if any(is_deleted(buffer) for buffer in buffers):
        return deleted_buffer_error()
    for explain in explanations:
        if (explanation := explain(str(error))) is not None:
            return explanation
    return WeftError(f"running the program failed: {error}", operation=None)


# ---- DLPack --------------------------------------------------------------------------------------

# Device types of the DLPack standard: https://dmlc.github.io/dlpack/latest/c_api.html
_DLPACK_PLATFORMS = {1: "cpu", 2: "gpu", 3: "cpu"}


def to_dlpack(buffer: Buffer, stream: int | None = None) -> Any:
    """A capsule that shares the memory of a single-device buffer. It is made from a clone: jaxlib
    ends the process if a buffer with a live capsule is deleted; a deleted clone's memory stays
    until the capsule goes."""
    if buffer.is_deleted():
        raise deleted_buffer_error("dlpack")
    try:
        return extension.buffer_to_dlpack_managed_tensor(buffer.clone(), stream)
    except RuntimeFault as error:
        message = "an array of this dtype cannot be shared through DLPack"
        raise WeftTypeError(message, operation="dlpack", got=str(error)) from error


def dlpack_platform(source: Any) -> tuple[str, int]:
    """Platform and device number of an exporter (a bare capsule counts as the first CPU device)."""
    if not hasattr(source, "__dlpack_device__"):
        return "cpu", 0
    kind, number = source.__dlpack_device__()
    if int(kind) not in _DLPACK_PLATFORMS:
        message = "arrays on this kind of device cannot be taken over through DLPack"
        got = f"DLPack device type {int(kind)}"
        wanted = "memory of a CPU or of a CUDA device"
        raise WeftValueError(message, operation="from_dlpack", got=got, wanted=wanted)
    return _DLPACK_PLATFORMS[int(kind)], int(number)


def from_dlpack(source: Any, type_factory: Callable[..., ArrayTypeLike], device: Device) -> Buffer:
    """A buffer that shares the exporter's memory where its alignment allows."""
    capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    stream = None
    if device.platform != "cpu":
        stream = device.get_stream_for_external_ready_events()
    try:
        made = extension.dlpack_managed_tensor_to_buffer(capsule, device, stream)
    except RuntimeFault as error:
        message = "this array cannot be taken over through DLPack"
        got = str(error)
        wanted = "a dense array of a dtype that XLA has"
        raise WeftTypeError(message, operation="from_dlpack", got=got, wanted=wanted) from error
    known = source if hasattr(source, "shape") and device.platform != "cpu" else to_numpy(made)
    array_type = type_factory(tuple(known.shape), np.dtype(known.dtype))
    return made._rewrap_with_aval_and_sharding(array_type, single(device))
