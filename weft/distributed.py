"""Processes that work together: joining them, and leaving. One process is a group of its own.

Programs that are started by several processes are not there yet: `initialize` says so, rather than
leave each of them to work on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import Fix, GuardError, WeftNotImplementedError, WeftValueError, api_boundary
from weft.runtime import client

__all__ = ["initialize", "is_initialized", "shutdown"]

_initialized = False


@api_boundary
def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Joins the processes that work together; for one process, which is all that is there yet.

    To be called before anything that uses a device. `coordinator_address` ("host:port") and
    `num_processes` have to be said, since nothing is found out about a cluster; the timeouts are
    not needed.

    Raises WeftValueError for a missing address or a process_id that is not 0, GuardError where a
    device was used before or this was called before, and WeftNotImplementedError for several
    processes.
    """
    global _initialized
    operation = "distributed.initialize"
    if _initialized:
        raise GuardError(f"{operation} is called once", operation=operation)
    if coordinator_address is None or num_processes is None:
        what = "coordinator_address" if coordinator_address is None else "num_processes"
        message = f"{operation}: {what} has to be said; no cluster is looked for"
        fix = Fix("argument", "pass coordinator_address='localhost:1234', num_processes=1")
        raise WeftValueError(message, operation=operation, got=f"no {what}", fix=fix)
    if num_processes != 1:
        message = f"{operation}: programs run in one process so far"
        fix = Fix("argument", "pass num_processes=1, process_id=0", {"num_processes": 1})
        raise WeftNotImplementedError(
            message, operation=operation, got=f"num_processes={num_processes}", fix=fix
        )
    if process_id not in (0, None):
        message = f"{operation}: process_id is the number of this process"
        got, wanted = f"process_id={process_id}", "0, the only one"
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted)
    if client.is_started():
        message = f"{operation} is called before anything that uses a device"
        fix = Fix("order", "call it first in the program")
        raise GuardError(message, operation=operation, fix=fix)
    _initialized = True


def is_initialized() -> bool:
    """Whether `initialize` was called.

    >>> import weft
    >>> weft.distributed.is_initialized()
    False
    """
    return _initialized


def shutdown() -> None:
    """Leaves the processes that work together; nothing happens where none were joined."""
    global _initialized
    _initialized = False
