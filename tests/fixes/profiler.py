"""Fixes of profiles and of names in them."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np

import weft
from fixes import Fixed
from weft import profiler
from weft.errors import ProfilerError, WeftTypeError, WeftValueError
from weft.profiler import session

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def named(name, scope=weft.named_scope):
    with scope(name):
        return 2 * THREE


@contextlib.contextmanager
def under_way(name):
    """As while a profile is taken, or a server runs. A real one reaches into the whole process."""
    setattr(session._state, name, object())
    try:
        yield
    finally:
        setattr(session._state, name, None)


def started_twice(name, start, *args):
    with under_way(name):
        start(*args)


def alone(*lines):
    """Runs a program in a process of its own: the profiler does not leave one as it was."""
    head = ["import tempfile", "import weft", "log_dir = tempfile.mkdtemp()"]
    subprocess.run([sys.executable, "-c", "\n".join([*head, *lines])], check=True)
    return True


def succeeded(done):
    return done is True


FIXES = [
    Fixed(
        "pass a string, such as named_scope('attention')",
        wrong=lambda: named(3),
        fixed=lambda fix: named("attention"),
        value=2 * THREE,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a string, such as TraceAnnotation('attention')",
        wrong=lambda: named("", profiler.TraceAnnotation),
        fixed=lambda fix: named("attention", profiler.TraceAnnotation),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.profiler.stop_trace() first",
        wrong=lambda: started_twice("session", profiler.start_trace, "profiles"),
        fixed=lambda fix: alone(
            "weft.profiler.start_trace(log_dir)",
            "weft.profiler.stop_trace()",
            "weft.profiler.start_trace(log_dir)",
            "weft.profiler.stop_trace()",
        ),
        value=succeeded,
        error=ProfilerError,
    ),
    Fixed(
        "call weft.profiler.start_trace(log_dir) before it",
        wrong=lambda: profiler.stop_trace(),
        fixed=lambda fix: alone("weft.profiler.start_trace(log_dir)", "weft.profiler.stop_trace()"),
        value=succeeded,
        error=ProfilerError,
    ),
    Fixed(
        "call weft.profiler.stop_server() first",
        wrong=lambda: started_twice("server", profiler.start_server, 0),
        fixed=lambda fix: alone(
            "weft.profiler.start_server(0)",
            "weft.profiler.stop_server()",
            "weft.profiler.start_server(0)",
        ),
        value=succeeded,
        error=ProfilerError,
    ),
    Fixed(
        "call weft.profiler.start_server(port) before it",
        wrong=lambda: profiler.stop_server(),
        fixed=lambda fix: alone("weft.profiler.start_server(0)", "weft.profiler.stop_server()"),
        value=succeeded,
        error=ProfilerError,
    ),
]
