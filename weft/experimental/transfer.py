"""Transfers between processes, which raise at the call."""

from __future__ import annotations

from weft.experimental.unavailable import refusing

__all__ = ["start_transfer_server"]

start_transfer_server = refusing("start_transfer_server", "weft runs in one process")
