"""Looking into programs while they run, and at those that are kept: `print`, `cache_info`, …"""

from weft.casts import casts
from weft.debugging import debug_breakpoint as breakpoint
from weft.debugging import debug_callback as callback
from weft.debugging import debug_print as print
from weft.pictures import visualize_array_sharding, visualize_sharding
from weft.runtime.program_cache import CacheInfo, cache_info, clear_cache

__all__ = [
    "CacheInfo",
    "breakpoint",
    "cache_info",
    "callback",
    "casts",
    "clear_cache",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
