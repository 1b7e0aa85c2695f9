"""A cache of jaxprs, keyed by the content of the functions that they were traced from.

A loop body or a lambda is often a new object each time it is used. `cached_trace` finds the trace
of an equal one: same code, equal closed-over values (`weft.function_keys`), same argument types.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from weft import config
from weft.arrays.array import Array
from weft.base.program_caches import holds_programs, on_clear
from weft.base.timing import charged
from weft.core.axes import axis_environment
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.rules import LinearOperand
from weft.core.trace import Tracer
from weft.function_keys import (
    Key,
    function_key,
    identity_key,
    own_key,
    register_by_identity,
    register_uncacheable,
)
from weft.function_keys.walk import register
from weft.interpreters.staging import function_name
from weft.refs.reference import Ref
from weft.runtime.jaxlib.lazy import LazyModule
from weft.sharding.current import in_force
from weft.tracing.explain_misses import MissOfBody

__all__ = ["Counts", "TraceCache", "TracedBody", "cached_trace"]

pytree: Any = LazyModule("weft.runtime.jaxlib.pytree")

register_by_identity(Array)
_HELD = (Array, Ref)
register_uncacheable(Tracer, "a value of an enclosing transformation")
register_uncacheable(LinearOperand)


class TraceResult(Protocol):
    """The result of tracing, a dataclass with these fields and others that do not change."""

    @property
    def jaxpr(self) -> Jaxpr: ...
    @property
    def consts(self) -> list[Any]: ...
    @property
    def out_tree(self) -> Any: ...


T = TypeVar("T", bound=TraceResult)


@dataclasses.dataclass(frozen=True)
class TracedBody:
    """A traced function: its jaxpr, the closed-over values, and the tree of its results."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any


class Counts(NamedTuple):
    """The hits and misses of a cache, and the look-ups for functions without a key."""

    hits: int = 0
    misses: int = 0
    uncacheable: int = 0


class TraceKeys(NamedTuple):
    """The keys of a function before and after it was traced, and that of the object itself."""

    before: Key
    after: Key | None
    same: Key | None


class _Entry:
    """One cached trace.

    key: keeps the identities in it unique; witnesses: the objects that a function must share with
    the one that was traced, None if equal content is enough; consts: the closed-over values, as
    weak references where the key has them; watches: weak references that call the cache when an
    object dies whose identity is in the key.
    """

    __slots__ = ("consts", "key", "traced", "watches", "witnesses")

    def __init__(self, key: Key, witnesses: tuple[Any, ...] | None, traced: Any) -> None:
        guards = {id(guard) for guard in key.guards}
        self.consts: list[Any] = []
        for value in traced.consts:
            reference = weakref.ref(value) if type(value) in _HELD else None
            self.consts.append(reference if id(reference) in guards else value)
        self.key = key
        self.witnesses = witnesses
        # Without `consts`, a list that would keep the values alive.
        self.traced = dataclasses.replace(traced, consts=[])
        self.watches: tuple[Any, ...] = ()

    def serves(self, key: Key) -> bool:
        """Whether the trace serves a function with a key of these parts."""
        return (
            key.counters == self.key.counters
            and key.digests == self.key.digests
            and (self.witnesses is None or key.has_witnesses(self.witnesses))
        )

    def result(self) -> Any:
        """The trace with its closed-over values; None if one of them is gone."""
        consts = [x() if type(x) is weakref.ref else x for x in self.consts]
        if any(x is None for x in consts):
            return None
        return dataclasses.replace(self.traced, consts=consts)


class TraceCache:
    """The last `limit` traces, by the keys of the traced functions and by further parts.

    It can be used by several threads. It keeps no array alive that a traced function closed over:
    when such an array dies, the entries with it are dropped.
    """

    def __init__(self, limit: int = 512, what: str = "") -> None:
        self.limit = limit
        # The purpose of the traces, for explanations of misses; "" for none.
        self.what = what
        # From the least to the most recently used.
        self._entries: dict[Hashable, _Entry] = {}
        # Entries with a dead object. Objects may die, and their callbacks may run, at any time:
        # also while this thread holds the lock. So the lock is reentrant, entries are dropped after
        # it is released, and every step below leaves the cache consistent.
        self._dead: collections.deque[tuple[Hashable, weakref.ref[Key]]] = collections.deque()
        self._lock = threading.RLock()
        self._hits = self._misses = self._uncacheable = 0
        holds_programs(self)

    def __len__(self) -> int:
        self._bury()
        return len(self._entries)

    def counts(self) -> Counts:
        """The counts of look-ups since the cache was made or cleared."""
        return Counts(self._hits, self._misses, self._uncacheable)

    def clear(self) -> None:
        """Drops all entries and resets the counts."""
        with self._lock:
            dropped, self._entries = self._entries, {}
            self._hits = self._misses = self._uncacheable = 0
        dropped.clear()

    forget_programs = clear

    def get(self, key: Key | None, parts: Hashable, again: bool = False) -> Any:
        """The cached trace for functions of this key, or None. `again` says that this is a look-up
        under another key, after a miss that was counted."""
        self._bury()
        with self._lock:
            if key is None:
                self._uncacheable += not again
                return None
            index = (key.parts, parts)
            entry = self._entries.get(index)
            found = entry.result() if entry is not None and entry.serves(key) else None
            if entry is None or found is None:
                self._misses += not again
                return None
            self._hits += 1
            self._misses -= again
            self._entries.pop(index, None)
            self._entries[index] = entry
            return found

    def put(self, keys: TraceKeys, parts: Hashable, traced: Any) -> None:
        """Adds a trace of a function.

        Where its keys before and after tracing differ, tracing changed something that it reads, and
        tracing an equal function may give another jaxpr: the trace is kept for this very function
        object only. (A variable that a function only counts up is no part of its key.) The trace
        of a function that counts serves only functions with the same counters, since another would
        change its own; a jaxpr that calls Python when it runs serves only functions that refer to
        the very same objects.
        """
        before, after, same = keys
        if after is None or any(isinstance(value, Tracer) for value in traced.consts):
            return
        if before.same_content(after):
            own = _calls_python(traced.jaxpr)
            self._store(_Entry(before, before.witnesses if own else None, traced), parts)
        elif same is not None:
            self._store(_Entry(same, None, traced), parts)

    def discard(self, traced: Iterable[Any]) -> None:
        """Drops these traces."""
        jaxprs = {id(found.jaxpr) for found in traced}
        with self._lock:
            entries = list(self._entries.items())
            indices = [index for index, e in entries if id(e.traced.jaxpr) in jaxprs]
            dropped = [self._entries.pop(index, None) for index in indices]
        dropped.clear()

    def _store(self, entry: _Entry, parts: Hashable) -> None:
        index = (entry.key.parts, parts)
        tell = functools.partial(_died, weakref.ref(self), index, weakref.ref(entry.key))
        living = {id(g): g() for g in entry.key.guards if type(g) is weakref.ref}
        entry.watches = tuple(weakref.ref(x, tell) for x in living.values() if x is not None)
        with self._lock:
            dropped = [self._entries.pop(index, None)]
            self._entries[index] = entry
            for oldest in list(self._entries)[: max(0, len(self._entries) - self.limit)]:
                dropped.append(self._entries.pop(oldest, None))
        dropped.clear()

    def _bury(self) -> None:
        """Drops the entries with a dead object."""
        dropped = []
        while self._dead:
            with self._lock:
                try:
                    index, key = self._dead.popleft()
                except IndexError:  # another thread was faster
                    break
                entry = self._entries.get(index)
                # There may be a newer entry at the index by now.
                if entry is not None and entry.key is key():
                    dropped.append(self._entries.pop(index, None))


