"""Lowering: rules that emit StableHLO, and the builders of its operations.

`builders` has functions from MLIR values to MLIR values, with which weft's own rules are written;
`hlo` is jaxlib's module of operation classes and builders; `ir` are the MLIR bindings.
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.core.rules import lower as lowering_rules
from weft.core.rules import lower_for_platform as platform_lowering_rules
from weft.core.rules import numpy_impl as on_host_rules
from weft.define.lowering_functions import *
from weft.define.registration import register_lowering, register_on_host
from weft.extend.interpreters import builders
from weft.lowering.module import (
    LoweringContext,
)
from weft.lowering.module import LoweringContext as LoweringRuleContext
from weft.lowering.module import (
    ManualMesh,
    ModuleContext,
    ir_types,
    lower_to_module,
)
from weft.runtime.stablehlo import array_type_to_ir, constant, custom_call, hlo, ir, tensor_type

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
