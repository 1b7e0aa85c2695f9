"""One jaxpr for all equal ones: a program is found by the content of its jaxpr.

A jaxpr is closed. It consists of equations, types, parameters and literals; arrays that the traced
function closed over are operands. Types are unique objects. Parameters and literals count by class
and bits, and what is not known to be a value (callbacks, rules of custom derivatives, any object of
the user's) counts by identity. So equal jaxprs compute the same, and this is the whole argument:
nothing has to be known of the Python functions that were traced. `share_jaxpr` returns the jaxpr
that was there first, and with it comes what is memoized on it, such as derivatives.

Source lines are part of the content, so that errors and reports name the lines of their own
function. A function that is made again has the lines that it had before. The compiler reads no
lines: `program_alone` returns the first jaxpr that equals this one without them, which has the
lowered module and the executable. While results are looked at (`debug_nans`), and for a program
that is lowered by hand, lines count there too. Names of functions never count; named scopes do.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft import config
from weft.base.exact_keys import exact_key
from weft.base.program_caches import holds_programs
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, jaxprs_in, map_jaxprs
from weft.core.rules import AxisData
from weft.sharding.spec import PartitionSpec

# Classes of which equal objects are the same value.
_ATOMS = frozenset({str, int, bool, bytes, type(None), *map(type, map(np.dtype, "?bBhHiIlLfdFD"))})
# Classes whose objects compute the same where these parts of them do.
_contents: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
# Primitives whose parameter `rule` is for transformations alone: the compiler does not read it.
with_rule: set[Any] = set()
# Primitives whose lowering emits the jaxprs that they hold as they are. That of a `shard_map` on a
# simulated mesh is not among them: it maps its jaxpr, by the rules inside.
emits_jaxprs: set[Any] = set()


def register_content(cls: type, parts: Callable[[Any], tuple[Any, ...]]) -> None:
    """Compares parameters of a class by the parts that `parts` returns."""
    _contents[cls] = parts


# ---- the content ---------------------------------------------------------------------------------

# An identity in a content is that of an object which the jaxpr itself holds. It is unique for as
# long as the jaxpr lives, and the table forgets the content when the jaxpr dies. The content does
# not hold the object: this may hold the jaxpr in turn, which then would never die.


def content_of(jaxpr: Jaxpr, lines: bool = True) -> tuple[Any, ...]:
    """The content of a jaxpr as a tuple, equal for jaxprs that compute the same. Without `lines`
    the source lines may differ. Variables count by the order in which they are bound. Each list
    follows its length, so that no item can be taken for one of the next list."""
    numbers: dict[Any, int] = {}
    # Rules read settings when a derivative is taken, which is memoized on the shared jaxpr.
    parts: list[Any] = [lines, config.settings(), jaxpr.num_consts, len(jaxpr.inputs)]
    add = parts.append
    for var in jaxpr.inputs:
        numbers[var] = len(numbers)
        add(var.type)
    for eqn in jaxpr.eqns:
        params, effects, source = eqn.params, eqn.effects, eqn.source
        add(id(eqn.primitive))
        add(len(eqn.inputs))
        for atom in eqn.inputs:
            add(_literal(atom, lines) if type(atom) is Literal else numbers[atom])
        add(len(params))
        for name, value in params.items():
            cls = type(value)
            parts += (name, cls, value) if cls in _ATOMS else (name, _content(value, lines))
        add(len(eqn.outputs))
        for var in eqn.outputs:
            numbers[var] = len(numbers)
            add(var.type)
        add(_content(effects, lines) if effects else None)
        # Code counts by identity: two codes of different files may be equal.
        if source is None:
            add(None)
        elif lines:
            parts += (id(source[0]), *source[1:])
        else:  # The compiler is given the names and metadata of the scope.
            add(source[2] if len(source) == 3 else None)
    add(len(jaxpr.outputs))
    for atom in jaxpr.outputs:
        add(_literal(atom, lines) if type(atom) is Literal else numbers[atom])
    return tuple(parts)


def _literal(atom: Literal, lines: bool) -> tuple[Any, ...]:
    return atom.type, _content(atom.value, lines)


def _content(value: Any, lines: bool) -> Any:
    """The content of a parameter, or its identity if its class is not known as a value's."""
    cls: Any = type(value)
    if cls in _ATOMS:
        return cls, value
    if cls is tuple:
        return (cls, *_contents_of(value, lines))
    if cls is float or cls is complex or isinstance(value, np.generic):
        return exact_key(value)
    if cls is Jaxpr:
        return cls, number_of(value, lines)
    if cls is ClosedJaxpr:
        return (cls, number_of(value.jaxpr, lines), *map(id, value.consts))
    if cls is frozenset:
        return cls, frozenset(_contents_of(value, lines))
    if cls is functools.partial and not value.__dict__:
        return (cls, *_contents_of((value.func, value.args, *value.keywords.items()), lines))
    if cls is types.MethodType:
        return _OF_A_CALL, id(value.__self__), id(value.__func__)
    if cls in _contents:
        return (id(cls), *_contents_of(_contents[cls](value), lines))
    if isinstance(value, np.dtype):
        return cls, value
    if isinstance(value, tuple) and hasattr(cls, "_fields") and _has_no_more(value, ()):
        return (id(cls), *_contents_of(value, lines))
    fields = _fields_alone(cls, value)
    if fields is not None:
        return (id(cls), *[_content(getattr(value, name), lines) for name in fields])
    return (_OF_A_CALL if _may_close_over(value) else "the object"), id(value)