def _calls_python(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr holds functions of the user: callbacks, rules of custom derivatives."""
    return jaxpr.memoize("calls Python", lambda: _has_functions(jaxpr))


def _has_functions(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.memoise:
            continue
        if not all(isinstance(value, _PLAIN) for value in eqn.params.values()):
            return True
        if any(map(_calls_python, jaxprs_in(eqn.params))):
            return True
    return False


# Classes of parameters, of primitives that hold jaxprs, that are no functions.
_PLAIN = (Jaxpr, tuple, str, int, bool, type(None))


def _died(
    cache: weakref.ref[TraceCache], index: Hashable, key: weakref.ref[Key], _: object
) -> None:
    found = cache()
    if found is None:
        return
    found._dead.append((index, key))
    # Not blocking: the thread with the lock may wait for one that this thread holds. Then a later
    # call drops the entry.
    if found._lock.acquire(blocking=False):
        try:
            found._bury()
        finally:
            found._lock.release()


@functools.cache
def _treedef_class() -> type:
    """The class of the structures of trees, with its rule of keys: they cannot change. Importing
    weft does not load it."""
    register(pytree.PyTreeDef, lambda walk, value: ("treedef", value, walk.parts(_nodes(value))))
    found: type = pytree.PyTreeDef
    return found


@functools.lru_cache(512)
def _nodes(treedef: Any) -> tuple[Any, ...]:
    """The classes of the users' nodes in a tree, with their static data: a traced function may call
    methods of the arguments, and these may read what changes."""
    own = treedef.node_data()
    found = () if own is None or own[0] in _PLAIN_NODES else own
    return found + tuple(x for child in treedef.children() for x in _nodes(child))


on_clear(_nodes.cache_clear)
_PLAIN_NODES = (tuple, list, dict, type(None), collections.OrderedDict, collections.defaultdict)


def cached_trace(
    cache: TraceCache,
    function: Callable[..., Any],
    parts: tuple[Hashable, ...],
    trace: Callable[[], T],
    values: tuple[Any, ...] = (),
) -> T:
    """Returns the result of `trace()`, or a cached one of an equal function.

    function: the user's, whose key is looked up; parts: the other dependencies of the trace
    (types and structure of the arguments), hashable; the settings, the bound axes and the mesh in
    force are added.
    values: further values that it depends on and that count as those in a closure do: other
    functions, static arguments.
    `trace` runs on a miss. A function without a key is found again only where it is this very
    object (`own_key`), and not where it refers to values that may change unseen. `trace` returns a
    dataclass with the fields `jaxpr`, `consts` and `out_tree`. A hit returns the same jaxpr, so
    that derived jaxprs and executables are shared. A trace that closes over values of an enclosing
    transformation is not cached.
    """
    index = (config.settings(), axis_environment(), in_force(), *parts)
    same = None
    try:
        treedef = _treedef_class()
        for part in parts:
            if type(part) is treedef:
                values += _nodes(part)
        key_of = function_key
        key = key_of(function, *values)
        if key is None:
            key_of = own_key
            key = key_of(function, *values)
        found: T | None = cache.get(key, index)
        if found is None and key is not None:
            same = identity_key(function, *values)
            found = cache.get(same, index, again=True)
    except TypeError:  # A node of a tree may hold data without a hash.
        return trace()
    if found is not None:
        return found
    if cache.what:
        with MissOfBody(cache.what, function, function_name(function), parts) as miss:
            with charged("tracing"):
                traced = trace()
            miss.results = traced.jaxpr.out_types
    else:
        traced = trace()
    if key is not None:
        cache.put(TraceKeys(key, key_of(function, *values), same), index, traced)
    return traced
