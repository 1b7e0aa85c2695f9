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

# fmt: off
__all__ = [
    "ProgramCacheInfo", "breakpoint", "callback", "casts", "clear_program_cache", "print",
    "program_cache_info", "visualize_array_sharding", "visualize_sharding",
]
# fmt: on
