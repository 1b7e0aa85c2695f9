"""Fixes of printing, breakpoints and pictures."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from fixes.callbacks import succeeded
from weft import debug
from weft.errors import ConcretizationError, WeftError, WeftTypeError, WeftValueError

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def printed(*args, **kwargs):
    """What `debug.print` shows."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        debug.print(*args, **kwargs)
        weft.effects_barrier()
    return shown.getvalue()


def says(text):
    return lambda shown: shown == text


def paused(**environment):
    """Reaches a breakpoint where there is no input; 7 where the program goes on."""
    old = os.environ | {}
    os.environ.update(environment)
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, sys, "stdin", sys.stdin)
            sys.stdin = None
            debug.breakpoint()
    finally:
        os.environ.clear()
        os.environ.update(old)
    return 7.0


def pictured(show, x):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        show(x)
    return "CPU 0" in shown.getvalue()


FIXES = [
    Fixed(
        "weft.debug.print('{}', x)",
        wrong=lambda: printed(7.0),
        fixed=lambda fix: printed(fix.data["fmt"], 7.0),
        value=says("7.0\n"),
        error=WeftTypeError,
    ),
    Fixed(
        "show each argument in a field",
        wrong=lambda: printed("x", 7.0, y=2),
        fixed=lambda fix: printed(fix.data["fmt"], 7.0, y=2),
        value=says("7.0 y=2\n"),
        error=WeftValueError,
    ),
    Fixed(
        "write {{ and }} for braces",
        wrong=lambda: printed("{x} is {}", 7.0),
        fixed=lambda fix: printed("{{x}} is {}", 7.0),
        value=says("{x} is 7.0\n"),
        error=WeftValueError,
    ),
    Fixed(
        "give a string that is no f-string",
        wrong=lambda: printed(f"is {7.0}", 7.0),
        fixed=lambda fix: printed("is {}", 7.0),
        value=says("is 7.0\n"),
        error=WeftValueError,
    ),
    Fixed(
        "set PYTHONBREAKPOINT=0 to pass over breakpoints",
        wrong=lambda: paused(),
        fixed=lambda fix: paused(PYTHONBREAKPOINT="0"),
        value=7.0,
        error=WeftError,
    ),
    Fixed(
        "call it on the result of the function",
        wrong=lambda: weft.jit(lambda x: debug.visualize_array_sharding(x + 1))(THREE),
        fixed=lambda fix: pictured(
            debug.visualize_array_sharding, weft.jit(lambda x: x + 1)(THREE)
        ),
        value=succeeded,
        error=ConcretizationError,
    ),
    Fixed(
        "put it on a device with weft.device_put(x, sharding)",
        wrong=lambda: debug.visualize_array_sharding(THREE),
        fixed=lambda fix: pictured(
            debug.visualize_array_sharding, weft.device_put(THREE, weft.devices()[0])
        ),
        value=succeeded,
        error=WeftTypeError,
    ),
    Fixed(
        "pass x.sharding",
        wrong=lambda: debug.visualize_sharding((3,), jnp.ones(3)),
        fixed=lambda fix: pictured(
            lambda x: debug.visualize_sharding((3,), x.sharding), jnp.ones(3)
        ),
        value=succeeded,
        error=WeftTypeError,
    ),
]
