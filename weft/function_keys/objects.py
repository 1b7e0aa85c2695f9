"""What stands in a key for classes and their objects: identity, and what of them can change."""

from __future__ import annotations

import collections
import enum
import struct
import sys
import types
from collections.abc import Hashable
from typing import Any

from weft.function_keys.code_reads import code_reads, is_library_module
from weft.function_keys.outside import check_inside
from weft.function_keys.snapshot import NoKey, Reading, Snapshot
from weft.function_keys.values import ABSENT, refuse

__all__ = [
    "class_",
    "compares_values",
    "defines_equality",
    "derived",
    "hides_state",
    "is_library_class",
    "native",
    "object_",
    "own_attributes",
    "state",
]

_HEAP_TYPE = 1 << 9  # of a class's `__flags__`: it was made while Python ran
_POINTER = struct.calcsize("P")
# In the namespace of a class, and no part of what its methods do.
_BOOKKEEPING = frozenset(
    """
    __abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__
    __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __firstlineno__ __match_args__
    __module__ __orig_bases__ __parameters__ __protocol_attrs__ __qualname__ __slots__
    __static_attributes__ __type_params__ __weakref__ _abc_impl _field_defaults
    """.split()
)


def is_library_class(cls: type) -> bool:
    """Whether a class is Python's own, or belongs to a library: it is taken not to change."""
    if not cls.__flags__ & _HEAP_TYPE:
        return True
    name = cls.__module__
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and is_library_module(module)


def class_(snapshot: Snapshot, cls: type) -> Hashable:
    """A class by identity; one of the user's also by its methods and attributes, inherited too."""
    check_inside(cls)
    if not cls.__flags__ & _HEAP_TYPE:
        return ("class", cls)
    again = snapshot.again(cls)
    if again is not None:
        return again
    who = snapshot.identity(cls)
    if is_library_class(cls):
        return who
    meta = type(cls)
    parts: list[Any] = [] if is_library_class(meta) else [class_(snapshot, meta)]
    # The members of an enum refer to one another, and its class shall not change. Their values may.
    if issubclass(cls, enum.Enum):
        return (who, tuple(parts), snapshot.parts([x._value_ for x in cls.__members__.values()]))
    for base in cls.__mro__:
        for name, value in own_attributes(base):
            parts.append(name)
            parts.append(_attribute(snapshot, name, value))
    return (who, tuple(parts))


def own_attributes(cls: type) -> list[tuple[str, Any]]:
    """What a class of the user's defines itself; nothing for one of a library."""
    if is_library_class(cls):
        return []
    return [item for item in list(cls.__dict__.items()) if item[0] not in _BOOKKEEPING]


def _attribute(snapshot: Snapshot, name: str, value: Any) -> Hashable:
    kind = type(value)
    if kind is types.FunctionType:
        code = value.__code__
        # Methods that a decorator wrote, as for dataclasses.
        if code.co_filename == "<string>" and name[:2] == "__" and not code_reads(code).reads:
            return snapshot.identity(value)
    elif kind is _FIELD:
        return ("slot",)
    elif hasattr(kind, "__get__") and not kind.__flags__ & _HEAP_TYPE and kind not in _DESCRIPTORS:
        return ("slot", kind)
    return snapshot.part(value)


_DESCRIPTORS = (classmethod, staticmethod, property)
# How named tuples get their fields, by positions that belong to the class.
_FIELD = type(collections.namedtuple("_Pair", "first second").first)  # type: ignore[attr-defined]


def state(snapshot: Snapshot, value: Any) -> Hashable:
    """The attributes of an object, from its `__dict__` and its slots."""
    cls = type(value)
    parts: list[Any] = []
    if cls.__dictoffset__:
        parts += snapshot.pairs(object.__getattribute__(value, "__dict__").items())
    for base in cls.__mro__:
        for slot in _slots(base):
            try:
                parts.append(snapshot.part(slot.__get__(value)))
            except AttributeError:  # not assigned yet
                parts.append(ABSENT)
    return tuple(parts)


def _slots(cls: type) -> list[types.MemberDescriptorType]:
    if not cls.__dict__.get("__slots__"):
        return []
    return [x for x in list(cls.__dict__.values()) if isinstance(x, types.MemberDescriptorType)]


def object_(snapshot: Snapshot, value: Any) -> Hashable:
    """An object of a class written in Python, all of whose state can be seen."""
    again = snapshot.again(value)
    if again is not None:
        return again
    cls, guards = type(value), len(snapshot.guards)
    # Where an object cannot be referred to weakly, it counts by its state alone; one without any is
    # a mark, and it is held, since nothing else hangs on it.
    mark = not cls.__dictoffset__ and not any(map(_slots, cls.__mro__))
    identified = (cls.__weakrefoffset__ or mark) and not defines_equality(cls)
    part = (
        "object",
        snapshot.identity(value) if identified else None,
        class_(snapshot, cls),
        state(snapshot, value),
    )
    if not identified:
        snapshot.witness(value, guards)
    return part


def derived(content: Reading) -> Reading:
    """The reading of a class derived from a builtin one: content, class and attributes."""

    def reading(snapshot: Snapshot, value: Any) -> Hashable:
        return (
            content(snapshot, value),
            class_(snapshot, type(value)),
            state(snapshot, value),
        )

    return reading


def compares_values(cls: type) -> bool:
    """Whether a class defines when its objects are equal."""
    hashed, equal = getattr(cls, "__hash__", None), getattr(cls, "__eq__", None)
    return hashed not in (None, object.__hash__) and equal is not object.__eq__


def defines_equality(cls: type) -> bool:
    """Whether a class says when its objects are equal, be it without a hash, as dataclasses do."""
    return getattr(cls, "__eq__", None) is not object.__eq__


def hides_state(cls: type) -> bool:
    """Whether objects of a class are larger than what Python sees of them: their slots, `__dict__`
    and weak references. Then the rest is known to C only."""
    seen = (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    seen += sum(len(_slots(base)) for base in cls.__mro__)
    return bool(cls.__itemsize__) or cls.__basicsize__ > object.__basicsize__ + seen * _POINTER


def by_value(snapshot: Snapshot, value: Any) -> Hashable:
    """An object by its own equality."""
    try:
        hash(value)
    except (TypeError, ValueError):
        raise NoKey(f"an object of class {type(value).__name__} without a hash") from None
    return ("value", class_(snapshot, type(value)), value)


def native(cls: type) -> Reading:
    """The reading of objects that have state which only C sees."""
    if hasattr(cls, "__next__") or hasattr(cls, "__setitem__"):
        return refuse
    if compares_values(cls):
        return derived(by_value) if cls.__dictoffset__ else by_value
    return _opaque


def _opaque(snapshot: Snapshot, value: Any) -> Hashable:
    # Functions of extension modules are told by having a name and no object that they act on.
    if (
        callable(value)
        and isinstance(getattr(value, "__name__", None), str)
        and getattr(value, "__self__", None) is None
    ):
        return snapshot.identity(value)
    return refuse(snapshot, value)
