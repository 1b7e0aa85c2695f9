"""Closures over traced values: finds these values in functions, and replaces them by others.

A function that a transformation keeps and runs later, a custom derivative above all, must not read
traced values that are not operands. The search covers the closures, defaults and partially applied
arguments of functions, and the functions, containers and registered trees in those. A function that
holds a traced value is copied with fresh cells. Attributes of other objects are not searched, since
there is no general way to copy these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any

from weft.core.trace import Tracer
from weft.runtime import pytree

# Classes whose objects hold functions: the attributes that hold them, and a function that copies an
# object, on which these attributes are then set.
_closures: dict[type, tuple[tuple[str, ...], Callable[[Any], Any]]] = {}


def register_closure(cls: type, attributes: Sequence[str], copy: Callable[[Any], Any]) -> None:
    """Makes the search cover `attributes` of objects of a class; `copy` copies an object."""
    _closures[cls] = (tuple(attributes), copy)


def _contents(cells: Iterable[CellType]) -> list[Any]:
    out = []
    for cell in cells:
        try:
            out.append(cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            continue
    return out


def _level(container: Any) -> tuple[list[Any], Any]:
    """The children of a registered container, and its structure."""
    try:
        return pytree.flatten(container, lambda part: part is not container)
    except (TypeError, ValueError):  # keys that cannot be sorted
        return [], None


class TracedValues:
    """The traced values of running transformations in some objects (functions, containers, or
    others); `found` has them in the order of the search."""

    __slots__ = ("_children", "_levels", "_parents", "_seen", "found")

    def __init__(self) -> None:
        self.found: list[Tracer] = []
        # By identity; the objects are kept, since an identity is only good while they live.
        self._seen: dict[int, Any] = {}
        self._parents: dict[int, list[int]] = {}
        self._levels: dict[int, tuple[list[Any], Any]] = {}

    def search(self, value: Any) -> None:
        """Adds the traced values of one more object."""
        pending = [value]
        while pending:
            item = pending.pop()
            if id(item) in self._seen:
                continue
            if isinstance(item, Tracer):
                if item._trace.alive:
                    self._seen[id(item)] = item
                    self.found.append(item)
                continue
            children = self._parts(item)
            if not children:
                continue
            self._seen[id(item)] = item
            for child in children:
                self._parents.setdefault(id(child), []).append(id(item))
            pending.extend(reversed(children))

    def _parts(self, item: Any) -> Sequence[Any]:
        kind = type(item)
        if kind is FunctionType:
            return [
                *_contents(item.__closure__ or ()),
                *(item.__defaults__ or ()),
                *(item.__kwdefaults__ or {}).values(),
            ]
        if kind is tuple or kind is list:
            return item
        if kind is dict:
            return list(item.values())
        if kind is MethodType:
            return [item.__func__, item.__self__]
        if kind is functools.partial:
            return [item.func, item.args, item.keywords]
        if kind in _closures:
            return [getattr(item, name) for name in _closures[kind][0]]
        if item is not None and pytree.is_node(kind):
            level = self._levels[id(item)] = _level(item)
            return level[0]
        return ()

    def replace_traced(self, objects: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The objects with `values` for their traced values; others stay the same."""
        if not self.found:
            return list(objects)
        affected: set[int] = set()
        pending = [id(tracer) for tracer in self.found]
        while pending:
            item = pending.pop()
            if item not in affected:
                affected.add(item)
                pending.extend(self._parents.get(item, ()))
        made = {id(old): new for old, new in zip(self.found, values, strict=True)}
        maker = _Maker(affected, made, self._levels)
        return [maker.make(item) for item in objects]


class _Maker:
    """Copies objects; `made` has the new one by the identity of the old one."""

    __slots__ = ("affected", "cells", "levels", "made")

    def __init__(
        self, affected: set[int], made: dict[int, Any], levels: dict[int, tuple[list[Any], Any]]
    ) -> None:
        self.affected = affected
        self.made = made
        self.levels = levels
        self.cells: dict[int, CellType] = {}

    def make(self, item: Any) -> Any:
        if id(item) not in self.affected:
            return item
        if id(item) not in self.made:
            self.made[id(item)] = self._again(item)
        return self.made[id(item)]

    def _again(self, item: Any) -> Any:
        kind = type(item)
        if kind is FunctionType:
            return self._function(item)
        if kind is tuple:
            return tuple([self.make(part) for part in item])
        # An object that may contain itself is entered in `made` before its parts are.
        if kind is list:
            new: Any = []
            self.made[id(item)] = new
            new.extend(self.make(part) for part in item)
            return new
        if kind is dict:
            new = {}
            self.made[id(item)] = new
            new.update((key, self.make(part)) for key, part in item.items())
            return new
        if kind is MethodType:
            return MethodType(self.make(item.__func__), self.make(item.__self__))
        if kind is functools.partial:
            args, keywords = self.make(item.args), self.make(item.keywords)
            return functools.partial(self.make(item.func), *args, **keywords)
        if kind in _closures:
            attributes, copy = _closures[kind]
            new = self.made[id(item)] = copy(item)
            for name in attributes:
                setattr(new, name, self.make(getattr(item, name)))
            return new
        parts, structure = self.levels[id(item)]
        return structure.unflatten([self.make(part) for part in parts])

    def _function(self, function: FunctionType) -> FunctionType:
        cells = function.__closure__
        fresh = None if cells is None else tuple([self._cell(cell) for cell in cells])
        new = FunctionType(function.__code__, function.__globals__, function.__name__, None, fresh)
        self.made[id(function)] = new
        new.__qualname__ = function.__qualname__
        new.__module__ = function.__module__
        new.__dict__.update(function.__dict__)
        for old, cell in zip(cells or (), fresh or (), strict=True):
            if cell is not old and not _contents([cell]):
                cell.cell_contents = self.make(old.cell_contents)
        if function.__defaults__ is not None:
            new.__defaults__ = tuple([self.make(x) for x in function.__defaults__])
        if function.__kwdefaults__ is not None:
            new.__kwdefaults__ = {k: self.make(x) for k, x in function.__kwdefaults__.items()}
        return new

    def _cell(self, cell: CellType) -> CellType:
        """A fresh cell if its content is copied; the others stay shared."""
        contents = _contents([cell])
        if not contents or id(contents[0]) not in self.affected:
            return cell
        if id(cell) not in self.cells:
            self.cells[id(cell)] = CellType()
        return self.cells[id(cell)]
