"""Modules that are imported when they are first looked into.

jaxlib maps a hundred megabytes of libraries into a process, and a program that only imports weft (to
print its help, to define a model) needs none of them. So the modules that import jaxlib are handed
out as `LazyModule`s: the first attribute that anybody asks for imports the real one. Each attribute
is kept, so from then on looking it up costs what it costs in any module.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

__all__ = ["LazyModule"]


class LazyModule(types.ModuleType):
    """Stands for the module of the same name until something in it is needed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value
