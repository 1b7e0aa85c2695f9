"""`jax._src.distributed`: the state of a program of several processes; weft has one."""

from __future__ import annotations

__all__ = ["State", "global_state"]


class State:
    """One process, and no service to find others with."""

    process_id = 0
    num_processes = 1
    client = None
    service = None
    preemption_sync_manager = None
    coordinator_address: str | None = None


global_state = State()
