"""Profiler sessions and annotations of XLA's profiler, as jaxlib offers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxlib import _profile_data, _profiler

from weft.runtime import client, pjrt

annotation: Any = _profiler.TraceMe
register_subprocess: Any = _profiler.register_subprocess
ProfileData: Any = _profile_data.ProfileData
ProfileEvent: Any = _profile_data.ProfileEvent
ProfileLine: Any = _profile_data.ProfileLine
ProfilePlane: Any = _profile_data.ProfilePlane
_registered: list[Any] = []


def start_session(options: Mapping[str, Any]) -> Any:
    """Starts a session that collects; its `stop_and_export(directory)` ends it. `options` are those
    of jaxlib's ProfileOptions that differ from its defaults."""
    # A device's part of the profiler exists once the device has been started.
    client.backend()
    for api in pjrt.plugin_apis:
        if not any(api is known for known in _registered):
            _profiler.register_plugin_profiler(api)
            _registered.append(api)
    found = _profiler.ProfileOptions()
    for name, value in options.items():
        setattr(found, name, value)
    return _profiler.ProfilerSession(found)


def start_server(port: int) -> Any:
    """Starts a server that hands out profiles of this process, as long as the result lives."""
    client.backend()
    return _profiler.start_server(port)


def heap_profile(platform: str | None = None) -> bytes:
    """A memory profile of a platform's devices, as a protocol buffer of pprof."""
    return client.backend_for(platform).heap_profile()
