"""Python functions on the hosts of devices elsewhere, which weft does not run; each name raises at
the call, but for the CPU devices beside given ones where these are CPU devices themselves."""

from __future__ import annotations

from typing import Any

from weft.experimental.unavailable import refused, refusing
from weft.sharding import Mesh

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]

_WHY = "weft runs Python in its own process alone"
_WANTED = "weft.pure_callback or weft.io_callback, which call Python from a program"

colocated_python = refusing("colocated_python", _WHY, _WANTED)
colocated_python_class = refusing("colocated_python_class", _WHY, _WANTED)


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of devices, or the mesh of these: CPU devices themselves.

    Raises WeftNotImplementedError for other devices.
    """
    of_mesh = isinstance(devices_or_mesh, Mesh)
    devices = devices_or_mesh.devices.ravel().tolist() if of_mesh else list(devices_or_mesh)
    if any(device.platform != "cpu" for device in devices):
        raise refused("colocated_cpu_devices", "the devices are no CPU devices")
    return devices_or_mesh if of_mesh else tuple(devices)
