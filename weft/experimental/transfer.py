"""Transfers between processes, which raise at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["start_transfer_server"]

__dir__ = public_names(globals())

start_transfer_server = refusing("start_transfer_server", "weft runs in one process")
