"""The guard of copies between the host and devices, for the settings `transfer_guard_*`.

A copy that a program asks for by name (`device_put`, `device_get`) is explicit; all others are
implicit: a NumPy array or a number that becomes an operand, an array that an executable needs on
another device, values that Python reads. Every copy goes through one of a few functions, and these
ask the guard, if it was ever switched on in the process.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

from weft import config
from weft.errors import Fix, GuardError

_explicit: contextvars.ContextVar[bool] = contextvars.ContextVar("weft_explicit", default=False)
_log = logging.getLogger("weft")

_WAYS = {
    "host_to_device": ("from the host to a device", "move it by weft.device_put"),
    "device_to_device": ("from one device to another", "move it by weft.device_put"),
    "device_to_host": ("from a device to the host", "read it by weft.device_get"),
}


@contextlib.contextmanager
def explicit_transfers() -> Iterator[None]:
    """A `with` block whose copies the program has requested."""
    token = _explicit.set(True)
    try:
        yield
    finally:
        _explicit.reset(token)


def guard(way: str, of: Any, place: Any) -> None:
    """Logs a copy of an array of a type, or raises GuardError, as the settings say."""
    level = getattr(config.host_settings(), f"transfer_guard_{way}")
    if level == "allow":
        return
    action, _, every = level.partition("_")
    explicit = _explicit.get()
    if explicit and not every:
        return
    copied, text = _WAYS[way]
    if action == "log":
        _log.warning("a copy %s: %s, %s", copied, of, place or "the default device")
        return
    message = f"a copy {copied} is not allowed here: the setting transfer_guard_{way} is {level!r}"
    fix = Fix("device_put", "leave the block" if explicit else f"{text}, or before the block")
    got = f"{of} for {place}" if place is not None else str(of)
    raise GuardError(message, operation="transfer", got=got, wanted="no copies here", fix=fix)
