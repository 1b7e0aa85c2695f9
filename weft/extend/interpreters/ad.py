"""Differentiation: jvp, linearize and transpose rules, and jaxprs made with them."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.core.rules import LinearOperand, Zero, not_linear
from weft.core.rules import jvp as jvp_rules
from weft.core.rules import linearize as linearize_rules
from weft.core.rules import transpose as transpose_rules
from weft.core.rules import LinearOperand as UndefinedPrimal
from weft.define.derivative_rules import *
from weft.define.registration import register_jvp, register_linearize, register_transpose
from weft.define.rule_mappings import (
    primitive_jvps,
    primitive_linearizations,
    primitive_transposes,
)
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

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
