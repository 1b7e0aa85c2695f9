"""The names by which programs written for JAX read weft's classes, and parameters that they pass.

The classes of the kernel have weft's names alone. The import of `weft.extend` or `weft.as_jax` adds
those of JAX.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft import dtypes
from weft.base.source_info import NameStack, SourceInfo
from weft.control_flow.jit_primitive import jit_p
from weft.core import rules
from weft.core.jaxpr import Atom, DropVar, Equation, Var
from weft.core.primitive import Primitive
from weft.core.trace import Trace
from weft.core.types import ArrayType
from weft.lowering.module import LoweringContext, ModuleContext
from weft.ops.elementwise import arithmetic, elementary, powers
from weft.ops.elementwise.convert import convert_element_type_p
from weft.ops.indexing.creation import iota_p
from weft.ops.products.convolution import conv_p
from weft.ops.products.dot import dot_general_p
from weft.ops.structural.shape import broadcast_in_dim_p, reduce_sum_p, reshape_p
from weft.random.xla_generator import rng_bit_generator_p
from weft.runtime import stablehlo

# ---- parameters --------------------------------------------------------------------------------

NEUTRAL: dict[Primitive, Mapping[str, Any]] = {
    broadcast_in_dim_p: {"sharding": None},
    conv_p: {"out_sharding": None},
    convert_element_type_p: {"sharding": None},
    dot_general_p: {"out_sharding": None},
    iota_p: {"sharding": None},
    jit_p: {"inline": False, "keep_unused": False, "compiler_options_kvs": ()},
    arithmetic.mul_p: {"out_dtype": None},
    reduce_sum_p: {"out_sharding": None},
    reshape_p: {"dimensions": None, "sharding": None},
    rng_bit_generator_p: {"out_sharding": None},
}
"""Parameters of JAX's primitives that weft's have not, with the values that ask for nothing."""

for _module, _names in (
    (arithmetic, "cos exp log sin sqrt tanh"),
    (elementary, "exp2 expm1 log1p logistic tan"),
    (powers, "cbrt rsqrt"),
):
    for _name in _names.split():
        NEUTRAL[getattr(_module, f"{_name}_p")] = {"accuracy": None}


class PrimitiveOfJax(Primitive):
    """A primitive of weft that takes parameters of JAX's, if their values ask for nothing."""

    __slots__ = ()

    @property
    def neutral(self) -> Mapping[str, Any]:
        """These parameters and values, which interpreters written for JAX see."""
        return NEUTRAL[self]

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        return super().bind(*args, **_without_neutral(self, params))


