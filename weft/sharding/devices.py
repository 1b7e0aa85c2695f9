"""Checks of devices, which are objects of the runtime: known by number, process and platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.sharding.names import find_duplicates

Device = Any


_process_index: Callable[[], int] = int  # the first one


def set_process_index(process_index: Callable[[], int]) -> None:
    """Sets the function that returns the number of this process, which the runtime knows."""
    global _process_index
    _process_index = process_index


def is_addressable(device: Device) -> bool:
    """Whether a device belongs to this process."""
    return bool(device.process_index == _process_index())


def is_device(value: Any) -> bool:
    """Whether a value looks like a device of the runtime."""
    return all(hasattr(value, name) for name in ("id", "process_index", "platform"))


def check_devices(operation: str, devices: Sequence[Device]) -> None:
    """Raises WeftTypeError for anything that is not a device, and WeftValueError for devices that
    cannot run one executable together: none, one twice, or several platforms."""
    fix = Fix("devices", "use weft.devices()", {"devices": "weft.devices()"})
    for device in devices:
        if not is_device(device):
            message = f"{operation}: {device!r} is no device"
            got = f"{device!r} ({type(device).__name__})"
            wanted = "devices, such as those of weft.devices()"
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if not devices:
        message = f"{operation}: there are no devices"
        wanted = "one device at least"
        raise WeftValueError(message, got="no devices", wanted=wanted, fix=fix)
    twice = find_duplicates(devices)
    if twice:
        message = f"{operation}: a device is there more than once"
        got = f"{_list_devices(twice)} more than once among {len(devices)} devices"
        wanted = "different devices"
        fix = _devices_fix("leave the repetitions out", dict.fromkeys(devices))
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    platforms = dict.fromkeys(device.platform for device in devices)
    if len(platforms) > 1:
        first = next(iter(platforms))
        message = f"{operation}: the devices belong to different platforms"
        got = " and ".join(map(str, platforms))
        wanted = "devices of one platform"
        fix = _devices_fix(
            f"keep those of {first}", [device for device in devices if device.platform == first]
        )
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


def or_more_devices(count: int, fix: Fix) -> Fix:
    """The fix for too few devices: more devices of the CPU, or another fix."""
    variable = {"WEFT_NUM_CPU_DEVICES": str(count)}
    text = f"set the environment variable WEFT_NUM_CPU_DEVICES={count} before the program starts"
    return Fix("environment", f"{text}, or {fix.text}", {"environment": variable, **fix.data})


def _list_devices(devices: Sequence[Device]) -> str:
    shown = ", ".join(map(str, devices[:4]))
    return f"{shown} and {len(devices) - 4} more" if len(devices) > 4 else shown


def _devices_fix(text: str, devices: Iterable[Device]) -> Fix:
    kept = tuple(devices)
    return Fix("devices", f"{text}: that makes {len(kept)}", {"devices": kept})
