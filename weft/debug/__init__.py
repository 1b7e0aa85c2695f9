"""Tools to look into running functions, and at the executables that are kept on disk."""

from typing import TYPE_CHECKING

from weft.analysis.list_casts import casts
from weft.base.facades import load_on_first_use
from weft.debug.array_shardings import inspect_array_sharding
from weft.debug.pictures import visualize_array_sharding, visualize_sharding
from weft.debug.printing import debug_breakpoint as breakpoint
from weft.debug.printing import debug_callback as callback
from weft.debug.printing import debug_log as log
from weft.debug.printing import debug_print as print
from weft.runtime.backends.disk_cache import (
    ProgramCacheInfo,
    clear_program_cache,
    program_cache_info,
)

# fmt: off
__all__ = [
    "ProgramCacheInfo", "breakpoint", "callback", "casts", "clear_program_cache",
    "inspect_array_sharding", "log", "print", "program_cache_info", "visualize_array_sharding",
    "visualize_sharding",
]
# fmt: on

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
