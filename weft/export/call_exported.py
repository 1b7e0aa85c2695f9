"""Calls of an exported function: a primitive that holds StableHLO instead of a jaxpr.

Lowered, its functions become private functions of the module around it. No rule looks into the
StableHLO, so there is no derivative but one that was exported beside it (`export/producing.py`
makes it the rule of a `custom_vjp`), and under `vmap` it runs once per element, in a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.base.util import keep_marked, scatter_to_marked
from weft.control_flow.body_tracing import run_compiled
from weft.control_flow.branches import map_in_order
from weft.core import rules
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.core.rule_results import fits
from weft.core.rules import AxisData, Dims, LinearOperand, Mapped, Values, not_linear
from weft.core.types import ArrayType
from weft.errors import Fix, JaxprError, WeftNotImplementedError, WeftValueError
from weft.interpreters.jvp import known_operands
from weft.ops.declare import join_varying
from weft.ops.structural.extended_dtypes import physical_type
from weft.ops.structural.tangents import instantiate, zeros
from weft.runtime import lapack, stablehlo
from weft.runtime.stablehlo import portable_artifact

call_exported_p = Primitive("call_exported", multiple_results=True, memoise=False)


class PortableProgram:
    """A portable artifact for each platform, and the types of its inputs (closed-over arrays, then
    arguments) and outputs. It runs on `num_devices` devices. With `any_platform`, other platforms
    take the first artifact."""

    def __init__(
        self,
        name: str,
        artifacts: Mapping[str, bytes],
        inputs: Sequence[ArrayType],
        outputs: Sequence[ArrayType],
        num_devices: int,
        any_platform: bool = False,
    ) -> None:
        self.name = name
        self.artifacts = dict(artifacts)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.num_devices = num_devices
        self.any_platform = any_platform
        # Set where there is a derivative: `pullback`, from (operands, cotangents of the results,
        # mesh) to a cotangent or None for each operand, and `num_linear`, the number of the last
        # operands in which the results are known to be linear.
        self.pullback: Callable[[Sequence[Any], Sequence[Any], Any], list[Any]] | None = None
        self.num_linear = 0
        # Executables are cached by a jaxpr that owns them, and there is no other.
        self.owner = Jaxpr([], [], [])

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it was exported for."""
        return tuple(self.artifacts)

    def artifact(self, platform: str) -> bytes:
        """The artifact for a platform. Raises WeftValueError for a platform that has none."""
        out = self.artifacts.get(platform)
        if out is not None:
            return out
        if self.any_platform:
            return next(iter(self.artifacts.values()))
        wanted = ", ".join(map(repr, self.platforms))
        message = f"{self.name} was exported for other platforms than the one it is called on"
        got = f"a call on {platform!r}"
        text = f"export it with platforms={(*self.platforms, platform)!r}"
        fix = Fix("platforms", text, {"platforms": (*self.platforms, platform)})
        raise WeftValueError(
            message, operation="export", got=got, wanted=f"a call on {wanted}", fix=fix
        )

    def __repr__(self) -> str:
        return f"<exported {self.name}>"


def call_exported_impl(*args: Any, program: PortableProgram, mesh: Any) -> list[Array]:
    params = {"program": program, "mesh": mesh}
    return run_compiled(call_exported_p, args, params, program.owner)


def call_exported_type(*types: ArrayType, program: PortableProgram, mesh: Any) -> list[ArrayType]:
    if len(types) != len(program.inputs) or not all(map(fits, types, program.inputs)):
        message = f"the exported {program.name}: the operands do not fit the program"
        wanted = ", ".join(map(str, program.inputs))
        raise JaxprError(message, got=", ".join(map(str, types)), wanted=wanted)
    varying = join_varying(types)
    return [type.update(varying=varying) for type in program.outputs]


def call_exported_jvp(
    primals: Values, tangents: Values, *, program: PortableProgram, mesh: Any
) -> Any:
    raise _no_derivative(program)


def call_exported_transpose(
    cotangents: Values, *operands: Any, program: PortableProgram, mesh: Any
) -> list[Any]:
    known = len(operands) - program.num_linear
    for x in operands[:known]:
        if type(x) is LinearOperand:
            raise not_linear(x)
    if program.pullback is None:
        raise _no_derivative(program)
    # A linear function has the same derivative everywhere.
    given = [zeros(x.type) if type(x) is LinearOperand else x for x in operands]
    found = program.pullback(given, [instantiate(ct) for ct in cotangents], mesh)
    linear, _ = known_operands(operands)
    return scatter_to_marked(linear, keep_marked(linear, found))


