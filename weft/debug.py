"""Looking into programs while they run, and at those that are kept on disk."""

from weft.casts import casts
from weft.debugging import debug_breakpoint as breakpoint
from weft.debugging import debug_callback as callback
from weft.debugging import debug_print as print
from weft.pictures import visualize_array_sharding, visualize_sharding
from weft.runtime.program_cache import ProgramCacheInfo, clear_program_cache, program_cache_info

__all__ = [
    "ProgramCacheInfo",
    "breakpoint",
    "program_cache_info",
    "callback",
    "casts",
    "clear_program_cache",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
