"""Compiles lowered modules, and runs executables on operands that it moves to their devices.

An executable runs on the default device, on one device, or on several at once, partitioned by
Shardy (https://openxla.org/shardy): its `place` is None, a device, or a tuple of devices. Operands
that are not committed are moved there.
"""

from __future__ import annotations

import copy
import functools
import logging
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, as_stored, deleted, donate_to_place, signature_of, to_place
from weft.arrays.conversion import check_same
from weft.arrays.transfers import Uncommitted, guard
from weft.base import source as sources
from weft.base.program_caches import BoundedCache
from weft.base.timing import charged
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.types import ArrayType
from weft.errors import DeletedArrayError, WeftError
from weft.lowering.module import ModuleContext, lower_to_module
from weft.lowering.placement import program_places
from weft.lowering.result_layouts import keep_layouts, settled_layouts
from weft.lowering.slow_compiles import noticed
from weft.native.optional import calls
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import client
from weft.runtime.backends.backend import CompileOptions
from weft.sharding import Layout, Mesh, NamedSharding, Sharding, TiledSharding, named_sharding
from weft.sharding.layout import unless_row_major

_log = logging.getLogger("weft")

# Scalars that have been copied from the default device to several devices.
_numbers = BoundedCache(1024)

Place = Any
Shardings = Sequence[Sharding | None]
Layouts = tuple[Any, ...]
Execute = Callable[[Sequence[Any]], Any]
Run = Callable[[Sequence[Any], Sequence[Any]], Any]

# `_new(Array)` and three assignments take half the time of calling `Array`.
_new = object.__new__


class Program:
    """An executable with the fields that the fast paths of calls read.

    executable: What the backend compiled. out_types: The types of the results. device: The device
    that results are committed to; None for the default one. multiple_results: Whether a call
    returns a list of results, and not one. places: The device or sharding of each result, where
    they are on several devices. layouts: The layouts of operands, and those of results; None where
    all are row-major.
    """

    __slots__ = (
        "_run",
        "device",
        "direct",
        "donated",
        "executable",
        "execute",
        "handlers",
        "in_layouts",
        "in_shardings",
        "in_types",
        "multiple_results",
        "out_layouts",
        "out_places",
        "out_signature",
        "out_signatures",
        "out_type",
        "out_types",
        "single",
        "spellings",
        "there",
    )

    def __init__(
        self,
        executable: Any,
        out_types: Sequence[ArrayType],
        device: Any,
        multiple_results: bool,
        places: Sequence[Any] | None = None,
        layouts: tuple[Layouts | None, Layouts | None] = (None, None),
    ) -> None:
        self.executable = executable
        self.execute: Execute = executable.execute
        self.direct: Execute = executable.execute
        self.handlers = executable.handlers
        self.out_types = list(out_types)
        # Results are uncommitted unless an operand is committed.
        none = (None,) * len(self.out_types)
        self.out_places = [device] * len(none) if places is None else list(places)
        # Layouts of operands and results; None where all are row-major.
        self.in_layouts, self.out_layouts = layouts
        rows = zip(self.out_types, self.out_places, self.out_layouts or none, strict=True)
        self.out_signatures = [signature_of(*row) for row in rows]
        # Shardings of results that are to be shown as they were asked for, by number.
        self.spellings = {
            i: how
            for i, how in enumerate(self.out_places)
            if isinstance(how, Sharding) and how.canonical is not how
        }
        self.single = not multiple_results
        self.multiple_results = multiple_results
        self.out_type = self.out_types[0] if self.single else None
        self.out_signature = self.out_signatures[0] if self.single else None
        self.device = device
        # On several devices: the sharding that each operand must have.
        self.in_shardings: list[Any] = []
        self.in_types: list[ArrayType] = []
        # Which operands have that sharding; the others are moved from the default device.
        self.there: tuple[bool, ...] = ()
        self.donated: Sequence[bool] = ()
        self._run = running(self, 0 if self.single else None)

    def _run_by(self, execute: Execute) -> None:
        """Makes calls run `execute` instead of the executable alone."""
        self.execute = execute
        self._run = running(self, 0 if self.single else None)

    def bring(self, operand: int, buffer: Any) -> Any:
        """Moves an operand's buffer from the default device to the sharding it must have."""
        type, how = self.in_types[operand], self.in_shardings[operand]
        layout = self.in_layouts[operand] if self.in_layouts else None
        array = Array(buffer, type, signature_of(type, None, layout))
        if self.donated[operand]:
            return donate_to_place(array, how)._buffer
        if type.shape:
            return to_place(array, how)._buffer
        # Users' programs use the same few scalars again and again.
        key = (id(buffer), how)
        found = _numbers.get(key)
        if found is None:
            # The buffer is kept too: an identity is only good while the object lives.
            found = _numbers[key] = (to_place(array, how)._buffer, buffer)
        brought: Any = found[0]
        return brought

    def bound(self, consts: list[Array], settled: bool = False) -> tuple[list[Array], Execute]:
        """Returns the first operands, moved to their shardings, and an `execute` for these and
        further ones: for operands that are the same at every call.

        `settled` says that the further operands have their shardings already.
        """
        if not self.in_shardings:
            return consts, self.execute
        found = []
        for i, const in enumerate(consts):
            if not self.there[i]:
                type, how = const.type, self.in_shardings[i]
                signature = signature_of(type, how, const._layout())
                check_same(const._stored, "an array that a program closes over", how)
                const = Array(self.bring(i, const._buffer), type, signature)
            found.append(const)
        n = len(consts)
        rest = (True,) * len(self.there[n:]) if settled else self.there[n:]
        return found, self.execute_for((True,) * n + rest)

    def execute_for(self, there: Sequence[bool]) -> Execute:
        """An `execute` for operands of which the marked ones have their shardings and the others
        are on the default device."""
        steps: list[tuple[int, Callable[[Any], Any]]] = []
        for i, (type, how, lies) in enumerate(
            zip(self.in_types, self.in_shardings, there, strict=True)
        ):
            if not lies:
                steps.append((i, functools.partial(self.bring, i)))
            if how.device_list != self.device:
                order = functools.partial(in_order, type=type, how=how, devices=self.device)
                steps.append((i, order))
        return bringing_first(self.direct, steps) if steps else self.direct

    def taking(self, in_shardings: Shardings) -> Program:
        """The same executable, for operands of which those with a sharding have that already."""
        out = copy.copy(self)
        out.there = tuple(how is not None for how in in_shardings)
        out._run_by(out.execute_for(out.there))
        return out

    def wrap(self, outs: Sequence[Any]) -> list[Array]:
        """The results as arrays."""
        rows = zip(outs, self.out_types, self.out_signatures, strict=True)
        return [Array(buffer, type, signature) for buffer, type, signature in rows]


