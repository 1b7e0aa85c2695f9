"""A backend without devices: NumPy arrays as buffers, modules that are recorded, not compiled.

It has the interface of the real one, so that tests of tracing, the caches of `jit`, dispatch and
transformations can count its calls: how many modules are compiled, with which text, and how often
data are moved. An executable returns zeros of the announced types, or the results of a Python
function that the backend was given.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import DeletedArrayError, WeftError, WeftTypeError
from weft.runtime.backends.backend import (
    Assignment,
    Backend,
    CompileOptions,
    DeviceLayout,
    Executable,
    MemoryStats,
)
from weft.runtime.stablehlo.mlir import ArrayTypeLike, ir, verify

Program = Callable[..., Sequence[np.ndarray[Any, Any]]]


@dataclasses.dataclass(frozen=True)
class FakeDevice:
    """A device that exists by name only."""

    id: int
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "fake"

    def __repr__(self) -> str:
        return f"FakeDevice(id={self.id})"


@dataclasses.dataclass(frozen=True)
class FakePlacement:
    """The devices of an array, and their blocks (None: a copy on each)."""

    devices: tuple[FakeDevice, ...]
    assignment: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def grid(self) -> Assignment:
        """The assignment as an array."""
        if self.assignment is None:
            return None
        return np.reshape(self.assignment[1], self.assignment[0])


@dataclasses.dataclass(eq=False, slots=True)
class FakeBuffer:
    """The values of an array on one device, or its parts on several."""

    values: np.ndarray[Any, Any] | None
    array_type: ArrayTypeLike
    placement: FakePlacement
    parts: Sequence[FakeBuffer] = ()


@dataclasses.dataclass(slots=True)
class _Results:
    """The results of a started executable: `consume_with_handlers` makes buffers of them."""

    values: Sequence[np.ndarray[Any, Any]]

    def consume_with_handlers(
        self, handlers: Sequence[Callable[[np.ndarray[Any, Any]], FakeBuffer]]
    ) -> list[FakeBuffer]:
        return [handler(value) for handler, value in zip(handlers, self.values, strict=True)]


class FakeExecutable(Executable):
    """A recorded module."""

    __slots__ = ("backend", "devices", "out_placements", "program", "text")

    def __init__(
        self,
        backend: FakeBackend,
        text: str,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        out_placements: Sequence[FakePlacement],
        devices: Sequence[FakeDevice],
        program: Program | None,
    ) -> None:
        self.backend = backend
        self.text = text
        self.options = options
        self.out_types = tuple(out_types)
        self.out_placements = tuple(out_placements)
        self.devices = tuple(devices)
        self.program = program
        self.execute = self._execute
        self.handlers = [
            _handler(array_type, placement)
            for array_type, placement in zip(out_types, out_placements, strict=True)
        ]

    def _execute(self, buffers: Sequence[FakeBuffer]) -> _Results:
        self.backend.count("executions")
        for buffer in buffers:
            if self.backend.is_deleted(buffer):
                raise DeletedArrayError("the array has been deleted", operation="execute")
        if self.program is None:
            values = [np.zeros(kind.shape, kind.dtype) for kind in self.out_types]
        else:
            values = [np.asarray(v) for v in self.program(*map(_assemble_values, buffers))]
        for value, kind in zip(values, self.out_types, strict=True):
            _check(value, kind)
        return _Results(values)

    def run(self, buffers: Sequence[FakeBuffer]) -> list[FakeBuffer]:
        return self._execute(buffers).consume_with_handlers(self.handlers)

    def run_to_end(self, buffers: Sequence[FakeBuffer]) -> list[FakeBuffer]:
        return self.run(buffers)

    @property
    def fingerprint(self) -> str:
        return f"fake-{hash(self.text) & 0xFFFFFFFF:08x}"

    def serialize(self) -> bytes:
        return self.text.encode()

    def as_text(self) -> str:
        return self.text

    def cost_analysis(self) -> dict[str, float]:
        return {"flops": 0.0, "bytes accessed": 0.0}

    def memory_stats(self) -> MemoryStats:
        size = sum(math.prod(kind.shape) * kind.dtype.itemsize for kind in self.out_types)
        return MemoryStats(0, size, 0, 0, 0, size)

    def input_aliases(self) -> dict[int, int]:
        return {}

    @property
    def native(self) -> Any:
        return self

    def parameter_layouts(self) -> list[DeviceLayout]:
        return []

    def output_layouts(self) -> list[DeviceLayout]:
        return [_row_major(kind.shape) for kind in self.out_types]

    def parameter_assignments(self) -> list[Assignment]:
        return []

    def output_assignments(self) -> list[Assignment]:
        return [placement.grid() for placement in self.out_placements]


class FakeBackend(Backend):
    """A backend of `num_devices` fake devices that counts its calls. `counts` has the numbers of
    "compiles", "executions", "puts" and "copies"; `modules` the text of every compiled module, in
    order. `programs` maps a module's name to the Python function that stands for it: from NumPy
    arrays (whole ones) to a sequence of NumPy arrays."""

    runtime_fault = WeftError

    def __init__(self, num_devices: int = 1, programs: Mapping[str, Program] | None = None) -> None:
        self.platform = "cpu"
        self.programs = dict(programs or {})
        self.counts = dict.fromkeys(("compiles", "executions", "puts", "copies"), 0)
        self.modules: list[str] = []
        self._devices = [FakeDevice(number) for number in range(num_devices)]
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        """Counts one call."""
        with self._lock:
            self.counts[what] += 1

    def devices(self) -> list[FakeDevice]:
        return list(self._devices)

    local_devices = devices

    @property
    def process_index(self) -> int:
        return 0

    @property
    def process_count(self) -> int:
        return 1

    def heap_profile(self) -> bytes:
        return b""

    def single(self, device: FakeDevice) -> FakePlacement:
        return FakePlacement((device,))

    def tiled(
        self, devices: Sequence[FakeDevice], assignment: np.ndarray[Any, Any] | None
    ) -> FakePlacement:
        if assignment is None:
            return FakePlacement(tuple(devices))
        key = (tuple(assignment.shape), tuple(assignment.ravel().tolist()))
        return FakePlacement(tuple(devices), key)

    def put(
        self,
        array: np.ndarray[Any, Any],
        array_type: ArrayTypeLike,
        device: FakeDevice | None = None,
        copy: bool = True,
    ) -> FakeBuffer:
        self.count("puts")
        _check(array, array_type)
        placement = self.single(device or self.default_device)
        return FakeBuffer(array.copy() if copy else array, array_type, placement)

    def host_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        return np.empty(shape, dtype)

    def put_shards(
        self,
        shards: Sequence[np.ndarray[Any, Any]],
        array_type: ArrayTypeLike,
        placement: FakePlacement,
        devices: Sequence[FakeDevice],
        copy: bool = True,
    ) -> FakeBuffer:
        self.count("puts")
        parts = [
            FakeBuffer(block.copy() if copy else block, array_type, self.single(device))
            for block, device in zip(shards, devices, strict=True)
        ]
        return FakeBuffer(None, array_type, placement, parts)

    def assemble(
        self, buffers: Sequence[FakeBuffer], array_type: ArrayTypeLike, placement: FakePlacement
    ) -> FakeBuffer:
        if len(placement.devices) == 1:
            return FakeBuffer(_values(buffers[0]), array_type, placement)
        return FakeBuffer(None, array_type, placement, buffers)

    def relabel(
        self, buffer: FakeBuffer, array_type: ArrayTypeLike, placement: FakePlacement
    ) -> FakeBuffer:
        return self.assemble(self.shards(buffer), array_type, placement)

    def shards(self, buffer: FakeBuffer) -> list[FakeBuffer]:
        return list(buffer.parts) or [buffer]

    def replica(self, buffer: FakeBuffer) -> FakeBuffer:
        return self.shards(buffer)[0]

    def to_numpy(self, buffer: FakeBuffer) -> np.ndarray[Any, Any]:
        view = _values(buffer).view()
        view.flags.writeable = False
        return view

    def copy_to_device(
        self, buffer: FakeBuffer, array_type: ArrayTypeLike, device: FakeDevice
    ) -> FakeBuffer:
        self.count("copies")
        return FakeBuffer(_values(buffer).copy(), array_type, self.single(device))

    def copy_to_host_async(self, buffer: FakeBuffer) -> None:
        _values(buffer)

    def block_until_ready(self, buffers: Sequence[FakeBuffer]) -> None:
        for buffer in buffers:
            for part in self.shards(buffer):
                _values(part)

    def is_ready(self, buffer: FakeBuffer) -> bool:
        self.block_until_ready([buffer])
        return True

    def delete(self, buffer: FakeBuffer) -> None:
        for part in self.shards(buffer):
            part.values = None

    def is_deleted(self, buffer: FakeBuffer) -> bool:
        return any(part.values is None for part in self.shards(buffer))

    def fault(self, error: Exception, buffers: Sequence[FakeBuffer]) -> WeftError:
        return error if isinstance(error, WeftError) else WeftError(str(error), operation=None)

    def device_of(self, buffer: FakeBuffer) -> FakeDevice:
        return buffer.placement.devices[0]

    def nbytes(self, buffer: FakeBuffer) -> int:
        return sum(_values(part).nbytes for part in self.shards(buffer))

    def unsafe_pointer(self, buffer: FakeBuffer) -> int:
        return int(_values(buffer).ctypes.data)

    def layout(self, buffer: FakeBuffer) -> DeviceLayout:
        return _row_major(buffer.array_type.shape)

    def to_dlpack(self, buffer: FakeBuffer, stream: int | None = None) -> Any:
        return _values(buffer).__dlpack__()

    def from_dlpack(self, source: Any, type_factory: Callable[..., ArrayTypeLike]) -> FakeBuffer:
        values = np.from_dlpack(source)
        made = type_factory(values.shape, values.dtype)
        return FakeBuffer(values, made, self.single(self._devices[0]))

    def compile(
        self,
        module: ir.Module,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[FakeDevice] | None = None,
        out_placements: Sequence[FakePlacement] | None = None,
    ) -> FakeExecutable:
        verify(module)
        text = str(module)
        name = str(module.operation.attributes["sym_name"]).strip('"')
        return self._record(text, name, options, out_types, devices, out_placements)

    def to_hlo(self, module: ir.Module) -> Any:
        return module

    def hlo_text(self, module: ir.Module, lines: bool = False) -> str:
        return str(module)

    def estimated_cost(self, module: ir.Module) -> dict[str, float]:
        return {"flops": 0.0, "bytes accessed": 0.0}

    def deserialize(
        self,
        data: bytes,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[FakeDevice] | None = None,
        out_placements: Sequence[FakePlacement] | None = None,
    ) -> FakeExecutable:
        return self._record(data.decode(), "", options, out_types, devices, out_placements)

    def _record(
        self,
        text: str,
        name: str,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[FakeDevice] | None,
        out_placements: Sequence[FakePlacement] | None,
    ) -> FakeExecutable:
        chosen = list(devices or self._devices[: options.num_partitions])
        with self._lock:
            self.counts["compiles"] += 1
            self.modules.append(text)
        placements = out_placements or [FakePlacement(tuple(chosen))] * len(out_types)
        program = self.programs.get(name)
        return FakeExecutable(self, text, options, out_types, placements, chosen, program)


def _check(values: np.ndarray[Any, Any], array_type: ArrayTypeLike) -> None:
    if values.shape != array_type.shape or values.dtype != array_type.dtype:
        message = "the data do not have the type they were announced with"
        got = f"{values.dtype}{list(values.shape)}"
        raise WeftTypeError(message, got=got, wanted=f"{array_type.dtype}{list(array_type.shape)}")


def _values(buffer: FakeBuffer) -> np.ndarray[Any, Any]:
    if buffer.values is None:
        raise DeletedArrayError("the array has been deleted, or its buffer was donated to a call")
    return buffer.values


def _row_major(shape: Sequence[int]) -> DeviceLayout:
    return DeviceLayout(tuple(range(len(shape))))


def _handler(
    array_type: ArrayTypeLike, placement: FakePlacement
) -> Callable[[np.ndarray[Any, Any]], FakeBuffer]:
    def make(values: np.ndarray[Any, Any]) -> FakeBuffer:
        if len(placement.devices) == 1:
            return FakeBuffer(values, array_type, placement)
        slices = _block_slices(values.shape, placement)
        parts = [
            FakeBuffer(values[part], array_type, FakePlacement((device,)))
            for device, part in zip(placement.devices, slices, strict=True)
        ]
        return FakeBuffer(None, array_type, placement, parts)

    return make


def _block_slices(shape: Sequence[int], placement: FakePlacement) -> list[tuple[slice, ...]]:
    """The block of the array on each device of a placement."""
    everything = tuple(slice(0, size) for size in shape)
    out = [everything] * len(placement.devices)
    grid = placement.grid()
    if grid is None:
        return out
    for index in np.ndindex(grid.shape[:-1]):
        rows = zip(shape, index, grid.shape[:-1], strict=True)
        part = tuple(slice(at * (n // k), (at + 1) * (n // k)) for n, at, k in rows)
        for position in grid[index]:
            out[int(position)] = part
    return out


def _assemble_values(buffer: FakeBuffer) -> np.ndarray[Any, Any]:
    if not buffer.parts:
        return _values(buffer)
    whole = np.zeros(buffer.array_type.shape, buffer.array_type.dtype)
    slices = _block_slices(whole.shape, buffer.placement)
    for part, where in zip(buffer.parts, slices, strict=True):
        whole[where] = _values(part)
    return whole
