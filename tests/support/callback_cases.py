"""What the tests of callbacks share: a log of calls and an exception."""

from __future__ import annotations

import numpy as np

import weft
from weft import debug

Struct = weft.ShapeDtypeStruct
SCALAR = Struct((), np.float32)


class Boom(Exception):
    """What callbacks raise in these tests."""


class Log:
    """Notes calls with their values."""

    def __init__(self):
        self.seen = []

    def note(self, tag, x, ordered=True):
        """Notes a value when the program comes by."""
        debug.callback(lambda v: self.seen.append((tag, v.tolist())), x, ordered=ordered)

    def take(self):
        """What was noted since the last time."""
        seen, self.seen = self.seen, []
        return seen


def fail(*_):
    """A callback that raises."""
    raise Boom("here")
