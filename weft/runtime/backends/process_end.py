"""Stops the use of executables when the process ends, and in a forked copy, which lacks the threads
that XLA computes with.

Both close a gate before compiling and running. It costs nothing while it is open: compiled calls
compare a pointer, and calls in Python look up an attribute that is replaced when the gate closes.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft.errors import Fix, WeftError
from weft.native.optional import calls
from weft.runtime.backends.host_callbacks import inside_callback
from weft.runtime.jaxlib.own_thread import on_own_thread

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_WAIT = 5.0
"""How many seconds the end of the process waits for what XLA still does."""
# For threads that have just been let go by XLA to reach the gate.
_REACH_GATE = 0.05
# Python 3.12 starts no thread once a process ends, not even in functions that are called at exit.
# There the thread that waits is started beforehand.
_STARTS_EARLY = sys.version_info[:2] == (3, 12)

_gate: Callable[[], None] | None = None
_forks_registered = False
gated: list[tuple[type, str]] = []
"""Classes, and the name of the slot of each that leads to XLA: reading it passes the gate."""


def pass_gate() -> None:
    """Calls the closed gate, which raises or waits; does nothing while the gate is open."""
    if _gate is not None:
        _gate()


def on_compile_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, which compiles or loads an executable; see `on_own_thread`."""
    pass_gate()
    return on_own_thread(function, *args, **kwargs)


def _close(gate: Callable[[], None]) -> None:
    global _gate
    if _gate is None:
        for cls, name in gated:
            slot = getattr(cls, name)
            # A thread that is past the gate goes on making what it began to make.
            setattr(cls, name, property(_gated_getter(slot), slot.__set__))
    _gate = gate
    if calls is not None:
        calls.use_gate(gate)


def _gated_getter(slot: Any) -> Callable[[Any], Any]:
    def read(instance: Any) -> Any:
        pass_gate()
        return slot.__get__(instance)

    return read


# ---- forks ---------------------------------------------------------------------------------------


def register_fork(refuse_to_wait: Callable[[], object]) -> None:
    """Makes processes that are forked from now on refuse to compile and to run executables.
    `refuse_to_wait` is called in each, to make waiting for values pass the gate too."""
    global _forks_registered
    if not _forks_registered and hasattr(os, "register_at_fork"):
        _forks_registered = True

        def refuse() -> None:
            _close(_refuse)
            refuse_to_wait()

        os.register_at_fork(after_in_child=refuse)


def _refuse() -> None:
    message = (
        "this process was forked from one that had computed with weft, and XLA's threads are not "
        "in it: a program would wait for them for ever"
    )
    got = f"process {os.getpid()}, forked from {os.getppid()}"
    text = (
        "start it with multiprocessing.get_context('spawn') or 'forkserver' "
        "(concurrent.futures: ProcessPoolExecutor(mp_context=...)), or fork before anything uses "
        "arrays"
    )
    fix = Fix("spawn", text, {"context": "spawn"})
    raise WeftError(message, operation="fork", got=got, fix=fix)


# ---- the end -------------------------------------------------------------------------------------


def register_end(keep: Any, waits: Sequence[Callable[[], object]]) -> None:
    """Makes the end of this process wait for what XLA does, for `LONGEST_WAIT` at most.

    XLA's threads crash a process when they go on after XLA's own data is gone, and Python ends a
    daemon thread where it returns to the interpreter, which aborts the process if it returns from
    XLA. So daemon threads are stopped at the gate, and `waits` are called. What takes longer, or is
    cut short by another interrupt, goes on until the very end: then the process ends without
    freeing XLA's data, with the same exit status.

    Args:
        keep: An object of XLA's that must not be freed while something goes on.
        waits: Functions that wait for all that was started before, in any thread.
    """
    ends, done = threading.Event(), threading.Event()

    def wait() -> None:
        ends.wait()
        for each in waits:
            each()
        done.set()

    thread = threading.Thread(target=wait, name="weft end", daemon=True)
    if _STARTS_EARLY:
        thread.start()
    atexit.register(_wait_at_exit, keep, thread, ends, done)


def _wait_at_exit(
    keep: Any, thread: threading.Thread, ends: threading.Event, done: threading.Event
) -> None:
    if _gate is _refuse:
        return
    _close(_stop_others)
    try:
        ends.set()
        if not _STARTS_EARLY:
            thread.start()
        if done.wait(LONGEST_WAIT):
            thread.join()
            if threading.active_count() > 1:
                time.sleep(_REACH_GATE)
            return
    except KeyboardInterrupt:  # Whoever interrupts again does not want to wait.
        pass
    _leave_as_it_is(keep)


def _stop_others() -> None:
    """Blocks a daemon thread while the process ends, but not for ever: a function that is called at
    exit may wait for it."""
    if threading.get_ident() != threading.main_thread().ident and not inside_callback():
        threading.Event().wait(LONGEST_WAIT)


def _leave_as_it_is(keep: Any) -> None:
    """Ends the process, with its exit status, while XLA still works in other threads. Python ends
    such a thread when it returns to the interpreter, which is an error in C++: its handler lets the
    thread sleep. Functions that free C++'s data at exit are left out."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(keep))
    with contextlib.suppress(OSError, AttributeError):  # other systems than Linux with glibc
        libc, libstdcxx = ctypes.CDLL(None), ctypes.CDLL("libstdc++.so.6")
        libstdcxx._ZSt13set_terminatePFvvE(libc.pause)  # std::set_terminate
        libc.fflush(None)
        libc.on_exit(libc._exit, None)