def explain_failure(args: Sequence[Any], error: Exception | None = None) -> None:
    """Raises DeletedArrayError if an operand has been deleted.

    Not for an error that is not the runtime's own: it comes from a callback, and an operand that
    is gone was donated to this call.

    args: The operands of the call that failed. error: What the call raised; None if it is not
    known.
    """
    if error is not None:
        if not isinstance(error, (DeletedArrayError, client.backend().runtime_fault)):
            return
    for value in args:
        if type(value) is Array and value.is_deleted():
            found = deleted(value)
            if found.called == explain_failure.__name__:
                found.called = None  # A compiled call has no frame that names its function.
            raise found from None


def run_program(program: Program, arrays: Sequence[Array]) -> Any:
    """Runs an executable on arrays.

    program: The executable, as `compile_program` returns it. arrays: The operands, of the types
    that it was compiled for.
    """
    return program._run([x._buffer for x in arrays], arrays)


def running(
    program: Program,
    form: int | Callable[[list[Array]], Any] | None,
    execute: Execute | None = None,
    consts: Sequence[Array] = (),
) -> Run:
    """A function `run(buffers, args)` that runs the executable on buffers and returns arrays. Every
    cached call ends in one of these, so all that a call needs is bound here once.

    `form` is the index of the one result to return, or a function of the list of all results; None
    returns the list. `args` and `consts` are the arrays that a failure is explained by, where one
    was deleted.
    """
    execute = execute or program.execute
    handlers = program.handlers
    types, signatures = program.out_types, program.out_signatures
    if any(type.dtype == dtypes.float0 for type in types):
        return _without_elements(program, form, execute, consts)
    if calls is not None and not program.spellings:
        run: Run = calls.Run(
            execute, handlers, tuple(types), tuple(signatures), tuple(consts), form
        )
        return run

    if isinstance(form, int) and not program.spellings:
        aval, signature = types[form], signatures[form]

        # Most calls of the library have one result. They have their own function, since each
        # Python call and each list costs a few percent of the time of such a call.
        def one_result(buffers: Sequence[Any], args: Sequence[Any]) -> Array:
            try:
                outs = execute(buffers).consume_with_handlers(handlers)
            except Exception as error:
                explain_failure((*args, *consts), error)
                raise
            out = _new(Array)
            out._buffer, out.type, out.signature = outs[form], aval, signature
            return out

        return one_result

    collect = operator.itemgetter(form) if isinstance(form, int) else form
    spellings = program.spellings

    def all_results(buffers: Sequence[Any], args: Sequence[Any]) -> Any:
        try:
            outs = execute(buffers).consume_with_handlers(handlers)
        except Exception as error:
            explain_failure((*args, *consts), error)
            raise
        rows = zip(outs, types, signatures, strict=True)
        found = [Array(buffer, aval, signature) for buffer, aval, signature in rows]
        for i, how in spellings.items():
            found[i]._spelling = how
        return found if collect is None else collect(found)

    return all_results


