"""`buffer_callback`, which raises at the call."""

from __future__ import annotations

from weft.experimental.unavailable import refusing

__all__ = ["buffer_callback"]

buffer_callback = refusing(
    "buffer_callback",
    "weft hands callbacks arrays, not memory",
    "weft.pure_callback, or weft.ffi for compiled code",
)
