"""Differentiation: jvp, linearize and transpose rules."""

from weft.core.rules import LinearOperand, Zero
from weft.ops.tangents import add_tangents, instantiate
from weft.transforms.jvp import jvp_jaxpr
from weft.transforms.linearize import linearize_jaxpr
from weft.transforms.registration import register_jvp, register_linearize, register_transpose
from weft.transforms.transpose import backward_pass, transpose_jaxpr

__all__ = [
    "LinearOperand",
    "Zero",
    "add_tangents",
    "backward_pass",
    "instantiate",
    "jvp_jaxpr",
    "linearize_jaxpr",
    "register_jvp",
    "register_linearize",
    "register_transpose",
    "transpose_jaxpr",
]