def _without_elements(
    program: Program, form: Any, execute: Execute, consts: Sequence[Array]
) -> Run:
    """`running` for results that are tangents of integers, which NumPy arrays represent."""

    def run(buffers: Sequence[Any], args: Sequence[Any]) -> Any:
        try:
            outs = execute(buffers).consume_with_handlers(program.handlers)
        except Exception as error:
            explain_failure((*args, *consts), error)
            raise
        found: list[Any] = [
            np.zeros(x.shape, dtypes.float0) if x.type.dtype == dtypes.float0 else x
            for x in program.wrap(outs)
        ]
        return found[form] if isinstance(form, int) else form(found) if form else found

    return run


# ---- compiling -----------------------------------------------------------------------------------


class LoweredProgram(NamedTuple):
    """A StableHLO module and the arguments for compiling it: see `lower_program`.

    context: The state of the lowering, which holds the module and its Python callbacks. place:
    Where it is to run: None for the default device, a device, or a tuple of devices. devices: The
    devices of the place. donated: For each input, whether the executable may overwrite its buffer.
    in_shardings: The sharding of each input, or None. out_shardings: The sharding of each result,
    or None. layouts: The layouts of inputs, and those of results; None where all are row-major.
    """

    jaxpr: Jaxpr
    context: ModuleContext
    place: Place
    devices: tuple[Any, ...]
    donated: Sequence[bool]
    in_shardings: Shardings
    out_shardings: Shardings
    layouts: tuple[Layouts | None, Layouts | None]


def lower_program(
    jaxpr: Jaxpr,
    name: str,
    place: Place,
    *,
    donated: Sequence[bool] | None = None,
    in_shardings: Shardings | None = None,
    out_shardings: Shardings | None = None,
    in_layouts: Layouts | None = None,
    out_layouts: Layouts | None = None,
    platform: str | None = None,
) -> LoweredProgram:
    """Lowers a jaxpr to a module for `place` (None is the default device).

    On several devices the shardings are those of the inputs and results. None among them: the
    compiler chooses; such an input is moved there from the default device. For the layouts see
    `settled_layouts`. The platform is that of the current backend, unless another one is named.

    name: The name of the module. donated: For each input, whether the executable may overwrite its
    buffer; None for none. in_shardings: The sharding of each input; None leaves all to the
    compiler. out_shardings: The sharding of each result; None leaves all to the compiler.
    in_layouts: The layout of each input; None where all are row-major. out_layouts: The layout of
    each result; None where all are row-major. platform: The platform to lower for, such as "cuda";
    None for that of the devices.
    """
    devices = place if type(place) is tuple else (device_for(place),)
    backend = client.backend_of(devices[0])
    in_shardings = in_shardings or (None,) * len(jaxpr.inputs)
    out_shardings = out_shardings or (None,) * len(jaxpr.outputs)
    platform = platform or backend.platform
    partitioned = len(devices) > 1
    layouts = settled_layouts(jaxpr, in_layouts, out_layouts, platform, partitioned)
    kept = jaxpr
    if layouts[0] and platform == "cpu":  # Elsewhere the compiler chooses layouts itself.
        kept = keep_layouts(jaxpr, layouts[0], partitioned)
    context = lower_to_module(
        kept,
        name,
        platform,
        donated,
        devices=devices,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        layouts=layouts,
    )
    donated = donated or (False,) * len(jaxpr.inputs)
    return LoweredProgram(
        jaxpr, context, place, devices, donated, in_shardings, out_shardings, layouts
    )


