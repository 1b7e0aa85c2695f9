"""`buffer_callback`, which raises at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["buffer_callback"]

__dir__ = public_names(globals())

buffer_callback = refusing(
    "buffer_callback",
    "weft hands callbacks arrays, not memory",
    "weft.pure_callback, or weft.ffi for compiled code",
)
