"""Functions and classes of libraries whose answers depend on more than their arguments."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from weft.function_keys.snapshot import NoKey

__all__ = ["check_imports", "check_inside", "check_module", "check_names"]

# What these answer with comes from outside: the clock, the system, files, hidden generators.
_OUTSIDE = ("time", "datetime", "uuid", "secrets", "socket", "subprocess", "random", "posix", "nt")
_ABOUT_FILES = (
    "abspath", "exists", "expanduser", "expandvars", "getatime", "getctime", "getmtime", "getsize",
    "isdir", "isfile", "islink", "lexists", "realpath", "samefile",
)  # fmt: skip
_OUTSIDE_NAMES = {
    "os": ("getenv", "getcwd", "listdir", "scandir", "walk", "environ"),
    "numpy": ("load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "random"),
    "genericpath": _ABOUT_FILES,
    "posixpath": _ABOUT_FILES,
    "ntpath": _ABOUT_FILES,
    "importlib": ("import_module", "reload"),
    "inspect": ("currentframe", "stack"),
    "sys": ("_getframe",),
}
# Methods of paths: what is a path is not known before the function runs, but nothing else is likely
# to have methods of these names.
_METHODS_OF_PATHS = frozenset(("is_dir", "is_file", "iterdir", "read_bytes", "read_text", "rglob"))


def check_inside(value: Any) -> None:
    """Raises NoKey for a function or class of a library whose answers come from outside."""
    module = getattr(value, "__module__", None) or getattr(
        getattr(value, "__self__", None), "__name__", None
    )
    if not isinstance(module, str):
        return
    names = _OUTSIDE_NAMES.get(module.partition(".")[0], ())
    if _is_outside(module) or getattr(value, "__name__", None) in names:
        name = getattr(value, "__qualname__", value)
        raise NoKey(f"{module}.{name}, which may answer differently each time")


def check_module(module: ModuleType) -> None:
    """Raises NoKey for a module of a library as a whole if what is in it answers from outside."""
    if _is_outside(module.__name__):
        raise NoKey(f"the module {module.__name__}, which may answer differently each time")


def check_imports(module: ModuleType, names: frozenset[str]) -> None:
    """The same for a module that a function with these names in its code imports when it runs."""
    check_module(module)
    used = names.intersection(_OUTSIDE_NAMES.get(module.__name__.partition(".")[0], ()))
    if used:
        raise NoKey(
            f"{module.__name__}.{min(used)}, imported inside the function, which may answer "
            "differently each time"
        )


def check_names(names: frozenset[str]) -> None:
    """Raises NoKey for a function with these names in its code if it looks at files."""
    used = names & _METHODS_OF_PATHS
    if used:
        raise NoKey(f"the method {min(used)}, which reads files")


def _is_outside(module: str) -> bool:
    return module.partition(".")[0] in _OUTSIDE or module.startswith("numpy.random")