def device_for(place: Place) -> Any:
    """The device of a place with one device."""
    if isinstance(place, Uncommitted):
        return place.device
    return client.backend().default_device if place is None else place


def compile_lowered(
    lowered: LoweredProgram,
    *,
    fast_compile: bool = False,
    multiple_results: bool = True,
    compiler_options: Any = None,
) -> Program:
    """Compiles a module that was lowered for the backend of its devices."""
    if not config.host_settings().log_compiles:
        with noticed(lowered.jaxpr.name):
            return _compile(lowered, fast_compile, multiple_results, compiler_options)
    types = ", ".join(map(str, lowered.jaxpr.in_types))
    _log.warning("compiling %s for (%s)", lowered.jaxpr.name, types)
    before = time.perf_counter()
    program = _compile(lowered, fast_compile, multiple_results, compiler_options)
    seconds = time.perf_counter() - before
    _log.warning("compiling %s took %.3f ms", lowered.jaxpr.name, 1e3 * seconds)
    return program


@charged("compiling")
def _compile(
    lowered: LoweredProgram, fast_compile: bool, multiple_results: bool, compiler_options: Any
) -> Program:
    jaxpr, devices, callbacks = lowered.jaxpr, lowered.devices, lowered.context.callbacks
    backend = client.backend_of(devices[0])
    fast = fast_compile or config.settings().compile_effort == "least"
    options = CompileOptions(
        num_partitions=len(devices),
        fast_compile=fast and not any(eqn.primitive.facts.fused_products for eqn in jaxpr.eqns),
        compiler_options=compiler_options or (),
        host_callbacks=tuple(callbacks),
        brief=fast_compile or is_brief(jaxpr),
    )
    if type(lowered.place) is tuple:
        return _on_several(lowered, options, multiple_results)
    out_types = [physical_type(type) for type in jaxpr.out_types]
    executable = backend.compile(lowered.context.module.ir, options, out_types, devices)
    layouts = chosen_layouts(lowered.layouts, executable, jaxpr)
    program = Program(executable, jaxpr.out_types, lowered.place, multiple_results, layouts=layouts)
    execute = outside_calls(lowered, executable) or program.execute
    if lowered.place is not None and (
        isinstance(lowered.place, Uncommitted) or devices[0] is not client.backend().default_device
    ):
        execute = moving(execute, [physical_type(type) for type in jaxpr.in_types], devices[0])
    program._run_by(execute)
    return program


# Modules that read and write so many elements or fewer, in all, are compiled fast: without most of
# XLA's optimizations, in a third of the time. On a CPU the code then runs up to twice as long: 20
# microseconds more at most, so that it takes a thousand runs and more to lose the time that
# compiling saved. Beyond, code that is not vectorized costs more: `exp` of 4096 elements takes four
# times as long, `tanh` of 8192 nearly ten times.
FAST_COMPILE_LIMIT = 1 << 12

# An executable that reads and writes so few elements ends before a process can exit.
_BRIEF = 1 << 15


def is_brief(jaxpr: Jaxpr, most: int = _BRIEF) -> bool:
    """Whether a jaxpr's executable ends within a moment: it has no inner jaxprs, and at most `most`
    elements are read and written."""
    size = sum(type.size for type in jaxpr.in_types)
    for eqn in jaxpr.eqns:
        if jaxprs_in(eqn.params):
            return False
        size += sum(var.type.size for var in eqn.outputs)
    return size <= most


