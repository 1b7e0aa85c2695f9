"""The parts of a function's key by name, so that a message can say which of them changed.

A key is one value: it tells whether two functions are equal, not in what they differ. Here the same
parts are taken one by one (each closed-over variable, default, global and attribute), with a number
to compare and a few words to show. Nothing of the values themselves is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from weft.function_keys import functions
from weft.function_keys.code_reads import CodeReads, code_reads, is_library_module
from weft.function_keys.objects import (
    compares_values,
    defines_equality,
    is_library_class,
    own_attributes,
)
from weft.function_keys.snapshot import NoKey, Snapshot

__all__ = ["NamedPart", "named_parts", "short_text"]

# A message names one or two of them; more are not looked for.
_MOST = 96
_DEPTH = 4
# Of these what they read is found by what they are called with, and no name can be given to it.
_DESCRIPTORS = (property, classmethod, staticmethod, functools.cached_property)
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


class NamedPart(NamedTuple):
    """One value that a function depends on: its role in the function, a number that is equal for
    equal values (None where the value has no safe key; `reason` says why), and how it is shown.

    `references` are weak ones to the objects that count by identity: as long as they are kept, the
    number is the same for the same object, and no other object gets it.
    """

    role: str
    content: int | None
    text: str
    reason: str = ""
    references: tuple[weakref.ref[Any], ...] = ()


def named_parts(function: Any) -> dict[str, NamedPart]:
    """What a function depends on, by the names that its code has for it.

    >>> def scaled(k):
    ...     return lambda x: x * k
    >>> named_parts(scaled(2))["k"][:4]
    ('k, which <lambda> closes over,', 2, '2', '')
    >>> named_parts(scaled(iter([2])))["k"].reason
    'an object of class list_iterator, which can change unseen'
    """
    walk = _Walk()
    walk.function(function)
    if all(part.content is not None for part in walk.found.values()):
        # What stands in the way of a key need not be a value with a name: `eval`, or an import.
        try:
            Snapshot().part(function)
        except (NoKey, RuntimeError) as error:
            walk.found["function"] = NamedPart("the function", None, "used", str(error))
    return walk.found


def short_text(value: Any, depth: int = 1) -> str:
    """A value in a few words, without looking into arrays."""
    cls = type(value)
    if cls in _SCALARS:
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        lengths = ",".join(map(str, shape))
        owner = "a NumPy array " if cls.__module__ == "numpy" and shape else ""
        return f"{owner}{getattr(dtype, 'name', dtype)}[{lengths}]"
    if cls in (tuple, list) and len(value) <= 8 and depth >= 0:
        inner = ", ".join(short_text(x, depth - 1) for x in value)
        return f"[{inner}]" if cls is list else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return f"a {cls.__name__} of {len(value)}"
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    return f"an object of class {cls.__name__}"


class _Walk:
    """Collects parts; `seen` are the objects that were looked into."""

    __slots__ = ("found", "held", "seen")

    def __init__(self) -> None:
        self.found: dict[str, NamedPart] = {}
        self.seen: set[int] = set()
        # What was made on the way, so that no identity in `seen` is given to another object.
        self.held: list[Any] = []

    def function(self, value: Any, depth: int = 0) -> bool:
        """Adds the parts of something that is called; whether it is of a kind that has some."""
        if id(value) in self.seen:
            return True
        if isinstance(value, types.FunctionType):
            self.seen.add(id(value))
            self._python_function(value, depth)
        elif type(value) is functools.partial:
            self.seen.add(id(value))
            if not self.function(value.func, depth):
                self._add("func", "the function of the partial", value.func)
            for i, bound in enumerate(value.args):
                self._value(f"argument {i}", "argument {} of the partial", bound, depth, str(i))
            for name, bound in value.keywords.items():
                self._value(name, "{}, which the partial binds,", bound, depth)
        elif isinstance(value, types.MethodType):
            self.function(value.__func__, depth)
            self._value("self", "{}, which the method reads,", value.__self__, depth)
        elif (inner := getattr(value, "__wrapped__", None)) is not None and depth < _DEPTH:
            return self.function(inner, depth + 1)
        elif callable(value) and not isinstance(value, (type, types.BuiltinFunctionType)):
            self._value("self", "{}, which the object that is called has,", value, depth)
        else:
            return False
        return True

    def _python_function(self, value: types.FunctionType, depth: int) -> None:
        reads, name = code_reads(value.__code__), value.__name__
        code = value.__code__
        self._put(
            f"code of {value.__qualname__}",
            NamedPart(f"the code of {name}", hash(code), f"that at line {code.co_firstlineno}"),
        )
        for free, cell in zip(reads.free, value.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            if isinstance(content, types.ModuleType) and reads.free_reads[free]:
                for path in reads.free_reads[free]:
                    self._attribute(free, f"{{}}, which {name} closes over,", content, path, depth)
            elif free not in reads.counters:
                self._value(free, f"{{}}, which {name} closes over,", content, depth)
        for parameter, default in _defaults(value):
            self._value(parameter, f"{{}}, a default of {name},", default, depth)
        if not reads.library:
            for attribute, content in list(value.__dict__.items()):
                if attribute != "__wrapped__":
                    self._value(f"{name}.{attribute}", "{}", content, depth)
            self._globals(value, reads, depth)

    def _globals(self, value: types.FunctionType, reads: CodeReads, depth: int) -> None:
        for name, path in reads.reads:
            if name in reads.counters or name not in value.__globals__:
                continue
            self._attribute(name, "the global {}", value.__globals__[name], path, depth)

    def _attribute(
        self, name: str, role: str, found: Any, path: tuple[str, ...], depth: int
    ) -> None:
        """Adds what stands at the end of `name.a.b`, or at the first object that is no module."""
        taken = [name]
        start, of_library = found, False
        for attribute in path:
            if not isinstance(found, types.ModuleType) or attribute not in found.__dict__:
                break
            of_library = is_library_module(found)
            found = found.__dict__[attribute]
            taken.append(attribute)
        if isinstance(found, types.ModuleType):
            of_library = is_library_module(found)
        if of_library and (callable(found) or isinstance(found, types.ModuleType)):
            # Of what libraries do the key has little to say; and that only where it refuses.
            self._library(name, start, path)
        else:
            self._value(".".join(taken), "{}" if of_library else role, found, depth)

    def _library(self, name: str, module: types.ModuleType, path: tuple[str, ...]) -> None:
        try:
            functions._attribute(Snapshot(), module, path)
        except (NoKey, RuntimeError) as error:
            label = ".".join((name, *path))
            self._put(label, NamedPart(label, None, "used", str(error)))

    def _class(self, cls: type, depth: int) -> None:
        """Adds the methods and attributes that a class of the user's has, inherited ones too."""
        if id(cls) in self.seen:
            return
        self.seen.add(id(cls))
        for base in cls.__mro__:
            for name, value in own_attributes(base):
                if not isinstance(value, _DESCRIPTORS):
                    label = f"{base.__name__}.{name}"
                    self._value(label, "{}", value, depth + 1)

    def _value(
        self, label: str, role: str, value: Any, depth: int, shown: str | None = None
    ) -> None:
        """Adds a value, or what it consists of where a name can be given to that."""
        shown = shown or label
        if depth < _DEPTH and len(self.found) < _MOST:
            if _is_users_function(value) and self.function(value, depth + 1):
                return
            parts = list(_children(value))
            by_identity = _by_identity(value)
            looked_into = len(parts) <= 32 and (len(parts) > 0 or by_identity)
            if looked_into and id(value) not in self.seen:
                self.seen.add(id(value))
                self.held.append(value)
                for step, part in parts:
                    self._value(f"{label}{step}", role, part, depth + 1, f"{shown}{step}")
                if not by_identity:
                    return
                self._class(type(value), depth)
                snapshot = Snapshot()
                snapshot.identity(value)
                text = f"an object of class {type(value).__name__}, which defines no equality"
                content = hash(("object", id(snapshot.guards[0])))
                self._put(
                    label, NamedPart(role.format(shown), content, text, "", _references(snapshot))
                )
                return
        self._add(label, role, value, shown)

    def _add(self, label: str, role: str, value: Any, shown: str | None = None) -> None:
        snapshot = Snapshot()
        role = role.format(shown or label)
        try:
            part = snapshot.part(value)
            content: int | None = (
                hash((part, *snapshot.digests)) if snapshot.digests else hash(part)
            )
            reason = ""
        except (NoKey, RuntimeError) as error:
            content, reason = None, str(error)
        self._put(label, NamedPart(role, content, short_text(value), reason, _references(snapshot)))

    def _put(self, label: str, part: NamedPart) -> None:
        while label in self.found and self.found[label].role != part.role:
            label += "'"
        if len(self.found) < _MOST:
            self.found[label] = part


