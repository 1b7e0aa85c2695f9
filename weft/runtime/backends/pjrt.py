"""The backend on jaxlib: for the CPU by the client in its wheel, for a GPU through a plugin.

PJRT is XLA's interface to devices (https://openxla.org/xla/pjrt). The CPU client is part of
jaxlib; a CUDA client comes as a shared library in a wheel of its own (`jax-cuda13-pjrt` or
`jax-cuda12-pjrt`), which is looked for by the name of its module and loaded without importing any
of its Python.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft import config
from weft.errors import Fix, PlatformError, WeftValueError
from weft.runtime.backends import (
    cache_keys,
    cuda_handlers,
    device_placement,
    ffi_registry,
    hlo,
    pjrt_buffers,
    pjrt_executable,
    process_end,
)
from weft.runtime.backends.backend import Backend, CompileOptions, Executable
from weft.runtime.backends.xla_layouts import register_partitioner
from weft.runtime.jaxlib.native import extension, hlo_library, version_text
from weft.runtime.jaxlib.own_thread import wait_for_threads
from weft.runtime.stablehlo.mlir import ArrayTypeLike, ir

Buffer = Any
Device = Any
Placement = Any

plugin_apis: list[Any] = []
"""The plugins that this process has loaded through weft, as the profiler wants to know them."""

_CUDA_MODULES = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")


@dataclasses.dataclass(frozen=True)
class Distributed:
    """The arguments that start a process's devices as part of a group of processes."""

    client: Any
    node_id: int
    num_nodes: int
    cpu_collectives: Any = None
    local_device_ids: tuple[int, ...] | None = None
    watcher: Any = None
    """What looks after the other processes: `weft.distributed.group.Group`."""


