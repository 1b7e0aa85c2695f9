"""Public modules as facades: their own names and those of chapters, some loaded on first use.

A facade takes its chapters by `import *`, so that a public name stands in one `__all__`, that of
its chapter. Type checkers read a star import as handing on; at run time `handed_on` lists the same
names, and tests/golden/surface.txt records them.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["handed_on", "load_on_first_use", "public_names"]

_NONE: Mapping[str, str] = types.MappingProxyType({})

# What facades import for themselves.
_OWN = frozenset({"Any", "TYPE_CHECKING", "handed_on", "load_on_first_use", "public_names"})


def handed_on(
    namespace: Mapping[str, Any], modules: Iterable[str] = (), chapters: Mapping[str, str] = _NONE
) -> list[str]:
    """A facade's `__all__`: its imported names but modules, and those loaded on first use."""
    found = {
        name
        for name, value in namespace.items()
        # The Array API standard has public names that begin so.
        if name.startswith("__array_")
        or not (name.startswith("_") or isinstance(value, types.ModuleType))
    }
    return sorted((found - _OWN).union(_last_names(modules), _homes(chapters)))


def load_on_first_use(
    facade: str,
    namespace: dict[str, Any],
    modules: Iterable[str] = (),
    chapters: Mapping[str, str] = _NONE,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A facade's `__getattr__` and `__dir__`, which know the names loaded on first use.

    modules: those handed on, under their last names. chapters: for each module the names, divided
    by spaces, that the facade hands on from it.
    """
    whole, homes = _last_names(modules), _homes(chapters)

    def get(name: str) -> Any:
        if name in whole:
            out = importlib.import_module(whole[name])
        elif name in homes:
            out = getattr(importlib.import_module(homes[name]), name)
        else:
            # What to say is read when it is needed.
            raise importlib.import_module("weft.base.missing_names").missing(facade, name)
        namespace[name] = out
        return out

    return get, public_names(namespace)


def public_names(namespace: Mapping[str, Any]) -> Callable[[], list[str]]:
    """A public module's `__dir__`: the documented names. These are the names in `__all__`, and the
    public ones in `_BESIDE_STAR` that a star import leaves out. Other names of the module can be
    had all the same."""
    return lambda: sorted({*namespace["__all__"], *namespace.get("_BESIDE_STAR", ())})


def _last_names(modules: Iterable[str]) -> dict[str, str]:
    return {module.rpartition(".")[2]: module for module in modules}


def _homes(chapters: Mapping[str, str]) -> dict[str, str]:
    """The module of each name that a facade hands on from its chapters."""
    return {name: module for module, names in chapters.items() for name in names.split()}
