"""Lowering: rules that emit StableHLO, and the builders of its operations.

`builders` has functions from MLIR values to MLIR values, with which weft's own rules are written;
`hlo` is jaxlib's module of operation classes and builders; `ir` are the MLIR bindings.
"""

from weft.core.rules import lower as lowering_rules
from weft.core.rules import lower_for_platform as platform_lowering_rules
from weft.core.rules import numpy_impl as on_host_rules
from weft.define.registration import register_lowering, register_on_host
from weft.extend.interpreters import builders
from weft.lowering.module import (
    LoweringContext,
    ManualMesh,
    ModuleContext,
    ir_types,
    lower_to_module,
)
from weft.runtime.stablehlo import array_type_to_ir, constant, custom_call, hlo, ir, tensor_type

# fmt: off
__all__ = [
    "LoweringContext", "ManualMesh", "ModuleContext", "array_type_to_ir", "builders",
    "constant", "custom_call", "hlo", "ir", "ir_types", "lower_to_module", "lowering_rules",
    "on_host_rules", "platform_lowering_rules", "register_lowering", "register_on_host",
    "tensor_type",
]
# fmt: on
