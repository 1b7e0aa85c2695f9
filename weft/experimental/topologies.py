"""Descriptions of devices to compile for: the attached devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.facades import public_names
from weft.experimental.mesh_utils import create_device_mesh
from weft.experimental.unavailable import refusing
from weft.runtime import client
from weft.sharding import Mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]

__dir__ = public_names(globals())


class TopologyDescription:
    """A list of devices.

    Args:
        devices: The devices, in order.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices = list(devices)


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices that this process has.

    Args:
        platform: The platform of the devices, such as "cpu"; None for the default one.

    >>> from weft.experimental import topologies
    >>> len(topologies.get_attached_topology().devices) == weft.device_count()
    True
    """
    return TopologyDescription(client.devices(platform))


get_topology_desc = refusing(
    "get_topology_desc", "weft compiles for the devices that it has", "get_attached_topology()"
)


def make_mesh(
    topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: tuple[str, ...], *,
    contiguous_submeshes: bool = False,
) -> Mesh:  # fmt: skip
    """A mesh of the devices of a description.

    Args:
        topo: The description, as `get_attached_topology` returns it.
        mesh_shape: The lengths of the mesh's axes.
        axis_names: The names of the mesh's axes.
        contiguous_submeshes: Has no meaning on CPUs and GPUs.
    """
    return Mesh(create_device_mesh(mesh_shape, topo.devices), axis_names)
