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

    __slots__ = ("calls",)

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, Any] = {}

    def clear(self) -> None:
        """Drops all."""
        super().clear()
        self.calls.clear()


_by_identity: collections.OrderedDict[int, tuple[weakref.ref[Any], Traces]] = (
    collections.OrderedDict()
)
_lock = threading.RLock()


def traces_of(function: Any) -> Traces:
    """The traces of a function object, empty for a new one. For an object without weak references
    the record is not kept."""
    number = id(function)
    with _lock:
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
        dropped = list(_by_identity.values())
        _by_identity.clear()
    for _, traces in dropped:
        traces.clear()