def _contents_of(values: Iterable[Any], lines: bool) -> list[Any]:
    return [_content(value, lines) for value in values]


# Marks what may keep values of the user's alive: a program that holds it is not held by the table.
_OF_A_CALL = "the closure"


def _may_close_over(value: Any) -> bool:
    """Whether an object is a callable that does not live as long as its module."""
    if not callable(value) or isinstance(value, type):
        return False
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return getattr(module, getattr(value, "__qualname__", ""), None) is not value


def _is_marked(content: Any) -> bool:
    for x in content:
        if x is _OF_A_CALL or (type(x) in (tuple, frozenset) and _is_marked(x)):
            return True
    return False


def _holds_closures(jaxpr: Jaxpr, content: Any, lines: bool) -> bool:
    out: bool = jaxpr.memoize(
        _CLOSURES,
        lambda: (
            _is_marked(content)
            or any(
                _first(inner, lines).memo.get(_CLOSURES, False)
                for eqn in jaxpr.eqns
                if eqn.params
                for inner in jaxprs_in(eqn.params)
            )
        ),
    )
    return out


def _fields_alone(cls: Any, value: Any) -> list[str] | None:
    """The fields of a frozen dataclass that compares by them and has no more; else None."""
    own = vars(cls).get("__dataclass_params__")
    if own is None or not (own.frozen and own.eq):
        return None
    names = [field.name for field in dataclasses.fields(cls)]
    alone = _has_no_more(value, names) and all(hasattr(value, name) for name in names)
    return names if alone else None


def _has_no_more(value: Any, names: Sequence[str]) -> bool:
    """Whether an object has no other attributes than these."""
    slots = [slot for cls in type(value).__mro__ for slot in _slots(cls)]
    return {*getattr(value, "__dict__", ()), *slots} <= {*names, "__dict__", "__weakref__"}


def _slots(cls: type) -> Sequence[str]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def structure_parts(structure: Any) -> tuple[Any, ...] | None:
    """A tree's structure as a value: the node classes with their data, None for a leaf."""
    node = structure.node_data()
    if node is None:
        return None
    cls, data = node
    own = tuple(data) if type(data) is list else data  # the keys of a dict
    return (cls, own, *map(structure_parts, structure.children()))


register_content(PartitionSpec, lambda spec: (tuple(spec), spec.sum))
register_content(AxisData, AxisData.key)


# ---- the table -----------------------------------------------------------------------------------

# What an equation, and a program, take with their share of an executable, and how much is held.
BYTES_PER_EQUATION = 8_000
BYTES_PER_JAXPR = 40_000
MOST_BYTES = 256 * 2**20


