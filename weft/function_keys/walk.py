"""The walk over a function and everything that it refers to, which makes keys and named parts.

Each class of values has a *rule*: a function from a walk and a value to a hashable content. A rule
passes the values inside of its own to the walk, with the names that the code has for them. A `Walk`
ignores the names and combines the contents to the key. A `NamedWalk` takes each named content out
of the one around it and notes it under its name. All notes together are the key again, so the
notes that differ explain why two keys do.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple

from weft.function_keys import known_pure
from weft.function_keys.code_reads import NoKey

__all__ = ["PURE", "Key", "NamedPart", "NamedWalk", "Rule", "Walk", "register", "short_text"]

# The most parts and nesting of a key. A key of this many parts costs about a millisecond, less than
# the trace of a function that reads so much.
MOST_PARTS = 2000
MOST_DEPTH = 24
TOO_MUCH = f"more than {MOST_PARTS} values, or values nested more than {MOST_DEPTH} deep"


class Key:
    """The content of a function, hashable.

    parts: equal where the functions are. They hold no arrays: objects that count by identity appear
    as numbers. guards: keep these numbers unique, weak references where the objects allow it; parts
    may be compared while the guards of both sides are held. witnesses: the objects that count by
    content and can be changed in place (held weakly where they allow it). counters: the identities
    of those that are only counted up, on which no result depends. digests: of the content of large
    NumPy arrays that count by identity and by content. They are not among the parts, so that of an
    array that changes again and again one trace is kept.

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
        self.parts = parts
        self.guards = guards
        self.witnesses = witnesses
        self.counters = counters
        self.digests = digests

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
        """Whether the witnesses are these very objects."""
        return len(witnesses) == len(self.witnesses) and all(
            mine is theirs or (type(mine) is int and mine == theirs)
            for mine, theirs in zip(self.witnesses, witnesses, strict=True)
        )


class Walk:
    """One walk over a function and all that it refers to.

    find_rule: returns the rule of a class; for_one: whether the key is for one function object;
    seen: the number of each object that others may refer to again, by identity, with the object
    itself, which keeps the identity; guards, witnesses, counters and digests as in `Key`; left: how
    many parts more may follow; uses_numpy, shows:
    whether NumPy is used, and whether values are turned into text.

    The names that rules give are strings such as `k`, `.rate` or `[0]`; a role is the phrase for
    such a value in messages, with `{0}` for its name and `{1}` for that of the owner. A name
    without a role is appended to the name of the value around it.
    """

    __slots__ = (
        "counters",
        "depth",
        "digests",
        "find_rule",
        "for_one",
        "guards",
        "left",
        "seen",
        "shows",
        "uses_numpy",
        "witnesses",
    )

    named = False  # whether names and roles are noted

    def __init__(self, find_rule: Callable[[type], Rule], for_one: bool = False) -> None:
        self.find_rule = find_rule
        self.for_one = for_one
        self.counters: list[int] = []
        self.digests: list[bytes] = []
        self.seen: dict[int, tuple[int, Any]] = {}
        self.guards: list[Any] = []
        self.witnesses: list[Any] = []
        self.left = MOST_PARTS
        self.depth = 0
        self.uses_numpy = self.shows = False

    def part(self, value: Any, name: str = "", role: str = "", owner: Any = None) -> Any:
        """The part of a value in a key. Raises NoKey."""
        cls = type(value)
        self.left -= 1
        # All other parts are tuples, so never equal to these. (True is of another class.)
        if cls is int or value is None or value is ...:
            return value
        if self.left < 0 or self.depth > MOST_DEPTH:
            raise NoKey(TOO_MUCH)
        rule = _rules.get(id(cls)) or self._rule_of(cls)
        self.depth += 1
        found = rule(self, value)
        self.depth -= 1
        return found

    def parts(
        self, values: Collection[Any], names: Names | None = None, owner: Any = None, role: str = ""
    ) -> tuple[Any, ...]:
        """The parts of values, in their order; `names(owner)` has their names."""
        if len(values) > self.left:
            raise NoKey(TOO_MUCH)
        return tuple([self.part(value) for value in values])

    def pairs(
        self, items: Iterable[tuple[Any, Any]], name: str = "", role: str = "", owner: Any = None
    ) -> tuple[Any, ...]:
        """The parts of keys and values, in their order; `name` has `{}` in place of the key."""
        # A list first, since another thread may add an item.
        return self.parts([x for item in list(items) for x in item])

    def again(self, value: Any) -> tuple[Any, ...] | None:
        """A reference to the earlier part of the same object; None at the first time."""
        known = self.seen.get(id(value))
        if known is not None:
            return ("again", known[0])
        self.seen[id(value)] = (len(self.seen), value)
        return None

    def identity(self, value: Any) -> tuple[str, int]:
        """The identity of an object, which is not kept alive where it can be referred to weakly."""
        try:
            # A living object has one weak reference without a callback; that of a dead object is
            # kept, so none gets its id. So the reference's id identifies the object.
            guard: Any = weakref.ref(value)
        except TypeError:
            guard = value
        self.guards.append(guard)
        return ("is", id(guard))

    def meets_unknown(self, what: str) -> None:
        """Raises NoKey for what may read anything, unless the key is for one function object."""
        if not self.for_one:
            raise NoKey(what)

    def counter(self, value: Any) -> tuple[str]:
        """The part of an object that is only counted up: none of its content."""
        # Its id alone, without a guard: an object that gets the same id later changes no result.
        self.counters.append(id(value))
        return ("counter",)

    def witness(self, value: Any, guards_before: int) -> None:
        """Notes an object that counts by content; it is held unless it might keep arrays alive."""
        # Trying `weakref.ref` on a list or a dict would cost more than all else done for it.
        if type(value).__weakrefoffset__:
            self.witnesses.append(weakref.ref(value))
        else:
            held = len(self.guards) == guards_before
            self.witnesses.append(value if held else id(value))

    def _rule_of(self, cls: type) -> Rule:
        registered = (_registered[id(base)][1] for base in cls.__mro__ if id(base) in _registered)
        found = next(registered, None) or self.find_rule(cls)
        _references[id(cls)] = weakref.ref(cls, functools.partial(_forget, id(cls)))
        _rules[id(cls)] = found
        return found


