"""`fused`, which raises at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["fused"]

__dir__ = public_names(globals())

fused = refusing("fused", "XLA decides what weft's programs fuse")
