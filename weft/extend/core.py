"""Primitives, types, jaxprs and traces, for packages that extend weft."""

from weft.base.facades import public_names
from weft.base.source_info import DebugInfo
from weft.core.array_value import ArrayValue, register_array_value
from weft.core.axes import *
from weft.core.builder import JaxprBuilder
from weft.core.check import check_jaxpr, checked, equally_varying, result_types
from weft.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO, Effect, any_ordered
from weft.core.inner_programs import NO_PROGRAMS as no_programs
from weft.core.inner_programs import InnerProgram, InnerPrograms, inner_programs
from weft.core.jaxpr import NO_EFFECTS as no_effects
from weft.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Equation,
    Jaxpr,
    Literal,
    Var,
    effects_of,
    eval_jaxpr,
    jaxpr_as_fun,
    jaxprs_in,
    last_uses,
    map_jaxprs,
    show_jaxpr,
    subjaxprs,
)
from weft.core.jaxpr import Equation as JaxprEqn
from weft.core.jaxpr import jaxprs_in as jaxprs_in_params
from weft.core.primitive import Facts, Primitive, Work
from weft.core.rules import AxisData, LinearOperand, Table, Zero, registered_twice
from weft.core.rules import impl as impl_rules
from weft.core.rules import type_rule as type_rules
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.trace import (
    Trace,
    Tracer,
    bottom_trace,
    check_alive,
    current_trace,
    current_variable,
    function_as_parameter,
    leaked,
    reset_current,
    set_current,
    trace_of,
    using_trace,
)
from weft.core.types import ArrayType, Typed, register_type_of, type_of, user_value
from weft.core.types import ArrayType as ShapedArray
from weft.core.types import type_of as get_aval
from weft.define.builtin_primitives import BuiltinPrimitives, primitives
from weft.define.define_primitive import define_primitive
from weft.define.for_jax.abstract_values import (
    AbstractToken,
    AbstractValue,
    Effects,
    ParamDict,
    Value,
    array_types,
    gensym,
    physical_aval,
    primal_dtype_to_tangent_dtype,
    pytype_aval_mappings,
)
from weft.define.for_jax.foreign_traces import *
from weft.define.for_jax.jax_names import new_jaxpr_eqn
from weft.define.for_jax.unchecked_primitive import UncheckedPrimitive
from weft.errors import JaxprError as JaxprTypeError
from weft.interpreters.staging import (
    StagingTrace,
    StagingTracer,
    function_name,
    implicit_cast,
    trace_to_jaxpr,
)
from weft.lowering.eval_trace import EvalTrace, one_operation
from weft.ops.collectives.all_reduce import vary
from weft.ops.collectives.invariant import on_first_device
from weft.ops.collectives.named_axes import check_silent, communication
from weft.ops.declare import join_varying, linear_jvp, linear_operands, result_type
from weft.ops.declare import primitive as declare
from weft.ops.structural.shape import canonical_axes, canonical_axis, reduced_shape

# fmt: off
__all__ = [
    "AbstractToken", "AbstractValue", "ArrayType", "ArrayValue", "Atom", "AxisData", "BoundAxis",
    "BuiltinPrimitives", "ClosedJaxpr", "DEBUG", "DebugInfo", "DropVar", "Effect", "Effects",
    "Equation", "EvalTrace", "Facts", "ForeignTrace", "IO", "InnerProgram", "InnerPrograms",
    "Jaxpr", "JaxprBuilder", "JaxprEqn", "JaxprTypeError", "LinearOperand", "Literal",
    "ORDERED_DEBUG", "ORDERED_IO", "OpaqueTraceState", "ParamDict", "Primitive", "ShapeDtypeStruct",
    "ShapedArray", "StagingTrace", "StagingTracer", "Table", "Trace", "TraceTag", "Tracer", "Typed",
    "UncheckedPrimitive", "Value", "Var", "Work", "Zero", "any_ordered", "array_types",
    "axis_environment", "axis_length", "axis_names_in_force", "bottom_trace", "bound_axis",
    "canonical_axes", "canonical_axis", "check_alive", "check_jaxpr", "check_silent", "checked",
    "communication", "concrete_or_error", "current_trace", "current_variable", "declare",
    "define_primitive", "effects_of", "equally_varying", "eval_context", "eval_jaxpr",
    "extend_axis", "extend_mesh", "find_top_trace", "full_lower", "function_as_parameter",
    "function_name", "gensym", "get_aval", "get_opaque_trace_state", "has_axis_names", "impl_rules",
    "implicit_cast", "inner_programs", "jaxpr_as_fun", "jaxprs_in", "jaxprs_in_params",
    "join_varying", "last_uses", "leaked", "linear_jvp", "linear_operands", "map_jaxprs",
    "mapped_aval", "mesh_axes", "names_axis", "new_jaxpr_eqn", "no_effects", "no_programs",
    "on_first_device", "one_operation", "over_mesh_in_force", "physical_aval",
    "primal_dtype_to_tangent_dtype", "primitives", "pytype_aval_mappings", "reduced_shape",
    "register_array_value", "register_type_of", "registered_twice", "reset_current", "result_type",
    "result_types", "set_current", "set_current_trace", "show_jaxpr", "subjaxprs",
    "take_current_trace", "trace_of", "trace_state_clean", "trace_to_jaxpr", "type_of",
    "type_rules", "under_jit", "under_vmap", "unmapped_aval", "user_value", "using_trace",
    "valid_jaxtype", "vary", "with_environment",
]
# fmt: on

__dir__ = public_names(globals())
