"""Orders of operations, which raise at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["control_dep", "schedule"]

__dir__ = public_names(globals())

control_dep = refusing(
    "control_dep", "XLA schedules what weft compiles", "weft.lax.optimization_barrier"
)
schedule = refusing("schedule", "XLA schedules what weft compiles")