def compile_program(
    jaxpr: Jaxpr,
    name: str,
    place: Place,
    *,
    fast_compile: bool = False,
    multiple_results: bool = True,
    compiler_options: Any = None,
    **lowering: Any,
) -> Program:
    """Lowers and compiles a jaxpr; `lowering` has the other arguments of `lower_program`."""
    return compile_lowered(
        lower_program(jaxpr, name, place, **lowering),
        fast_compile=fast_compile,
        multiple_results=multiple_results,
        compiler_options=compiler_options,
    )


def _on_several(lowered: LoweredProgram, options: Any, multiple_results: bool) -> Program:
    """Compiles a module for several devices (or a mesh of one)."""
    jaxpr, devices = lowered.jaxpr, lowered.devices
    backend = client.backend_of(devices[0])
    in_shardings, out_shardings = lowered.in_shardings, lowered.out_shardings
    given = [how for how in (*in_shardings, *out_shardings) if isinstance(how, NamedSharding)]
    named = dict.fromkeys([*(how.mesh for how in given), *program_places(jaxpr)])
    meshes = [place for place in named if isinstance(place, Mesh)]
    out_types = [physical_type(type) for type in jaxpr.out_types]
    placements = None
    if len(devices) == 1:
        placements = [backend.tiled(devices, None)] * len(out_types)
    executable = backend.compile(lowered.context.module.ir, options, out_types, devices, placements)
    ins: list[Any]
    outs: list[Any]
    if len(devices) == 1:
        ins = outs = [None] * max(len(jaxpr.inputs), len(out_types))
    else:
        outs = executable.output_assignments()
        ins = outs if all(in_shardings) else executable.parameter_assignments()
    places = [
        how or _sharding_of(outs[i], type, devices, meshes)
        for i, (how, type) in enumerate(zip(out_shardings, jaxpr.out_types, strict=True))
    ]
    takes = [
        how or _sharding_of(ins[i], type, devices, meshes)
        for i, (how, type) in enumerate(zip(in_shardings, jaxpr.in_types, strict=True))
    ]
    layouts = chosen_layouts(lowered.layouts, executable, jaxpr)
    program = Program(executable, jaxpr.out_types, devices, multiple_results, places, layouts)
    program.in_types, program.in_shardings = jaxpr.in_types, takes
    program.donated = lowered.donated
    program.there = tuple(how is not None for how in in_shardings)
    executable.handlers = program.handlers = [
        _relabel_handler(handler, type, how, devices, layout)
        for handler, type, how, layout in zip(
            executable.handlers,
            jaxpr.out_types,
            places,
            program.out_layouts or (None,) * len(places),
            strict=True,
        )
    ]
    program.direct = outside_calls(lowered, executable) or program.direct
    program._run_by(program.execute_for(program.there))
    return program


def chosen_layouts(
    layouts: tuple[Layouts | None, Layouts | None], executable: Any, jaxpr: Jaxpr
) -> tuple[Layouts | None, Layouts | None]:
    """The layouts with each `Layout.AUTO` replaced by the compiler's choice."""

    def settled(wanted: Layouts | None, read: Any, types: Sequence[ArrayType]) -> Layouts | None:
        if wanted is None or Layout.AUTO not in wanted:
            return wanted
        chosen = [
            Layout([axis for axis in found.major_to_minor if axis < type.ndim], found.tiling)
            for found, type in zip(read(), types, strict=True)
        ]
        found = tuple(
            unless_row_major(own) if layout is Layout.AUTO else layout
            for layout, own in zip(wanted, chosen, strict=True)
        )
        return found if any(found) else None

    return (
        settled(layouts[0], executable.parameter_layouts, jaxpr.in_types),
        settled(layouts[1], executable.output_layouts, jaxpr.out_types),
    )


def _sharding_of(
    assignment: Any, type: ArrayType, devices: tuple[Any, ...], meshes: Sequence[Mesh]
) -> Sharding:
    """The compiler's sharding of an array, over one of the given meshes if possible."""
    if assignment is not None:
        # The integers of random keys are not split: their dimensions have one block.
        shape = assignment.shape[: type.ndim] + assignment.shape[-1:]
        assignment = assignment.reshape(shape)
    for mesh in meshes:
        out = named_sharding(mesh, assignment, devices, type.ndim)
        if isinstance(out, NamedSharding):
            return out
    return TiledSharding(devices, assignment)