def _without_neutral(primitive: Primitive, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters without those of JAX's that ask for nothing."""
    neutral = NEUTRAL.get(primitive)
    if neutral is None or neutral.keys().isdisjoint(params):
        return params
    return {k: v for k, v in params.items() if k not in neutral or v != neutral[k]}


# ---- names -------------------------------------------------------------------------------------


def _attribute(own: str) -> property:
    """An attribute by another name."""
    return property(lambda self: getattr(self, own), lambda self, value: setattr(self, own, value))


def _value(value: Any) -> property:
    """An attribute that is the same for all objects."""
    return property(lambda self: value)


def _itself(self: Trace, value: Any) -> Any:
    """The value as an operand under a trace: the value itself, which every trace takes."""
    return value


def _bind_with_trace(self: Primitive, trace: Any, args: Any, /, *rest: Any) -> Any:
    """Applies the primitive under a trace; the parameters come last, in a dictionary.

    The types of the operands may precede them, and are not read.
    """
    return trace.process_primitive(self, args, _without_neutral(self, rest[-1]))


def _own_effects(primitive: Primitive, params: dict[str, Any]) -> frozenset[Any]:
    """The effects of an application, without those of its jaxprs."""
    rule = rules.effects.get(primitive)
    return frozenset() if rule is None else rule(params)


def _abstract_eval(self: Primitive, /, *types: Any, **params: Any) -> tuple[Any, frozenset[Any]]:
    """The result type (or types) of an application, and its own effects."""
    return rules.type_rule[self](*types, **params), _own_effects(self, params)


def _is_effectful(self: Primitive, params: dict[str, Any]) -> bool:
    """Whether an application has effects of its own."""
    return bool(_own_effects(self, params))


def _str_short(self: ArrayType, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
    """Dtype and lengths as text; `short_dtypes` abbreviates the dtype."""
    name = dtypes.short_name(self.dtype) if short_dtypes else getattr(self.dtype, "name", "")
    return f"{name}[{','.join(map(str, self.shape))}]"


def _not_dropped(outputs: Sequence[Var]) -> list[Var]:
    """The variables of results, with those that a jaxpr may hold for dropped results."""
    return [Var(var.type) if type(var) is DropVar else var for var in outputs]


def _replace_equation(self: Equation, **changes: Any) -> Equation:
    """The same equation with some fields changed, under JAX's names of them or weft's."""
    own = {"invars": "inputs", "outvars": "outputs", "source_info": "source"}
    fields = {own.get(name, name): value for name, value in changes.items() if name != "ctx"}
    if isinstance(fields.get("source"), SourceInfo):
        fields["source"] = fields["source"].source()
    if "outputs" in fields:
        fields["outputs"] = _not_dropped(fields["outputs"])
    return _replace_own(self, **fields)


_replace_own = Equation.replace


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = None,
    source_info: SourceInfo | None = None,
    ctx: None = None,
) -> Equation:
    """An equation, with its fields in JAX's order and under JAX's names.

    >>> from weft.extend.core import ArrayType, Var, new_jaxpr_eqn, primitives
    >>> x, y = (Var(ArrayType((3,), "float32")) for _ in range(2))
    >>> new_jaxpr_eqn([x], [y], primitives.sin_p, {})
    a:f32[3] = sin ?
    """
    source = None if source_info is None else source_info.source()
    own = None if effects is None else frozenset(effects)
    return Equation(primitive, list(invars), params, _not_dropped(outvars), source, own)


def _replace_context(self: LoweringContext, **changes: Any) -> LoweringContext:
    """The same context with some fields changed, under JAX's names of them or weft's."""
    own = {"avals_in": "in_types", "avals_out": "out_types", "module_context": "module"}
    return dataclasses.replace(self, **{own.get(k, k): v for k, v in changes.items()})


def _add_keepalive(self: ModuleContext, kept: Any) -> None:
    """Keeps an object for as long as the executable lives; None needs nothing."""
    if kept is not None:
        self.callbacks.append(kept)


NAMES: dict[type, dict[str, property | Callable[..., Any] | bool]] = {
    Trace: {
        "main": property(lambda self: self),
        "parent_trace": _attribute("parent"),
        "is_valid": lambda self: self.alive,
        "invalidate": lambda self: self.finish(),
        "stage_value": _itself,
        "full_raise": _itself,
    },
    Primitive: {
        "bind_with_trace": _bind_with_trace,
        "get_bind_params": lambda self, params: dict(params),
        "abstract_eval": _abstract_eval,
        "is_effectful": _is_effectful,
        # A primitive applies to arrays, not to functions.
        "call_primitive": False,
        "map_primitive": False,
        "is_high": False,
        "skip_canonicalization": False,
        "ref_primitive": False,
    },
    ArrayType: {
        "is_high": False,
        "str_short": _str_short,
        "to_tangent_aval": ArrayType.tangent,
        "to_cotangent_aval": ArrayType.tangent,
        "to_ct_aval": ArrayType.tangent,
        "at_least_vspace": ArrayType.tangent,
        "strip_weak_type": ArrayType.strong,
        "update_weak_type": lambda self, weak_type: self.update(weak_type=weak_type),
    },
    Equation: {
        "invars": _attribute("inputs"),
        "outvars": _attribute("outputs"),
        "source_info": property(lambda self: SourceInfo.of(self.source)),
        # weft's equations hold their settings as parameters.
        "ctx": _value(None),
        "replace": _replace_equation,
    },
    ModuleContext: {
        "platforms": property(lambda self: (self.platform,)),
        "context": property(lambda self: stablehlo.context()),
        # The insertion point at the end of the module, for what stands beside functions.
        "ip": property(lambda self: self.module.insertion_point()),
        "keepalives": _attribute("callbacks"),
        "add_keepalive": _add_keepalive,
    },
    LoweringContext: {
        "avals_in": _attribute("in_types"),
        "avals_out": _attribute("out_types"),
        "module_context": _attribute("module"),
        "platforms": property(lambda self: (self.platform,)),
        "name_stack": property(
            lambda self: NameStack(tuple(self.scope.split("/")) if self.scope else ())
        ),
        # A module has no symbolic lengths, and `weft.export` converts it for older releases.
        "dim_var_values": _value(()),
        "is_forward_compat": lambda self: False,
        "replace": _replace_context,
    },
}
"""JAX's names of what weft's classes have."""


def add_names(names: Mapping[type, Mapping[str, Any]]) -> None:
    """Gives classes members by a table of their names."""
    for cls, members in names.items():
        for name, member in members.items():
            setattr(cls, name, member)


add_names(NAMES)
for _primitive in NEUTRAL:
    _primitive.__class__ = PrimitiveOfJax
