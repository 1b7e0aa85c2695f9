"""The compiled parts of jaxlib that the runtime drives, and jaxlib's version.

Importing this module starts no client and touches no device. jaxlib's process-wide configuration
objects are left alone, so that weft and another front end of jaxlib can share one process: every
call that would read them gets the value as an argument instead. One has no such argument: whether
results carry tracebacks is set for the process when devices start (`pjrt.start`).
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

from jaxlib import _hlo, _jax
from jaxlib.version import __version__ as version_text

__all__ = ["extension", "hlo_library", "version", "version_text", "without_jax"]

extension: Any = _jax
hlo_library: Any = _hlo
version: tuple[int, ...] = tuple(int(part) for part in version_text.split(".") if part.isdigit())
"""The release of jaxlib, such as (0, 10, 2)."""


def _import_others(name: str, *rest: Any) -> Any:
    if name.partition(".")[0] == "jax":
        raise ModuleNotFoundError(f"weft does without {name}", name=name)
    return builtins.__import__(name, *rest)


_WITHOUT_JAX = {"__builtins__": {**vars(builtins), "__import__": _import_others}}


def without_jax(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Copies a function so that jaxlib finds no jax package when it is called from there.

    Some of jaxlib's methods look for the package each time, to build types of it that weft has no
    use for: to find none takes fifty times as long as the method itself, and one that is there
    would be imported. An import that compiled code asks for is made with the builtins of the
    Python function that called it, which are of its own here. It can use no other globals.
    """
    return types.FunctionType(function.__code__, _WITHOUT_JAX, function.__name__)
