"""Looking into programs while they run: `print`, `callback`, `breakpoint`."""

from weft.casts import casts
from weft.debugging import debug_breakpoint as breakpoint
from weft.debugging import debug_callback as callback
from weft.debugging import debug_print as print
from weft.pictures import visualize_array_sharding, visualize_sharding

__all__ = [
    "breakpoint",
    "callback",
    "casts",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
