"""`fused`, which raises at the call."""

from __future__ import annotations

from weft.experimental.unavailable import refusing

__all__ = ["fused"]

fused = refusing("fused", "XLA decides what weft's programs fuse")