class JaxlibBackend(Backend):
    """The devices of one platform, by a client of jaxlib."""

    def __init__(self, client: Any, group: Any = None) -> None:
        self.client = client
        self.group = group
        # jaxlib calls the platform of a CUDA client "gpu", as it does that of others.
        self.platform = "cuda" if client.platform == "gpu" else client.platform
        self._local: list[Device] = client.local_devices()
        self._all: list[Device] = client.devices()
        self._by_id = {device.id: device for device in self._all}
        self._process_count = 1 + max(device.process_index for device in self._all)
        if group is not None:
            for name in ("block_until_ready", "to_numpy"):
                setattr(self, name, _note_waits(group, getattr(self, name)))
            pjrt_buffers.explanations.append(group.explain)

    def devices(self) -> list[Device]:
        return list(self._all)

    def local_devices(self) -> list[Device]:
        return list(self._local)

    @property
    def default_device(self) -> Device:
        return self._local[0]

    @property
    def process_index(self) -> int:
        return int(self.client.process_index())

    @property
    def process_count(self) -> int:
        return self._process_count

    def heap_profile(self) -> bytes:
        return bytes(self.client.heap_profile())

    single = staticmethod(device_placement.single)
    tiled = staticmethod(device_placement.tiled)

    def put(
        self,
        array: np.ndarray[Any, Any],
        array_type: ArrayTypeLike,
        device: Device | None = None,
        copy: bool = True,
    ) -> Buffer:
        return pjrt_buffers.put(array, array_type, device or self._local[0], copy)

    def putting(
        self, array_type: ArrayTypeLike
    ) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]] | None:
        return pjrt_buffers.putting(array_type, self._local[0])

    # The functions that run most often are bound as they are, without a frame of their own.
    put_shards = staticmethod(pjrt_buffers.put_shards)
    assemble = staticmethod(pjrt_buffers.assemble)
    host_memory = staticmethod(pjrt_buffers.host_memory)
    replica = staticmethod(pjrt_buffers.replica)
    relabel = staticmethod(pjrt_buffers.relabel)
    shards = staticmethod(pjrt_buffers.shards)
    to_numpy = staticmethod(pjrt_buffers.to_numpy)
    copy_to_device = staticmethod(pjrt_buffers.copy_to_device)
    copy_to_host_async = staticmethod(pjrt_buffers.copy_to_host_async)
    block_until_ready = staticmethod(pjrt_buffers.block_until_ready)
    is_ready = staticmethod(pjrt_buffers.is_ready)
    device_of = staticmethod(pjrt_buffers.device_of)
    nbytes = staticmethod(pjrt_buffers.nbytes)
    unsafe_pointer = staticmethod(pjrt_buffers.unsafe_pointer)
    layout = staticmethod(pjrt_buffers.layout)
    is_deleted = staticmethod(pjrt_buffers.is_deleted)
    to_dlpack = staticmethod(pjrt_buffers.to_dlpack)
    to_hlo = staticmethod(hlo.computation)

    fault = staticmethod(pjrt_buffers.fault)
    runtime_fault = pjrt_buffers.RuntimeFault

    def register_end(self) -> None:
        """Makes the end of this process wait for compilations, executables and arrays in progress
        (`process_end.register_end`). A group of processes does not wait: they may need a process
        that has ended."""
        if self._process_count == 1:
            waits = (wait_for_threads, pjrt_executable.wait_for_programs, self._wait_for_arrays)
            process_end.register_end(self.client, waits)

    def _wait_for_arrays(self) -> None:
        for buffer in self.client.live_arrays():
            with contextlib.suppress(pjrt_buffers.RuntimeFault):  # its values are not asked for
                buffer.block_until_ready()

    def delete(self, buffer: Buffer) -> None:
        buffer.delete()

    def from_dlpack(self, source: Any, type_factory: Callable[..., ArrayTypeLike]) -> Buffer:
        platform, number = pjrt_buffers.dlpack_platform(source)
        same_kind = (platform == "cpu") == (self.platform == "cpu")
        if not same_kind or number >= len(self._local):
            message = "the array lies on a device that this backend does not have"
            got = f"{platform}:{number}"
            wanted = f"one of {self._local}"
            raise WeftValueError(message, operation="from_dlpack", got=got, wanted=wanted)
        return pjrt_buffers.from_dlpack(source, type_factory, self._local[number])

    def compile(
        self,
        module: ir.Module,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[Device] | None = None,
        out_placements: Sequence[Placement] | None = None,
    ) -> Executable:
        chosen = self._choose_devices(options, devices)
        numbers = tuple(sorted({device.process_index for device in chosen}))
        if self.group is None or len(numbers) == 1:
            return pjrt_executable.compile_module(
                self.client, module, options, out_types, chosen, out_placements
            )
        name = str(module.operation.attributes["sym_name"]).strip('"').removeprefix("jit_")
        self.group.agree_program(cache_keys.shared_key(module, options, chosen), name, numbers)
        out = pjrt_executable.compile_module(
            self.client, module, options, out_types, chosen, out_placements
        )
        out.run_with_others(self.group, name, numbers)
        return out

    def hlo_text(self, module: ir.Module, lines: bool = False) -> str:
        options = hlo_library.HloPrintOptions.short_parsable()
        options.print_metadata = lines
        return str(hlo.computation(module).get_hlo_module().to_string(options))

    def estimated_cost(self, module: ir.Module) -> dict[str, float]:
        return hlo.estimated_cost(self.client, module)

    def deserialize(
        self,
        data: bytes,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[Device] | None = None,
        out_placements: Sequence[Placement] | None = None,
    ) -> Executable:
        return pjrt_executable.deserialize(
            self.client,
            data,
            options,
            out_types,
            self._choose_devices(options, devices),
            out_placements,
        )

    def _choose_devices(
        self, options: CompileOptions, devices: Sequence[Device] | None
    ) -> Sequence[Device]:
        if devices is not None:
            return devices
        if options.device_ids is not None:
            return [self._by_id[number] for number in options.device_ids]
        if options.num_partitions == 1:
            return self._local[:1]
        return self._all[: options.num_partitions]


