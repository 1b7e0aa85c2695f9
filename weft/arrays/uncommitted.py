"""Where arrays lie that nobody has put anywhere: on the first device, or with the setting
`default_device` on another.

The signature of an uncommitted array is its type alone while it is on the first device. Elsewhere
it is (type, Uncommitted(device)), so that executables for operands on the first device are not
found for it; those that are made for it bring it to the device on which they run.
"""

from __future__ import annotations

from typing import Any, ClassVar

from weft import config
from weft.runtime import client


class Uncommitted:
    """A device of uncommitted arrays, or of an executable of such operands, interned."""

    __slots__ = ("device",)

    device: Any
    _known: ClassVar[dict[Any, Uncommitted]] = {}

    def __new__(cls, device: Any) -> Uncommitted:
        found = cls._known.get(device)
        if found is None:
            found = object.__new__(cls)
            found.device = device
            found = cls._known.setdefault(device, found)
        return found

    def __repr__(self) -> str:
        return str(self.device)

    @property
    def unless_first(self) -> Uncommitted | None:
        """The place as a signature has it: None for the first device."""
        return None if self.device == client.backend().default_device else self


def default_place() -> Uncommitted | None:
    """The device of new arrays here; None for the first device."""
    asked = config.settings().default_device
    if asked is None:
        return None
    device = client.backend_for(asked).default_device if isinstance(asked, str) else asked
    return Uncommitted(device).unless_first


def first_place() -> Uncommitted:
    """The first device, for an executable some of whose operands must be brought there."""
    return Uncommitted(client.backend().default_device)
