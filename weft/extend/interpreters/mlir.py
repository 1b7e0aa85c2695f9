"""Lowering: rules that emit StableHLO, and the builders of its operations.

`builders` has functions from MLIR values to MLIR values, with which weft's own rules are written;
`hlo` is jaxlib's module of operation classes and builders; `ir` are the MLIR bindings.
"""

from weft.base.facades import public_names
from weft.core.rules import lower as lowering_rules
from weft.core.rules import lower_for_platform as platform_lowering_rules
from weft.core.rules import on_host as on_host_rules
from weft.define.for_jax.lowering_functions import *
from weft.define.registration import register_lowering, register_on_host
from weft.extend.interpreters import builders
from weft.lowering.module import (
    LoweringContext,
    ManualMesh,
    ModuleContext,
    ir_types,
    lower_to_module,
)
from weft.lowering.module import LoweringContext as LoweringRuleContext
from weft.runtime.stablehlo import array_type_to_ir, constant, custom_call, hlo, ir, tensor_type

# fmt: off
__all__ = [
    "LoweringContext", "LoweringRuleContext", "ManualMesh", "ModuleContext", "Token",
    "TokenSet", "array_type_to_ir", "aval_to_ir_type", "aval_to_ir_types", "builders",
    "constant", "core_call_lowering", "custom_call", "custom_call_op", "dense_bool_array",
    "dense_bool_elements", "dense_int_array", "dense_int_elements", "dtype_to_ir_type",
    "emit_python_callback", "flatten_ir_types", "flatten_ir_values", "hlo", "i32_attr",
    "i64_attr", "ir", "ir_attribute", "ir_constant", "ir_constants", "ir_types",
    "jaxpr_subcomp", "lower_fun", "lower_to_module", "lowering_rules", "make_ir_context",
    "module_to_bytecode", "module_to_string", "on_host_rules", "platform_lowering_rules",
    "register_lowering", "register_on_host", "set_lowering", "shape_tensor", "tensor_type",
    "token_type", "unflatten_ir_values_like_types",
]
# fmt: on

__dir__ = public_names(globals())
