"""Counting the programs that are compiled."""

from __future__ import annotations

from weft.runtime import client


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
