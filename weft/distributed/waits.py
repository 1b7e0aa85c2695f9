"""Records what the threads of this process wait for, and where, for reports of stuck groups."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from weft.base import source
from weft.base.notebooks import line_text
from weft.runtime.hlo_text import parse

# Where the standard library is: `threading` stands above the user's line in many stacks.
_STANDARD = os.path.dirname(threading.__file__) + os.sep
_PACKAGES = ("site-packages", "dist-packages")

_KINDS = frozenset(
    {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}
)


class Waits:
    """The waits of this process for others, by thread."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, str, bool]] = {}

    @contextlib.contextmanager
    def noting(self, what: str, of_program: bool = False) -> Iterator[None]:
        """Records, for a block, that this thread waits; `of_program`: for a program to run."""
        thread = threading.get_ident()
        outer = self._since.get(thread)
        if outer is None:
            self._since[thread] = (time.monotonic(), what, of_program)
        try:
            yield
        finally:
            if outer is None:
                del self._since[thread]

    def longest(self) -> float:
        """The seconds of the longest wait of a thread."""
        now = time.monotonic()
        return max((now - since for since, _, _ in list(self._since.values())), default=0.0)

    def status(self) -> dict[str, Any]:
        """Describes what each thread waits for; for the main thread also its line."""
        frames, now = sys._current_frames(), time.monotonic()
        main = threading.main_thread().ident
        return {
            "main": place_of(frames.get(main or 0)),
            "waits": [
                {
                    "what": what, "seconds": now - since, "of_program": of_program,
                    "where": place_of(frames.get(thread)),
                }
                for thread, (since, what, of_program) in list(self._since.items())
            ],
        }  # fmt: skip


def collectives(text: str) -> list[str]:
    """The collectives in the text of a compiled program, each with the user's line."""
    module = parse(text)
    out = []
    for computation in module.computations.values():
        for one in computation.instructions:
            kind = one.opcode.removesuffix("-start")
            if kind in _KINDS:
                out.append(f"{kind} at {module.line(one)}")
    return out


def place_of(frame: Any) -> str:
    """The user's line in a stack, such as `train.py:12 in step`."""
    while frame is not None:
        name = frame.f_code.co_filename
        standard = name.startswith(_STANDARD) and not name[len(_STANDARD) :].startswith(_PACKAGES)
        if not (source.is_internal(name) or standard or name.startswith("<frozen")):
            return line_text(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return "weft"
