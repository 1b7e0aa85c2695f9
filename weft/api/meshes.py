"""`make_mesh`: a mesh over the devices that there are; and pickling of objects with devices."""

from __future__ import annotations

import copyreg
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import Fix, WeftValueError, api_boundary
from weft.runtime import client
from weft.sharding.devices import check_devices, or_more_devices, set_process_index
from weft.sharding.mesh import Mesh, check_axis_types, checked_sizes
from weft.sharding.names import axis_names as checked_names
from weft.sharding.sharding import SingleDeviceSharding, TiledSharding

set_process_index(client.process_index)


@api_boundary
def make_mesh(
    axis_shapes: int | Sequence[int],
    axis_names: str | Sequence[str],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh whose axes have the given lengths and names.

    It takes as many devices as it needs, in the order of their numbers: the last axis varies
    fastest. On the CPU, the environment variable `WEFT_NUM_CPU_DEVICES` says how many devices there
    are.

    Args:
        axis_shapes: The length of each axis.
        axis_names: The name of each axis.
        axis_types: `AxisType.Auto` for each axis; other types raise WeftNotImplementedError.
        devices: The devices, in this order, as many as the mesh has. By default the first ones.

    Raises WeftValueError where there are too few devices, or `devices` are too many, and what
    `Mesh` raises.

    >>> mesh = weft.make_mesh((4, 2), ("i", "j"))
    >>> mesh
    Mesh('i': 4, 'j': 2)
    >>> mesh.device_ids[1].tolist()
    [2, 3]
    """
    names = checked_names("make_mesh", axis_names)
    sizes = checked_sizes("make_mesh", axis_shapes, names)
    check_axis_types("make_mesh", axis_types, names)
    needed = math.prod(sizes)
    if devices is None:
        chosen = sorted(client.devices(), key=lambda device: int(device.id))[:needed]
        if len(chosen) < needed:
            raise _too_few(sizes, names, chosen)
    else:
        chosen = list(np.asarray(devices, object).ravel())
        check_devices("make_mesh", chosen)
        if len(chosen) != needed:
            raise _other_number(sizes, names, chosen)
    return Mesh(np.array(chosen, object).reshape(sizes), names)


def _too_few(sizes: tuple[int, ...], names: tuple[str, ...], there: list[Any]) -> WeftValueError:
    needed, fitting = math.prod(sizes), _fit_sizes(sizes, len(there))
    fix = Fix(
        "axis_shapes", f"use weft.make_mesh({fitting!r}, {names!r})", {"axis_shapes": fitting}
    )
    if there[0].platform == "cpu":
        fix = or_more_devices(needed, fix)
    message = "make_mesh: there are not enough devices"
    got = f"axis_shapes={sizes!r}, {needed} devices in all"
    return WeftValueError(message, got=got, wanted=f"{len(there)} devices at most", fix=fix)


def _other_number(
    sizes: tuple[int, ...], names: tuple[str, ...], given: list[Any]
) -> WeftValueError:
    needed = math.prod(sizes)
    if len(given) > needed:
        text, data = f"pass devices[:{needed}]", {"devices": tuple(given[:needed])}
    else:
        fitting = _fit_sizes(sizes, len(given))
        fewer = math.prod(fitting)
        text = f"pass {needed} devices, or use axis_shapes={fitting!r}"
        text += "" if fewer == len(given) else f" and devices[:{fewer}]"
        data = {"axis_shapes": fitting, "devices": tuple(given[:fewer])}
    message = "make_mesh: the number of devices is not that of the mesh"
    got = f"axis_shapes={sizes!r} and {len(given)} devices"
    wanted = f"{needed} devices"
    return WeftValueError(message, got=got, wanted=wanted, fix=Fix("devices", text, data))


def _fit_sizes(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The requested lengths, reduced until there are enough devices."""
    fitted = []
    for size in sizes:
        fitted.append(min(size, count))
        count //= fitted[-1]
    return tuple(fitted)


# Devices cannot be pickled: a process has its own. Their numbers can, and to find a device by its
# number one has to ask the runtime, which the classes themselves do not know.


def _numbers(devices: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    return devices[0].platform, tuple(int(device.id) for device in devices)


def _find_devices(operation: str, platform: str, numbers: Sequence[int]) -> list[Any]:
    """The devices of these numbers. Raises WeftValueError where one is not there."""
    there = {int(device.id): device for device in client.devices(platform)}
    missing = [number for number in numbers if number not in there]
    if missing:
        needed = max(numbers) + 1
        message = f"a pickled {operation} is over devices that this process does not have"
        got = f"the devices {', '.join(map(str, missing))} of {platform}"
        wanted = f"devices out of {', '.join(map(str, there))}"
        text = f"WEFT_NUM_CPU_DEVICES={needed} before the program starts (on the CPU)"
        variable = {"WEFT_NUM_CPU_DEVICES": str(needed)}
        fix = Fix("environment", f"set the environment variable {text}", {"environment": variable})
        raise WeftValueError(
            message, operation=f"unpickling of a {operation}", got=got, wanted=wanted, fix=fix
        )
    return [there[number] for number in numbers]


def _mesh(
    platform: str, numbers: tuple[int, ...], sizes: tuple[int, ...], names: tuple[str, ...]
) -> Mesh:
    return Mesh(np.array(_find_devices("Mesh", platform, numbers), object).reshape(sizes), names)


def _single(platform: str, numbers: tuple[int, ...]) -> SingleDeviceSharding:
    return SingleDeviceSharding(_find_devices("SingleDeviceSharding", platform, numbers)[0])


def _tiled_sharding(platform: str, numbers: tuple[int, ...], assignment: Any) -> TiledSharding:
    return TiledSharding(_find_devices("TiledSharding", platform, numbers), assignment)


copyreg.pickle(Mesh, lambda x: (_mesh, (*_numbers(x.device_list), x.axis_sizes, x.axis_names)))
copyreg.pickle(SingleDeviceSharding, lambda x: (_single, _numbers(x.device_list)))
copyreg.pickle(TiledSharding, lambda x: (_tiled_sharding, (*_numbers(x.device_list), x.stored)))
