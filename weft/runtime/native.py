"""The compiled parts of jaxlib that the runtime drives, and jaxlib's version.

Importing this module starts no client and touches no device. jaxlib's process-wide configuration
objects are left alone on purpose: every call that would read them gets the value as an argument
instead, so that weft and another front end of jaxlib can share one process.
"""

from __future__ import annotations

from typing import Any

from jaxlib import _hlo, _jax
from jaxlib.version import __version__ as _version_text

__all__ = ["extension", "hlo_library", "version"]

extension: Any = _jax
hlo_library: Any = _hlo
version: tuple[int, ...] = tuple(int(part) for part in _version_text.split(".") if part.isdigit())
"""The release of jaxlib, such as (0, 10, 2)."""
