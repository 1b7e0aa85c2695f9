"""A key and how it is put together: one look at a function and at everything it refers to.

What stands for a value is decided by its class: a *reading* is a function from a snapshot and a
value to something hashable. Readings of functions, values and objects have files of their own.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

__all__ = ["Key", "NoKey", "Reading", "Snapshot"]

# How much a key takes in. A key of this many parts costs about a millisecond, less than the trace
# of a function that reads so much.
MOST_PARTS = 2000
MOST_DEPTH = 24
TOO_MUCH = f"more than {MOST_PARTS} values, or values nested more than {MOST_DEPTH} deep"


class NoKey(Exception):
    """Something takes part of which it cannot be known whether it changed; the text says what."""


class Key:
    """What is known of a function, hashable.

    parts: equal where the functions are. Nothing in it holds arrays: objects that count by identity
    appear as numbers. guards: what makes these numbers unique, weak references where the objects
    allow it; parts may be compared while the guards of both sides are held. witnesses: the objects
    that count by content and can be changed in place (held weakly where they allow it). counters:
    the identities of those that are only counted up, which are no part of what is computed.
    digests: of the content of large NumPy arrays that count by identity and by content. They stand
    beside the parts, so that of an array that is changed again and again one trace is kept.

    Keys are equal where their parts and digests are and all objects that count by identity live.
    """

    __slots__ = ("__weakref__", "counters", "digests", "guards", "parts", "witnesses")

    def __init__(
        self,
        parts: Hashable,
        guards: tuple[Any, ...],
        witnesses: tuple[Any, ...],
        counters: tuple[int, ...] = (),
        digests: tuple[bytes, ...] = (),
    ) -> None:
        self.counters = counters
        self.digests = digests
        self.parts = parts
        self.guards = guards
        self.witnesses = witnesses

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.same_content(other) and self.alive()

    def same_content(self, other: Key) -> bool:
        """Whether everything is equal, as far as identities in it are unique."""
        return self.parts == other.parts and self.digests == other.digests

    def alive(self) -> bool:
        """Whether all objects that are held weakly still live."""
        return all(type(g) is not weakref.ref or g() is not None for g in self.guards)

    def has_witnesses(self, witnesses: tuple[Any, ...]) -> bool:
        """Whether what counts by content are, beyond that, these very objects."""
        return len(witnesses) == len(self.witnesses) and all(
            mine is theirs or (type(mine) is int and mine == theirs)
            for mine, theirs in zip(self.witnesses, witnesses, strict=True)
        )


class Snapshot:
    """One look at a function and what it refers to.

    seen: the number of each object that others may refer to again, by identity, with the object
    itself, which keeps the identity; guards, witnesses, counters and digests as in `Key`; left: how
    many parts more.
    """

    __slots__ = ("counters", "depth", "digests", "guards", "left", "seen", "witnesses")

    def __init__(self) -> None:
        self.counters: list[int] = []
        self.digests: list[bytes] = []
        self.seen: dict[int, tuple[int, Any]] = {}
        self.guards: list[Any] = []
        self.witnesses: list[Any] = []
        self.left = MOST_PARTS
        self.depth = 0

    def part(self, value: Any) -> Any:
        """What stands for a value in a key. Raises NoKey."""
        cls = type(value)
        self.left -= 1
        # All other parts are tuples, which these are not equal to. (True is of another class.)
        if cls is int or value is None or value is ...:
            return value
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise NoKey(TOO_MUCH)
        reading = _readings.get(id(cls)) or reading_of(cls)
        self.depth += 1
        found = reading(self, value)
        self.depth -= 1
        return found

    def parts(self, values: Collection[Any]) -> tuple[Any, ...]:
        """The parts of values, in their order."""
        if len(values) > self.left:
            raise NoKey(TOO_MUCH)
        return tuple([self.part(value) for value in values])

    def pairs(self, items: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
        """The parts of keys and values, in their order."""
        # As a list first: another thread may add an item.
        return self.parts([x for item in list(items) for x in item])

    def again(self, value: Any) -> tuple[str, int] | None:
        """Where an object was met before; None at the first time."""
        known = self.seen.get(id(value))
        if known is not None:
            return ("again", known[0])
        self.seen[id(value)] = (len(self.seen), value)
        return None

    def identity(self, value: Any) -> tuple[str, int]:
        """The identity of an object, which is not kept alive where it can be referred to weakly."""
        try:
            # As long as an object lives it has one reference of this class without a callback; the
            # one of a dead object is kept and stays another. So it can be told by its identity.
            guard: Any = weakref.ref(value)
        except TypeError:
            guard = value
        self.guards.append(guard)
        return ("is", id(guard))

    def counter(self, value: Any) -> tuple[str]:
        """What stands for something that is only counted up: nothing of what it holds."""
        # By its number alone: whoever takes another's place counts less, and computes the same.
        self.counters.append(id(value))
        return ("counter",)

    def witness(self, value: Any, guards_before: int) -> None:
        """Notes an object that counts by content; it is held unless arrays might hang on it."""
        try:
            self.witnesses.append(weakref.ref(value))
        except TypeError:
            held = len(self.guards) == guards_before
            self.witnesses.append(value if held else id(value))


Reading = Callable[[Snapshot, Any], Hashable]

# The reading of each class that was met. Classes themselves are no safe keys, since a metaclass can
# define their equality; so they are told by identity, and forgotten when they die.
_readings: dict[int, Reading] = {}
_references: dict[int, weakref.ref[type]] = {}
_registered: dict[int, tuple[type, Reading]] = {}
# Decides for classes that are not registered; `keys`, which lies above, sets it.
choose: list[Callable[[type], Reading]] = []


def reading_of(cls: type) -> Reading:
    """How objects of a class are read."""
    found = next(
        (_registered[id(base)][1] for base in cls.__mro__ if id(base) in _registered), None
    ) or choose[0](cls)
    _references[id(cls)] = weakref.ref(cls, functools.partial(_forget, id(cls)))
    _readings[id(cls)] = found
    return found


def _forget(identity: int, reference: Any) -> None:
    if _references.get(identity) is reference:
        del _references[identity]
        _readings.pop(identity, None)


def register(cls: type, reading: Reading) -> None:
    """Sets the reading of a class and of those derived from it."""
    _registered[id(cls)] = (cls, reading)
    _readings.clear()