Rule = Callable[[Walk, Any], Hashable]
Names = Callable[[Any], Iterable[str]]

# The rules of classes met so far, by identity, since a metaclass can define their equality; entries
# are dropped when the class dies.
_rules: dict[int, Rule] = {}
_references: dict[int, weakref.ref[type]] = {}
_registered: dict[int, tuple[type, Rule]] = {}


def _forget(identity: int, reference: Any) -> None:
    if _references.get(identity) is reference:
        del _references[identity]
        _rules.pop(identity, None)


def register(cls: type, rule: Rule) -> None:
    """Sets the rule of a class and of those derived from it."""
    _registered[id(cls)] = (cls, rule)
    _rules.clear()


# ---- the parts by name ---------------------------------------------------------------------------

# The role of values of modules that are listed as pure, and of Python's.
PURE = "{0}"
# The most notes, their depth, and the items of a collection with notes: a message names one or two.
_MOST_NAMED = 96
_MOST_NAMED_DEPTH = 8
_MOST_NAMED_TOGETHER = 32
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


class NamedPart(NamedTuple):
    """One value that a function depends on: its role in the function, a number that is equal for
    equal values (None if the value has no safe key; `reason` says why), and how it is shown.

    `references` are weak ones to the objects that count by identity: as long as they are kept, the
    number is the same for the same object, and no other object gets it.

    Args:
        role: What the value is to the function, in words.
        content: The number that stands for the value; None without a safe key.
        text: The value in a few words.
        reason: Why the value has no safe key; empty if it has one.
        references: Weak references to the objects that count by identity.
    """

    role: str
    content: int | None
    text: str
    reason: str = ""
    references: tuple[weakref.ref[Any], ...] = ()


class _Around(NamedTuple):
    """The value around the current one: its name, with its role and owner. The name is empty if
    the names inside cannot be appended to it."""

    label: str
    role: str
    owner: str


_NOWHERE = _Around("", "", "")


