"""Python functions that executables call, and the exceptions that they raise.

XLA makes text of an exception that leaves such a function. So the exception is kept here under a
number, which the text carries through the runtime, and the code that ran the executable raises the
exception itself.

An executable on several devices must not stop on one of them: the others would wait for it in a
collective, and XLA ends the process. There it goes on with zeros to its end.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from weft.errors import Fix, WeftError

_LIMIT = 256
_numbers = itertools.count(1)
_raised: dict[int, BaseException] = {}
_MARK = re.compile(r"callback exception number (\d+)")


class CallbackFault(Exception):
    """Represents a callback's exception in XLA's text."""


class Failures:
    """The exceptions of callbacks in the runs of one executable that are under way. Which run a
    callback belongs to is not known: where several are under way, each of them fails."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[int, list[BaseException]] = {}

    @contextlib.contextmanager
    def during_run(self) -> Iterator[list[BaseException]]:
        """A context for a run; at its end the list holds the callbacks' exceptions."""
        number = next(_numbers)
        found = self._runs[number] = []
        try:
            yield found
        finally:
            del self._runs[number]

    def add(self, error: BaseException) -> bool:
        """Adds an exception to the runs that are under way; False if there are none."""
        runs = list(self._runs.values())
        for run in runs:
            run.append(error)
        return bool(runs)

    def __bool__(self) -> bool:
        return any(self._runs.values())


def callable_from_xla(function: Any, failures: Failures | None = None) -> Callable[..., Any]:
    """The callable that XLA gets in place of a Python function.

    With `failures` exceptions are kept there, and `function.zeros()` is the result instead; nothing
    is called any more in a run that has failed.

    The function is held weakly: XLA's references cannot be seen by Python's garbage collector, and
    a callback often refers, by way of its object, to the executable that calls it.
    """
    reference = weakref.ref(function)

    def call(*arrays: Any) -> Any:
        target = reference()
        depth = getattr(_inside, "depth", 0)
        _inside.depth = depth + 1
        try:
            if target is None:
                raise RuntimeError("the program of this callback is gone")
            return target.zeros() if failures else target(*arrays)
        except BaseException as error:  # noqa: BLE001 (none of them may get lost)
            if failures is not None and target is not None and failures.add(error):
                return target.zeros()
            number = next(_numbers)
            _raised[number] = error
            if len(_raised) > _LIMIT:  # Of several at a time only one can be told.
                _raised.pop(next(iter(_raised)), None)
            text = f"{type(error).__name__}: {_text(error)}"
            raise CallbackFault(f"callback exception number {number}, {text}") from None
        finally:
            _inside.depth = depth

    return call


def _text(error: BaseException) -> str:
    try:
        return str(error)[:1000]
    except Exception:  # noqa: BLE001 (the class is the user's)
        return "(no text)"


def callback_exception(fault: Exception) -> BaseException | None:
    """The callback's exception that made an executable fail; None for another failure."""
    found = _MARK.search(str(fault))
    return _raised.pop(int(found[1]), None) if found else None


# ---- executables that are running ----------------------------------------------------------------
#
# An executable may go on in one of the threads that XLA computes with, and a callback holds on to
# the thread that it runs in. A callback that runs an executable with callbacks waits for one that
# may need another such thread. Where all threads are held by callbacks that wait, the process
# hangs. So only half as many executables as there are threads start outside of callbacks; the other
# half is for one level inside of them, and a level below where none may be left is an error.

_MOST = 8  # XLA queues 32 executions on a device, including those that wait.
_running: dict[int, tuple[int, threading.Lock]] = {}
_turns: dict[int, threading.BoundedSemaphore] = {}
# Per thread: how many callbacks it is inside of.
_inside = threading.local()


def inside_callback() -> bool:
    """Whether this thread runs a callback."""
    return bool(getattr(_inside, "depth", 0))


@contextlib.contextmanager
def running(threads: int) -> Iterator[None]:
    """A context for the run of an executable with callbacks; XLA computes with `threads`. Waits
    while too many run in other threads. Raises WeftError if callbacks nest so deep that no thread
    may be left."""
    if not inside_callback():
        turn: Any = _turns.get(threads)
        if turn is None:
            count = _MOST if threads == 1 else max(1, min(_MOST, threads // 2))
            turn = _turns.setdefault(threads, threading.BoundedSemaphore(count))
    elif threads == 1 or len(_running) < threads:  # One thread alone is never gone on in.
        turn = contextlib.nullcontext()
    else:
        message = (
            "a callback runs a program whose callback runs a program with a callback, deeper than "
            "there are threads to compute with"
        )
        got = f"{len(_running)} programs that wait for callbacks, and {threads} threads"
        wanted = "fewer of them at a time"
        text = f"call the inner function outside of jit, or start with NPROC={2 * threads} threads"
        fix = Fix("nesting", text, {"threads": threads})
        raise WeftError(message, operation="callback", got=got, wanted=wanted, fix=fix)
    with turn:
        # Held while the executable runs; an Event would cost as much as the rest of this.
        number, done = next(_numbers), threading.Lock()
        done.acquire()
        _running[number] = (threading.get_ident(), done)
        try:
            yield
        finally:
            del _running[number]
            done.release()


def wait_for_others() -> None:
    """Waits for the executables with callbacks that other threads have started before. Inside a
    callback it returns at once: the callback's own executable may be one of them."""
    if inside_callback():
        return
    own = threading.get_ident()
    for thread, done in list(_running.values()):
        if thread != own:
            with done:
                pass
