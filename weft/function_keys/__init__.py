"""Keys of functions: two functions with equal keys compute the same when they are traced."""

from weft.function_keys.keys import (
    function_key,
    identity_key,
    register_by_identity,
    register_parts,
    register_uncacheable,
)
from weft.function_keys.snapshot import Key

__all__ = [
    "Key",
    "function_key",
    "identity_key",
    "register_by_identity",
    "register_parts",
    "register_uncacheable",
]
