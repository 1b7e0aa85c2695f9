"""Keys of functions: equal for those that compute the same, so that they can share traces."""

from weft.base.facades import public_names
from weft.function_keys import *
from weft.function_keys.code_reads import is_library_file

# fmt: off
__all__ = [
    "Key", "NamedPart", "function_key", "identity_key", "is_library_file", "named_parts",
    "register_by_identity", "register_parts", "register_uncacheable", "short_text",
]
# fmt: on

__dir__ = public_names(globals())
