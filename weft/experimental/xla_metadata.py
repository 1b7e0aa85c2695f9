"""`set_xla_metadata`, which raises at the call."""

from __future__ import annotations

from weft.experimental.unavailable import refusing

__all__ = ["set_xla_metadata"]

set_xla_metadata = refusing("set_xla_metadata", "weft marks no operations for passes of XLA")
