"""Operations on arrays.

Its modules are internal; users know them as `weft.lax`. Public here are only the functions over
segments: each element of an array belongs to the segment whose number it is given.
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, load_on_first_use

if TYPE_CHECKING:
    from weft.numpy.segments import *

# Not imported above: this file runs before the operations that the segments import.
_LAZY_NAMES = {"weft.numpy.segments": "segment_max segment_min segment_prod segment_sum"}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), chapters=_LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), chapters=_LAZY_NAMES)
