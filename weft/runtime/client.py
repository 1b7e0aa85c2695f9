"""The current backend, started when it is first needed, and the functions that list devices.

The setting `platforms`, or `WEFT_PLATFORMS`, names the platforms to use, the default one first
("cpu", "cuda,cpu"); without it, CUDA goes first where its plugin is installed. Nothing starts at
import. Tests and tools put another backend in place with `use_backend`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft import config
from weft.base.program_caches import clear_caches
from weft.errors import Fix, GuardError, PlatformError, WeftError
from weft.runtime import pjrt
from weft.runtime.backends.backend import Backend

if TYPE_CHECKING:
    from weft.runtime.backends.pjrt import Distributed, JaxlibBackend

Device = Any

_current: Backend | None = None
_started: dict[str, JaxlibBackend] = {}
_distributed: Distributed | None = None
_lock = threading.RLock()

_ALIASES = {"gpu": "cuda"}


def backend() -> Backend:
    """The current backend, started if need be."""
    return _current or _start_default()


def _start_default() -> Backend:
    global _current
    with _lock:
        if _current is None:
            _current = _first_available()
        return _current


def _first_available() -> Backend:
    text = config.host_settings().platforms or os.environ.get("WEFT_PLATFORMS", "")
    asked = [name.strip() for name in text.split(",")]
    if any(asked):
        return _platform(next(filter(None, asked)))
    if pjrt.cuda_plugin() is not None:
        try:
            return _platform("cuda")
        except WeftError as error:
            warnings.warn(f"{error}\nUsing the CPU.", RuntimeWarning, stacklevel=4)
    return _platform("cpu")


def _platform(name: str) -> JaxlibBackend:
    name = _ALIASES.get(name, name)
    with _lock:
        out = _started.get(name)
        if out is None:
            out = pjrt.start(name, _distributed)
            out.register_end()
            _started[name] = out
        return out


def _refuse_after_start(name: str, value: Any) -> None:
    """Raises GuardError for a setting of devices that were started."""
    if _started and value != config.read(name):
        message = f"the setting {name!r} comes too late: the devices of this process were started"
        fix = Fix("order", "set it before anything that uses arrays")
        raise GuardError(message, operation="config.update", got=f"{name}={value!r}", fix=fix)


for _name in ("allocation_tracebacks", "num_cpu_devices", "platforms"):
    config.objections[_name] = functools.partial(_refuse_after_start, _name)


def is_started() -> bool:
    """Whether there is a current backend already."""
    return _current is not None


def set_distributed(distributed: Distributed) -> None:
    """Makes the devices of this process part of a group of processes. Raises WeftError if devices
    were started before: their numbers would change."""
    global _distributed
    with _lock:
        if _started:
            message = "the devices of this process were started before it joined the group"
            fix = Fix("order", "join the group before anything that uses arrays")
            raise WeftError(message, operation="distributed.initialize", fix=fix)
        _distributed = distributed


def group() -> Distributed | None:
    """The group of processes that this one has joined."""
    return _distributed


@contextlib.contextmanager
def use_backend(other: Backend) -> Iterator[Backend]:
    """Makes another backend the current one within a `with` block, in all threads. Clears all
    caches at either end: executables and buffers belong to one backend."""
    global _current
    with _lock:
        before, _current = _current, other
    clear_caches()
    try:
        yield other
    finally:
        with _lock:
            _current = before
        clear_caches()


def backend_for(platform: str | None = None) -> Backend:
    """The backend of a platform: the current one for None, otherwise started if need be. Raises
    PlatformError for a platform that is unknown or not installed."""
    current = backend()
    if platform is None:
        return current
    name = _ALIASES.get(platform, platform)
    if name == current.platform:
        return current
    if name not in ("cpu", "cuda"):
        message = f"there is no platform {platform!r}"
        wanted = f"{current.platform!r}, or another installed one of 'cpu', 'cuda'"
        fix = Fix("platform", f"use platform={current.platform!r}", {"platform": current.platform})
        raise PlatformError(message, got=platform, wanted=wanted, fix=fix)
    return _platform(name)


def backend_of(device: Device) -> Backend:
    """The backend of a device."""
    current, platform = backend(), str(device.platform)
    same = _ALIASES.get(platform, platform) == current.platform
    return current if same else backend_for(platform)


def devices(backend: str | None = None) -> list[Device]:
    """All devices of the default platform or of a named one, including those of other processes.

    Raises PlatformError for a platform that is unknown or not installed.

    >>> import weft
    >>> weft.devices("cpu")[0]
    CpuDevice(id=0)
    """
    return backend_for(backend).devices()


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of this process or of another, of the default platform or of a named one.

    `host_id` is an older name of `process_index`. Raises PlatformError for a platform that is
    unknown or not installed.

    >>> import weft
    >>> weft.local_devices(backend="cpu")[0].process_index
    0
    """
    found = backend_for(backend)
    process_index = host_id if process_index is None else process_index
    if process_index is None:
        return found.local_devices()
    return [device for device in found.devices() if device.process_index == process_index]


def device_count(backend: str | None = None) -> int:
    """The number of devices in all processes together; arguments and errors as in `devices`.

    >>> import weft
    >>> weft.device_count("cpu") == len(weft.devices("cpu"))
    True
    """
    return len(backend_for(backend).devices())


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has; arguments and errors as of `devices`.

    >>> import weft
    >>> weft.local_device_count("cpu") == len(weft.local_devices(backend="cpu"))
    True
    """
    return len(backend_for(backend).local_devices())


def process_index(backend: str | None = None) -> int:
    """The number of this process among those that work together; arguments as in `devices`.

    >>> import weft
    >>> weft.process_index()
    0
    """
    return backend_for(backend).process_index


def process_count(backend: str | None = None) -> int:
    """The number of processes that work together; arguments as in `devices`.

    >>> import weft
    >>> weft.process_count()
    1
    """
    return backend_for(backend).process_count


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes that work together; arguments as in `devices`.

    >>> import weft
    >>> weft.process_indices()
    [0]
    """
    return list(range(process_count(backend)))


def host_count(backend: str | None = None) -> int:
    """An older name of `process_count`.

    >>> import weft
    >>> weft.host_count()
    1
    """
    return process_count(backend)


def host_id(backend: str | None = None) -> int:
    """An older name of `process_index`.

    >>> import weft
    >>> weft.host_id()
    0
    """
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """An older name of `process_indices`.

    >>> import weft
    >>> weft.host_ids()
    [0]
    """
    return process_indices(backend)


def default_backend() -> str:
    """The name of the default platform: "cpu" or "gpu".

    >>> import weft
    >>> weft.default_backend() in ("cpu", "gpu")
    True
    """
    platform = backend().platform
    return "gpu" if platform == "cuda" else platform
