"""`device_put` over the devices of several processes."""

from __future__ import annotations

import functools
from typing import Any

from weft.api.jit import jit
from weft.arrays.array import Array
from weft.runtime import client
from weft.sharding import Sharding


def needs_program(array: Array, place: Any) -> bool:
    """Whether parts of an array have to move between processes."""
    if client.group() is None or array.is_fully_addressable or place == array.sharding:
        return False
    return isinstance(place, Sharding) and set(place.device_list) == array.devices()


def reshard_array(array: Array, place: Sharding) -> Array:
    """The array in another sharding over the same devices, moved by a program of all processes."""
    moved: Array = _identity(place)(array)
    return moved


@functools.lru_cache(maxsize=64)
def _identity(place: Sharding) -> Any:
    return jit(_same, out_shardings=place)


def _same(x: Any) -> Any:
    return x
