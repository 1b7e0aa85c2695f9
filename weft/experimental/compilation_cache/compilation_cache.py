"""The directory in which compiled programs are kept: `weft.config`'s `cache_dir`."""

from __future__ import annotations

import os

from weft import config
from weft.base.facades import public_names
from weft.base.program_caches import clear_caches

__all__ = ["reset_cache", "set_cache_dir"]

__dir__ = public_names(globals())


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keeps compiled programs in a directory from now on.

    Args:
        path: The path of the directory.
    """
    config.update("cache_dir", os.fspath(path))


def reset_cache() -> None:
    """Forgets compiled programs of this process, so that they are looked up in the directory."""
    clear_caches()
