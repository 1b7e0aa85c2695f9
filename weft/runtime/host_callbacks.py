"""Python functions that compiled programs call, and the exceptions these raise.

XLA makes text of an exception that leaves such a function. So the exception is kept here under a
number, which the text carries through the runtime, and what ran the program raises the exception
itself.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["callable_from_xla", "callback_exception", "running", "wait_for_others"]

_LIMIT = 256
_numbers = itertools.count(1)
_raised: dict[int, BaseException] = {}
_MARK = re.compile(r"callback exception number (\d+)")


class CallbackFault(Exception):
    """Stands, in XLA's text, for an exception that a callback raised."""


def callable_from_xla(function: Callable[..., Any]) -> Callable[..., Any]:
    """What XLA is given in place of a Python function.

    It holds the function weakly: XLA's references cannot be seen by Python's garbage collector, and
    a callback often refers, by way of its object, to the compiled program that calls it.
    """
    reference = weakref.ref(function)

    def call(*arrays: Any) -> Any:
        target = reference()
        depth = getattr(_inside, "depth", 0)
        _inside.depth = depth + 1
        try:
            if target is None:
                raise RuntimeError("the program of this callback is gone")
            return target(*arrays)
        except BaseException as error:  # noqa: BLE001 (none of them may get lost)
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
    """The exception of a callback because of which a program failed, if it was one."""
    found = _MARK.search(str(fault))
    return _raised.pop(int(found[1]), None) if found else None


# ---- programs that are running -------------------------------------------------------------------

# Per thread: how many callbacks it is inside of.
_inside = threading.local()
_running: dict[int, tuple[int, threading.Event]] = {}


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Around the run of a program that calls Python functions."""
    number, done = next(_numbers), threading.Event()
    _running[number] = (threading.get_ident(), done)
    try:
        yield
    finally:
        del _running[number]
        done.set()


def wait_for_others() -> None:
    """Waits for the programs with callbacks that other threads have started before.

    Inside a callback there is nothing that could be waited for: its own program is one of them.
    """
    if getattr(_inside, "depth", 0):
        return
    own = threading.get_ident()
    for thread, done in list(_running.values()):
        if thread != own:
            done.wait()
