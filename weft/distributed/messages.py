"""Messages between the processes of a group and its coordinator: JSON, one line each, over TCP."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

Message = dict[str, Any]

LIMIT = 1 << 24
"""The most bytes of a message."""

SECONDARY = 76
"""The exit status of a process that ends because another one failed."""


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message of some bytes. Raises ValueError for invalid ones."""
    out = json.loads(line)
    if not isinstance(out, dict):
        raise ValueError(f"a message is a dict, not {out!r:.80}")
    return out


def print_notice(text: str) -> None:
    """Prints a notice for the user about the other processes."""
    print(f"weft: {text}", file=sys.stderr, flush=True)


def keep_alive(connection: socket.socket, timeout: int) -> None:
    """Makes the system check that the other machine is alive: a connection to one without power or
    network ends after `timeout` seconds. (A process that ends is noticed at once: the system closes
    its connections.) This does not need the interpreter, whose lock other code may hold for
    long."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    third = max(1, timeout // 3)
    for name, value in (("KEEPIDLE", third), ("KEEPINTVL", third), ("KEEPCNT", 2)):
        if hasattr(socket, f"TCP_{name}"):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # for what was sent and not received
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * timeout)


def address_of(text: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[IPv6 address]:port". Raises ValueError for other texts.

    >>> address_of("node1:1234"), address_of("[::1]:80")
    (('node1', 1234), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(text)
    return host.removeprefix("[").removesuffix("]"), int(port)
