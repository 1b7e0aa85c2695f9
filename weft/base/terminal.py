"""Where messages to a user who waits are written: a terminal, a notebook, or a file."""

from __future__ import annotations

import sys

from weft.base.notebooks import shell


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    stream = sys.stderr
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def overwrites_lines() -> bool:
    """Whether a carriage return begins the line again: on a terminal, in a notebook."""
    return is_terminal() or getattr(shell(), "kernel", None) is not None


def write(text: str) -> None:
    """Writes to standard error at once; a closed stream is not the program's mistake."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except (OSError, ValueError):
        pass