def _refuse_to_wait() -> None:
    """Makes reads of values that are not ready fail: a forked process never computes them."""

    def of_ready(wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def read(values: Any) -> Any:
            if not all(map(pjrt_buffers.is_ready, values if type(values) is list else [values])):
                process_end.pass_gate()
            return wait(values)

        return read

    for name in ("block_until_ready", "to_numpy"):
        setattr(JaxlibBackend, name, staticmethod(of_ready(getattr(JaxlibBackend, name))))


def start(platform: str, distributed: Distributed | None = None) -> JaxlibBackend:
    """Starts the client of a platform ("cpu" or "cuda").

    Raises PlatformError if the platform's plugin is not installed or finds no device.
    """
    # Otherwise jaxlib gives each result the frames of its call, and frees them only when something
    # waits for a result: a loop that never does would fill the memory.
    extension.set_tracebacks_enabled(config.host_settings().allocation_tracebacks)
    process_end.register_fork(_refuse_to_wait)
    if platform == "cpu":
        register_partitioner()
        return JaxlibBackend(_cpu_client(distributed), _group_of(distributed))
    plugin = cuda_plugin() if platform == "cuda" else None
    if plugin is None:
        message = f"the platform {platform!r} is not available: no plugin for it is installed"
        wanted = "'cpu'" if cuda_plugin() is None else "'cpu' or 'cuda'"
        text = (
            "set WEFT_PLATFORMS=cpu where that variable names it, ask for 'cpu' elsewhere, or "
            "pip install 'weft[cuda13]'"
        )
        fix = Fix("platform", text)
        raise PlatformError(message, got=platform, wanted=wanted, fix=fix)
    return JaxlibBackend(_cuda_client(plugin, distributed), _group_of(distributed))


def _group_of(distributed: Distributed | None) -> Any:
    return None if distributed is None else distributed.watcher


def _note_waits(group: Any, wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that waits for values, perhaps of another process."""

    def noted(values: Any) -> Any:
        with group.waits.noting("values", of_program=True):
            return wait(values)

    return noted


def _cpu_client(distributed: Distributed | None) -> Any:
    text = os.environ.get("WEFT_NUM_CPU_DEVICES")
    # Without a number XLA itself reads --xla_force_host_platform_device_count from XLA_FLAGS.
    count = config.host_settings().num_cpu_devices or (_parse_positive(text) if text else None)
    if distributed is None:
        return extension.get_tfrt_cpu_client(asynchronous=True, num_devices=count)
    return extension.get_tfrt_cpu_client(
        asynchronous=True,
        distributed_client=distributed.client,
        node_id=distributed.node_id,
        num_nodes=distributed.num_nodes,
        collectives=distributed.cpu_collectives,
        num_devices=count,
    )


def _parse_positive(text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        message = "WEFT_NUM_CPU_DEVICES is a positive whole number"
        fix = Fix("environment", "set WEFT_NUM_CPU_DEVICES=8, or unset it")
        raise WeftValueError(message, operation=None, got=repr(text), fix=fix)
    return int(text)


def cuda_plugin() -> Path | None:
    """The CUDA plugin's library, if one is installed."""
    for module in _CUDA_MODULES:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            continue
        for folder in (found.submodule_search_locations or ()) if found else ():
            library = Path(folder) / "xla_cuda_plugin.so"
            if library.exists():
                return library
    return None


def _check_release(plugin: Path) -> None:
    """Raises PlatformError unless plugin and jaxlib are of one release: they share memory
    layouts."""
    name = f"jax-{plugin.parent.name.removeprefix('xla_')}-pjrt"
    try:
        release = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # a library that somebody built
        return
    if release != version_text:
        message = "the CUDA plugin and jaxlib are of different releases"
        got, wanted = f"{name} {release}, jaxlib {version_text}", "one release of both"
        text = f"pip install jaxlib=={version_text} '{name[:-5]}-plugin[with-cuda]=={version_text}'"
        fix = Fix("platform", f"{text}, or set WEFT_PLATFORMS=cpu")
        raise PlatformError(message, got=got, wanted=wanted, fix=fix)


def _cuda_client(plugin: Path, distributed: Distributed | None) -> Any:
    _check_release(plugin)
    if not extension.pjrt_plugin_loaded("cuda"):
        plugin_apis.append(extension.load_pjrt_plugin("cuda", str(plugin), None))
    if not extension.pjrt_plugin_initialized("cuda"):
        extension.initialize_pjrt_plugin("cuda")
    ffi_registry.attach("cuda", str(plugin))
    cuda_handlers.register(f"jax_{plugin.parent.name.removeprefix('xla_')}_plugin")
    options: dict[str, Any] = {"platform_name": "cuda", **_memory_options()}
    if distributed is not None:
        options |= {"node_id": distributed.node_id, "num_nodes": distributed.num_nodes}
        if distributed.local_device_ids is not None:
            options["visible_devices"] = list(distributed.local_device_ids)
    try:
        return extension.get_c_api_client(
            "cuda", options, distributed.client if distributed is not None else None
        )
    except pjrt_buffers.RuntimeFault as error:
        message = f"the CUDA devices could not be started: {error}"
        fix = Fix("platform", "set WEFT_PLATFORMS=cpu to run on the CPU")
        raise WeftValueError(message, operation=None, got="cuda", fix=fix) from error


def _memory_options() -> dict[str, Any]:
    """The plugin's options for GPU memory, from the environment variables of XLA's users."""
    options: dict[str, Any] = {}
    allocator = os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR")
    if allocator:
        options["allocator"] = allocator.lower()
    fraction = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
    if fraction:
        options["memory_fraction"] = float(fraction)
    preallocate = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")
    if preallocate:
        options["preallocate"] = preallocate.lower() not in ("0", "false")
    return options
