"""Lowering: from a jaxpr to a StableHLO module, one lowering rule per equation.

Every operation carries a location with the user's line and the names of the transformations and the
primitive. A jaxpr inside an equation becomes a function of the module, emitted once.

Effects are kept in order by data: each of them takes a number from the one before it and gives one
to the next. The number goes through loops, conditionals and called functions like any other value,
which XLA's tokens, made for this, do not do on every backend. Unordered effects are kept in order
too: XLA runs callbacks one after the other anyway, and prints read better so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.arrays.transfers import layout_mode
from weft.base import source as sources
from weft.base.exact_keys import exact_key
from weft.base.timing import charged
from weft.base.util import collection_paused
from weft.core import rules
from weft.core.jaxpr import Jaxpr, Literal, Var
from weft.core.rules import Values
from weft.core.types import ArrayType
from weft.errors import JaxprError, MissingRuleError
from weft.lowering.called_bodies import bodies_are_called, repeated_functions
from weft.lowering.partition import MeshTable, sharding_attribute, unsplit_rows
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import stablehlo, stablehlo_attributes
from weft.sharding import AbstractMesh, Mesh, Sharding

Attributes = dict[str, Any]


class ManualMesh(NamedTuple):
    """A mesh, its manual axes (along which the jaxpr itself communicates), and the partitions that
    its devices run, in its shape.

    Args:
        mesh: The mesh of devices.
        axes: The names of the manual axes.
        partitions: The number of each device's partition, an array of the mesh's shape.
    """

    mesh: Any
    axes: frozenset[str]
    partitions: np.ndarray[Any, Any]

    def key(self) -> Any:
        """A key that is unique in a module."""
        return self.mesh, self.axes

    @property
    def has_all_axes(self) -> bool:
        """Whether all axes of the mesh are manual, so that the compiler splits nothing."""
        return self.axes.issuperset(self.mesh.axis_names)


class ModuleContext:
    """The state of the lowering of one module.

    Partition p of the module runs on `devices[p]`; for one device, `devices` may be empty.

    Args:
        module: The StableHLO module under construction.
        platform: The platform that the module is for: "cpu", "cuda", "rocm" or "tpu".
    """

    __slots__ = (
        "callbacks",
        "channels",
        "compiled_once",
        "devices",
        "foreign_calls",
        "foreign_places",
        "functions",
        "locations",
        "manual",
        "meshes",
        "module",
        "order",
        "platform",
    )

    def __init__(self, module: Any, platform: str, devices: Sequence[Any] = ()) -> None:
        self.module = module
        self.platform = platform
        self.devices = tuple(devices)
        self.meshes = MeshTable(module, devices)
        self.functions: dict[Any, str] = {}
        # Keyed by the identity of the code object: hashing one reads its whole bytecode.
        self.locations: dict[Any, Any] = {}
        # The Python functions that the module's callbacks call, by index.
        self.callbacks: list[Any] = []
        # Whether an FFI target of the module has side effects; None where there is no target.
        self.foreign_calls: bool | None = None
        # The FFI targets by name, with the line of the first call, for errors of that code.
        self.foreign_places: dict[str, sources.Source | None] = {}
        # The number that the next effect takes; None before the first one of a function.
        self.order: Any = None
        # The mesh whose axes are manual where operations are written now, if any are.
        self.manual: ManualMesh | None = None
        self.channels = 0
        # The jaxprs that are compiled once and called, not inlined; None where all are inlined.
        self.compiled_once: set[Jaxpr] | None = None

    def new_channel(self) -> int:
        """A channel number for a collective, unique in the module."""
        self.channels += 1
        return self.channels

    def mesh_symbol(self, mesh: Mesh | AbstractMesh) -> str:
        """The symbol of a mesh, which the module declares once."""
        return self.meshes.symbol(mesh)

    def partitions(self, mesh: Mesh | AbstractMesh) -> np.ndarray[Any, Any]:
        """The numbers of the partitions that run on the devices of a mesh, in its shape."""
        return self.meshes.partitions(mesh)

    def sharding(self, how: Sharding, type: ArrayType) -> Any:
        """The attribute of a sharding for values of a type (see `sharding_attribute`)."""
        return sharding_attribute(self.meshes, how, type)

    def devices_to_split_over(self) -> int:
        """The number of devices over which the compiler splits what is written now; 1 in a manual
        computation, where every device has its own values."""
        return len(self.devices) if self.manual is None else 1

    def split_rows(self, value: Any) -> Any:
        """The value with its first dimension split evenly over all devices."""
        symbol, axes = self.meshes.some_axes()
        names = (tuple(name for name, _ in axes), *(() for _ in range(1, value.type.rank)))
        return stablehlo.sharding_constraint(value, stablehlo.sharding(symbol, names))

    def with_whole(self, value: Any, dims: Collection[int]) -> Any:
        """The value with these dimensions whole on every device, the others as the compiler
        chooses."""
        names = tuple(() if dim in dims else None for dim in range(value.type.rank))
        how = stablehlo.sharding(self.meshes.some_symbol(), names)
        return stablehlo.sharding_constraint(value, how)

    def keep_whole(self, value: Any, dimensions: Sequence[int]) -> Any:
        """The value, some of whose dimensions the compiler must not split over devices."""
        manual = self.manual
        if len(self.devices) <= 1:
            return value
        if manual is None:
            symbol = self.meshes.some_symbol()
        elif manual.has_all_axes:
            return value
        else:
            symbol = self.mesh_symbol(manual.mesh)
        names = tuple(() if i in dimensions else None for i in range(value.type.rank))
        return stablehlo.sharding_constraint(value, stablehlo.sharding(symbol, names))

    def run_on_first(self, operation: Any) -> None:
        """Makes the first device alone run an operation that has to happen once. In a manual
        computation every device runs it."""
        if len(self.devices) > 1 and self.manual is None and operation is not None:
            stablehlo.on_one_device(operation, self.meshes.declare((), (0,)))

    def location(self, source: sources.Source | None, scope: str, name: str) -> Any:
        """The MLIR location of an equation."""
        key = (id(source[0]), source[1], scope, name) if source else (scope, name)
        out = self.locations.get(key)
        if out is None:
            place = sources.locate(source)
            stack = f"{scope}/{name}" if scope else name
            file, line, function = place or ("unknown", 0, "unknown")
            out = stablehlo.location(file, line, function, stack)
            self.locations[key] = out
        return out


@dataclasses.dataclass(eq=False, repr=False, slots=True)
class LoweringContext:
    """The context of a lowering rule: the types of operands and results, and the module.

    `primitive` and `effects` are those of the equation; `lower_jaxpr` and `call_jaxpr` emit
    jaxprs that the equation holds. Loops and conditionals are emitted with `while_` and `case`,
    which carry the order of effects along where the equation has some.

    in_types, out_types: the `ArrayType`s of the operands and results; `result_ir_types()` are those
    of the results in MLIR; platform: "cpu" or "cuda"; primitive: that of the equation;
    effects: what the equation does besides computing;
    module: the `ModuleContext` (meshes, functions, channels, callbacks);
    scope: the names around the equation, for locations; source: the line that it was recorded at.

    A rule emits at the insertion point, with `mlir.builders` or `mlir.hlo`; a constant is
    `mlir.constant(value, shape, dtype)`, a kernel that is not StableHLO `mlir.custom_call`.
    """

    module: ModuleContext
    primitive: Any
    in_types: Sequence[ArrayType]
    out_types: Sequence[ArrayType]
    scope: str
    effects: frozenset[Any] = frozenset()
    source: sources.Source | None = None

    @property
    def platform(self) -> str:
        """The name of the platform that the module is for."""
        return self.module.platform

    def result_ir_types(self) -> list[Any]:
        """The MLIR types of the equation's results."""
        return ir_types(self.out_types)

    def lower_jaxpr(self, jaxpr: Jaxpr, values: Sequence[Any], scope: str = "") -> list[Any]:
        """Emits the operations of a jaxpr in place."""
        inner = f"{self.scope}/{scope}" if self.scope and scope else self.scope or scope
        return lower_equations(self.module, jaxpr, values, inner)

    def function_of(self, jaxpr: Jaxpr, name: str) -> str:
        """The symbol of the function that a jaxpr becomes, which the module has once."""
        manual = self.module.manual
        key = (jaxpr, name, None if manual is None else manual.key())
        symbol = self.module.functions.get(key)
        if symbol is None:
            symbol = lower_function(self.module, jaxpr, name, public=False)
            self.module.functions[key] = symbol
        return symbol

    def call_jaxpr(self, jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> list[Any]:
        """Emits a call of the function that a jaxpr becomes."""
        symbol = self.function_of(jaxpr, name)
        types = ir_types(jaxpr.out_types)
        if not jaxpr.effects:
            inline = jaxpr not in (self.module.compiled_once or ())
            return stablehlo.call(symbol, values, types, inline=inline)
        order = self.order()
        *outs, last = stablehlo.call(symbol, [*values, order], [*types, order.type])
        self.set_order(last)
        return outs

    def order(self) -> Any:
        """The number (a 32-bit scalar) that the next effect has to take."""
        if self.module.order is None:
            self.module.order = stablehlo.constant(0, (), np.int32)
        return self.module.order

    def set_order(self, number: Any) -> None:
        """Sets the number that the last effect gave."""
        self.module.order = number

    def add_callback(self, function: Callable[..., Any]) -> int:
        """Adds a Python function that the module may call, and returns its index.

        The function takes NumPy arrays and returns a tuple of NumPy arrays.
        """
        self.module.callbacks.append(function)
        return len(self.module.callbacks) - 1

    def while_(
        self,
        operands: Sequence[Any],
        condition: Callable[[list[Any]], Any],
        body: Callable[[list[Any]], Sequence[Any]],
    ) -> list[Any]:
        """Like `stablehlo.while_`; the order of effects goes in, through every step, and out."""
        if not self.effects:
            return list(stablehlo.while_(operands, condition, body))

        def ordered_condition(state: list[Any]) -> Any:
            # The condition's last number is dropped: the body starts when the condition has ended.
            self.set_order(state[-1])
            return condition(state[:-1])

        def ordered_body(state: list[Any]) -> Sequence[Any]:
            self.set_order(state[-1])
            return [*body(state[:-1]), self.order()]

        found = stablehlo.while_([*operands, self.order()], ordered_condition, ordered_body)
        self.set_order(found[-1])
        return list(found[:-1])

    def case(
        self, index: Any, branches: Sequence[Callable[[], Sequence[Any]]], types: Sequence[Any]
    ) -> list[Any]:
        """Like `stablehlo.case`; the order of effects goes into every branch and comes out."""
        if not self.effects:
            return list(stablehlo.case(index, branches, types))
        order = self.order()

        def ordered(branch: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
            def body() -> Sequence[Any]:
                self.set_order(order)
                return [*branch(), self.order()]

            return body

        found = stablehlo.case(index, [ordered(b) for b in branches], [*types, order.type])
        self.set_order(found[-1])
        return list(found[:-1])


def ir_types(types: Sequence[ArrayType]) -> list[Any]:
    """The MLIR types of values as they are stored.

    Args:
        types: The array types.
    """
    return [stablehlo.array_type_to_ir(physical_type(type)) for type in types]


@charged("lowering")
def lower_to_module(
    jaxpr: Jaxpr,
    name: str,
    platform: str,
    donated: Sequence[bool] | None = None,
    *,
    devices: Sequence[Any] = (),
    in_shardings: Sequence[Sharding | None] | None = None,
    out_shardings: Sequence[Sharding | None] | None = None,
    layouts: tuple[Sequence[Any] | None, Sequence[Any] | None] = (None, None),
) -> ModuleContext:
    """Lowers a jaxpr to a module, whose entry point computes it.

    `donated` marks the inputs whose buffers the executable may overwrite. On several `devices` the
    shardings are those of inputs and results (None: the compiler chooses). The `layouts` are those
    of inputs and of results that are not row-major.

    Args:
        name: The name of the module.
        platform: The platform that it is for: "cpu", "cuda", "rocm" or "tpu".
        in_shardings: How inputs are split; None for one device.
        out_shardings: How results are split; None for one device.
        donated: For each input, whether the executable may overwrite its buffer; None for none.
        devices: The devices that run parts of the module; empty for one device.
        layouts: The layouts of inputs, and those of results; None where all are row-major.
    """
    count = max(1, len(devices))
    module = stablehlo.Module(f"jit_{name}", num_partitions=count)
    context = ModuleContext(module, platform, devices)
    arguments: list[Attributes] = [{} for _ in jaxpr.inputs]
    results: list[Attributes] = [{} for _ in jaxpr.outputs]
    for own, flag in zip(arguments, donated or (), strict=False):
        if flag:
            own["jax.buffer_donor"] = stablehlo_attributes.boolean(True)
    for attributes, types, wanted in (
        (arguments, jaxpr.in_types, layouts[0]),
        (results, jaxpr.out_types, layouts[1]),
    ):
        for own, type, layout in zip(attributes, types, wanted or (), strict=bool(wanted)):
            if layout is not None:
                own["mhlo.layout_mode"] = layout_mode(layout, type)
    if bodies_are_called(platform, count, layouts):
        context.compiled_once = set(repeated_functions(jaxpr))
    with collection_paused():
        if count > 1:
            _place(context, arguments, jaxpr.in_types, in_shardings)
            _place(context, results, jaxpr.out_types, out_shardings)
        lower_function(
            context,
            jaxpr,
            "main",
            public=True,
            scope=f"jit({name})",
            attributes=(arguments, results),
        )
    return context


def _place(
    context: ModuleContext,
    attributes: Sequence[Attributes],
    types: Sequence[ArrayType],
    shardings: Sequence[Sharding | None] | None,
) -> None:
    """Adds the shardings to the attributes of the arguments or results of the entry point."""
    if shardings is None:
        shardings = (None,) * len(types)
    for own, type, how in zip(attributes, types, shardings, strict=True):
        if how is not None:
            own["sdy.sharding"] = context.sharding(how, type)
        elif physical_type(type) is not type:
            own["sdy.sharding"] = unsplit_rows(context.meshes, type)


def lower_function(
    context: ModuleContext,
    jaxpr: Jaxpr,
    name: str,
    *,
    public: bool,
    scope: str = "",
    attributes: tuple[Sequence[Attributes], Sequence[Attributes]] = ((), ()),
) -> str:
    """Emits a jaxpr as a function and returns its symbol. A called function with effects takes the
    order after its other arguments and returns it after its other results. `attributes` are those
    of a public function's arguments and results."""
    order = [stablehlo.tensor_type((), np.int32)]
    if public or not jaxpr.effects:
        order = []
    function = context.module.function(
        name,
        ir_types(jaxpr.in_types) + order,
        ir_types(jaxpr.out_types) + order,
        public=public,
        arg_attributes=attributes[0],
        result_attributes=attributes[1],
    )
    outside = context.order
    with function:
        scope = scope or f"jit({name})"
        values = function.arguments[: len(jaxpr.inputs)]
        context.order = function.arguments[-1] if order else None
        outs = lower_equations(context, jaxpr, values, scope)
        function.return_([*outs, context.order] if order else outs)
    context.order = outside
    return str(function.name)


def lower_equations(context: ModuleContext, jaxpr: Jaxpr, values: Values, scope: str) -> list[Any]:
    """Emits the operations of a jaxpr at the insertion point."""
    env: dict[Any, Any] = dict(zip(jaxpr.inputs, values, strict=True))
    constants: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return env[atom] if type(atom) is Var else _literal(atom, constants)

    lower_rules, for_platform, platform = rules.lower, rules.lower_for_platform, context.platform
    value_class = stablehlo.ir.Value
    entered = None
    current = None
    try:
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            source = eqn.source
            around = scope
            if source is not None and len(source) == 3:
                around = sources.join_scopes(scope, source[2].path)
            location = context.location(source, around, primitive.name)
            if location is not current:
                if entered is not None:
                    entered.__exit__(None, None, None)
                entered = current = location
                entered.__enter__()
            inputs = [read(atom) for atom in eqn.inputs]
            rule_context = LoweringContext(
                context,
                primitive,
                [atom.type for atom in eqn.inputs],
                [var.type for var in eqn.outputs],
                around,
                eqn.effects,
                source,
            )
            rule = for_platform.get((primitive, platform)) if for_platform else None
            out = (rule or lower_rules[primitive])(rule_context, *inputs, **eqn.params)
            if isinstance(out, value_class):
                env[eqn.outputs[0]] = out
            else:
                results: Any = getattr(out, "results", out)
                env.update(zip(eqn.outputs, results, strict=True))
            if source is not None and len(source) == 3 and source[2].metadata:
                for var in eqn.outputs:
                    stablehlo.add_metadata(env[var], dict(source[2].metadata))
    except (MissingRuleError, JaxprError) as error:
        # Lowering runs after tracing, so the error gets the recorded line instead of the current.
        if not getattr(error, "placed", False) and eqn.source is not None:
            error.where = eqn.source
            error.placed = True  # type: ignore[union-attr]
        raise
    finally:
        if entered is not None:
            entered.__exit__(None, None, None)
    return [read(atom) for atom in jaxpr.outputs]


def _literal(literal: Literal, constants: dict[Any, Any]) -> Any:
    """The constant of a literal, emitted once per block for the same number of one type."""
    dtype = literal.type.dtype
    key = (exact_key(literal.value), dtype)
    out = constants.get(key)
    if out is None:
        out = constants[key] = stablehlo.constant(literal.value, (), dtype)
    return out
