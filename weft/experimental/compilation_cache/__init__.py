"""The directory in which compiled programs are kept."""

from weft.experimental.compilation_cache import compilation_cache as compilation_cache

__all__ = ["compilation_cache"]
