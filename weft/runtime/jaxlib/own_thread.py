"""Runs a function on a thread of its own, while the caller waits and signals reach the caller.

Two things that jaxlib does end the interpreter if a signal's handler raises meanwhile. It looks for
signals while it waits for XLA's compiler, and does not expect the exception that it then finds. And
its compiled modules cannot be imported again after an import that was cut short. Python runs
handlers in the main thread only, so that thread waits for a lock instead, which is made for this.
"""

from __future__ import annotations

import _thread
import contextvars
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Seconds. A signal that comes just before the wait for a lock does not end it.
_LOOK_EVERY = 0.2
# Locks that are held, each as long as such a thread runs.
_running: set[_thread.LockType] = set()


def on_own_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, run on a new thread in a copy of the caller's context
    (`contextvars`). Raises what the function raises.

    If a signal's handler raises meanwhile, the caller gets that exception at once. The function
    then runs to its end alone, and its result or its exception is dropped. The thread takes 40
    microseconds. It is not kept: any number of callers have one at a time, and none has to be
    looked after in a forked process. If the system grants no thread, the function runs in the
    caller's.
    """
    outcome: list[tuple[R | None, BaseException | None]] = []
    context = contextvars.copy_context()
    running = _thread.allocate_lock()
    running.acquire()

    def run() -> None:
        try:
            outcome.append((context.run(function, *args, **kwargs), None))
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            outcome.append((None, error))
        finally:
            _running.discard(running)
            running.release()

    _running.add(running)
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        _running.discard(running)
        return function(*args, **kwargs)
    while not running.acquire(timeout=_LOOK_EVERY):
        pass
    result, error = outcome.pop()
    if error is not None:
        try:
            raise error
        finally:
            del error  # Its traceback refers to this frame.
    return result  # type: ignore[return-value]  # None only where the function returned it


def wait_for_threads() -> None:
    """Waits for the threads that run now."""
    for running in tuple(_running):
        with running:
            pass
