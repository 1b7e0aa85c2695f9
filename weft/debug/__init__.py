"""Tools to look into running functions, and at the executables that are kept on disk."""

from weft.debug.list_casts import casts
from weft.debug.pictures import visualize_array_sharding, visualize_sharding
from weft.debug.printing import debug_breakpoint as breakpoint
from weft.debug.printing import debug_callback as callback
from weft.debug.printing import debug_print as print
from weft.runtime.backends.disk_cache import (
    ProgramCacheInfo,
    clear_program_cache,
    program_cache_info,
)

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
