"""Concrete arrays: making them, their devices and layouts, and the contents of their memory."""

from weft.arrays.array import (
    Array,
    Shard,
    as_stored,
    deleted,
    donate_to_place,
    put,
    signature_of,
    to_format,
    to_layout,
    to_place,
)
from weft.arrays.conversion import array_of, as_array, donatable
from weft.arrays.shards import join, parts_of, placement_text, stored_type
from weft.arrays.transfers import layout_mode, stored_layout
from weft.base.facades import public_names

# fmt: off
__all__ = [
    "Array", "Shard", "array_of", "as_array", "as_stored", "deleted", "donatable",
    "donate_to_place", "join", "layout_mode", "parts_of", "placement_text", "put",
    "signature_of", "stored_layout", "stored_type", "to_format", "to_layout", "to_place",
]
# fmt: on

__dir__ = public_names(globals())
