"""Placements: on which devices the blocks of an array lie, as the objects that jaxlib takes.

A placement is made by `single` (one device) or `tiled` (several devices, an XLA tile assignment),
once for equal arguments, so that placements can be compared by identity. They have only the methods
that the C++ side calls; the shardings of users are in `weft.sharding`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.runtime.jaxlib.native import extension, hlo_library

Device = Any
Placement = Any
HloSharding: Any = hlo_library.HloSharding
DeviceList: Any = extension.DeviceList

_REPLICATED: Any = HloSharding.replicate()


class _Single(extension.SingleDeviceSharding):
    """One device holds the array. (The C++ class knows the number of devices.)"""

    memory_kind = None

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return _REPLICATED


class _Tiled(extension.GSPMDSharding):
    """Several devices hold blocks of the array, or copies of it."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return self._hlo_sharding


@functools.cache
def device_list(devices: tuple[Device, ...]) -> Any:
    """jaxlib's own list of devices."""
    return DeviceList(devices)


@functools.cache
def single(device: Device) -> Placement:
    """The placement on one device."""
    return _Single(device)


def tiled(devices: Sequence[Device], assignment: np.ndarray[Any, Any] | None) -> Placement:
    """The placement over several devices; see `Backend.tiled`."""
    key = None if assignment is None else (assignment.shape, tuple(assignment.ravel().tolist()))
    return _tiled_placement(tuple(devices), key)


@functools.lru_cache(maxsize=4096)
def _tiled_placement(
    devices: tuple[Device, ...], key: tuple[tuple[int, ...], tuple[int, ...]] | None
) -> Placement:
    if key is None:
        return _Tiled(device_list(devices), _REPLICATED)
    shape, positions = key
    kinds = [hlo_library.OpSharding.Type.REPLICATED]
    order = np.asarray(positions, np.int64).reshape(shape)
    how = HloSharding.subgroup_with_device_ordering(order, subgroup_types=kinds)
    return _Tiled(device_list(devices), how)


def compilers_sharding(assignment: np.ndarray[Any, Any] | None) -> Any:
    """The XLA sharding of an assignment, as `tiled` takes it."""
    if assignment is None:
        return _REPLICATED
    shape = assignment.shape[:-1] if assignment.shape[-1] == 1 else assignment.shape
    kinds = [] if len(shape) < assignment.ndim else [hlo_library.OpSharding.Type.REPLICATED]
    count = assignment.size
    if np.array_equal(assignment.ravel(), np.arange(count)):
        return HloSharding.iota_tile(shape, [count], [0], kinds)
    order = np.asarray(assignment, np.int64).reshape(shape)
    return HloSharding.subgroup_with_device_ordering(order, subgroup_types=kinds)


def assignment_of(sharding: Any) -> np.ndarray[Any, Any] | None:
    """The assignment of an executable's OpSharding, in the form of `tiled`: several trailing
    dimensions of equal copies become one."""
    found = HloSharding.from_proto(sharding)
    if found.is_replicated():
        return None
    shape = tuple(found.tile_assignment_dimensions())
    grid = np.asarray(found.tile_assignment_devices(), np.int64).reshape(shape)
    copies = len(found.subgroup_types()) or int(found.replicate_on_last_tile_dim())
    split = shape[: len(shape) - copies]
    if all(size == 1 for size in split):
        return None
    return grid.reshape(*split, -1)


def is_tiled(placement: Placement) -> bool:
    """Whether a placement is over a list of devices (even a list of one)."""
    return isinstance(placement, _Tiled)
