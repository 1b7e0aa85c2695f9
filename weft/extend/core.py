"""Primitives, types, jaxprs and traces, for packages that extend weft."""

from weft.builtin_primitives import BuiltinPrimitives, primitives
from weft.core.array_value import ArrayValue, register_array_value
from weft.core.axes import *
from weft.core.builder import JaxprBuilder
from weft.core.check import check_jaxpr, checked, equally_varying, result_types
from weft.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO, Effect, any_ordered
from weft.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Literal,
    Var,
    effects_of,
    eval_jaxpr,
    jaxprs_in,
    last_uses,
    map_jaxprs,
    show_jaxpr,
)
from weft.core.primitive import Primitive
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
from weft.define.define_primitive import define_primitive
from weft.interpreters.staging import (
    StagingTrace,
    StagingTracer,
    function_name,
    implicit_cast,
    trace_to_jaxpr,
)
from weft.lowering.eval_trace import EvalTrace, one_operation
from weft.ops.collectives.all_reduce import vary
from weft.ops.collectives.named_axes import check_silent, communication
from weft.ops.declare import join_varying, linear_jvp, linear_operands, result_type
from weft.ops.declare import primitive as declare
from weft.ops.structural.shape import canonical_axes, canonical_axis, reduced_shape

# fmt: off
__all__ = [
    "ArrayType", "ArrayValue", "Atom", "AxisData", "BoundAxis", "BuiltinPrimitives",
    "ClosedJaxpr", "DEBUG", "Effect", "Equation", "EvalTrace", "IO", "Jaxpr", "JaxprBuilder",
    "LinearOperand", "Literal", "ORDERED_DEBUG", "ORDERED_IO", "Primitive", "ShapeDtypeStruct",
    "ShapedArray", "StagingTrace", "StagingTracer", "Table", "Trace", "Tracer", "Typed", "Var",
    "Zero", "any_ordered", "axis_environment", "axis_length", "bottom_trace", "bound_axis",
    "canonical_axes", "canonical_axis", "check_alive", "check_jaxpr", "check_silent", "checked",
    "communication", "current_trace", "current_variable", "declare", "define_primitive",
    "effects_of", "equally_varying", "eval_jaxpr", "extend_axis", "extend_mesh",
    "function_as_parameter", "function_name", "impl_rules", "implicit_cast", "jaxprs_in",
    "join_varying", "last_uses", "leaked", "linear_jvp", "linear_operands", "map_jaxprs",
    "mesh_axes", "names_axis", "one_operation", "over_mesh_in_force", "primitives",
    "reduced_shape", "register_array_value", "register_type_of", "registered_twice",
    "reset_current", "result_type", "result_types", "set_current", "show_jaxpr", "trace_of",
    "trace_to_jaxpr", "type_of", "type_rules", "user_value", "using_trace", "vary",
    "with_environment",
]
# fmt: on
