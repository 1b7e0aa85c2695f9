"""Watches a function from inside: prints values, calls a function with them, opens the debugger.

Primal values are watched, once in the forward pass, and every element under `vmap`, one after the
other. Outside of transformations all of it happens at once.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pdb
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from weft import tree
from weft.base import source as sources
from weft.callbacks.primitives import debug_callback as bind_debug_callback
from weft.core.trace import Tracer, bottom_trace, current_trace
from weft.core.types import type_of
from weft.errors import Fix, WeftError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import unsupported_argument
from weft.ops.structural.extended_dtypes import KeyDType

_logger = logging.getLogger("weft.debug")


@api_boundary("debug.callback")
def debug_callback(
    callback: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Calls a Python function with the values of arrays, to watch a program; it changes nothing.

    The arguments are any trees; `callback` gets NumPy arrays in place of their arrays and numbers,
    and everything else as it is. Its result is ignored, its errors leave the call. It is called
    even if no result of the program depends on it. Ordered calls keep the order of the program
    among all ordered effects.

    Args:
        callback: The function that is called; it gets NumPy arrays in place of arrays.
        args, kwargs: The arguments of `callback`, any trees.
        ordered: Whether the call keeps its place among all ordered effects of the program.
        partitioned: Must be False: calls on the parts of an array are not there.

    >>> import weft
    >>> seen = []
    >>> weft.grad(lambda x: (weft.debug.callback(lambda v: seen.append(float(v)), x), x * x)[1])(
    ...     3.0
    ... )
    Array(6., dtype=float32, weak_type=True)
    >>> seen
    [3.0]
    """
    _refuse_parts("debug.callback", partitioned)
    bind_debug_callback("debug.callback", callback, args, kwargs, ordered)


