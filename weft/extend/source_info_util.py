"""The lines and names that equations carry, under the names that programs written for JAX use."""

from weft.base.facades import public_names
from weft.base.source_info import (
    DebugInfo,
    NameStack,
    SourceInfo,
    extend_name_stack,
    new_name_stack,
    new_source_info,
    register_exclusion,
    reset_name_stack,
    set_name_stack,
    summarize,
    transform_name_stack,
    user_context,
)
from weft.base.source_info import current_name_stack as current_name_stack
from weft.base.source_info import current_source_info as current

# fmt: off
__all__ = [
    "DebugInfo", "NameStack", "SourceInfo", "current", "current_name_stack", "extend_name_stack",
    "new_name_stack", "new_source_info", "register_exclusion", "reset_name_stack",
    "set_name_stack", "summarize", "transform_name_stack", "user_context",
]
# fmt: on

__dir__ = public_names(globals())
