"""Arrays of devices for meshes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.facades import public_names
from weft.errors import WeftValueError
from weft.errors.argument_errors import refusal
from weft.runtime import client

__all__ = ["create_device_mesh", "create_hybrid_device_mesh", "device_kind_handler_dict"]

__dir__ = public_names(globals())

# How devices of a kind are ordered, where their numbers do not say which are near one another. The
# devices of the CPU and of GPUs are taken in the order of their numbers.
device_kind_handler_dict: dict[str, Any] = {}


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
    contiguous_submeshes: bool = False, allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """An array of devices of shape `mesh_shape`, in the order of their numbers or as given.

    Raises WeftValueError if their number is another. The flags are for TPUs, whose devices have
    places in a torus; the CPU's and GPUs have none.

    Args:
        devices: The devices to arrange; None for all.
        contiguous_submeshes: Has no meaning on CPUs and GPUs.
        allow_split_physical_axes: Has no meaning on CPUs and GPUs.
        mesh_shape: The lengths of the mesh's axes.

    >>> from weft.experimental.mesh_utils import create_device_mesh
    >>> weft.sharding.Mesh(create_device_mesh((4, 2)), ("i", "j"))
    Mesh('i': 4, 'j': 2)
    """
    shape = tuple(map(int, mesh_shape))
    devices = list(client.devices() if devices is None else devices)
    if math.prod(shape) != len(devices):
        message = "create_device_mesh: the mesh has not as many places as there are devices"
        got, wanted = f"mesh_shape={shape}, {len(devices)} devices", "equal numbers"
        raise refusal(WeftValueError, message, "create_device_mesh", got, wanted)
    return _object_array(devices, shape)


def _object_array(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    out = np.empty(len(devices), object)
    out[:] = devices
    return out.reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None, *, process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True, allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """An array of devices of groups with fast connections (`mesh_shape` within one) and slow ones
    between them (`dcn_mesh_shape`): its shape is the product of both.

    A group is a slice of a TPU or, with `process_is_granule` and where devices have no slices, a
    process. Raises WeftValueError if the numbers of groups and devices do not fit.

    Args:
        devices: The devices to arrange; None for all.
        should_sort_granules_by_key: Whether groups are in the order of their numbers, and not in
            that of `devices`.
        allow_split_physical_axes: Has no meaning on CPUs and GPUs.
        mesh_shape: The lengths of the axes within a group of devices.
        dcn_mesh_shape: The lengths of the axes between groups, as many as of the former.
        process_is_granule: Whether a group is a process, and not a slice of a TPU.
    """
    devices = list(client.devices() if devices is None else devices)
    by_slice = not process_is_granule and all(hasattr(d, "slice_index") for d in devices)
    groups: dict[Any, list[Any]] = {}
    for device in devices:
        key = device.slice_index if by_slice else device.process_index
        groups.setdefault(key, []).append(device)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    slow, fast = tuple(map(int, dcn_mesh_shape)), tuple(map(int, mesh_shape))
    if math.prod(slow) != len(keys) or len(slow) != len(fast):
        message = "create_hybrid_device_mesh: the groups of devices do not fit dcn_mesh_shape"
        got, wanted = f"{len(keys)} groups, dcn_mesh_shape={slow}", "as many groups as places"
        raise refusal(WeftValueError, message, "create_hybrid_device_mesh", got, wanted)
    blocks = np.empty(len(keys), object)
    for i, key in enumerate(keys):
        blocks[i] = create_device_mesh(fast, groups[key])
    arranged: np.ndarray[Any, Any] = np.block(blocks.reshape(slow).tolist())
    return arranged
