"""Primitives, types, jaxprs and traces, for packages that extend weft."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.builtin_primitives import BuiltinPrimitives, primitives
from weft.core.array_value import ArrayValue, register_array_value
from weft.core.axes import *
from weft.core.builder import JaxprBuilder
from weft.core.check import check_jaxpr, checked, equally_varying, result_types
from weft.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO, Effect, any_ordered
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
    new_jaxpr_eqn,
    show_jaxpr,
    subjaxprs,
)
from weft.core.jaxpr import NO_EFFECTS as no_effects
from weft.core.jaxpr import Equation as JaxprEqn
from weft.core.jaxpr import jaxprs_in as jaxprs_in_params
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
from weft.base.source_info import DebugInfo
from weft.core.types import type_of as get_aval
from weft.define.abstract_values import (
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
from weft.define.define_primitive import define_primitive
from weft.define.foreign_traces import *
from weft.define.unchecked_primitive import UncheckedPrimitive
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
from weft.ops.collectives.named_axes import check_silent, communication
from weft.ops.declare import join_varying, linear_jvp, linear_operands, result_type
from weft.ops.declare import primitive as declare
from weft.ops.structural.shape import canonical_axes, canonical_axis, reduced_shape

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
