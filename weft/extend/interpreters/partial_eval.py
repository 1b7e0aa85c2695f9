"""Transforming jaxprs: partial evaluation, dead code, staging, retyping; and their rules."""

from weft.base.facades import public_names
from weft.core.jaxpr import SplitEquation
from weft.core.rules import CastOperand
from weft.core.rules import dce as dce_rules
from weft.core.rules import effects as effects_rules
from weft.core.rules import hoist as hoist_rules
from weft.core.rules import partial_eval as partial_eval_rules
from weft.core.rules import rebind as rebind_rules
from weft.core.rules import retype as retype_rules
from weft.core.rules import runs as runs_rules
from weft.core.rules import stage as stage_rules
from weft.core.rules import steps as steps_rules
from weft.define.for_jax.partial_evaluation import *
from weft.define.for_jax.rule_mappings import (
    custom_partial_eval_rules,
    partial_eval_jaxpr_custom_rules,
)
from weft.define.registration import (
    register_dce,
    register_effects,
    register_hoist,
    register_rebind,
    register_retype,
    register_runs,
    register_stage,
    register_steps,
)
from weft.define.registration import register_partial_eval as register
from weft.interpreters.hoist import (
    HoistedCasts,
    hoist_casts,
    hoist_program,
    join_types,
    retype_program,
    retype_together,
)
from weft.interpreters.hoist import cast_to as fit
from weft.interpreters.hoist import pvary_jaxpr as widened
from weft.interpreters.partial_eval import dce_equations, dce_jaxpr, partial_eval_jaxpr
from weft.interpreters.partial_eval import drop_debug_effects as silenced
from weft.interpreters.partial_eval import without_debug_effects as silenced_equation
from weft.ops.structural.constants import inline_consts as embedded

# fmt: off
__all__ = [
    "CastOperand", "DynamicJaxprTracer", "HoistedCasts", "JaxprTracer", "PartialVal",
    "SplitEquation", "Val", "rebind_rules", "custom_partial_eval_rules", "dce_equations",
    "dce_jaxpr", "dce_jaxpr_call_rule", "dce_jaxpr_closed_call_rule", "dce_jaxpr_consts",
    "dce_rules", "effects_rules", "embedded", "fit", "hoist_casts", "hoist_program", "hoist_rules",
    "join_types", "partial_eval_jaxpr", "partial_eval_jaxpr_custom_rules", "partial_eval_rules",
    "register", "register_dce", "register_effects", "register_hoist", "register_rebind",
    "register_retype", "register_runs", "register_stage", "register_steps", "retype_program",
    "retype_rules", "retype_together", "runs_rules", "silenced", "silenced_equation", "stage_rules",
    "steps_rules", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits", "widened",
    "with_instantiated_inputs",
]
# fmt: on

__dir__ = public_names(globals())