class NamedWalk(Walk):
    """Notes the part of each value that has a name, without keeping the value.

    found: the notes; around: the value whose insides are walked; level: the depth of such values.
    """

    __slots__ = ("around", "found", "level")
    named = True

    def __init__(self, find_rule: Callable[[type], Rule]) -> None:
        super().__init__(find_rule)
        self.found: dict[str, NamedPart] = {}
        self.around = _NOWHERE
        self.level = 0

    def part(self, value: Any, name: str = "", role: str = "", owner: Any = None) -> Any:
        """Notes the part of a value and returns None; without a name it returns the part."""
        around = self.around
        function = _is_function(value)
        if function and not name:
            name, role = "function", "the {0}"
        full = self.level >= _MOST_NAMED_DEPTH or len(self.found) >= _MOST_NAMED
        if not name or full or not (role or around.label):
            self.around = _NOWHERE
            part = super().part(value)
            self.around = around
            return part
        if role:
            me = _Around(name, role, getattr(owner, "__name__", ""))
        else:
            me = around._replace(label=around.label + name)
        self._note(value, me, function)
        self.around = around
        return None

    def _note(self, value: Any, me: _Around, function: bool) -> None:
        """Adds the note of a value, after those of the values inside it that have names."""
        if function and id(value) not in self.seen:
            name, code = value.__name__, value.__code__
            line = f"that at line {code.co_firstlineno}"
            note = NamedPart(f"the code of {name}", hash(code), line)
            self._put(f"code of {value.__qualname__}", note)
        self.around = _NOWHERE if function else me
        before = len(self.guards), len(self.digests), self.left, self.depth, self.level
        # In pure functions only closures get notes.
        self.level += _MOST_NAMED_DEPTH if _is_pure_function(value) else 1
        content, reason, text = None, "", ""
        try:
            part = super().part(value)
            digests = self.digests[before[1] :]
            content = hash((part, *digests)) if digests else hash(part)
            if type(part) is int:  # -1 and -2 have one hash
                content = part
            if type(part) is tuple and part[:1] == ("object",):
                # Without reading its attributes, which may be computed.
                text = f"an object of class {type(value).__name__}"
                text += "" if part[1] is None else ", which defines no equality"
        except (NoKey, RuntimeError) as error:
            reason = str(error)
            self.left, self.depth = before[2:4]
        self.level = before[4]
        references = tuple(x for x in self.guards[before[0] :] if type(x) is weakref.ref)
        del self.guards[before[0] :], self.digests[before[1] :]
        if content is not None and (function or (me.role == PURE and _is_constant(value))):
            return
        role = me.role.format(me.label, me.owner)
        self._put(me.label, NamedPart(role, content, text or short_text(value), reason, references))

    def parts(
        self, values: Collection[Any], names: Names | None = None, owner: Any = None, role: str = ""
    ) -> tuple[Any, ...]:
        """The parts of the values that are not noted, in their order."""
        if names is None or not self._named(values, role):
            return super().parts(values)
        named = zip(names(owner), values, strict=True)
        parts = [self.part(value, name, role, owner) for name, value in named]
        return tuple([part for part in parts if part is not None])

    def pairs(
        self, items: Iterable[tuple[Any, Any]], name: str = "", role: str = "", owner: Any = None
    ) -> tuple[Any, ...]:
        """The parts of keys and values that are not noted; the name of a value has its key."""
        items = list(items)
        if not name or not all(type(key) in _SCALARS for key, _ in items):
            return super().pairs(items)
        names = [name.format(key) for key, _ in items]
        return self.parts([value for _, value in items], lambda _: names, owner, role)

    def _named(self, values: Collection[Any], role: str) -> bool:
        fits = len(values) <= _MOST_NAMED_TOGETHER and self.level < _MOST_NAMED_DEPTH
        return fits and (role != "" or self.around.label != "")

    def again(self, value: Any) -> tuple[Any, ...] | None:
        """Like `Walk.again`, without the number, which would change with that of other objects."""
        return None if super().again(value) is None else ("again",)

    def _put(self, label: str, part: NamedPart) -> None:
        # One global may be read by several functions; several functions may have equal code.
        code = label.startswith("code of ")
        while label in self.found and (code or self.found[label][:2] != part[:2]):
            label += "'"
        self.found[label] = part


def _is_pure_function(value: Any) -> bool:
    return (
        type(value) is types.FunctionType
        and known_pure.is_pure_function(value)
        and (value.__closure__ is None or known_pure.is_global_of_weft(value))
    )


def _is_function(value: Any) -> bool:
    """Whether it is a function that has parts: the user's, or a pure one with a closure."""
    return type(value) is types.FunctionType and not _is_pure_function(value)


def _is_constant(value: Any) -> bool:
    """Whether a value of such a module is a function or module, not a setting."""
    return callable(value) or isinstance(value, types.ModuleType)


def short_text(value: Any, depth: int = 1) -> str:
    """A value in a few words, without reading arrays.

    Args:
        value: Any value.
        depth: How many levels of containers are written out.
    """
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
