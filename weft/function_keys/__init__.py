"""Keys of functions: two functions with equal keys compute the same when they are traced."""

from weft.function_keys.function_key import (
    function_key,
    identity_key,
    register_by_identity,
    register_parts,
    register_uncacheable,
)
from weft.function_keys.named_parts import NamedPart, named_parts, short_text
from weft.function_keys.snapshot import Key

__all__ = [
    "Key",
    "NamedPart",
    "function_key",
    "identity_key",
    "named_parts",
    "register_by_identity",
    "register_parts",
    "register_uncacheable",
    "short_text",
]
