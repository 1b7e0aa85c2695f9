"""Compiles modules with XLA, unless this process or an earlier one has compiled an equal one.

A key is a digest of everything that decides what XLA makes: the module without its locations, all
of XLA's options, its release and its devices, the processor that machine code is made for. Nothing
in it depends on the process, so that equal modules have equal keys everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from weft.base.timing import charged
from weft.runtime.backends import disk_cache
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.backends.device_placement import device_list
from weft.runtime.backends.pjrt_buffers import RuntimeFault
from weft.runtime.backends.process_end import on_compile_thread
from weft.runtime.jaxlib.native import version_text
from weft.runtime.stablehlo.mlir import bytecode, bytecode_without_locations, ir

Device = Any
Compile = Callable[[], Any]

_log = logging.getLogger("weft")

# Counted up when a key or what is stored under it comes to mean something else.
_MAKER = f"weft 1, jaxlib {version_text}"

# What /proc/cpuinfo says of a processor, without its current speed.
_PROCESSOR = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features", "isa",
)  # fmt: skip


class Loaded:
    """An executable of jaxlib, shared by all equal modules."""

    __slots__ = ("__weakref__", "native")

    def __init__(self, native: Any) -> None:
        self.native = native


# Functions that differ in what a module does not show (the arrays closed over, a static argument
# that is not computed with) would each load one more copy of the same machine code.
_loaded: weakref.WeakValueDictionary[tuple[Any, Any, str], Loaded] = weakref.WeakValueDictionary()


def load_or_compile(
    client: Any, module: ir.Module, native: Any, devices: Sequence[Device], threads: int
) -> tuple[Loaded, Compile | None]:
    """The executable of a module without host callbacks and, if it was cached, how to compile it:
    the text of a cached one has the source lines of the first module. `threads` is the number of
    the CPU client's threads, by which XLA splits loops."""
    on = device_list(tuple(devices))
    program = bytecode(module)

    def make() -> Any:
        return on_compile_thread(client.compile_and_load, program, on, native)

    if not _may_be_cached(client, native, devices):
        return Loaded(make()), None
    try:
        key = program_key(client, module, native, devices, threads)
    except ir.MLIRError:  # an invalid module: compiling it says so
        return Loaded(make()), None
    # With the cache in force, for each directory gets what is compiled under it.
    cache = disk_cache.current()
    shared = _loaded.get((client, cache, key))
    if shared is not None:
        with charged("loading"):  # so that it does not count as compiled
            return shared, make
    found = None if cache is None else _load_from_disk(cache, key, client, on, native)
    again: Compile | None = make
    if found is None:
        # Keeping it is the thread's work too: an interrupt that reaches the caller loses nothing.
        compiled = functools.partial(client.compile_and_load, program, on, native)
        found, again = on_compile_thread(_compile_and_keep, compiled, cache, key), None
    shared = _loaded[client, cache, key] = Loaded(found)
    return shared, again


def _load_from_disk(
    cache: disk_cache.ProgramCache, key: str, client: Any, on: Any, native: Any
) -> Any:
    found = cache.load(key, _MAKER)
    if found is None:
        return None
    try:
        with charged("loading"):
            return on_compile_thread(client.deserialize_executable, found, on, native)
    except RuntimeFault as error:
        cache.refuse(key, f"XLA does not take it ({error})")
        return None


def _compile_and_keep(compiled: Compile, cache: disk_cache.ProgramCache | None, key: str) -> Any:
    loaded = compiled()
    if cache is None:
        return loaded
    try:
        data: bytes = loaded.serialize()
    except RuntimeFault as error:
        _log.debug("compiled program %s cannot be kept: %s", key, error)
    else:
        cache.store(key, _MAKER, data)
    return loaded


def _may_be_cached(client: Any, native: Any, devices: Sequence[Device]) -> bool:
    """Whether an executable may be cached. One of several processes is not, since each would have
    to find its part; nor one whose compilation XLA is to dump."""
    here = client.process_index()
    if any(device.process_index != here for device in devices):
        return False
    if any(name.startswith("xla_dump") for name, _ in native.env_option_overrides):
        return False
    return not native.executable_build_options.debug_options.xla_dump_to


def program_key(
    client: Any, module: ir.Module, native: Any, devices: Sequence[Device], threads: int
) -> str:
    """The digest of everything that decides what XLA makes of a module."""
    digest = hashlib.sha256()
    parts = (
        *_environment_parts(client),
        *(f"{device.device_kind}" for device in devices),
        str(threads if client.platform == "cpu" else 0),
        native.SerializeAsString(),  # with the numbers of the devices and what XLA_FLAGS says
        bytecode_without_locations(module),
    )
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def shared_key(module: ir.Module, options: CompileOptions, devices: Sequence[Device]) -> str:
    """The digest of a program of several processes, equal where they run the same one. It has less
    than a `program_key`, since their machines may differ."""
    digest = hashlib.sha256(bytecode_without_locations(module))
    ids = [device.id for device in devices]
    parts = (options.num_partitions, options.compiler_options, len(options.host_callbacks), ids)
    digest.update(repr(parts).encode())
    return digest.hexdigest()


@functools.cache
def _environment_parts(client: Any) -> tuple[str, ...]:
    """The parts of a key that all modules of a process share."""
    machine = _processor() if client.platform == "cpu" else ""
    # XLA_FLAGS is among the compile options; the memory of a client changes no executable.
    environment = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if (name.startswith(("XLA_", "TF_XLA_")) or name == "NVIDIA_TF32_OVERRIDE")
        and name != "XLA_FLAGS"
        and not name.startswith("XLA_PYTHON_CLIENT_")
    ]
    return (_MAKER, client.platform, str(client.platform_version), machine, "\n".join(environment))


def _processor() -> str:
    """The processor and all its features, which XLA generates code for."""
    found = [sys.platform, platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():  # All cores are alike; a large machine has hundreds.
                    break
                name, _, value = line.partition(":")
                if name.strip() in _PROCESSOR:
                    found.append(f"{name.strip()}:{value.strip()}")
    except OSError:
        found += [platform.processor(), platform.version()]
    return "\n".join(found)
