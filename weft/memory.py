"""The kinds of memory that an array may lie in."""

from __future__ import annotations

import enum

from weft.base.facades import public_names

__all__ = ["Space"]

__dir__ = public_names(globals())


class Space(enum.Enum):
    """A kind of memory: that of devices or that of the host. `Any` leaves it open.

    `weft.device_put(x, Space.Host)` asks for one. On a CPU both are the same memory.

    >>> import weft
    >>> weft.memory.Space.Host
    <Space.Host: 'pinned_host'>
    """

    Device = "device"
    Host = "pinned_host"
    Any = "any"
