"""Says on a terminal that something is being compiled, where that takes longer than a moment.

One thread watches all compiling of the process. It sleeps until the oldest that is running has
lasted as long as the setting `compile_notice_seconds` says, and ends when none is left. So it is
started once for many short ones, and costs them next to nothing.
"""

from __future__ import annotations

import threading
import time

from weft import config
from weft.base.terminal import is_terminal, write


class _Running:
    """A compilation in progress."""

    __slots__ = ("due", "name", "said", "started")

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.started = time.monotonic()
        self.due = self.started + seconds
        self.said = False


# The setting may be changed to a shorter time while the thread sleeps.
_LONGEST_SLEEP = 1.0

_lock = threading.Lock()
# By thread: what is compiled while that thread compiles is a part of it.
_running: dict[int, _Running] = {}
_watcher: threading.Thread | None = None


class noticed:
    """`with noticed(name):` prints on a terminal once compiling takes long, and how long it
    took."""

    __slots__ = ("_mine", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._mine: _Running | None = None
        seconds = config.host_settings().compile_notice_seconds
        if seconds and is_terminal():
            self._mine = _begin(self._name, seconds)

    def __exit__(self, *_: object) -> None:
        mine = self._mine
        if mine is None:
            return
        with _lock:
            del _running[threading.get_ident()]
            said = mine.said
        if said:
            seconds = time.monotonic() - mine.started
            write(f"weft: compiling {mine.name} took {seconds:.1f} s\n")


def _begin(name: str, seconds: float) -> _Running | None:
    global _watcher
    thread = threading.get_ident()
    with _lock:
        if thread in _running:
            return None
        out = _running[thread] = _Running(name, seconds)
        # After a fork the thread is not alive in the child.
        if _watcher is None or not _watcher.is_alive():
            _watcher = threading.Thread(
                target=_watch, args=(seconds,), name="weft compiling", daemon=True
            )
            _watcher.start()
    return out


def _watch(seconds: float) -> None:
    """Waits for the next notice that is due, until none is left."""
    global _watcher
    # Not even the first is due before; where it is done by then, others may be running.
    time.sleep(min(seconds, _LONGEST_SLEEP))
    while True:
        with _lock:
            now = time.monotonic()
            waiting = [one for one in _running.values() if not one.said]
            late = [one for one in waiting if one.due <= now]
            for one in late:
                one.said = True
            if not waiting:
                _watcher = None
                return
            pause = min((one.due for one in waiting if not one.said), default=now) - now
        for one in late:
            write(
                f"weft: compiling {one.name} takes longer than {one.due - one.started:.0f} s "
                "(the setting compile_notice_seconds, 0 for silence)\n"
            )
        time.sleep(min(max(pause, 0.0), _LONGEST_SLEEP))
