"""Compiled programs: what runs one, where it runs, and how its operands get there.

A program runs on the default device, on one device, or on several at once, partitioned by Shardy
(https://openxla.org/shardy). Its *place* says which: None, a device, or a tuple of devices.
Operands that were put nowhere on purpose come along.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, as_stored, deleted, donate_to_place, to_place
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.types import ArrayType
from weft.errors import DeletedArrayError, Fix, WeftValueError
from weft.ops.extended import physical_type
from weft.runtime import buffers, client, compile
from weft.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    TiledSharding,
    named_sharding,
)
from weft.transforms.lower import ModuleContext, lower_to_module

__all__ = [
    "Program",
    "compile_program",
    "joint_place",
    "explain_failure",
    "operand_place",
    "operand_shardings",
    "run_program",
]

# Numbers from the default device that have been brought to several devices.
_numbers: dict[tuple[int, Sharding], tuple[Any, Any]] = {}
_MOST_NUMBERS = 1024
client.on_change(_numbers.clear)

Place = Any
Shardings = Sequence[Sharding | None]
Execute = Callable[[Sequence[Any]], Any]


class Program:
    """A compiled program, ready to run: what the fast paths read in one place."""

    __slots__ = (
        "device",
        "direct",
        "donated",
        "executable",
        "execute",
        "handlers",
        "in_shardings",
        "in_types",
        "multiple_results",
        "out_places",
        "out_signature",
        "out_signatures",
        "out_type",
        "out_types",
        "single",
        "there",
    )

    def __init__(
        self,
        executable: Any,
        out_types: Sequence[ArrayType],
        device: Any,
        multiple_results: bool,
        places: Sequence[Any] | None = None,
    ) -> None:
        self.executable = executable
        self.execute: Execute = executable.execute
        self.direct: Execute = executable.execute
        self.handlers = executable.handlers
        self.out_types = list(out_types)
        # Results stay uncommitted unless an operand was put on its device on purpose.
        if places is None:
            places = [device] * len(self.out_types)
        self.out_signatures = [
            t if place is None else (t, place)
            for t, place in zip(self.out_types, places, strict=True)
        ]
        self.out_places = list(places)
        self.single = not multiple_results
        self.multiple_results = multiple_results
        self.out_type = self.out_types[0] if self.single else None
        self.out_signature = self.out_signatures[0] if self.single else None
        self.device = device
        # Of a program on several devices: where it takes each operand.
        self.in_shardings: list[Any] = []
        self.in_types: list[ArrayType] = []
        # Which operands lie there; the others are brought from the default device.
        self.there: tuple[bool, ...] = ()
        self.donated: Sequence[bool] = ()

    def bring(self, operand: int, buffer: Any) -> Any:
        """The buffer of an operand that lies on the default device, where the program takes it."""
        type, how = self.in_types[operand], self.in_shardings[operand]
        if self.donated[operand]:
            return donate_to_place(Array(buffer, type, type), how)._buffer
        if type.shape:
            return to_place(Array(buffer, type, type), how)._buffer
        # Programs use the same few numbers again and again.
        key = (id(buffer), how)
        found = _numbers.get(key)
        if found is None:
            if len(_numbers) >= _MOST_NUMBERS:
                _numbers.clear()
            # The number is kept beside: an identity is only good while the object lives.
            found = _numbers[key] = (to_place(Array(buffer, type, type), how)._buffer, buffer)
        return found[0]

    def bound(self, consts: list[Array], settled: bool = False) -> tuple[list[Array], Execute]:
        """The first operands, brought to where the program wants them, and what runs it on them
        and on others: for operands that are the same at every call.

        `settled` says that the others lie where the program takes them.
        """
        if not self.in_shardings:
            return consts, self.execute
        found = []
        for i, const in enumerate(consts):
            if not self.there[i]:
                type, how = const.type, self.in_shardings[i]
                const = Array(self.bring(i, const._buffer), type, (type, how))
            found.append(const)
        n = len(consts)
        rest = (True,) * len(self.there[n:]) if settled else self.there[n:]
        return found, self.execute_for((True,) * n + rest)

    def execute_for(self, there: Sequence[bool]) -> Execute:
        """What runs the program on operands of which those that are marked lie where it takes them,
        and the others on the default device."""
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

    def wrap(self, outs: Sequence[Any]) -> list[Array]:
        """The results as arrays."""
        return [
            Array(buffer, type, signature)
            for buffer, type, signature in zip(
                outs, self.out_types, self.out_signatures, strict=True
            )
        ]


def explain_failure(args: Sequence[Any], error: Exception | None = None) -> None:
    """Raises the error that fits, if an operand has been deleted.

    An error that is not the runtime's own was raised by a callback, and says itself what happened:
    an operand that is gone was donated to that call.
    """
    if error is not None:
        if not isinstance(error, (DeletedArrayError, client.backend().runtime_fault)):
            return
    for value in args:
        if type(value) is Array and value.is_deleted():
            raise deleted(value) from None


def run_program(program: Program, arrays: Sequence[Array]) -> Any:
    """Runs a compiled program on arrays."""
    try:
        outs = program.execute([x._buffer for x in arrays]).consume_with_handlers(program.handlers)
    except Exception as error:
        explain_failure(arrays, error)
        raise
    found = program.wrap(outs)
    return found[0] if program.single else found


# ---- where a program runs ------------------------------------------------------------------------


def operand_place(
    arrays: Sequence[Any], operation: str, params: dict[str, Any] | None = None
) -> Place:
    """Where an operation on these arrays runs: None for the default device, a device, or a tuple
    of devices.

    That is where the arrays were put on purpose; where none was, on the devices of a mesh among
    the parameters or in a program that they hold. Raises WeftValueError where they name different
    devices.
    """
    found: Any = None
    for array in arrays:
        if type(array) is Array and array.signature is not array.type:
            other = array.signature[1]
            if found is None:
                found = other
            elif other is not found and not same_devices(found, other):
                raise different_devices(operation, found, other)
            elif isinstance(other, Sharding) and not isinstance(found, Sharding):
                found = other
    named = _named_place(params, operation) if params else None
    if named is not None:
        if found is not None and not same_devices(found, named):
            raise outside_mesh(operation, found, named)
        if not isinstance(found, Sharding):
            found = named
    if isinstance(found, SingleDeviceSharding):
        return found.device
    return found.device_list if isinstance(found, (Sharding, Mesh)) else found


def joint_place(arrays: Sequence[Any], operation: str) -> Any:
    """Where results lie that Python computes of arrays: None, a device, or a sharding that gives
    each of the devices a copy. Raises WeftValueError where the arrays lie on different ones."""
    place = operand_place(arrays, operation)
    if type(place) is not tuple:
        return place
    for how in operand_shardings(arrays, place) or ():
        if isinstance(how, NamedSharding):
            return NamedSharding(how.mesh, PartitionSpec())
    return TiledSharding(place, None)


def _devices(place: Any) -> tuple[Any, ...]:
    return place.device_list if isinstance(place, (Sharding, Mesh)) else (place,)


def same_devices(one: Any, other: Any) -> bool:
    """Whether two devices, shardings or meshes stand for one set of devices."""
    first, second = _devices(one), _devices(other)
    return first is second or set(first) == set(second)


def operand_shardings(arrays: Sequence[Any], place: Place) -> tuple[Sharding | None, ...] | None:
    """For a program on several devices, where its operands lie; None for those that were put
    nowhere on purpose, and for all where it runs on one."""
    if type(place) is not tuple:
        return None
    return tuple(
        x.signature[1]
        if type(x) is Array and x.signature is not x.type and isinstance(x.signature[1], Sharding)
        else None
        for x in arrays
    )


def places_in(params: dict[str, Any]) -> tuple[Any, ...]:
    """The meshes, and shardings without one, that an application refers to, itself or in the
    programs that it holds."""
    found: dict[Any, None] = {}
    for name in ("mesh", "manual", "sharding"):
        value = params.get(name)
        value = getattr(value, "mesh", value)
        if isinstance(value, (Mesh, SingleDeviceSharding, TiledSharding)):
            found[value] = None
    for jaxpr in jaxprs_in(params):
        found.update(dict.fromkeys(program_places(jaxpr)))
    return tuple(found)


def program_places(jaxpr: Jaxpr) -> tuple[Any, ...]:
    """The meshes, and shardings without one, that a program refers to."""

    def make() -> tuple[Any, ...]:
        found: dict[Any, None] = {}
        for eqn in jaxpr.eqns:
            if eqn.params:
                found.update(dict.fromkeys(places_in(eqn.params)))
        return tuple(found)

    places: tuple[Any, ...] = jaxpr.derived("places", make)
    return places


def _named_place(params: dict[str, Any], operation: str) -> Any:
    """One of the places among the parameters; all of them are the same devices."""
    places = places_in(params)
    for place in places[1:]:
        if not same_devices(place, places[0]):
            raise WeftValueError(
                f"{operation} refers to meshes over different devices",
                operation=operation,
                got=f"{_with_devices(places[0])} and {_with_devices(place)}",
                wanted="meshes over one set of devices; their shapes and orders may differ",
                fix=Fix("mesh", "use one mesh for all of it", {"meshes": (places[0], place)}),
            )
    return places[0] if places else None


def _with_devices(place: Any) -> str:
    """A place for a message: meshes of one shape look alike but for their devices."""
    if not isinstance(place, (Sharding, Mesh)):
        return str(place)
    devices = _devices(place)
    listed = ", ".join(map(str, devices[:8])) + (", ..." if len(devices) > 8 else "")
    return f"{place!r:.200} over {listed}"


def different_devices(operation: str, one: Any, other: Any) -> WeftValueError:
    """The error for operands that were put on different devices."""
    return WeftValueError(
        f"{operation} got arrays that were put on different devices",
        operation=operation,
        got=f"{_with_devices(one)} and {_with_devices(other)}",
        wanted="arrays on one device, or on the same set of devices",
        fix=Fix(
            "device_put",
            "move one of them: weft.device_put(x, y.sharding)",
            {"device": one},
        ),
    )


def outside_mesh(operation: str, place: Any, named: Any) -> WeftValueError:
    """The error for an operand that was put somewhere else than where a program says."""
    there = NamedSharding(named, PartitionSpec()) if isinstance(named, Mesh) else named
    return WeftValueError(
        f"{operation} refers to a mesh, and an array was put on other devices than that",
        operation=operation,
        got=f"an array on {_with_devices(place)}",
        wanted=f"arrays on the devices of {_with_devices(named)}, or such as were put nowhere on "
        "purpose",
        fix=Fix(
            "device_put",
            f"move it there: weft.device_put(x, {there!r:.200})",
            {"device": there},
        ),
    )


# ---- compiling -----------------------------------------------------------------------------------


def compile_program(
    jaxpr: Jaxpr,
    name: str,
    place: Place,
    *,
    donated: Sequence[bool] | None = None,
    fast_compile: bool = False,
    multiple_results: bool = True,
    compiler_options: Any = None,
    in_shardings: Shardings | None = None,
    out_shardings: Shardings | None = None,
) -> Program:
    """Lowers and compiles a program for a place: None (the default device), a device, or a tuple
    of devices.

    On several devices the shardings say where each input lies and where each result is to lie.
    None among them: the compiler chooses; such an input is taken there from the default device.
    """
    backend = client.backend()
    several = type(place) is tuple
    devices = place if several else (backend.default_device if place is None else place,)
    if in_shardings is None:
        in_shardings = (None,) * len(jaxpr.inputs)
    if out_shardings is None:
        out_shardings = (None,) * len(jaxpr.outputs)
    lowered = lower_to_module(
        jaxpr,
        name,
        backend.platform,
        donated,
        devices=devices,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
    )
    options = compile.CompileOptions(
        num_partitions=len(devices),
        fast_compile=fast_compile,
        compiler_options=compiler_options or (),
        host_callbacks=tuple(lowered.callbacks),
    )
    if several:
        return _on_several(
            jaxpr, lowered, options, devices, multiple_results, in_shardings, out_shardings, donated
        )
    out_types = [physical_type(type) for type in jaxpr.out_types]
    executable = backend.compile(lowered.module.ir, options, out_types, devices)
    program = Program(executable, jaxpr.out_types, place, multiple_results)
    if lowered.callbacks:
        program.execute = waiting(executable)
    if devices[0] is not backend.default_device:
        in_types = [physical_type(type) for type in jaxpr.in_types]
        program.execute = moving(program.execute, in_types, place)
    return program


def _on_several(
    jaxpr: Jaxpr,
    lowered: ModuleContext,
    options: Any,
    devices: tuple[Any, ...],
    multiple_results: bool,
    in_shardings: Shardings,
    out_shardings: Shardings,
    donated: Sequence[bool] | None,
) -> Program:
    """A program compiled for several devices (or a mesh of one)."""
    backend = client.backend()
    given = [how for how in (*in_shardings, *out_shardings) if isinstance(how, NamedSharding)]
    named = dict.fromkeys([*(how.mesh for how in given), *program_places(jaxpr)])
    meshes = [place for place in named if isinstance(place, Mesh)]
    out_types = [physical_type(type) for type in jaxpr.out_types]
    placements = None
    if len(devices) == 1:
        placements = [buffers.tiled(devices, None)] * len(out_types)
    executable = backend.compile(lowered.module.ir, options, out_types, devices, placements)
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
    program = Program(executable, jaxpr.out_types, devices, multiple_results, places)
    program.in_types, program.in_shardings = jaxpr.in_types, takes
    program.donated = donated or (False,) * len(takes)
    program.there = tuple(how is not None for how in in_shardings)
    executable.handlers = program.handlers = [
        _relabelling(handler, type, how, devices)
        for handler, type, how in zip(executable.handlers, jaxpr.out_types, places, strict=True)
    ]
    if lowered.callbacks:
        program.direct = waiting(executable)
    program.execute = program.execute_for(program.there)
    return program


def _sharding_of(
    assignment: Any, type: ArrayType, devices: tuple[Any, ...], meshes: Sequence[Mesh]
) -> Sharding:
    """What a user is told of where the compiler put an array: over one of the meshes at hand."""
    if assignment is not None:
        # The integers of random keys are not split: their dimensions have one block.
        shape = assignment.shape[: type.ndim] + assignment.shape[-1:]
        assignment = assignment.reshape(shape)
    for mesh in meshes:
        found = named_sharding(mesh, assignment, devices, type.ndim)
        if isinstance(found, NamedSharding):
            return found
    return TiledSharding(devices, assignment)


def _relabelling(
    handler: Callable[[Any], Any], type: ArrayType, how: Sharding, devices: tuple[Any, ...]
) -> Callable[[Any], Any]:
    """What makes a result of what a program gives: it has the devices in the order of the program,
    and a sharding may have another."""
    if not type.size:  # The compiler leaves empty results where it likes.
        physical = physical_type(type)
        values = np.zeros(physical.shape, physical.dtype)
        return lambda given: as_stored(values, type, how)._buffer
    if how.device_list == devices:
        return handler
    return lambda given: in_order(handler(given), type, how, how.device_list)


def in_order(buffer: Any, type: ArrayType, how: Sharding, devices: tuple[Any, ...]) -> Any:
    """A buffer with this sharding as one whose parts are listed in the order of `devices`."""
    position = {device: i for i, device in enumerate(devices)}
    assignment = how.assignment(type.ndim)
    if assignment is not None:
        order = np.asarray([position[device] for device in how.device_list])
        # Random keys are stored with further dimensions, which are not split.
        rows = (1,) * (physical_type(type).ndim - type.ndim)
        shape = (*assignment.shape[:-1], *rows, assignment.shape[-1])
        assignment = order[assignment].reshape(shape)
    parts = sorted(buffers.shards(buffer), key=lambda part: position[buffers.device_of(part)])
    return buffers.assemble(parts, physical_type(type), buffers.tiled(devices, assignment))


# ---- running -------------------------------------------------------------------------------------


class Finished:
    """The results of a program that has ended, in the form of one that has started."""

    __slots__ = ("results",)

    def __init__(self, results: list[Any]) -> None:
        self.results = results

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Any]:
        """The buffers."""
        return self.results


def waiting(executable: Any) -> Callable[[Sequence[Any]], Finished]:
    """What runs a program with callbacks: it comes back when everything has happened.

    So effects of one call come before those of the next, and exceptions reach the caller.
    """

    def run(operands: Sequence[Any]) -> Finished:
        return Finished(executable.run_to_end(operands))

    return run


def moving(execute: Any, in_types: Sequence[ArrayType], device: Any) -> Any:
    """What runs a program on a device that is not the default one: operands that were not put
    anywhere on purpose, which lie on the default device, are copied there first."""

    def run(operands: Sequence[Any]) -> Any:
        return execute(
            [
                x if buffers.device_of(x) == device else buffers.copy_to_device(x, type, device)
                for x, type in zip(operands, in_types, strict=True)
            ]
        )

    return run


def bringing_first(execute: Any, moves: Sequence[tuple[int, Callable[[Any], Any]]]) -> Any:
    """What runs a program on several devices: some operands are brought there first."""

    def run(operands: Sequence[Any]) -> Any:
        found = list(operands)
        for i, bring in moves:
            found[i] = bring(found[i])
        return execute(found)

    return run
