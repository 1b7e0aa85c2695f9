"""Profiler sessions and annotations of XLA's profiler, as jaxlib offers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxlib import _profiler

from weft.runtime import client, pjrt

__all__ = ["annotation", "start_server", "start_session"]

annotation: Any = _profiler.TraceMe
_registered: list[Any] = []


def start_session(options: Mapping[str, Any]) -> Any:
    """A session that collects from now on; `stop_and_export(directory)` ends it.

    `options` are those of jaxlib's ProfileOptions that differ from its defaults.
    """
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
    """A server from which profiles of this process can be taken, as long as the answer lives."""
    client.backend()
    return _profiler.start_server(port)
