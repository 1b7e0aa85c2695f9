"""Differentiation: jvp, linearize and transpose rules, and jaxprs made with them."""

from weft.core.rules import LinearOperand, Zero, not_linear
from weft.core.rules import jvp as jvp_rules
from weft.core.rules import linearize as linearize_rules
from weft.core.rules import transpose as transpose_rules
from weft.define.registration import register_jvp, register_linearize, register_transpose
from weft.interpreters.jvp import jvp_flat, jvp_jaxpr
from weft.interpreters.linearize import (
    linear_program,
    linearize_flat,
    linearize_jaxpr,
    record_linear,
    user_rule,
)
from weft.interpreters.residuals import choose_residuals, linearize_sparing
from weft.interpreters.transpose import backward_pass, transpose_jaxpr
from weft.ops.structural.tangents import add_tangents, instantiate, zeros

# fmt: off
__all__ = [
    "LinearOperand", "Zero", "add_tangents", "backward_pass", "choose_residuals", "instantiate",
    "jvp_flat", "jvp_jaxpr", "jvp_rules", "linear_program", "linearize_flat", "linearize_jaxpr",
    "linearize_rules", "linearize_sparing", "not_linear", "record_linear", "register_jvp",
    "register_linearize", "register_transpose", "transpose_jaxpr", "transpose_rules", "user_rule",
    "zeros",
]
# fmt: on
