"""Lowering: from a jaxpr to a StableHLO module, one lowering rule per equation.

Every operation carries a location with the user's line and the names of the transformations and the
primitive. A program inside an equation becomes a function of the module, emitted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import source as sources
from weft.core import rules
from weft.core.jaxpr import Jaxpr, Literal, Var
from weft.core.types import ArrayType
from weft.ops.extended import physical_type
from weft.runtime import stablehlo, stablehlo_attributes
from weft.util import collection_paused

__all__ = ["LoweringContext", "ModuleContext", "lower_to_module"]


class ModuleContext:
    """What is common to the lowering of one module."""

    __slots__ = ("callbacks", "functions", "locations", "module", "platform")

    def __init__(self, module: Any, platform: str) -> None:
        self.module = module
        self.platform = platform
        self.functions: dict[Any, str] = {}
        # Keyed by the identity of the code object: hashing one reads its whole bytecode.
        self.locations: dict[Any, Any] = {}
        self.callbacks: list[Any] = []

    def location(self, source: sources.Source | None, scope: str, name: str) -> Any:
        """The MLIR location of an equation."""
        key = (id(source[0]), source[1], scope, name) if source else (scope, name)
        found = self.locations.get(key)
        if found is None:
            place = sources.locate(source)
            stack = f"{scope}/{name}" if scope else name
            file, line, function = place or ("unknown", 0, "unknown")
            found = stablehlo.location(file, line, function, stack)
            self.locations[key] = found
        return found


class LoweringContext:
    """What a lowering rule is told: the types of operands and results, and the module.

    `primitive` and `params` are those of the equation; `lower_jaxpr` and `call_jaxpr` emit programs
    that the equation holds.
    """

    __slots__ = ("in_types", "module", "out_types", "primitive", "scope")

    def __init__(
        self,
        module: ModuleContext,
        primitive: Any,
        in_types: Sequence[ArrayType],
        out_types: Sequence[ArrayType],
        scope: str,
    ) -> None:
        self.module = module
        self.primitive = primitive
        self.in_types = in_types
        self.out_types = out_types
        self.scope = scope

    @property
    def platform(self) -> str:
        """The name of the platform that the module is for."""
        return self.module.platform

    def result_ir_types(self) -> list[Any]:
        """The MLIR types of the equation's results."""
        return ir_types(self.out_types)

    def lower_jaxpr(self, jaxpr: Jaxpr, values: Sequence[Any], scope: str = "") -> list[Any]:
        """Emits the operations of a program in place."""
        inner = f"{self.scope}/{scope}" if self.scope and scope else self.scope or scope
        return lower_equations(self.module, jaxpr, values, inner)

    def call_jaxpr(self, jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> list[Any]:
        """Emits a call of the function that a program becomes."""
        key = (jaxpr, name)
        symbol = self.module.functions.get(key)
        if symbol is None:
            symbol = lower_function(self.module, jaxpr, name, public=False)
            self.module.functions[key] = symbol
        return stablehlo.call(symbol, values, ir_types(jaxpr.out_types))


def ir_types(types: Sequence[ArrayType]) -> list[Any]:
    """The MLIR types of values as they are stored."""
    return [stablehlo.array_type_to_ir(physical_type(type)) for type in types]


def lower_to_module(
    jaxpr: Jaxpr, name: str, platform: str, donated: Sequence[bool] | None = None
) -> ModuleContext:
    """The module whose entry point computes a program.

    `donated` marks the inputs whose buffers the program may overwrite.
    """
    context = ModuleContext(stablehlo.Module(f"jit_{name}"), platform)
    with collection_paused():
        lower_function(context, jaxpr, "main", public=True, scope=f"jit({name})", donated=donated)
    return context


def lower_function(
    context: ModuleContext,
    jaxpr: Jaxpr,
    name: str,
    *,
    public: bool,
    scope: str = "",
    donated: Sequence[bool] | None = None,
) -> str:
    """Emits a program as a function and answers with its symbol."""
    attributes = None
    if donated is not None and any(donated):
        donor = {"jax.buffer_donor": stablehlo_attributes.boolean(True)}
        attributes = [donor if flag else None for flag in donated]
    function = context.module.function(
        name,
        ir_types(jaxpr.in_types),
        ir_types(jaxpr.out_types),
        public=public,
        arg_attributes=attributes,
    )
    with function:
        scope = scope or f"jit({name})"
        function.return_(lower_equations(context, jaxpr, function.arguments, scope))
    return str(function.name)


def lower_equations(
    context: ModuleContext, jaxpr: Jaxpr, values: Sequence[Any], scope: str
) -> list[Any]:
    """Emits the operations of a program at the current place."""
    env: dict[Any, Any] = dict(zip(jaxpr.inputs, values, strict=True))
    constants: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        if type(atom) is Var:
            return env[atom]
        return _literal(atom, constants)

    lower_rules, for_platform, platform = rules.lower, rules.lower_for_platform, context.platform
    value_class = stablehlo.ir.Value
    entered = None
    current = None
    try:
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            location = context.location(eqn.source, scope, primitive.name)
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
                scope,
            )
            rule = for_platform.get((primitive, platform)) if for_platform else None
            out = (rule or lower_rules[primitive])(rule_context, *inputs, **eqn.params)
            if isinstance(out, value_class):
                env[eqn.outputs[0]] = out
            else:
                results: Any = getattr(out, "results", out)
                env.update(zip(eqn.outputs, results, strict=True))
    finally:
        if entered is not None:
            entered.__exit__(None, None, None)
    return [read(atom) for atom in jaxpr.outputs]


def _literal(literal: Literal, constants: dict[Any, Any]) -> Any:
    """The constant of a literal, emitted once per block for equal numbers of one type."""
    dtype = literal.type.dtype
    # Equal numbers may differ (0.0 and -0.0), so the text of the number is part of the key.
    key = (repr(literal.value), dtype)
    found = constants.get(key)
    if found is None:
        found = constants[key] = stablehlo.constant(literal.value, (), dtype)
    return found