class SharedJaxprs:
    """Jaxprs by content: all that are alive, and the last ones, within a bound in bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._bytes = 0
        # Reentrant: the collector may free a jaxpr while this thread has the lock.
        self._lock = threading.RLock()
        self._first: weakref.WeakValueDictionary[Any, Jaxpr] = weakref.WeakValueDictionary()
        # From the least to the most recently used, with the bytes of each.
        self._held: collections.OrderedDict[Jaxpr, int] = collections.OrderedDict()
        holds_programs(self)

    def __len__(self) -> int:
        return len(self._first)

    def first(self, jaxpr: Jaxpr, lines: bool = True) -> Jaxpr:
        """The first jaxpr of this content, with or without source lines."""
        content = content_of(jaxpr, lines)
        with self._lock:
            out = self._first.setdefault(content, jaxpr)
            dropped = [] if _holds_closures(out, content, lines) else self._hold(out)
        # Outside of the lock: it frees executables.
        dropped.clear()
        return out

    def _hold(self, jaxpr: Jaxpr) -> list[Jaxpr]:
        """Holds a jaxpr as the most recently used one; returns the dropped ones."""
        dropped: list[Jaxpr] = []
        if jaxpr in self._held:
            self._held.move_to_end(jaxpr)
            return dropped
        size = BYTES_PER_JAXPR + BYTES_PER_EQUATION * len(jaxpr.eqns)
        self._held[jaxpr] = size
        self._bytes += size
        while self._bytes > self.most and len(self._held) > 1:
            oldest, freed = self._held.popitem(last=False)
            self._bytes -= freed
            dropped.append(oldest)
        return dropped

    def let_go(self, jaxpr: Jaxpr) -> None:
        """Holds a jaxpr no more; others may keep it alive."""
        with self._lock:
            self._bytes -= self._held.pop(jaxpr, 0)

    def clear(self) -> None:
        """Drops all."""
        with self._lock:
            dropped, self._held = self._held, collections.OrderedDict()
            self._first.clear()
            self._bytes = 0
        dropped.clear()

    forget_programs = clear


_table = SharedJaxprs()
_numbers = itertools.count(1)
_FIRST, _NUMBER = "first of its content", "number of its content"
_CLOSURES = "holds closures"


def share_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The first jaxpr equal to this one, with its source lines."""
    return _first(jaxpr, True)


def program_alone(jaxpr: Jaxpr, lines: bool = False) -> Jaxpr:
    """The first jaxpr that is the same to the compiler, which ignores rules and, unless `lines` are
    wanted or results are checked, source lines."""
    alone = _without_rules(jaxpr)
    out = _first(alone, False)
    if lines or config.settings().looks_at_results:
        with_lines = _first(alone, True)
        # Most often it has these lines: it was made by a function that is made again.
        return out if _first(out, True) is with_lines else with_lines
    return out


def _first(jaxpr: Jaxpr, lines: bool) -> Jaxpr:
    known: Jaxpr | bool | None = jaxpr.memo.get((_FIRST, lines))
    if isinstance(known, Jaxpr):
        return known
    if known:
        return jaxpr
    out = _table.first(jaxpr, lines)
    # No reference to itself, which only the collector would free.
    jaxpr.memo[_FIRST, lines] = True if out is jaxpr else out
    return out


def _without_rules(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr as the compiler reads it, without the rules of custom derivatives: a rule differs
    with each run, also where the programs are the same."""

    def make() -> Jaxpr | bool:
        eqns = []
        for eqn in jaxpr.eqns:
            params = eqn.params
            if eqn.primitive in emits_jaxprs:
                params = map_jaxprs(_without_rules, params)
            if eqn.primitive in with_rule:
                params = params | {"rule": None}
            same = all(params[name] is value for name, value in eqn.params.items())
            eqns.append(eqn if same else eqn.replace(params=params))
        if all(map(operator.is_, eqns, jaxpr.eqns)):
            return False  # no reference to itself, which only the collector would free
        return Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name, jaxpr.effects)

    found = jaxpr.memoize("without rules", make)
    return found if isinstance(found, Jaxpr) else jaxpr


def number_of(jaxpr: Jaxpr, lines: bool) -> int:
    """A number that only this content of a jaxpr has."""
    return _first(jaxpr, lines).memoize((_NUMBER, lines), lambda: next(_numbers))


def forget_programs_of(jaxpr: Jaxpr) -> None:
    """Drops the memoized values of a jaxpr and of the first one of its content."""
    for one in (jaxpr, share_jaxpr(jaxpr), program_alone(jaxpr)):
        _table.let_go(one)
        one.memo = {key: x for key, x in one.memo.items() if key[0] in (_FIRST, _NUMBER)}
