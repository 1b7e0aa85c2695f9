"""Primitives, types, programs and traces, for those who add to weft."""

from weft.core.axes import axis_environment, axis_length, extend_axis
from weft.core.check import check_jaxpr
from weft.core.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var, eval_jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.show import show_jaxpr
from weft.core.trace import Trace, Tracer, current_trace, using_trace
from weft.core.types import ArrayType, type_of
from weft.core.types import ArrayType as ShapedArray
from weft.transforms.staging import trace_to_jaxpr

__all__ = [
    "ArrayType",
    "AxisData",
    "ClosedJaxpr",
    "Equation",
    "Jaxpr",
    "LinearOperand",
    "Literal",
    "Primitive",
    "ShapeDtypeStruct",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Var",
    "Zero",
    "axis_environment",
    "axis_length",
    "check_jaxpr",
    "current_trace",
    "eval_jaxpr",
    "extend_axis",
    "jaxprs_in",
    "show_jaxpr",
    "trace_to_jaxpr",
    "type_of",
    "using_trace",
]
