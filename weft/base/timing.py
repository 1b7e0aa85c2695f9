"""The time that this thread spends on tracing, lowering, compiling, and loading executables that
were compiled before.

The kinds may be nested, as when an operation is compiled while a function is traced; a moment is
charged to the innermost. The cost of something is the difference of two calls of `time_spent`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from weft import monitoring


class Spent(NamedTuple):
    """Seconds of each kind, and how often each was done."""

    tracing: float = 0.0
    lowering: float = 0.0
    compiling: float = 0.0
    loading: float = 0.0
    traced: int = 0
    lowered: int = 0
    compiled: int = 0
    loaded: int = 0

    def since(self, before: Spent) -> Spent:
        """The difference from an earlier `Spent`."""
        return Spent._make(now - then for now, then in zip(self, before, strict=True))

    @property
    def seconds(self) -> float:
        """The seconds of all kinds together."""
        return self.tracing + self.lowering + self.compiling + self.loading


_KINDS = ("tracing", "lowering", "compiling", "loading")
# What listeners are told of the first kinds, under JAX's names.
_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class _Clock(threading.local):
    def __init__(self) -> None:
        self.seconds = [0.0] * len(_KINDS)
        self.done = [0] * len(_KINDS)
        # The kind that is charged now; `since`: the time at which that began.
        self.kind: int | None = None
        self.since = 0.0

    def switch(self, kind: int | None) -> int | None:
        """Charges another kind from now on; returns the one before."""
        now, before = time.perf_counter(), self.kind
        if before is not None:
            self.seconds[before] += now - self.since
        self.kind, self.since = kind, now
        return before


_clock = _Clock()


P = ParamSpec("P")
R = TypeVar("R")


class charged:
    """`with charged("lowering"):` or `@charged("lowering")` charges the time that a block takes in
    this thread to a kind."""

    __slots__ = ("_before", "_kind", "_start")

    def __init__(self, kind: str) -> None:
        self._kind = _KINDS.index(kind)

    def __enter__(self) -> None:
        self._before = _clock.switch(self._kind)
        self._start = _clock.since

    def __exit__(self, failed: object, *_: object) -> None:
        # A block that failed does not count as done.
        _clock.done[self._kind] += failed is None
        _clock.switch(self._before)
        if self._kind < len(_EVENTS) and failed is None:
            seconds = time.perf_counter() - self._start
            monitoring.record_event_duration_secs(_EVENTS[self._kind], seconds)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        kind = _KINDS[self._kind]

        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            with charged(kind):
                return function(*args, **kwargs)

        return timed


def time_spent() -> Spent:
    """The time that this thread has spent so far."""
    _clock.switch(_clock.kind)
    return Spent._make([*_clock.seconds, *_clock.done])
