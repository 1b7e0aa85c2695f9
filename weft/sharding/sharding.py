"""Shardings as plain frozen data: they name devices and touch none."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Sharding", "SingleDeviceSharding"]


class Sharding:
    """How an array is laid out over devices; an abstract class."""

    __slots__ = ()

    @property
    def device_set(self) -> frozenset[Any]:
        """The devices that hold a part of the array."""
        raise NotImplementedError(f"{type(self).__name__} does not define device_set")


@dataclasses.dataclass(frozen=True, slots=True)
class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    device: Any

    @property
    def device_set(self) -> frozenset[Any]:
        return frozenset((self.device,))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding({self.device})"
