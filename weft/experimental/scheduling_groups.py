"""Groups of operations that are scheduled together, which raise at the call."""

from __future__ import annotations

from weft.experimental.unavailable import refusing

__all__ = ["scheduling_group", "xla_metadata_call"]

scheduling_group = refusing("scheduling_group", "XLA schedules what weft compiles")
xla_metadata_call = refusing("xla_metadata_call", "weft marks no operations for passes of XLA")
