"""The abstract interface to a runtime, and the plain data that goes in and out of it.

Everything above this package reaches devices through a `Backend`. `pjrt.py` implements it with
jaxlib, `fake.py` with NumPy alone, so that tracing, caching and transformations are tested without
a device. A *buffer* is the backend's own object for an array on one device or spread over several;
the code above only holds it and hands it back. A *device* has `id`, `process_index`, `platform`
and `device_kind`. A *placement* says on which devices an array lies and how it is split over them.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.base.util import bytes_text
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.runtime.stablehlo.mlir import ArrayTypeLike, ir

Buffer = Any
Device = Any
Placement = Any
Assignment = np.ndarray[Any, Any] | None
OptionValue = str | bool | int | float


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """How to compile a module: hashable, so that it can be part of a cache's key.

    `device_ids` are the devices that run the partitions, in order; without them the first ones do.
    `fast_compile` is for modules of one operation, where compiling costs more than optimizing
    saves. `compiler_options` are XLA's own, by name, and may be given as a mapping.
    `brief`: the executable is sure to end within a moment.
    `host_callbacks` are the Python functions that the module's callback operations call by index,
    each from NumPy arrays to a tuple of NumPy arrays; they live as long as the executable does.
    """

    num_partitions: int = 1
    device_ids: tuple[int, ...] | None = None
    fast_compile: bool = False
    compiler_options: Any = ()
    host_callbacks: tuple[Callable[..., Any], ...] = ()
    brief: bool = False

    def __post_init__(self) -> None:
        given = self.compiler_options
        pairs: Iterable[tuple[str, OptionValue]]
        pairs = given.items() if isinstance(given, Mapping) else given
        object.__setattr__(self, "compiler_options", tuple(sorted(pairs)))


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class MemoryStats:
    """The memory that an executable needs on each device, in bytes.

    `alias_size_in_bytes` is the part of the results that lies in the memory of donated arguments.
    The fields that begin with `host_` count the memory of the host that an executable on an
    accelerator needs besides.

    >>> MemoryStats(4096, 4096, 0, 4096, 100, 8192)
    MemoryStats(arguments=4.0 KiB, outputs=4.0 KiB, aliased=4.0 KiB, temporaries=0 B,
                generated_code=100 B, peak=8.0 KiB)
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    generated_code_size_in_bytes: int
    peak_memory_in_bytes: int
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0

    def __repr__(self) -> str:
        names = {
            "arguments": "argument_size", "outputs": "output_size", "aliased": "alias_size",
            "temporaries": "temp_size", "generated_code": "generated_code_size",
        }  # fmt: skip
        sizes = {name: getattr(self, f"{field}_in_bytes") for name, field in names.items()}
        on_host = {
            f"host_{name}": getattr(self, f"host_{field}_in_bytes") for name, field in names.items()
        }
        shown = {**sizes, "peak": self.peak_memory_in_bytes}
        shown |= {name: size for name, size in on_host.items() if size}
        fields = ", ".join(f"{name}={bytes_text(size)}" for name, size in shown.items())
        return f"MemoryStats({fields})"


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The order of an array's elements on a device: dimensions, outermost first, and tiles."""

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] = ()