def _references(snapshot: Snapshot) -> tuple[weakref.ref[Any], ...]:
    return tuple(guard for guard in snapshot.guards if type(guard) is weakref.ref)


def _defaults(value: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code, defaults = value.__code__, value.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=False)
    yield from (value.__kwdefaults__ or {}).items()


def _is_users_function(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        # A function of a library is looked into for those that it was given, as `grad` is.
        return value.__closure__ is not None or not code_reads(value.__code__).library
    return type(value) is functools.partial or isinstance(value, types.MethodType)


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    """What a value consists of, each with what stands behind its name to get there."""
    cls = type(value)
    if cls is dict:
        return ((f"[{key!r}]", x) for key, x in list(value.items()) if type(key) in _SCALARS)
    if cls in (list, tuple):
        return ((f"[{i}]", x) for i, x in enumerate(value))
    fields = getattr(cls, "_fields", None)
    if issubclass(cls, tuple) and isinstance(fields, tuple) and len(fields) == len(value):
        return ((f".{name}", x) for name, x in zip(fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return ((f".{name}", getattr(value, name, None)) for name in names)
    if cls is types.SimpleNamespace or _by_identity(value):
        return ((f".{name}", x) for name, x in list(vars(value).items()))
    return ()


def _by_identity(value: Any) -> bool:
    cls = type(value)
    return not defines_equality(cls) and _reads_attributes(cls)


def _reads_attributes(cls: type) -> bool:
    """Whether the key of an object of a class is made of its attributes."""
    return bool(cls.__dictoffset__) and not is_library_class(cls) and not compares_values(cls)
