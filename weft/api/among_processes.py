"""`device_put` over the devices of several processes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.api.jit import jit
from weft.arrays.array import Array
from weft.runtime import client
from weft.sharding import Sharding

__all__ = ["check_same", "needs_program", "resharded"]


def needs_program(array: Array, place: Any) -> bool:
    """Whether an array has parts in other processes that this one is to get, or to give."""
    if client.group() is None or array.is_fully_addressable or place == array.sharding:
        return False
    return isinstance(place, Sharding) and set(place.device_list) == array.devices()


def resharded(array: Array, place: Sharding) -> Array:
    """The array in another sharding over the same devices, brought there by a program of all."""
    moved: Array = _identity(place)(array)
    return moved


@functools.lru_cache(maxsize=64)
def _identity(place: Sharding) -> Any:
    return jit(_same, out_shardings=place)


def _same(x: Any) -> Any:
    return x


def check_same(stored: Callable[[], np.ndarray[Any, Any]], name: str, place: Any) -> None:
    """Waits for the other processes that have devices of `place` to put values there too.

    Raises DistributedError where theirs are others: the array would be one thing here and another
    there. It costs reading the values once, and one answer of the coordinator."""
    group = client.group()
    if group is None or not isinstance(place, Sharding) or place.is_fully_addressable:
        return
    values = stored()
    digest = hashlib.blake2b(np.ascontiguousarray(values).view(np.uint8).data, digest_size=16)
    digest.update(f"{values.dtype} {values.shape} {place}".encode())
    processes = sorted({device.process_index for device in place.device_list})
    group.watcher.agree_values(digest.hexdigest(), name, processes)