class Executable(abc.ABC):
    """An executable, loaded on its devices. `run` calls
    `execute(buffers).consume_with_handlers(handlers)`, and explains errors. Code that is called
    often may bind the two attributes and do it itself (see `Backend.fault`)."""

    __slots__ = ("__weakref__", "execute", "handlers", "options", "out_types")

    execute: Callable[[Sequence[Buffer]], Any]
    handlers: list[Any]
    options: CompileOptions
    out_types: tuple[ArrayTypeLike, ...]

    @abc.abstractmethod
    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Starts the executable and returns its results, perhaps before they are computed. Raises
        DeletedArrayError for a deleted or donated argument, and WeftError for an immediate failure
        (such as a callback on the CPU); a later one is raised by the wait for results."""

    @abc.abstractmethod
    def run_to_end(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Waits for the arguments, runs the executable, and waits for its results and effects, as
        executables that call Python need. Raises a Python function's exception with its traceback,
        else what `run` raises."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """The fingerprint of the executable: equal ones have the same text."""

    @abc.abstractmethod
    def serialize(self) -> bytes:
        """Bytes for `Backend.deserialize` of the same release, on the same kind of device."""

    @abc.abstractmethod
    def as_text(self) -> str:
        """The text of the optimized HLO."""

    @abc.abstractmethod
    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimates, such as `flops` and `bytes accessed`."""

    @abc.abstractmethod
    def memory_stats(self) -> MemoryStats:
        """The memory that the executable needs."""

    @abc.abstractmethod
    def input_aliases(self) -> dict[int, int]:
        """Maps argnums of arguments to the indices of the results that reuse their memory."""

    @property
    @abc.abstractmethod
    def native(self) -> Any:
        """The runtime's own object for the executable."""

    @abc.abstractmethod
    def parameter_layouts(self) -> list[DeviceLayout]:
        """The layouts that the arguments must have."""

    @abc.abstractmethod
    def output_layouts(self) -> list[DeviceLayout]:
        """The layouts of the results."""

    @abc.abstractmethod
    def parameter_assignments(self) -> list[Assignment]:
        """How the arguments must be split: see `Backend.tiled`. The numbers in an assignment are
        those of partitions."""

    @abc.abstractmethod
    def output_assignments(self) -> list[Assignment]:
        """How the results are split: see `Backend.tiled`."""


