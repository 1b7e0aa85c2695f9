"""Who holds a value: phrases for messages about values that outlived their transformation.

It asks the garbage collector for what refers to the value and names the variables, attributes and
containers among it that are a user's. That walks every object of the process, so only errors do it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

__all__ = ["holders"]

_CONTAINERS = (list, tuple, set, frozenset, dict)


def holders(value: Any, limit: int = 2, depth: int = 2) -> list[str]:
    """At most `limit` phrases for what holds a value; containers are followed `depth` deep."""
    found: list[str] = []
    for phrase in _phrases(value, depth):
        if phrase not in found:
            found.append(phrase)
        if len(found) == limit:
            break
    return found


def _phrases(value: Any, depth: int) -> Iterator[str]:
    for holder in gc.get_referrers(value):
        if isinstance(holder, FrameType):
            continue
        if isinstance(holder, CellType):
            yield from _closures(holder)
        elif isinstance(holder, dict) and (owner := _owner(holder)) is not None:
            yield from _entries(holder, value, owner)
        elif isinstance(holder, _CONTAINERS):
            yield from _containers(holder, depth)
        elif (entries := _attributes(holder)) is not None and _is_users(holder):
            yield from _entries(entries, value, holder)


def _attributes(owner: Any) -> Any:
    """An object's attributes, without running code of its class."""
    try:
        return object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None


def _containers(holder: Any, depth: int) -> Iterator[str]:
    if depth > 0:
        for phrase in _phrases(holder, depth - 1):
            yield f"a {type(holder).__name__} in {phrase}"


def _closures(cell: CellType) -> Iterator[str]:
    for closure in gc.get_referrers(cell):
        if not isinstance(closure, tuple):
            continue
        for function in gc.get_referrers(closure):
            if isinstance(function, FunctionType) and function.__closure__ is closure:
                if _is_users(function):
                    names = function.__code__.co_freevars
                    place = next(i for i, item in enumerate(closure) if item is cell)
                    yield f"the variable {names[place]!r} of the function {function.__qualname__}"


def _owner(entries: dict[Any, Any]) -> Any:
    """The module, class or object whose attributes a dictionary holds, or None."""
    for module in list(sys.modules.values()):
        if _attributes(module) is entries:
            return module
    for candidate in gc.get_referrers(entries):
        if isinstance(candidate, type):
            if "__dict__" in entries and entries.get("__module__") == candidate.__module__:
                return candidate
        elif _attributes(candidate) is entries:
            return candidate
    return None


def _entries(entries: dict[Any, Any], value: Any, owner: Any) -> Iterator[str]:
    if not _is_users(owner):
        return
    for name, item in list(entries.items()):
        if item is value:
            if isinstance(owner, ModuleType):
                yield f"the global variable {name!r} of the module {owner.__name__}"
            elif isinstance(owner, type):
                yield f"the attribute {name!r} of the class {owner.__qualname__}"
            else:
                yield f"the attribute {name!r} of a {type(owner).__qualname__} object"


def _is_users(owner: Any) -> bool:
    name = owner.__name__ if isinstance(owner, ModuleType) else ""
    module = name or getattr(owner, "__module__", "") or ""
    return not (module == "weft" or module.startswith("weft."))
