"""`jax._src.distributed`: what this process knows of the others that it works with."""

from __future__ import annotations

import os
from typing import Any

from weft.runtime import client as runtime_client

__all__ = ["State", "global_state"]


class State:
    """The group of this process, and the client of jaxlib's service; one process has none."""

    service = None
    preemption_sync_manager = None

    @property
    def process_id(self) -> int:
        """The number of this process."""
        group = runtime_client.group()
        return 0 if group is None else group.node_id

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        group = runtime_client.group()
        return 1 if group is None else group.num_nodes

    @property
    def client(self) -> Any:
        """jaxlib's client, by which processes share keys and values."""
        group = runtime_client.group()
        return None if group is None else group.client

    @property
    def coordinator_address(self) -> str | None:
        """Where the processes meet, if the environment says so."""
        return os.environ.get("WEFT_COORDINATOR_ADDRESS")


global_state = State()
