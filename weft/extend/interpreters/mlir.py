"""Lowering: rules that emit StableHLO, and the builders of its operations (`hlo`)."""

from weft.runtime.stablehlo import array_type_to_ir, custom_call, hlo, ir
from weft.transforms.lower import LoweringContext, lower_to_module
from weft.transforms.registration import register_lowering

__all__ = [
    "LoweringContext",
    "array_type_to_ir",
    "custom_call",
    "hlo",
    "ir",
    "lower_to_module",
    "register_lowering",
]
