"""Which line of the user's program is running: captured cheaply, described lazily.

A capture is a pair (code object, instruction offset), a few hundred nanoseconds to take; file, line
and function are worked out from it only when somebody asks. While an interpreter re-runs a recorded
program, `override` makes the recorded line stand for the current one.
"""

from __future__ import annotations

import contextvars
import os
import sys
from types import CodeType
from typing import NamedTuple

__all__ = ["Location", "Source", "current", "describe", "locate", "override", "register_internal"]

Source = tuple[CodeType, int]

_override: contextvars.ContextVar[Source | None] = contextvars.ContextVar(
    "weft_source", default=None
)
_internal_prefixes: list[str] = [os.path.dirname(os.path.abspath(__file__)) + os.sep]
# File name -> whether its frames are ours. Looking a string up costs less than comparing prefixes.
_internal: dict[str, bool] = {}


class Location(NamedTuple):
    """A place in a source file."""

    file: str
    line: int
    function: str


def register_internal(directory: str) -> None:
    """Makes the frames of files below `directory` count as a library's, not as the user's."""
    _internal_prefixes.append(os.path.join(os.path.abspath(directory), ""))
    _internal.clear()


def is_internal(filename: str) -> bool:
    """Whether frames of this file belong to weft (or to a registered library)."""
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = filename.startswith(tuple(_internal_prefixes))
    return known


def current() -> Source | None:
    """The innermost frame that is not ours, or the line that is being re-run."""
    source = _override.get()
    if source is not None:
        return source
    frame = sys._getframe(1)
    internal = _internal
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        known = internal.get(name)
        if known is None:
            known = is_internal(name)
        if not known:
            return code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]
    return None


class override:
    """`with override(source):` every `current()` inside answers with `source` (None: no change)."""

    __slots__ = ("_source", "_token")

    def __init__(self, source: Source | None) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._token = _override.set(self._source) if self._source is not None else None

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _override.reset(self._token)


def locate(source: Source | None) -> Location | None:
    """File, line and function of a capture."""
    if source is None:
        return None
    code, offset = source
    line = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= offset < end and found is not None:
            line = found
            break
    return Location(code.co_filename, line, code.co_qualname)


def describe(source: Source | None) -> str:
    """`file.py:12 in function`, or a phrase saying that the line is not known."""
    place = locate(source)
    if place is None:
        return "an unknown line"
    return f"{place.file}:{place.line} in {place.function}"
