"""Operations on arrays.

Its modules are internal; users know them as `weft.lax`. Public here are only the functions over
segments: each element of an array belongs to the segment whose number it is given.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.numpy.segments import segment_max, segment_min, segment_prod, segment_sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


# Type checkers see only the names above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Not imported above: this file runs before the operations that the segments import.
        if name in __all__:
            return getattr(importlib.import_module("weft.numpy.segments"), name)
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
