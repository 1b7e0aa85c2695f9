"""Stand-ins for modules that are imported when they are first used.

jaxlib maps a hundred megabytes of libraries into a process, and a program that only imports weft
(to print its help, to define a model) needs none of them. So the modules that import jaxlib are
handed out as `LazyModule`s: the first look-up of an attribute imports the real one. Attributes are
stored in the stand-in, so the next look-up costs what it costs in any module.

Declarations name functions of such a module without calling them (`lower=stablehlo.tan`). From a
`LazyFunctions` module they get a stand-in that imports the module when it is called.

The registry of pytrees is one of those modules. Classes of nodes that are registered before the
first tree is flattened wait in `pending_nodes`.
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from weft.runtime.jaxlib.own_thread import on_own_thread

pending_nodes: list[
    tuple[type, Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]
] = []
"""Arguments of `pytree.register_node`, in order, until the registry exists."""


def import_library(name: str) -> types.ModuleType:
    """The module of a name. A module of jaxlib, or one that imports jaxlib, is imported on a thread
    without signals; none of them needs a module that the main thread may be importing."""
    out = sys.modules.get(name)
    if out is None or getattr(out.__spec__, "_initializing", False):
        thread = threading.get_ident() == threading.main_thread().ident
        if thread and name.startswith(("weft.runtime.", "jaxlib.")):
            return on_own_thread(importlib.import_module, name)
        return importlib.import_module(name)
    return out


class LazyModule(types.ModuleType):
    """Stands for the module of the same name until its first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(import_library(self.__name__), name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(import_library(self.__name__))


class LazyFunctions(LazyModule):
    """A lazy module that can name its functions before the import."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__name__ in sys.modules:
            return super().__getattr__(name)
        return _StandIn(self.__name__, name)


class _StandIn:
    """A function or class of a module that is not yet imported."""

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_library(self._module), self._name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(import_library(self._module), self._name), name)
