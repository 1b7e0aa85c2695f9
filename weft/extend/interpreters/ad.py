"""Differentiation: jvp, linearize and transpose rules, and jaxprs made with them."""

from weft.base.facades import public_names
from weft.core.rules import LinearOperand, Zero, not_linear
from weft.core.rules import LinearOperand as UndefinedPrimal
from weft.core.rules import jvp as jvp_rules
from weft.core.rules import linearize as linearize_rules
from weft.core.rules import transpose as transpose_rules
from weft.define.for_jax.derivative_rules import *
from weft.define.for_jax.rule_mappings import (
    primitive_jvps,
    primitive_linearizations,
    primitive_transposes,
)
from weft.define.registration import register_jvp, register_linearize, register_transpose
from weft.interpreters.jvp import DualTracer as JVPTracer
from weft.interpreters.jvp import JVPTrace, jvp_flat, jvp_jaxpr
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
    "JVPTrace", "JVPTracer", "LinearOperand", "UndefinedPrimal", "Zero", "add_jaxvals",
    "add_jaxvals_p", "add_tangents", "backward_pass", "choose_residuals", "defbilinear",
    "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose", "instantiate",
    "instantiate_zeros", "is_undefined_primal", "jvp", "jvp_flat", "jvp_jaxpr", "jvp_rules",
    "linear_program", "linearize", "linearize_flat", "linearize_jaxpr", "linearize_rules",
    "linearize_sparing", "not_linear", "primitive_jvps", "primitive_linearizations",
    "primitive_transposes", "record_linear", "register_jvp", "register_linearize",
    "register_transpose", "transpose_jaxpr", "transpose_rules", "user_rule", "zeros",
    "zeros_like_aval",
]
# fmt: on

__dir__ = public_names(globals())
