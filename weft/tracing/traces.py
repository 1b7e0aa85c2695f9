"""The traces of a function object, found by its identity for as long as it lives.

A trace belongs to the function object that it was made from. Another object (a lambda made again, a
`partial`, a bound method) is traced again, whatever it has in common with the first: what it reads
may have changed. Its program is found all the same, by the content of its jaxpr
(`weft.core.shared_jaxprs`).
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import weakref
from typing import Any

from weft.base.program_caches import on_clear
from weft.core.jaxpr import Jaxpr

# Functions whose traces are kept for further `jit`s of them. A trace may refer to its function, by
# a callback for example, which then would live for ever: so the last ones alone.
_FUNCTIONS = 1024


@dataclasses.dataclass(frozen=True)
class TracedBody:
    """A traced function: its jaxpr, the closed-over values, and the tree of its results."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any


class Traces(dict[Any, TracedBody]):
    """The traces of one function object by their other dependencies, and in `calls` the programs of
    `jit`, by options and call."""

    __slots__ = ("__weakref__", "calls")

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, Any] = {}

    def clear(self) -> None:
        """Drops all."""
        super().clear()
        self.calls.clear()


class HoldsTraces:
    """A function object to which jaxprs refer, as the parameter of an equation.

    It holds its traces itself: others are held by a table, with a weak reference to the function,
    which would never end if they referred to it.
    """

    _traces: Traces | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes of a copy, which is another function."""
        return {name: value for name, value in vars(self).items() if name != "_traces"}


# Those that function objects hold, by identity.
_held: weakref.WeakValueDictionary[int, Traces] = weakref.WeakValueDictionary()
_by_identity: collections.OrderedDict[int, tuple[weakref.ref[Any], Traces]] = (
    collections.OrderedDict()
)
_lock = threading.RLock()


def traces_of(function: Any) -> Traces:
    """The traces of a function object, empty for a new one. For an object without weak references
    the record is not kept."""
    number = id(function)
    with _lock:
        if isinstance(function, HoldsTraces):
            if function._traces is None:
                function._traces = Traces()
                _held[id(function._traces)] = function._traces
            return function._traces
        known = _by_identity.get(number)
        if known is not None and known[0]() is function:
            _by_identity.move_to_end(number)
            return known[1]
        traces = Traces()
        try:
            _by_identity[number] = (weakref.ref(function, lambda _: _drop(number)), traces)
        except TypeError:
            return traces
        if len(_by_identity) > _FUNCTIONS:
            _by_identity.popitem(last=False)
        return traces


def forget_traces(function: Any) -> None:
    """Drops the traces of a changed function object, such as one with a new custom derivative."""
    traces_of(function).clear()


def _drop(number: int) -> None:
    with _lock:
        known = _by_identity.get(number)
        # Another object may have the identity by now.
        if known is not None and known[0]() is None:
            del _by_identity[number]


@on_clear
def _clear() -> None:
    with _lock:
        dropped = [*_held.values(), *(traces for _, traces in _by_identity.values())]
        _by_identity.clear()
    for traces in dropped:
        traces.clear()