class Backend(abc.ABC):
    """The devices of one platform, their buffers, and compiling for them. `runtime_fault` is the
    class of the exceptions that `Executable.execute` raises; code that calls it directly catches
    those and raises what `fault` makes of them."""

    platform: str
    runtime_fault: type[Exception]

    @abc.abstractmethod
    def devices(self) -> list[Device]:
        """All devices, those of other processes too, in order of their numbers."""

    @abc.abstractmethod
    def local_devices(self) -> list[Device]:
        """The devices of this process."""

    @property
    @abc.abstractmethod
    def process_index(self) -> int:
        """The number of this process."""

    @property
    @abc.abstractmethod
    def process_count(self) -> int:
        """How many processes work together."""

    @property
    def default_device(self) -> Device:
        """The first device of this process."""
        return self.local_devices()[0]

    @abc.abstractmethod
    def heap_profile(self) -> bytes:
        """A memory profile of the devices, as a protocol buffer of pprof."""

    # -- placements --

    @abc.abstractmethod
    def single(self, device: Device) -> Placement:
        """The placement on one device."""

    @abc.abstractmethod
    def tiled(
        self, devices: Sequence[Device], assignment: np.ndarray[Any, Any] | None
    ) -> Placement:
        """The placement over several devices.

        `assignment` holds positions in `devices`: one axis for each dimension of the array, as long
        as the number of blocks along it, and a last axis with the devices that hold equal copies of
        a block. None: every device holds the whole array.
        """

    # -- buffers --

    @abc.abstractmethod
    def put(
        self,
        array: np.ndarray[Any, Any],
        array_type: ArrayTypeLike,
        device: Device | None = None,
        copy: bool = True,
    ) -> Buffer:
        """A NumPy array on a device, by default the first one.

        With `copy=False` the caller promises never to change the array's memory, and a device that
        can use it in place does. Raises WeftTypeError if shape or dtype differ from the type's.
        """

    def putting(
        self, array_type: ArrayTypeLike
    ) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]] | None:
        """The call that `put` makes for NumPy arrays of this type on the first device, as
        (function, before, after): function(*before, (array,), *after). None if `put` does more than
        one call."""
        return None

    @abc.abstractmethod
    def host_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialized NumPy array that `put` with `copy=False` can use in place."""

    @abc.abstractmethod
    def put_shards(
        self,
        shards: Sequence[np.ndarray[Any, Any]],
        array_type: ArrayTypeLike,
        placement: Placement,
        devices: Sequence[Device],
        copy: bool = True,
    ) -> Buffer:
        """One array of type `array_type` from the blocks of this process's `devices`, in their
        order."""

    @abc.abstractmethod
    def assemble(
        self, buffers: Sequence[Buffer], array_type: ArrayTypeLike, placement: Placement
    ) -> Buffer:
        """One array from the single-device buffers of its placement; nothing is copied."""

    @abc.abstractmethod
    def relabel(self, buffer: Buffer, array_type: ArrayTypeLike, placement: Placement) -> Buffer:
        """The memory of a buffer as another array, without a copy: deleting one deletes both.
        `placement` has the buffer's devices in the same order, with blocks of the shapes that they
        hold. Raises DeletedArrayError for a deleted or donated buffer."""

    @abc.abstractmethod
    def shards(self, buffer: Buffer) -> list[Buffer]:
        """The single-device buffers of this process that an array consists of."""

    @abc.abstractmethod
    def replica(self, buffer: Buffer) -> Buffer:
        """The buffer on one device of this process, of an array that every device has a copy of."""

    @abc.abstractmethod
    def to_numpy(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """The values of a single-device buffer as a read-only array, without a copy where possible.
        Waits for them. Raises DeletedArrayError for a buffer that was deleted or donated."""

    @abc.abstractmethod
    def copy_to_device(self, buffer: Buffer, array_type: ArrayTypeLike, device: Device) -> Buffer:
        """A single-device buffer on another device."""

    @abc.abstractmethod
    def copy_to_host_async(self, buffer: Buffer) -> None:
        """Starts bringing a single-device buffer to the host, for a later `to_numpy`."""

    @abc.abstractmethod
    def block_until_ready(self, buffers: Sequence[Buffer]) -> None:
        """Waits until all are computed; an error in computing one of them is raised here."""

    @abc.abstractmethod
    def is_ready(self, buffer: Buffer) -> bool:
        """Whether the values are there. Raises DeletedArrayError if they never will be."""

    @abc.abstractmethod
    def delete(self, buffer: Buffer) -> None:
        """Frees the memory now; NumPy views and DLPack users of it keep it alive for themselves."""

    @abc.abstractmethod
    def is_deleted(self, buffer: Buffer) -> bool:
        """Whether the buffer was deleted or donated."""

    @abc.abstractmethod
    def fault(self, error: Exception, buffers: Sequence[Buffer]) -> WeftError:
        """The error for the user when an executable fails on these buffers."""

    @abc.abstractmethod
    def device_of(self, buffer: Buffer) -> Device:
        """The device of a single-device buffer."""

    @abc.abstractmethod
    def nbytes(self, buffer: Buffer) -> int:
        """The memory taken, over all devices of this process."""

    @abc.abstractmethod
    def unsafe_pointer(self, buffer: Buffer) -> int:
        """The address of a single-device buffer."""

    @abc.abstractmethod
    def layout(self, buffer: Buffer) -> DeviceLayout:
        """The order of the buffer's elements in memory."""

    @abc.abstractmethod
    def to_dlpack(self, buffer: Buffer, stream: int | None = None) -> Any:
        """A DLPack capsule that shares the memory of a single-device buffer."""

    @abc.abstractmethod
    def from_dlpack(self, source: Any, type_factory: Callable[..., ArrayTypeLike]) -> Buffer:
        """A buffer that shares the memory of a DLPack exporter (or capsule).

        `type_factory(shape, dtype)` makes the array type that the buffer gets.
        """

    # -- modules and executables --

    @abc.abstractmethod
    def compile(
        self,
        module: ir.Module,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[Device] | None = None,
        out_placements: Sequence[Placement] | None = None,
    ) -> Executable:
        """Compiles a module for `devices` and loads it there.

        The entry function is `main`. Its results get `out_types` (of whole arrays) and
        `out_placements`; without the latter they are on the one device, or where XLA chose to put
        them (see `Executable.output_assignments`). Raises WeftValueError for an option that XLA
        does not have, and WeftError for a module that is invalid (naming the operation and its
        line) or that XLA cannot compile. Several threads may compile at the same time.
        """

    @abc.abstractmethod
    def to_hlo(self, module: ir.Module) -> Any:
        """A module as the runtime's own object for HLO, before any optimization."""

    @abc.abstractmethod
    def hlo_text(self, module: ir.Module, lines: bool = False) -> str:
        """A module as the text of HLO before any optimization, with the user's `lines` if asked."""

    @abc.abstractmethod
    def estimated_cost(self, module: ir.Module) -> dict[str, float]:
        """The compiler's estimates for a module that is not optimized, such as `flops`."""

    @abc.abstractmethod
    def deserialize(
        self,
        data: bytes,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[Device] | None = None,
        out_placements: Sequence[Placement] | None = None,
    ) -> Executable:
        """Loads the bytes of `Executable.serialize`, which hold machine code: only from a trusted
        source. Raises WeftValueError for bytes that this release of XLA does not take."""
