"""Functions with derivatives of the user's, and what the rules of these are given.

All that stands here is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, load_on_first_use

if TYPE_CHECKING:
    from weft.api.custom_gradient import closure_convert as closure_convert
    from weft.api.custom_gradient import custom_gradient as custom_gradient
    from weft.api.linear_functions import linear_call as linear_call
    from weft.custom_derivatives.custom_function import SymbolicZero as SymbolicZero
    from weft.custom_derivatives.custom_function import zero_from_primal as zero_from_primal
    from weft.custom_derivatives.custom_jvp_rule import custom_jvp as custom_jvp
    from weft.custom_derivatives.custom_vjp_rules import CustomVJPPrimal as CustomVJPPrimal
    from weft.custom_derivatives.custom_vjp_rules import custom_vjp as custom_vjp
    from weft.custom_derivatives.custom_vjp_rules import (
        custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
    )
    from weft.custom_derivatives.primitive_names import custom_jvp_call_p as custom_jvp_call_p
    from weft.custom_derivatives.primitive_names import custom_vjp_call_p as custom_vjp_call_p

_LAZY_NAMES = {
    "weft.api.custom_gradient": "closure_convert custom_gradient",
    "weft.custom_derivatives.custom_function": "SymbolicZero zero_from_primal",
    "weft.custom_derivatives.custom_jvp_rule": "custom_jvp",
    "weft.custom_derivatives.custom_vjp_rules": (
        "CustomVJPPrimal custom_vjp custom_vjp_primal_tree_values"
    ),
    "weft.api.linear_functions": "linear_call",
    "weft.custom_derivatives.primitive_names": "custom_jvp_call_p custom_vjp_call_p",
}

if not TYPE_CHECKING:
    __all__ = handed_on(globals(), (), _LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), (), _LAZY_NAMES)
