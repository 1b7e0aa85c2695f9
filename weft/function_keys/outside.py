"""Functions and classes of libraries whose answers depend on more than their arguments."""

from __future__ import annotations

from typing import Any

from weft.function_keys.snapshot import NoKey

__all__ = ["check_inside"]

# What these answer with comes from outside: the clock, the system, files, hidden generators.
_OUTSIDE = ("time", "datetime", "uuid", "secrets", "socket", "subprocess", "random", "posix", "nt")
_OUTSIDE_NAMES = {
    "os": ("getenv", "getcwd", "listdir", "scandir", "walk"),
    "numpy": ("load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"),
}


def check_inside(value: Any) -> None:
    """Raises NoKey for a function or class of a library whose answers come from outside."""
    module = getattr(value, "__module__", None) or getattr(
        getattr(value, "__self__", None), "__name__", None
    )
    if not isinstance(module, str):
        return
    top = module.partition(".")[0]
    names = _OUTSIDE_NAMES.get(top, ())
    hidden = top in _OUTSIDE or module.startswith("numpy.random")
    if hidden or getattr(value, "__name__", None) in names:
        name = getattr(value, "__qualname__", value)
        raise NoKey(f"{module}.{name}, which may answer differently each time")
