"""jaxlib's coordination service and its clients, and the collectives of CPUs in several processes.

The service hands out what the processes of a group know of their devices, and the addresses under
which Gloo (https://github.com/pytorch/gloo) and NCCL connect them.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from weft.runtime.backends.pjrt import Distributed
from weft.runtime.backends.pjrt_buffers import RuntimeFault
from weft.runtime.jaxlib.native import extension

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""The names of this machine that mean nothing to another one."""

NEVER = 10 * 365 * 24 * 3600
"""The seconds after which jaxlib takes a silent process for gone: longer than any job. Who is there
is looked after by `weft.distributed`; jaxlib would end the others with a core dump."""


def start_service(host: str, count: int) -> tuple[int, Any]:
    """The port and the service for `count` processes, which lives as long as the returned object.
    Processes are `recoverable`: one that ends does not crash the others, and `weft.distributed`
    reports it."""
    with socket.create_server((host, 0)) as free:  # a port that nobody has
        port = free.getsockname()[1]
    service = extension.get_distributed_runtime_service(
        f"{_url_host(host)}:{port}",
        count,
        heartbeat_timeout=NEVER,
        shutdown_timeout=10,
        recoverable=True,
    )
    return port, service


def connect(
    host: str, port: int, number: int, count: int, timeout: int,
    device_ids: tuple[int, ...] | None, group: Any,
) -> Distributed:  # fmt: skip
    """Makes this process number `number` of the group with the service at `host` and `port`."""
    client = extension.get_distributed_runtime_client(
        f"{_url_host(host)}:{port}",
        number,
        init_timeout=timeout,
        shutdown_timeout=10,
        heartbeat_timeout=NEVER,
        shutdown_on_destruction=False,
        use_compression=True,
    )
    client.connect()
    # Where all are on one machine, its own name need not lead to it.
    at = {"hostname": host} if host in LOOPBACK else {}
    collectives = extension.make_gloo_tcp_collectives(client, **at)
    return Distributed(client, number, count, collectives, device_ids, group)


def disconnect(distributed: Distributed) -> None:
    """Leaves the service."""
    with contextlib.suppress(RuntimeFault):  # it may be gone already
        distributed.client.shutdown()


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
