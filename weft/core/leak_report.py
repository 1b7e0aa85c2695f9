"""The leak report: which of the user's variables, attributes and containers hold a leaked value.

It is for messages about values that outlived their transformation. The garbage collector lists the
referrers of the value; those that are a user's are named. Each listing walks every object of the
process, so only errors make one, for all objects at one distance from the value at once.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

_CONTAINERS = (list, tuple, set, frozenset, dict)

# The most objects of one walk, which compares each reference of the process with all of them.
_AT_ONCE = 32


class _Target:
    """An object whose referrers are looked up, on the way from the value to a name.

    It has slots: the collector would list an instance dictionary as one more referrer.
    """

    __slots__ = ("before", "depth", "holds", "item")

    def __init__(self, item: Any, holds: Any, before: str, depth: int) -> None:
        self.item = item
        self.holds = holds  # The object of the step before, which `item` holds.
        self.before = before  # The containers behind that step, in words.
        self.depth = depth  # How many more containers may follow.


def leak_report(value: Any, limit: int = 2, depth: int = 2) -> list[str]:
    """At most `limit` phrases that name a value's referrers, the nearest first, through containers
    up to `depth` deep."""
    found: list[str] = []
    level = [_Target(value, None, "", depth)]
    while level and len(found) < limit:
        steps = _ask(level)
        found += [one for one in steps if isinstance(one, str)]
        found = list(dict.fromkeys(found))
        level = [one for one in steps if not isinstance(one, str)][:_AT_ONCE]
    return found[:limit]


def _ask(level: list[_Target]) -> list[str | _Target]:
    """One walk for all targets. Its lists are freed before the next, which would find them."""
    referrers: dict[int, list[Any]] = {id(target.item): [] for target in level}
    for referrer in gc.get_referrers(*(target.item for target in level)):
        if not isinstance(referrer, (FrameType, _Target)):
            for number in {id(item) for item in gc.get_referents(referrer)} & referrers.keys():
                referrers[number].append(referrer)
    return [step for target in level for step in _steps(target, referrers[id(target.item)])]


def _steps(target: _Target, referrers: list[Any]) -> Iterator[str | _Target]:
    """Names for the target, or the targets to look up next."""
    held, before, depth = target.item, target.before, target.depth
    if isinstance(held, CellType):
        for referrer in referrers:
            if isinstance(referrer, tuple):
                yield _Target(referrer, held, before, 0)
    elif isinstance(target.holds, CellType):
        for referrer in referrers:
            if isinstance(referrer, FunctionType) and referrer.__closure__ is held:
                yield from _variables(referrer, target.holds, before)
    elif isinstance(held, dict) and (owners := [one for one in referrers if _owns(one, held)]):
        for owner in owners:
            yield from _entries(held, target.holds, owner, before)
    elif target.holds is None:
        yield from _names_of_referrers(held, referrers, before, depth)
    elif depth > 0:
        before = f"{before}a {type(held).__name__} in "
        yield from _names_of_referrers(held, referrers, before, depth - 1)


def _names_of_referrers(
    held: Any, referrers: list[Any], before: str, depth: int
) -> Iterator[str | _Target]:
    for referrer in referrers:
        if isinstance(referrer, dict) and (module := _module(referrer)) is not None:
            yield from _entries(referrer, held, module, before)
        elif isinstance(referrer, (CellType, dict)) or (
            isinstance(referrer, _CONTAINERS) and depth > 0
        ):
            yield _Target(referrer, held, before, depth)
        elif not isinstance(referrer, _CONTAINERS):
            entries = _attributes(referrer)
            if entries is not None:
                yield from _entries(entries, held, referrer, before)


def _attributes(owner: Any) -> Any:
    """An object's attributes, without running its class's code."""
    try:
        return object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None


def _module(entries: dict[Any, Any]) -> ModuleType | None:
    """The module whose attributes a dictionary holds."""
    for module in list(sys.modules.values()):
        if _attributes(module) is entries:
            return module
    return None


def _owns(owner: Any, entries: dict[Any, Any]) -> bool:
    """Whether a dictionary holds the attributes of this class or object."""
    if isinstance(owner, type):
        return "__dict__" in entries and entries.get("__module__") == owner.__module__
    return _attributes(owner) is entries


def _variables(function: FunctionType, cell: CellType, before: str) -> Iterator[str]:
    if _is_users(function):
        names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        name = next(name for name, item in names if item is cell)
        yield f"{before}the variable {name!r} of the function {function.__qualname__}"


def _entries(entries: dict[Any, Any], value: Any, owner: Any, before: str) -> Iterator[str]:
    if not _is_users(owner):
        return
    for name, item in list(entries.items()):
        if item is value:
            if isinstance(owner, ModuleType):
                yield f"{before}the global variable {name!r} of the module {owner.__name__}"
            elif isinstance(owner, type):
                yield f"{before}the attribute {name!r} of the class {owner.__qualname__}"
            else:
                yield f"{before}the attribute {name!r} of a {type(owner).__qualname__} object"


def _is_users(owner: Any) -> bool:
    name = owner.__name__ if isinstance(owner, ModuleType) else ""
    module = name or getattr(owner, "__module__", "") or ""
    return not (module == "weft" or module.startswith("weft."))
