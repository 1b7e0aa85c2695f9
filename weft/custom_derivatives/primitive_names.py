"""The primitives of custom derivatives under the names of JAX."""

from weft.custom_derivatives.custom_jvp_rule import custom_jvp_p as custom_jvp_call_p
from weft.custom_derivatives.custom_vjp_rules import custom_vjp_p as custom_vjp_call_p

__all__ = ["custom_jvp_call_p", "custom_vjp_call_p"]