@api_boundary("debug.print")
def debug_print(
    fmt: str,
    /,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Prints values when the program runs: `print(fmt.format(*args, **kwargs))`.

    Arguments may be arrays of any shape, and any other printable objects. Scalars take format
    specifications (`{x:.3f}`); fields may index arrays (`{x[0]}`). The format is checked when the
    function is traced: a field without an argument, an argument without a field (as from an
    f-string), or a specification that does not fit raises WeftValueError at once, unless
    `skip_format_check`.

    Args:
        fmt: The format, a string for `str.format`.
        args, kwargs: The values that the fields of the format name, by position and by keyword.
        ordered: Whether the line keeps its place among all ordered effects of the program.
        partitioned: Must be False: calls on the parts of an array are not there.
        skip_format_check: Whether the format is not checked when the function is traced.

    >>> import weft
    >>> @weft.jit
    ... def f(x):
    ...     weft.debug.print("x = {x:.1f}, {}", x > 0, x=x)
    ...     return 2 * x
    >>> y = f(1.5)
    x = 1.5, True
    """
    if not isinstance(fmt, str):
        message = "debug.print takes a format first"
        got = f"{fmt!r:.100} of class {type(fmt).__name__}"
        fix = Fix("format", "weft.debug.print('{}', x)", {"fmt": "{}"})
        raise WeftTypeError(message, got=got, wanted="a string such as 'x = {}'", fix=fix)
    _refuse_parts("debug.print", partitioned)
    if not skip_format_check:
        check_format(fmt, args, kwargs)

    bind_debug_callback("debug.print", _Shown(fmt, _print), args, kwargs, ordered)


@api_boundary("debug.print")
def debug_log(
    fmt: str,
    /,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Logs values when the program runs, with the level INFO and the logger "weft.debug".

    Format, arguments and errors are those of `debug.print`.

    Args:
        fmt: The format, a string for `str.format`.
        args, kwargs: The values that the fields of the format name, by position and by keyword.
        ordered: Whether the line keeps its place among all ordered effects of the program.
        partitioned: Must be False: calls on the parts of an array are not there.
        skip_format_check: Whether the format is not checked when the function is traced.

    >>> import logging, weft
    >>> weft.jit(lambda x: weft.debug.log("x = {}", x))(1.5)
    """
    _refuse_parts("debug.log", partitioned)
    if not skip_format_check:
        check_format(fmt, args, kwargs)

    bind_debug_callback("debug.log", _Shown(fmt, _log), args, kwargs, ordered)


def _print(text: str) -> None:
    # In one piece: several devices may print at a time.
    print(text + "\n", end="")


def _log(text: str) -> None:
    _logger.info("%s", text)


@dataclasses.dataclass(frozen=True)
class _Shown:
    """The callback that formats values and hands on the text. Equal ones are the same to `shared`,
    as functions that close over the format would not be."""

    fmt: str
    write: Callable[[str], None]

    @property
    def __name__(self) -> str:
        return f"{self.fmt:.40}"

    def __call__(self, *values: Any, **named: Any) -> None:
        self.write(_Formatter().vformat(self.fmt, values, named))


def _refuse_parts(operation: str, partitioned: bool) -> None:
    if partitioned:
        why = "Python gets whole arrays; inside a shard_map, each device's own block"
        raise unsupported_argument(
            operation, "partitioned", partitioned, why, "leave it out", False
        )


@api_boundary("debug.breakpoint")
def debug_breakpoint(*, ordered: bool = False, **values: Any) -> None:
    """Opens Python's debugger, pdb, at this point of the program.

    Outside of transformations it stops in the calling function. In a traced function it stops when
    the program gets there, and the names that can be inspected are `values`, or without any, the
    local variables of the calling function that hold arrays and numbers. `q` ends the program with
    `bdb.BdbQuit`. As for Python's own `breakpoint`, PYTHONBREAKPOINT=0 turns it off.

    ordered: whether the stop keeps its place among all ordered effects of the program; values: what
    can be looked at where a traced function stops, by name; without any, the local variables of the
    calling function.

    Raises WeftError if there is no standard input to read commands from.
    """
    frame = calling_frame()
    if os.environ.get("PYTHONBREAKPOINT") == "0" or frame is None:
        return
    if current_trace() is bottom_trace() and not values:
        debugger().set_trace(frame)
        return
    if not values:
        values = {name: value for name, value in frame.f_locals.items() if can_be_shown(value)}
    place = sources.describe(sources.current())

    def stop(**shown: Any) -> None:
        print(f"> weft.debug.breakpoint {sources.placed(place)}: {', '.join(shown)}")
        exec(_STOP, {"__name__": "breakpoint", "_debugger": debugger()}, shown)

    bind_debug_callback("debug.breakpoint", stop, (), values, ordered)


class _Formatter(string.Formatter):
    """Formats NumPy's scalars, whatever their class, by the rules of Python's numbers."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]
        try:
            return format(value, format_spec)
        except (TypeError, ValueError):
            if not isinstance(value, np.generic):
                raise
            return format(value.item(), format_spec)


class _Checker(_Formatter):
    """Formats and refuses arguments that no field shows."""

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        names = [name for name in kwargs if name not in used_args]
        if unused or names:
            which = ", ".join([*(f"number {i}" for i in unused), *map(repr, names)])
            raise ValueError(f"no field shows the argument {which}")


def check_format(fmt: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Formats stand-ins of the arguments. Raises WeftValueError if the format does not fit."""
    try:
        _Checker().vformat(
            fmt, [stand_in(x) for x in args], {name: stand_in(x) for name, x in kwargs.items()}
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        shown = [f"{i}: {_describe(x)}" for i, x in enumerate(args)]
        shown += [f"{name}: {_describe(x)}" for name, x in kwargs.items()]
        works = " ".join(["{}"] * len(args) + [f"{name}={{{name}}}" for name in kwargs])
        what = f"no argument for the field {error}" if type(error) is KeyError else str(error)
        raise WeftValueError(
            f"debug.print: the format does not fit the arguments: {what}",
            got=f"{fmt!r} for {', '.join(shown) or 'no arguments'}",
            wanted="one field for each argument; format specifications for scalars only",
            fix=Fix(
                "format",
                "show each argument in a field, write {{ and }} for braces, and give a string that "
                f"is no f-string: weft.debug.print({works!r}, …)",
                {"fmt": works},
            ),
        ) from None


def stand_in(value: Any) -> Any:
    """A value that formats like that of an argument will when the program runs."""
    return tree.map(_leaf_stand_in, value)


def _leaf_stand_in(leaf: Any) -> Any:
    try:
        of = type_of(leaf)
    except (WeftTypeError, OverflowError):
        return leaf
    if isinstance(of.dtype, KeyDType):
        return str(of)
    return np.broadcast_to(np.zeros((), of.dtype), of.shape)


def _describe(value: Any) -> str:
    leaves = tree.leaves(value)
    try:
        return str(type_of(value)) if len(leaves) == 1 and leaves[0] is value else repr(value)[:40]
    except (WeftTypeError, OverflowError):
        return repr(value)[:40]


# ---- stopping ----------------------------------------------------------------------------------

# The debugger stops at the line after the one that starts it.
_STOP = compile("_debugger.set_trace()\npass\n", "<weft.debug.breakpoint>", "exec")


def debugger() -> pdb.Pdb:
    """A debugger that does not step into weft. Raises WeftError without a standard input."""
    if sys.stdin is None or sys.stdin.closed:
        message = "debug.breakpoint: there is no standard input to read commands from"
        got = f"sys.stdin = {sys.stdin!r}"
        wanted = "a terminal, or a pipe with commands of pdb"
        fix = Fix("environment", "set PYTHONBREAKPOINT=0 to pass over breakpoints")
        raise WeftError(message, operation="debug.breakpoint", got=got, wanted=wanted, fix=fix)
    return pdb.Pdb(skip=["weft", "weft.*"])


def calling_frame() -> FrameType | None:
    """The innermost frame that is not weft's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and sources.is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def can_be_shown(value: Any) -> bool:
    """Whether a local variable is a tree of live arrays and numbers."""
    leaves = tree.leaves(value)
    for leaf in leaves:
        try:
            type_of(leaf)
        except (WeftTypeError, OverflowError):
            return False
        if isinstance(leaf, Tracer) and not leaf._trace.alive:
            return False
    return bool(leaves)
