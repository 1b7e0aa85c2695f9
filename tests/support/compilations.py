"""Counting the programs that are compiled, and collecting what is said of those made again."""

from __future__ import annotations

import contextlib
import warnings

from weft.errors import RetracingWarning
from weft.runtime import client
from weft.tracing import explain_misses


class Warned:
    """The warnings of lost time; `messages` has their texts."""

    def __init__(self):
        self.found = []

    @property
    def messages(self):
        return [str(one.message) for one in self.found]


@contextlib.contextmanager
def retracing_warnings(monkeypatch, seconds=0.0):
    """Collects the warnings of lost time, given after `seconds`, as if no line had lost any."""
    monkeypatch.setattr(explain_misses, "_SECONDS", seconds)
    explain_misses._lost.clear()
    explain_misses._programs.clear()
    warned = Warned()
    with warnings.catch_warnings(record=True) as warned.found:
        warnings.simplefilter("always", RetracingWarning)
        yield warned


def counted_compilations(monkeypatch):
    """A list that gets one entry for each program that is compiled from now on."""
    found = []
    backend = type(client.backend())
    own = backend.compile

    def counting(self, *args, **options):
        found.append(args)
        return own(self, *args, **options)

    monkeypatch.setattr(backend, "compile", counting)
    return found
