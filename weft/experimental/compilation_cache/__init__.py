"""The directory in which compiled programs are kept."""

from weft.base.facades import public_names
from weft.experimental.compilation_cache import compilation_cache as compilation_cache

__all__ = ["compilation_cache"]

__dir__ = public_names(globals())
