"""Operations on arrays.

Its modules are internal and known to users as `weft.lax`. What users find here are the functions
over segments, of which each element of an array has the number of one.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.numpy.segments import segment_max, segment_min, segment_prod, segment_sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


# A type checker sees the names above, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Not imported above: this file runs before every operation, and these are made of those.
        if name in __all__:
            return getattr(importlib.import_module("weft.numpy.segments"), name)
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
