"""Compiling modules with XLA through jaxlib, and the executables that this makes.

XLA does the work: this file turns options into jaxlib's, errors into weft's, and binds the calls
that run an executable. Modules are compiled for one replica and any number of partitions, with
Shardy as the partitioner (https://openxla.org/shardy).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base.program_caches import count_loaded_program
from weft.errors import Fix, WeftError, WeftValueError
from weft.native.optional import calls
from weft.runtime.backends import hlo, host_callbacks, process_end
from weft.runtime.backends.backend import (
    Assignment,
    CompileOptions,
    DeviceLayout,
    Executable,
    MemoryStats,
    OptionValue,
)
from weft.runtime.backends.cache_keys import Loaded, load_or_compile
from weft.runtime.backends.device_placement import assignment_of, device_list, single, tiled
from weft.runtime.backends.pjrt_buffers import (
    RuntimeFault,
    block_until_ready,
    deleted_buffer_error,
    fault,
    is_deleted,
)
from weft.runtime.backends.process_end import on_compile_thread
from weft.runtime.backends.xla_layouts import device_layout
from weft.runtime.jaxlib.native import extension, version
from weft.runtime.stablehlo.cpu_faults import repair_faults
from weft.runtime.stablehlo.mlir import ArrayTypeLike, ir, private_copy, verify

Device = Any
Placement = Any

# For a module of one operation. Most of XLA's time on the CPU goes into optimizing and into
# starting threads to generate code in parallel; both pay only for larger modules. An option that
# this release of XLA lacks is left out from the first refusal on.
_FAST: dict[str, OptionValue] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_backend_optimization_level": "0",
}
_FAST_NAMES = frozenset(_FAST)
# Options that are no flags of XLA's but settings of one compilation, with the class of each.
_EFFORTS: dict[str, Callable[[Any], Any]] = {
    "exec_time_optimization_effort": float,
    "memory_fitting_effort": float,
    "memory_fitting_level": int,
    "optimization_level": int,
}
_MISSING_OPTION = re.compile(r"No such compile option: '(\w+)'")
_MISSING_HANDLER = re.compile(
    r"(?:No FFI handler registered for|untyped custom call to) (.+?) (?:on a platform|for) (\w+)"
)

# Executions on several CPU devices that may still be running. A CPU device takes at most 32; XLA's
# launch then waits, while the devices before it, which run the same executable already, wait for
# this one in a collective: the process hangs and is ended after a minute. The same happens if two
# threads' launches reach the devices in different orders.
_MOST_RUNNING = 8
_running: deque[Any] = deque()
_launch = threading.RLock()

# Executions on one CPU device that may still run, of which a device takes at most 32. A process
# that ends meanwhile crashes: XLA's threads go on when XLA's own data is gone. Their results say
# when they have ended, but those may be gone already. Noting one costs a small executable a tenth
# of its time, so brief ones are left out.
_unfinished: deque[Any] = deque(maxlen=256)


class JaxlibExecutable(Executable):
    """An executable compiled by XLA."""

    __slots__ = ("compile_again", "failures", "loaded", "serialized", "shared", "threads")

    def __init__(
        self,
        shared: Loaded,
        options: CompileOptions,
        out_types: Sequence[ArrayTypeLike],
        devices: Sequence[Device],
        out_placements: Sequence[Placement] | None,
        failures: host_callbacks.Failures,
        compile_again: Callable[[], Any] | None = None,
    ) -> None:
        count_loaded_program()
        loaded = shared.native
        self.shared = shared
        self.loaded = loaded
        self.failures = failures
        # Set where the executable was there: in this process, in the cache, as a user's bytes.
        self.compile_again = compile_again
        self.serialized: bytes | None = None
        self.threads: int | None = None
        self.execute = loaded.execute_sharded
        if options.num_partitions > 1:
            # XLA ends the process where one of several devices finds its buffer deleted.
            self.execute = self._execute_checked
            if loaded.client.platform == "cpu":
                self.execute = self._execute_in_turn
        elif loaded.client.platform == "cpu" and not options.brief:
            self.execute = self._execute_noted
        elif calls is None:
            self.execute = self._execute_alone
        if extension.tracebacks_enabled():
            self.execute = _free_tracebacks_first(self.execute)
        self.options = options
        self.out_types = tuple(out_types)
        if out_placements is None:
            out_placements = self._own_placements(devices)
        self.handlers = [
            result_handler(array_type, placement)
            for array_type, placement in zip(out_types, out_placements, strict=True)
        ]

    def _own_placements(self, devices: Sequence[Device]) -> list[Placement]:
        """The default placements of the results: the one device, or the compiler's choice."""
        if self.options.num_partitions == 1:
            return [single(devices[0])] * len(self.out_types)
        return [tiled(devices, assignment) for assignment in self.output_assignments()]

    def _execute_checked(self, buffers: Sequence[Any]) -> Any:
        if any(map(is_deleted, buffers)):
            raise deleted_buffer_error()
        return self.loaded.execute_sharded(buffers)

    def _execute_alone(self, buffers: Sequence[Any]) -> Any:
        # Compiled calls pass the gate of `process_end` themselves.
        return self.loaded.execute_sharded(buffers)

    def _execute_noted(self, buffers: Sequence[Any]) -> Any:
        started = self.loaded.execute_sharded(buffers, with_tokens=True)
        _unfinished.append(started.consume_token())
        return started

    def _execute_in_turn(self, buffers: Sequence[Any]) -> Any:
        with _launch:
            if any(map(is_deleted, buffers)):
                raise deleted_buffer_error()
            if len(_running) >= _MOST_RUNNING:
                with contextlib.suppress(RuntimeFault):  # its own results raise what happened
                    _running.popleft().block_until_ready()
            started = self.loaded.execute_sharded(buffers, with_tokens=True)
            _running.append(started.consume_token())
        return started

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        try:
            results: list[Any] = self.execute(buffers).consume_with_handlers(self.handlers)
        except RuntimeFault as error:
            raise fault(error, buffers) from error
        return results

    def run_with_others(self, group: Any, name: str, processes: tuple[int, ...]) -> None:
        """Reports runs to the group of processes that run this program together."""
        alone = self.execute

        def execute(buffers: Sequence[Any]) -> Any:
            group.started(name, self, processes)
            # Where many runs are not finished, the next one waits for them.
            with group.waits.noting(f"the run of `{name}`", of_program=True):
                return alone(buffers)

        self.execute = execute

    def run_to_end(self, buffers: Sequence[Any]) -> list[Any]:
        # With all arguments there, XLA starts an executable with callbacks in the calling thread.
        # To wait for one, it would take a thread that a callback may need to compute.
        if any(map(is_deleted, buffers)):
            raise deleted_buffer_error()
        block_until_ready(buffers)
        if self.threads is None:  # XLA has settled it when its client started.
            self.threads = thread_count(len(self.loaded.client.local_devices()))
        with host_callbacks.running(self.threads), self.failures.during_run() as failed:
            try:
                # On one device all results are there when the run has ended, and not before: only
                # where there are none, or several devices, the run itself is asked, which costs as
                # much as starting it.
                asked = not self.handlers or self.options.num_partitions > 1
                started = self.loaded.execute_sharded(buffers, with_tokens=asked)
                token = started.consume_token() if asked else None
                results: list[Any] = started.consume_with_handlers(self.handlers)
                if token is not None:
                    token.block_until_ready()
                extension.batched_block_until_ready(results)
                if not failed:
                    return results
                raised = failed[0]
            except RuntimeFault as error:
                found = failed[0] if failed else host_callbacks.callback_exception(error)
                if found is None:
                    raise fault(error, buffers) from error
                raised = found
        raise raised  # Out here: in the handler it would be chained to the text of itself.

    @property
    def fingerprint(self) -> str:
        value = self.loaded.fingerprint
        return value.decode("latin-1") if isinstance(value, bytes) else str(value)

    def serialize(self) -> bytes:
        # XLA serializes an executable that it has not compiled itself without its machine code.
        if self.serialized is not None:
            return self.serialized
        compiled = self.loaded if self.compile_again is None else self.compile_again()
        data: bytes = compiled.serialize()
        return data

    def as_text(self) -> str:
        # The text of an executable from the cache has the source lines of the first process.
        compiled = self.loaded if self.compile_again is None else self.compile_again()
        return "\n".join(module.to_string() for module in compiled.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        found = self.loaded.cost_analysis()
        return dict(found[0] if isinstance(found, list) else found)

    def memory_stats(self) -> MemoryStats:
        found = self.loaded.get_compiled_memory_stats()
        names = [field.name for field in dataclasses.fields(MemoryStats)]  # as XLA has them
        return MemoryStats(**{name: getattr(found, name) for name in names})

    def input_aliases(self) -> dict[int, int]:
        return hlo.input_aliases(self.loaded.hlo_modules()[0].to_string())

    @property
    def native(self) -> Any:
        return self.loaded

    def parameter_layouts(self) -> list[DeviceLayout]:
        return [device_layout(layout) for layout in self.loaded.get_parameter_layouts()]

    def output_layouts(self) -> list[DeviceLayout]:
        return [device_layout(layout) for layout in self.loaded.get_output_layouts()]

    def parameter_assignments(self) -> list[Assignment]:
        found = self.loaded.get_parameter_shardings()
        if found is None:  # an executable on one device
            return [None] * len(self.loaded.get_parameter_layouts())
        return list(map(assignment_of, found))

    def output_assignments(self) -> list[Assignment]:
        # XLA has a sharding even where there are no results, and none on one device.
        found = self.loaded.get_output_shardings() if self.out_types else []
        return [None] * len(self.out_types) if found is None else list(map(assignment_of, found))


def _free_tracebacks_first(
    execute: Callable[[Sequence[Any]], Any],
) -> Callable[[Sequence[Any]], Any]:
    """Frees the frames of dropped results before each run: see `pjrt.start`."""

    def run(buffers: Sequence[Any]) -> Any:
        extension.collect_garbage()
        return execute(buffers)

    return run


process_end.gated.append((JaxlibExecutable, "loaded"))


def result_handler(array_type: ArrayTypeLike, placement: Placement) -> Any:
    """The handler that makes a buffer of an executable's result."""
    if version < (0, 11):
        return extension.array_result_handler(array_type, placement, True, _skip_checks=True)
    return extension.array_result_handler(array_type, placement, True)


def native_options(options: CompileOptions, devices: Sequence[Device]) -> Any:
    """jaxlib's form of the options."""
    out = extension.CompileOptions()
    build = out.executable_build_options
    count = options.num_partitions
    out.num_replicas = build.num_replicas = 1
    out.num_partitions = build.num_partitions = count
    build.use_spmd_partitioning = count > 1
    build.use_shardy_partitioner = True
    ids = np.asarray([device.id for device in devices], np.int32).reshape(1, count)
    out.device_assignment = build.device_assignment = extension.DeviceAssignment.create(ids)
    chosen: dict[str, OptionValue] = {}
    if options.fast_compile and devices[0].platform == "cpu":
        chosen.update(_FAST)
    for name, value in options.compiler_options:
        if name in _EFFORTS:
            try:
                setattr(build, name, _EFFORTS[name](value))
            except (TypeError, ValueError):
                message, got = f"the compiler option {name} is a number", f"{value!r:.80}"
                raise WeftValueError(message, operation="compile", got=got) from None
            except AttributeError:  # jaxlib 0.12 has levels alone
                raise _no_such_option(name) from None
        else:
            chosen[name] = value
    out.env_option_overrides = list(chosen.items())
    return out


def compile_module(
    client: Any,
    module: ir.Module,
    options: CompileOptions,
    out_types: Sequence[ArrayTypeLike],
    devices: Sequence[Device],
    out_placements: Sequence[Placement] | None,
) -> JaxlibExecutable:
    """Compiles a module for `devices` and loads it; see `Backend.compile`."""
    check_devices(options, devices)
    native_devices = device_list(tuple(devices))
    failures = host_callbacks.Failures()
    module = repair_faults(module, options.num_partitions, client.platform)
    while True:
        try:
            native = native_options(options, devices)
            again = None
            # XLA works on the module while other threads run: it must not see our MLIR context.
            if options.host_callbacks:
                module = private_copy(module)
                callbacks = for_xla(options, failures)
                make = client.compile_and_load
                loaded = Loaded(on_compile_thread(make, module, native_devices, native, callbacks))
            else:
                threads = thread_count(len(client.local_devices()))
                loaded, again = load_or_compile(client, module, native, devices, threads)
            return JaxlibExecutable(
                loaded, options, out_types, devices, out_placements, failures, again
            )
        except RuntimeFault as error:
            if not _drop_fast_option(error, options):
                raise _compile_error(error, module) from error


def deserialize(
    client: Any,
    data: bytes,
    options: CompileOptions,
    out_types: Sequence[ArrayTypeLike],
    devices: Sequence[Device],
    out_placements: Sequence[Placement] | None,
) -> JaxlibExecutable:
    """Loads a serialized executable. Raises WeftValueError if XLA does not take the bytes."""
    check_devices(options, devices)
    failures = host_callbacks.Failures()
    callbacks = {"host_callbacks": for_xla(options, failures)} if options.host_callbacks else {}
    try:
        native = native_options(options, devices)
        load = client.deserialize_executable
        loaded = on_compile_thread(load, data, device_list(tuple(devices)), native, **callbacks)
    except RuntimeFault as error:
        message = f"the compiled program cannot be loaded: {error}"
        fix = Fix("recompile", "compile the program again with this release of jaxlib")
        raise WeftValueError(message, operation="deserialize", fix=fix) from error
    out = JaxlibExecutable(Loaded(loaded), options, out_types, devices, out_placements, failures)
    out.serialized = data
    return out


def wait_for_programs() -> None:
    """Waits until all executables that run on a CPU now have ended, except for brief ones."""
    for token in (*_running, *_unfinished):
        with contextlib.suppress(RuntimeFault):  # its results are not asked for
            token.block_until_ready()


@functools.cache
def thread_count(num_devices: int) -> int:
    """How many threads XLA's CPU client computes with, by its own rule."""
    asked = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC")
    if asked and asked.isdigit():
        return max(int(asked), num_devices)
    found = getattr(os, "sched_getaffinity", None)
    cores = len(found(0)) if found is not None else os.cpu_count()
    return max(cores or 1, num_devices)


def for_xla(options: CompileOptions, failures: host_callbacks.Failures) -> list[Any]:
    """The host callbacks as XLA takes them."""
    kept = failures if options.num_partitions > 1 else None
    return [host_callbacks.callable_from_xla(function, kept) for function in options.host_callbacks]


def check_devices(options: CompileOptions, devices: Sequence[Device]) -> None:
    """Raises WeftValueError if there are not as many devices as partitions."""
    if len(devices) != options.num_partitions:
        message = "a program runs on as many devices as it has partitions"
        got = f"{len(devices)} devices"
        wanted = f"{options.num_partitions}"
        raise WeftValueError(message, operation="compile", got=got, wanted=wanted)


def _drop_fast_option(error: Exception, options: CompileOptions) -> bool:
    """Drops one of our options for good if XLA refused it, perhaps in another thread before."""
    match = _MISSING_OPTION.search(str(error))
    ours = options.fast_compile and match is not None and match[1] in _FAST_NAMES
    if match is None or not ours or match[1] in dict(options.compiler_options):
        return False
    _FAST.pop(match[1], None)
    return True


def _no_such_option(name: str) -> WeftError:
    message = "XLA has no such compiler option"
    wanted = "the name of an XLA flag, such as 'xla_backend_optimization_level'"
    fix = Fix("remove", f"remove {name!r} from compiler_options", {"option": name})
    return WeftValueError(message, operation="compile", got=name, wanted=wanted, fix=fix)


def _compile_error(error: Exception, module: ir.Module) -> WeftError:
    match = _MISSING_OPTION.search(str(error))
    if match is not None:
        return _no_such_option(match[1])
    try:
        verify(module)
    except WeftError as invalid:
        return invalid
    handler = _MISSING_HANDLER.search(str(error))
    if handler is not None:
        message = f"the program calls foreign code that is not registered as {handler[1]!r}"
        got = f"a program for the platform {handler[2]}"
        wanted = "a name that weft.ffi.register_ffi_target was given in this process"
        version = ", api_version=0" if "untyped" in handler[0] else ""
        text = f"call weft.ffi.register_ffi_target({handler[1]!r}, function{version}) before"
        fix = Fix("register", text, {"target": handler[1]})
        return WeftValueError(message, operation="compile", got=got, wanted=wanted, fix=fix)
    return WeftError(f"XLA could not compile the program: {error}", operation="compile")
