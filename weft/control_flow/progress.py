"""The `progress=` of loops: how far a loop is, told from inside the compiled program.

The body of the loop gets a debug callback behind a condition on the number of the step, so that
about a hundred steps call it, however many there are. What the loop computes does not depend on it.
Derivatives, `vmap` and `shard_map` treat it like every callback for debugging: it runs in the
forward pass, and in a `shard_map` on the first device alone. Along axes of the mesh that are left
to the compiler all devices run it: a program cannot ask which of them it is on.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base.terminal import overwrites_lines, write
from weft.callbacks.primitives import debug_callback
from weft.control_flow.cond import cond
from weft.core.axes import mesh_axes
from weft.core.shared_jaxprs import register_content
from weft.core.types import type_of
from weft.errors.argument_errors import invalid_type
from weft.interpreters.staging import function_name
from weft.ops.collectives.all_reduce import axis_index, pbroadcast
from weft.ops.elementwise.arithmetic import add, div, eq, max, rem, sub
from weft.ops.elementwise.bits import bitwise_and, bitwise_or, clz, shift_left

ProgressArgument = bool | str | Callable[[int, int | None], Any] | None

_UPDATES = 100
# Of a loop whose length is not known: how often each time that the number of steps doubles.
_PER_DOUBLING = 8
# A line is not overwritten more often than this, in seconds: nobody reads faster.
_BLINK = 0.1
# Without a terminal each update is a line of its own: one for each tenth, or after so many seconds.
_TENTHS = 10
_SECONDS = 10.0


def teller_of(what: str, body: Callable[..., Any], progress: Any) -> Teller | None:
    """The `Teller` for an argument `progress`, or None. Raises WeftTypeError for another value."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return _teller(f"{what} of {function_name(body)}", None)
    if isinstance(progress, str):
        return _teller(progress, None)
    if callable(progress):
        try:
            return _teller(what, progress)
        except TypeError:  # the function cannot be hashed
            return Teller(what, progress)
    wanted = "True, a text, or a function of the number of steps that are done, and of all"
    raise invalid_type(
        f"{what}: progress does not take this value", what, "progress", progress, wanted, True
    )


class Teller:
    """Reports the progress of one loop: writes lines, or calls the user's function."""

    def __init__(self, label: str, function: Callable[[int, int | None], Any] | None) -> None:
        self.label = label
        self.function = function
        self._lock = threading.Lock()
        self._done = 0
        self._started = self._written = 0.0
        self._tenth = 0

    # ---- inside the program --------------------------------------------------------------------

    def step(self, done: Any, total: Any) -> None:
        """Reports a finished step, if it is due. `total` is None for an unknown length."""
        cond(_is_reported(done, total), self._on_one_device, _nothing, done, total)

    def end(self, done: Any) -> None:
        """Reports the end of a loop of unknown length."""
        self._on_one_device(done, done)

    def _on_one_device(self, done: Any, total: Any) -> None:
        names = tuple(axis.name for axis in mesh_axes())
        if not names:
            self._call(done, total)
            return
        # All of them vary along the same axes, as a program with explicit casts has to have it.
        done, total = (None if x is None else _varying(x, names) for x in (done, total))
        cond(eq(axis_index(names), np.int32(0)), self._call, _nothing, done, total)

    def _call(self, done: Any, total: Any) -> None:
        debug_callback(f"progress of {self.label}", self, (done, total), {}, False)

    # ---- on the host ---------------------------------------------------------------------------

    def __call__(self, done: Any, total: Any) -> None:
        """Shows the number of finished steps, of `total`."""
        done, total = int(done), None if total is None else int(total)
        if self.function is not None:
            self.function(done, total)
            return
        with self._lock:
            now = time.monotonic()
            # The first of a loop, or of one that has begun anew.
            first = done == 1 or done < self._done or not self._started
            if first:
                self._started, self._tenth = now, 0
            self._done = done
            if first or done == total or self._is_due(done, total, now):
                self._written = now
                text = f"{self.label}: {_describe(done, total, now - self._started)}"
                write(_line(text, ended=done == total))

    def _is_due(self, done: int, total: int | None, now: float) -> bool:
        """Whether to write another line, or overwrite the last one."""
        if overwrites_lines():
            return now - self._written >= _BLINK
        if total is not None:
            tenth, self._tenth = self._tenth, _TENTHS * done // total
            if self._tenth > tenth:
                return True
        return now - self._written > _SECONDS


def _line(text: str, ended: bool) -> str:
    if not overwrites_lines():
        return f"{text}\n"
    return f"\r{text:<79}" + ("\n" if ended else "")


@functools.lru_cache(maxsize=1024)
def _teller(label: str, function: Callable[[int, int | None], Any] | None) -> Teller:
    """A `Teller`; equal ones are one object, so that a loop is not compiled again."""
    return Teller(label, function)


# By identity, and not as what closes over values of a call: `_teller` holds it in any case, so the
# program of its loop may be held too.
register_content(Teller, lambda teller: (id(teller),))


def _nothing(*_: Any) -> None:
    pass


def _varying(x: Any, names: tuple[Any, ...]) -> Any:
    return pbroadcast(x, tuple(name for name in names if name not in type_of(x).varying))


def _is_reported(done: Any, total: Any) -> Any:
    """Whether a step is reported: the first, the last, and about a hundred between, or for an
    unknown length as many per doubling."""
    first = eq(done, np.int32(1))
    if total is None:
        top = sub(np.int32(31), clz(done))
        shift = max(sub(top, np.int32(_PER_DOUBLING.bit_length() - 1)), np.int32(0))
        below = sub(shift_left(np.int32(1), shift), np.int32(1))
        return bitwise_or(first, eq(bitwise_and(done, below), np.int32(0)))
    every = max(div(add(total, np.int32(_UPDATES - 1)), np.int32(_UPDATES)), np.int32(1))
    told = bitwise_or(first, eq(rem(done, every), np.int32(0)))
    return bitwise_or(told, eq(done, total))


def count_steps(
    teller: Teller,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    total: Any = None,
) -> tuple[Callable[[Any], Any], Callable[[Any], Any], Any]:
    """A condition, a body and a carry that also count steps, and report them."""

    def test(carry: Any) -> Any:
        return cond_fun(carry[1])

    def body(carry: Any) -> Any:
        done = add(carry[0], np.int32(1))
        value = body_fun(carry[1])
        teller.step(done, total)
        return done, value

    test.__name__, body.__name__ = function_name(cond_fun), function_name(body_fun)
    return test, body, (np.int32(0), init_val)


def _describe(done: int, total: int | None, seconds: float) -> str:
    """The finished steps, the time that they took, and the expected rest."""
    if total is None:
        return f"{done:,} step{'s' * (done > 1)}, {_time(seconds)}"
    text = f"{done:,} of {total:,} ({100 * done // total}%), {_time(seconds)}"
    # The clock starts when the first step is told of.
    left = seconds / (done - 1) * (total - done) if done > 1 else 0.0
    return f"{text}, about {_time(left)} left" if left > 0 else text


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