def _no_derivative(program: PortableProgram) -> WeftValueError:
    return WeftValueError(
        f"the exported {program.name} is differentiated, and no derivative was exported with it",
        operation="export",
        got="a program without a derivative (of this order)",
        wanted="one that was serialized with its vjp",
        fix=Fix(
            "vjp_order",
            "where it is exported, write serialize(vjp_order=1), or a higher order: one for each "
            "time that it is differentiated in reverse mode, two for each in forward mode",
            {"vjp_order": 1},
        ),
    )


def call_exported_vmap(
    axis: AxisData, args: Values, dims: Dims, *, program: PortableProgram, mesh: Any
) -> Mapped:
    """A loop over the elements: the shapes were fixed by the export."""
    apply = functools.partial(call_exported_p.bind, program=program, mesh=mesh)
    return map_in_order(axis, args, dims, apply, program.name)


def call_exported_lower(
    context: Any, *values: Any, program: PortableProgram, mesh: Any
) -> list[Any]:
    module = context.module
    partitions = _partitions(module, program, mesh)
    key = (program, module.platform, partitions)
    symbol = module.functions.get(key)
    if symbol is None:
        source = portable_artifact.from_portable_artifact(program.artifact(module.platform))
        _check_entry(program, source)
        called = portable_artifact.custom_calls(source)
        if called:  # of code that may return errors
            module.foreign_calls = bool(module.foreign_calls)
        if any(portable_artifact.of_lapack(target) for target, _ in called):
            lapack.load()  # as the lowering rules did that made this module
        symbol = portable_artifact.splice(
            module.module,
            source,
            program.name,
            mesh=functools.partial(_declare_mesh, module, program),
            channel=module.new_channel,
            partitions=partitions,
        )
        module.functions[key] = symbol
    return list(stablehlo.call(symbol, values, context.result_ir_types()))


def _partitions(module: Any, program: PortableProgram, mesh: Any) -> tuple[int, ...]:
    """Which partition of the module runs each partition of the `program`; empty if partitions
    have the same numbers. Raises WeftNotImplementedError if it cannot run."""
    if mesh is None:
        return ()
    if len(module.devices) != program.num_devices:
        raise _other_number(module, program)
    found = tuple(np.asarray(module.partitions(mesh)).ravel().tolist())
    return () if found == tuple(range(len(found))) else found


def _declare_mesh(module: Any, program: PortableProgram, axes: Any, numbers: Sequence[int]) -> str:
    """Declares a mesh of the `program` in the module, and returns its symbol."""
    if axes and len(numbers) != max(1, len(module.devices)):
        raise _other_number(module, program)
    symbol: str = module.meshes.declare(axes, tuple(numbers))
    return symbol


def _other_number(module: Any, program: PortableProgram) -> WeftNotImplementedError:
    message = f"the exported {program.name} was made for {program.num_devices} device(s) together"
    got = f"a program on {max(1, len(module.devices))}"
    wanted = f"a program on {program.num_devices}"
    fix = Fix("devices", "call it with arrays over that many devices")
    return WeftNotImplementedError(message, operation="export", got=got, wanted=wanted, fix=fix)


def _check_entry(program: PortableProgram, source: Any) -> None:
    """Raises WeftValueError if the module's types differ from the recorded ones."""
    found = portable_artifact.entry_types(source)
    inputs, outputs = (
        [stablehlo.array_type_to_ir(physical_type(type)) for type in types]
        for types in (program.inputs, program.outputs)
    )
    if found != (inputs, outputs):
        message = f"the exported {program.name} does not have the types that are written beside it"
        got = "no entry point" if found is None else _signature(*found)
        wanted = _signature(inputs, outputs)
        fix = Fix("export_again", "export the program again")
        raise WeftValueError(message, operation="export", got=got, wanted=wanted, fix=fix)


def _signature(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    return f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})"


rules.impl.register(call_exported_p, call_exported_impl)
rules.type_rule.register(call_exported_p, call_exported_type)
rules.jvp.register(call_exported_p, call_exported_jvp)
rules.transpose.register(call_exported_p, call_exported_transpose)
rules.vmap.register(call_exported_p, call_exported_vmap)
rules.lower.register(call_exported_p, call_exported_lower)
