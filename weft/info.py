"""What weft runs on, for a report of a problem: `python -m weft.info`.

    python -m weft.info [--json]

It prints the releases of weft and of what it is made with, the devices, the caches, and the
settings that differ from their defaults. Where a part is broken it says so and goes on. A user's
name is left out: folders below the home folder begin with `~`, and of the environment only weft's
settings and the variables that choose devices are shown.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

from weft import config
from weft.native.optional import calls
from weft.runtime import client
from weft.runtime.backends import disk_cache
from weft.version import __version__

_NEEDED = ("jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy")
_OPTIONAL = (
    "jax-cuda13-plugin", "jax-cuda13-pjrt", "jax-cuda12-plugin", "jax-cuda12-pjrt", "tensorstore",
)  # fmt: skip
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "XLA_FLAGS")


def information() -> dict[str, Any]:
    """What `python -m weft.info --json` prints: texts, numbers, lists and dictionaries.

    >>> found = information()
    >>> sorted(found)[:4]
    ['cache', 'compiled_calls', 'devices', 'environment']
    """
    return {
        "weft": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "packages": _packages(),
        "devices": _devices(),
        "compiled_calls": calls is not None,
        "cache": _cache(),
        "settings": _settings(),
        "environment": {n: _short(os.environ[n]) for n in _VARIABLES if n in os.environ},
    }


def _packages() -> dict[str, str | None]:
    """The releases of installed packages; None for one that weft needs and that is missing."""
    out: dict[str, str | None] = {}
    for name in (*_NEEDED, *_OPTIONAL):
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in _NEEDED:
                out[name] = None
    return out


def _devices() -> dict[str, Any]:
    """The platform and the devices by kind, or the reason why there are none."""
    try:
        kinds = Counter(str(device.device_kind) for device in client.devices())
        out: dict[str, Any] = {"platform": client.default_backend(), "kinds": dict(kinds)}
        if (processes := client.process_count()) > 1:
            out["processes"] = processes
        return out
    except Exception as error:  # noqa: BLE001 (a broken jaxlib may fail in any way)
        first, _, _ = str(error).partition("\n")
        return {"problem": _short(f"{type(error).__name__}: {first}")}


def _cache() -> dict[str, Any]:
    """The cache of executables on disk. Does not create a missing folder."""
    asked = config.host_settings()
    if asked.cache_dir == "":
        return {"directory": None}
    folder = asked.cache_dir or disk_cache.default_directory()
    known = {"directory": _short(folder), "max_bytes": asked.cache_max_bytes}
    if not os.path.isdir(folder):
        return {**known, "entries": 0, "bytes": 0}
    try:
        found = disk_cache.program_cache_info()
    except OSError as error:
        return {**known, "problem": _short(str(error))}
    if found.directory is None:
        return {**known, "problem": "the folder is not used: a warning says why"}
    return {**known, "entries": found.entries, "bytes": found.nbytes}


def _settings() -> dict[str, dict[str, Any]]:
    """The settings that differ from their defaults, with their environment variables."""
    out = {}
    for values in (config.settings(), config.host_settings()):
        for field in dataclasses.fields(values):
            variable = f"WEFT_{field.name.upper()}"
            value = getattr(values, field.name)
            if field.name == "num_cpu_devices" and not value:
                # Read from the environment when the first device is asked for.
                value = os.environ.get(variable, value)
            if value != field.default:
                out[field.name] = {
                    "value": value if isinstance(value, (bool, int)) else _short(str(value)),
                    "default": field.default,
                    "variable": variable,
                    "from_environment": variable in os.environ,
                }
    return out


def _short(text: str) -> str:
    """A text with `~` for the home folder, which names the user."""
    home = os.path.expanduser("~")
    return text.replace(home, "~") if len(home) > 1 else text


# ---- text --------------------------------------------------------------------------------------


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints what a report of a problem needs, as `python -m weft.info` does: the releases of weft
    and of what it is made with, the devices, the caches and the settings that differ.

    return_string: returns the text instead, and prints nothing.

    >>> import weft
    >>> weft.print_environment_info(return_string=True).splitlines()[0].startswith("weft:")
    True
    """
    text = "\n".join(_lines(information()))
    if return_string:
        return text
    print(text)
    return None


def _lines(found: dict[str, Any]) -> list[str]:
    """The same as text, a fact a line."""
    lines = [("weft", found["weft"]), ("Python", found["python"])]
    lines += [(name, text or "not installed") for name, text in found["packages"].items()]
    lines += [("system", f"{found['system']}, {found['processors']} processors")]
    devices = found["devices"]
    if "problem" in devices:
        lines.append(("devices", f"none start: {devices['problem']}"))
    else:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in devices["kinds"].items())
        of = f", of {devices['processes']} processes" if "processes" in devices else ""
        lines.append(("devices", f"{kinds} (platform {devices['platform']}{of})"))
    how = "in the compiled module" if found["compiled_calls"] else "in Python"
    lines.append(("repeated calls", f"run {how}"))
    lines.append(("cache on disk", _cache_text(found["cache"])))
    for name, one in found["settings"].items():
        origin = f"from {one['variable']}" if one["from_environment"] else one["variable"]
        lines.append(
            (f"setting {name}", f"{one['value']!r} (default {one['default']!r}; {origin})")
        )
    if not found["settings"]:
        lines.append(("settings", "the defaults"))
    lines += [(f"${name}", text) for name, text in found["environment"].items()]
    width = max(len(name) for name, _ in lines) + 1
    return [f"{name + ':':{width}} {text}".replace("\n", "\n" + " " * 4) for name, text in lines]


def _cache_text(cache: dict[str, Any]) -> str:
    if cache["directory"] is None:
        return "none"
    if "problem" in cache:
        return f"{cache['directory']}: {cache['problem']}"
    most = f"of at most {cache['max_bytes']:,}"
    return f"{cache['directory']}: {cache['entries']:,} entries, {cache['bytes']:,} bytes {most}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; returns the exit status 0, also where something is broken.

    >>> main(["--json"])  # doctest: +ELLIPSIS
    {
      "weft": "...",
      ...
    }
    0
    """
    parser = argparse.ArgumentParser(
        prog="python -m weft.info", description="What weft runs on, for a report of a problem."
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    as_json = parser.parse_args(arguments).json
    if as_json:
        print(json.dumps(information(), indent=2, ensure_ascii=False, default=str))
    else:
        print_environment_info()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
