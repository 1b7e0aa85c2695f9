"""What stands in a key for functions: their code, and every value that the code can reach."""

from __future__ import annotations

import builtins
import collections
import functools
import importlib.util
import sys
import types
from collections.abc import Hashable
from typing import Any

from weft.function_keys.code_reads import CodeReads, code_reads, is_library_module
from weft.function_keys.objects import class_
from weft.function_keys.outside import check_imports, check_inside, check_module, check_names
from weft.function_keys.snapshot import NoKey, Snapshot
from weft.function_keys.values import ABSENT

__all__ = ["bound_method", "builtin_function", "function", "module", "partial"]

_MISSING: Any = object()
# Of these classes it is known what counting up and appending do.
_COUNTERS = frozenset({int, float, list, set, dict, collections.deque, collections.Counter})
_BUILTIN = ("builtin",)
_BUILTINS = dict(vars(builtins))
# What these read is not seen.
_READ_ANYTHING = frozenset(
    id(_BUILTINS[name])
    for name in ("__import__", "eval", "exec", "globals", "input", "locals", "open", "vars")
)


def function(snapshot: Snapshot, value: types.FunctionType) -> Hashable:
    again = snapshot.again(value)
    if again is not None:
        return again
    reads = code_reads(value.__code__)
    if reads.library:
        check_inside(value)
    closure = value.__closure__
    cells: Any = None
    if closure is not None:
        cells = tuple(
            [
                _cell(snapshot, cell, name, reads)
                for cell, name in zip(closure, reads.free, strict=True)
            ]
        )
    defaults, keywords, attributes = value.__defaults__, value.__kwdefaults__, value.__dict__
    more: Any = None
    renamed = value.__name__ != reads.code.co_name
    if defaults or keywords or attributes or renamed:
        more = (
            value.__name__,
            snapshot.parts(defaults or ()),
            snapshot.pairs((keywords or {}).items()),
            snapshot.pairs(attributes.items()),
        )
    if not reads.library:
        check_names(reads.names)
    if reads.library or not (reads.reads or reads.imports):
        return (reads, cells, more)
    return (reads, cells, more, _globals(snapshot, value, reads))


def _cell(snapshot: Snapshot, cell: types.CellType, name: str, reads: CodeReads) -> Any:
    assigned = name in reads.assigned
    guards = len(snapshot.guards)
    try:
        content = cell.cell_contents
    except ValueError:  # not assigned yet
        return ABSENT
    if name in reads.counters and type(content) in _COUNTERS:
        return snapshot.counter(cell if assigned else content)
    if isinstance(content, types.ModuleType) and not reads.library and reads.free_reads[name]:
        return tuple([_attribute(snapshot, content, path) for path in reads.free_reads[name]])
    part = snapshot.part(content)
    if assigned:
        snapshot.witness(cell, guards)
    return part


def _globals(snapshot: Snapshot, value: types.FunctionType, reads: CodeReads) -> Hashable:
    names, defaults = value.__globals__, value.__builtins__
    for imported in reads.imports:
        found = None if imported is None else sys.modules.get(imported)
        if found is None or not is_library_module(found):
            raise NoKey(f"an import of {imported or 'a neighbouring module'} inside the function")
        check_imports(found, reads.names)
    if reads.assigns_globals:
        snapshot.witness(names, -1)
    parts: list[Any] = []
    for name, path in reads.reads:
        found = names.get(name, _MISSING)
        if found is _MISSING:
            found = defaults.get(name, _MISSING)
            if found is _MISSING:
                parts.append(ABSENT)
                continue
            if found is _BUILTINS.get(name) and id(found) not in _READ_ANYTHING:
                parts.append(_BUILTIN)
                continue
        if name in reads.counters and type(found) in _COUNTERS:
            parts.append(snapshot.counter(names if type(found) in (int, float) else found))
        elif isinstance(found, types.ModuleType):
            parts.append(_attribute(snapshot, found, path))
        else:
            parts.append(snapshot.part(found))
    return tuple(parts)


def _attribute(snapshot: Snapshot, start: types.ModuleType, path: tuple[str, ...]) -> Hashable:
    """What stands at the end of `start.a.b`, or at the first object there that is no module."""
    value: Any = start
    for name in path:
        found = value.__dict__.get(name, _MISSING)
        if found is _MISSING:
            found = _loaded(value, name)
        if found is _MISSING:
            # A module may compute its attributes; those of libraries are taken to be constant.
            if not is_library_module(value):
                raise NoKey(f"{value.__name__}.{name}, which is computed when it is asked for")
            return (snapshot.identity(value), name)
        owner, value = value, found
        if not isinstance(value, types.ModuleType):
            # What it closes over cannot change without the library's doing: short of looking in.
            if type(value) is types.FunctionType and is_library_module(owner):
                check_inside(value)
                return snapshot.identity(value)
            if is_library_module(owner):
                check_inside(value)
            break
    part: Hashable = snapshot.part(value)
    return part


def _loaded(module: types.ModuleType, name: str) -> Any:
    """A submodule that a library loads when it is first asked for, as the function would: its key
    would change by that otherwise."""
    if "__getattr__" not in module.__dict__ or not is_library_module(module):
        return _MISSING
    try:
        if importlib.util.find_spec(f"{module.__name__}.{name}") is None:
            return _MISSING
        return getattr(module, name, _MISSING)
    except Exception:  # noqa: BLE001 - an import may fail in any way; then the function sees to it
        return _MISSING


def module(snapshot: Snapshot, value: types.ModuleType) -> Hashable:
    # Used otherwise than by reading its attributes: what is read of it cannot be known.
    if not is_library_module(value):
        raise NoKey(f"the module {value.__name__} as a whole, of which any part may be read")
    check_module(value)
    return snapshot.identity(value)


def bound_method(snapshot: Snapshot, value: types.MethodType) -> Hashable:
    return ("method", snapshot.part(value.__func__), snapshot.part(value.__self__))


def builtin_function(snapshot: Snapshot, value: types.BuiltinFunctionType) -> Hashable:
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        if id(value) in _READ_ANYTHING:
            raise NoKey(f"{value.__name__}, which can read anything")
        check_inside(value)
        return snapshot.identity(value)
    return ("method", value.__name__, snapshot.part(owner))


def wrapped(snapshot: Snapshot, value: Any) -> Hashable:
    """A static method, a class method, or what `functools.lru_cache` gives."""
    return (type(value).__name__, snapshot.part(value.__wrapped__))


def property_(snapshot: Snapshot, value: property) -> Hashable:
    return ("property", snapshot.parts((value.fget, value.fset, value.fdel)))


def partial(snapshot: Snapshot, value: functools.partial[Any]) -> Hashable:
    again = snapshot.again(value)
    if again is not None:
        return again
    return (
        "partial",
        class_(snapshot, type(value)),
        snapshot.part(value.func),
        snapshot.parts(value.args),
        snapshot.pairs(value.keywords.items()),
        snapshot.pairs(value.__dict__.items()),
    )


def code(snapshot: Snapshot, value: types.CodeType) -> Hashable:
    return ("code", code_reads(value))
