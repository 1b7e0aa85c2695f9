"""The user's line and scope behind an operation, for errors and for modules."""

from weft.base.facades import public_names
from weft.base.source import (
    Scope,
    Source,
    backward,
    current,
    describe,
    here,
    in_backward_pass,
    is_library_file,
    locate,
    new_program,
    override,
    placed,
    register_internal,
    tangent_of,
    user_frames,
    warn,
)

# fmt: off
__all__ = [
    "Scope", "Source", "backward", "current", "describe", "here", "in_backward_pass",
    "is_library_file", "locate", "new_program", "override", "placed", "register_internal",
    "tangent_of", "user_frames", "warn",
]
# fmt: on

__dir__ = public_names(globals())
