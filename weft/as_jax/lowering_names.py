"""The names of `jax.interpreters.mlir` that weft lacks, or has for another function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.define.for_jax.lowering_functions import closed_jaxpr, lower_fun
from weft.define.for_jax.lowering_functions import custom_call_op as custom_call
from weft.define.for_jax.lowering_functions import set_lowering as register_lowering
from weft.errors import WeftNotImplementedError
from weft.extend.core import Effect
from weft.lowering.module import ModuleContext, lower_function, lower_to_module
from weft.sharding import Mesh as Mesh
from weft.tree import registry as ir_tree_registry

__all__ = [
    "AxisContext", "ConstantHandler", "DEVICE_TO_DEVICE_TYPE", "EffectTypeSet",
    "LoweringParameters", "LoweringResult", "LoweringRule", "Mesh", "MeshAxisName",
    "RECV_FROM_HOST_TYPE", "SEND_TO_HOST_TYPE", "SPMDAxisContext", "ShapePolyLoweringState",
    "ShardingContext", "Value", "cache_lowering", "custom_call", "ir_tree_registry",
    "ir_type_handlers", "lower_fun", "lower_jaxpr_to_fun", "lower_jaxpr_to_module",
    "lowerable_effects", "merge_mlir_modules", "register_constant_handler", "register_lowering",
]  # fmt: skip

AxisContext: TypeAlias = Any
ConstantHandler: TypeAlias = Callable[..., Any]
LoweringRule: TypeAlias = Callable[..., Any]
MeshAxisName: TypeAlias = Any
Value: TypeAlias = Any

DEVICE_TO_DEVICE_TYPE, SEND_TO_HOST_TYPE, RECV_FROM_HOST_TYPE = 1, 2, 3

# By class of type, how it is written in MLIR: weft asks `aval_to_ir_type` alone.
ir_type_handlers: dict[type, Callable[..., Any]] = {}


class EffectTypeSet:
    """Classes of effects; every set contains weft's."""

    def __init__(self) -> None:
        self._types: set[type] = {Effect}

    def add_type(self, effect_type: type) -> None:
        """Adds a class of effects."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))

    __contains__ = contains

    def filter_in(self, effects: Any) -> list[Any]:
        """The effects of these classes."""
        return [effect for effect in effects if self.contains(effect)]

    def filter_not_in(self, effects: Any) -> list[Any]:
        """The effects of other classes."""
        return [effect for effect in effects if not self.contains(effect)]


lowerable_effects = EffectTypeSet()


@dataclasses.dataclass(frozen=True)
class LoweringParameters:
    """How a module is lowered; weft lowers in one way."""

    override_lowering_rules: Any = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


@dataclasses.dataclass(frozen=True)
class ShapePolyLoweringState:
    """The symbolic lengths of a module: weft's have none."""

    dim_vars: tuple[str, ...] = ()
    lowering_platforms: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class SPMDAxisContext:
    """A mesh and its manual axes."""

    mesh: Any
    manual_axes: frozenset[Any] = frozenset()


@dataclasses.dataclass(frozen=True)
class ShardingContext:
    """On how many devices a module runs."""

    num_devices: int
    device_assignment: tuple[Any, ...] | None = None
    abstract_mesh: Any = None


class LoweringResult(NamedTuple):
    """A module, and the objects that must live as long."""

    module: Any
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


def lower_jaxpr_to_module(
    module_name: str, jaxpr: Jaxpr | ClosedJaxpr, *, platforms: Sequence[str] = ("cpu",), **_: Any
) -> LoweringResult:
    """The StableHLO module of a program for one device of the first platform."""
    name = module_name.removeprefix("jit_")
    context = lower_to_module(closed_jaxpr(jaxpr), name, platforms[0])
    return LoweringResult(context.module.ir, context.callbacks, [], ShapePolyLoweringState())


def lower_jaxpr_to_fun(
    ctx: ModuleContext, name: str, jaxpr: Jaxpr | ClosedJaxpr, *_: Any, **__: Any
) -> str:
    """Adds a function that computes a program to a module, and returns its symbol."""
    return lower_function(ctx, closed_jaxpr(jaxpr), name, public=False)


def cache_lowering(f: LoweringRule) -> LoweringRule:
    """The rule itself, which is called for each equation."""
    return f


def register_constant_handler(type_: type, handler_fun: ConstantHandler) -> None:
    """Raises WeftNotImplementedError: constants are arrays, also of values of a user's class."""
    raise WeftNotImplementedError(
        f"constants of class {type_.__name__} in modules",
        operation="register_constant_handler",
        wanted="a class with __weft_array__, registered with register_array_value",
    )


def merge_mlir_modules(*_: Any, **__: Any) -> str:
    """Raises WeftNotImplementedError: functions are added by `lower_jaxpr_to_fun`."""
    raise WeftNotImplementedError(
        "merging MLIR modules", operation="merge_mlir_modules", wanted="lower_jaxpr_to_fun"
    )