def _relabel_handler(
    handler: Callable[[Any], Any],
    type: ArrayType,
    how: Sharding,
    devices: tuple[Any, ...],
    layout: Layout | None,
) -> Callable[[Any], Any]:
    """A handler that orders a result's parts as the devices of its sharding `how`, not as those of
    the executable."""
    if not type.size:  # The compiler gives empty results any sharding.
        physical = physical_type(type)
        values = np.zeros(physical.shape, physical.dtype)
        return lambda given: as_stored(values, type, how, layout)._buffer
    if how.device_list == devices:
        return handler
    return lambda given: in_order(handler(given), type, how, how.device_list)


def in_order(buffer: Any, type: ArrayType, how: Sharding, devices: tuple[Any, ...]) -> Any:
    """The buffer, of sharding `how`, with its parts in the order of `devices`."""
    position = {device: i for i, device in enumerate(devices)}
    assignment = how.assignment(type.ndim)
    if assignment is not None:
        order = np.asarray([position[device] for device in how.device_list])
        # Random keys are stored with further dimensions, which are not split.
        rows = (1,) * (physical_type(type).ndim - type.ndim)
        shape = (*assignment.shape[:-1], *rows, assignment.shape[-1])
        assignment = order[assignment].reshape(shape)
    backend = client.backend()
    parts = sorted(backend.shards(buffer), key=lambda part: position[backend.device_of(part)])
    return backend.assemble(parts, physical_type(type), backend.tiled(devices, assignment))


# ---- running -------------------------------------------------------------------------------------

ForeignPlaces = dict[str, sources.Source | None]
"""The names of the foreign code that a program calls, with the lines of the calls."""


class Finished(NamedTuple):
    """Finished results with the interface of a started execution."""

    results: list[Any]

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Any]:
        return self.results


def waiting(executable: Any, called: ForeignPlaces) -> Callable[[Sequence[Any]], Finished]:
    """The function that runs an executable with callbacks; it returns when all are done. So effects
    of one call come before those of the next, and exceptions reach the caller."""

    def run(operands: Sequence[Any]) -> Finished:
        try:
            return Finished(executable.run_to_end(operands))
        except WeftError as error:
            _say_what_was_called(error, called)
            raise

    return run


def outside_calls(lowered: LoweredProgram, executable: Any) -> Execute | None:
    """The function that runs an executable with Python callbacks or FFI calls, or None."""
    context, called = lowered.context, lowered.context.foreign_places
    if len(lowered.jaxpr.eqns) == 1 and not jaxprs_in(lowered.jaxpr.eqns[0].params):
        # Applied without `jit`, one operation is compiled for all lines that use it.
        called = dict.fromkeys(called)
    if context.callbacks or context.foreign_calls:
        return waiting(executable, called)
    if context.foreign_calls is None:
        return None
    backend = client.backend()

    def run(operands: Sequence[Any]) -> Any:
        try:
            return executable.execute(operands)
        except backend.runtime_fault as error:  # the foreign code's own
            fault = backend.fault(error, operands)
            _say_what_was_called(fault, called)
            raise fault from error

    return run


def _say_what_was_called(error: WeftError, called: ForeignPlaces) -> None:
    """Adds the names of the FFI targets to an error, since XLA passes on only the target's text."""
    if type(error) is not WeftError or error.operation is not None or not called:
        return
    calls = [
        repr(target) if source is None else f"{target!r} ({sources.describe(source)})"
        for target, source in called.items()
    ]
    error.operation = f"ffi_call of {' or '.join(calls)}"


def moving(execute: Any, in_types: Sequence[ArrayType], device: Any) -> Any:
    """A function that runs an executable on another than the default device, after copying
    uncommitted operands there."""

    def brought(x: Any, type: ArrayType) -> Any:
        backend = client.backend()
        if backend.device_of(x) == device:
            return x
        if config.guarding:
            guard("device_to_device", type, device)
        return backend.copy_to_device(x, type, device)

    return lambda operands: execute(list(map(brought, operands, in_types)))


def bringing_first(execute: Any, moves: Sequence[tuple[int, Callable[[Any], Any]]]) -> Any:
    """A function that runs an executable on several devices, after moving some operands."""

    def run(operands: Sequence[Any]) -> Any:
        found = list(operands)
        for i, bring in moves:
            found[i] = bring(found[i])
        return execute(found)

    return run
