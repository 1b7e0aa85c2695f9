"""Whether the processes of a group come to the same: the same programs, and the same values.

A program of several processes waits in its collectives for the others to run it too; where one runs
another program, all of them hang. So each says before the first run which program it is about to
run, and waits until those that take part have said the same. Values that all put on their devices
are compared in the same way, each time.

Safety. Nobody waits for what another is not going to say: a process that runs a program once more
says nothing, and one that has compiled an equal program again (its cache was cleared, say) is
answered at once, since all have said it before. A comparison of values takes one announcement of
each process, and leaves nothing behind; two threads that put equal values make two of them.
Processes are told that they differ only where, among the same processes, each waits for what the
other has not said, and has done so for as long as it allowed: briefly where it has one thread,
which waits here and will say nothing else; long where another thread may be about to come. So what
threads say in whatever order, and what overlapping groups of processes say, is no difference.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from weft.distributed.watch import Unmet

Announcement = dict[str, Any]
# A digest, the numbers of the processes that come to what it tells, and whether it is a comparison
# of values: a program and values are never one thing, whatever their digests.
Key = tuple[str, tuple[int, ...], bool]
# The number of a process, and what it is answered.
Answer = tuple[int, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Wait:
    """An announcement of a process that waits for others."""

    number: int
    announcement: Announcement
    since: float

    @property
    def key(self) -> Key:
        about = self.announcement
        return about["digest"], tuple(about["processes"]), about["once"]

    @property
    def name(self) -> str:
        """The name of the announcement in messages."""
        return f"{self.announcement['name']} ({self.announcement['where']})"

    def answer(self, objection: str | None = None) -> Answer:
        return self.number, {"id": self.announcement["id"], "objection": objection}

    def is_patient(self, now: float) -> bool:
        """Whether the others still have time to come."""
        return now - self.since < self.announcement["patience"]


class Agreement:
    """The announcements of the processes."""

    def __init__(self) -> None:
        # Who has announced a program.
        self.said: dict[Key, set[int]] = {}
        self.waits: list[_Wait] = []
        self.ended: set[int] = set()

    def record_announcement(self, number: int, announcement: Announcement) -> list[Answer]:
        """Records a process's announcement; returns the answers that it makes possible."""
        wait = _Wait(number, announcement, time.monotonic())
        self.waits.append(wait)
        same = [other for other in self.waits if other.key == wait.key]
        if announcement["once"]:
            first = {other.number: other for other in reversed(same)}
            met = list(first.values()) if first.keys() >= set(wait.key[1]) else []
        else:
            said = self.said.setdefault(wait.key, set())
            said.add(number)
            met = same if said >= set(wait.key[1]) else []
        self.waits = [other for other in self.waits if other not in met]
        return [other.answer() for other in met]

    def left(self, number: int) -> None:
        """Notes that a process announces nothing more."""
        self.ended.add(number)

    def differing(self) -> list[Answer]:
        """The answers to processes that wait for one another in vain: to all that wait among the
        same processes, since these will not go on."""
        now = time.monotonic()
        hopeless: dict[frozenset[int], str] = {}
        for wait in self.waits:
            among = frozenset(wait.key[1])
            for other in sorted(among - self._come_to(wait.key)):
                objection = None if among in hopeless else self._objection(wait, other, now)
                if objection is not None:
                    hopeless[among] = objection
        told = [wait for wait in self.waits if frozenset(wait.key[1]) in hopeless]
        self.waits = [wait for wait in self.waits if wait not in told]
        return [wait.answer(hopeless[frozenset(wait.key[1])]) for wait in told]

    def unmet(self) -> Iterator[Unmet]:
        """The announcements of some processes that others have not made."""
        by_key: dict[Key, list[_Wait]] = {}
        for wait in self.waits:
            by_key.setdefault(wait.key, []).append(wait)
        for key, waits in by_key.items():
            here = frozenset(wait.number for wait in waits)
            missing = frozenset(key[1]) - self._come_to(key)
            yield Unmet(waits[0].name, here, missing, min(wait.since for wait in waits))

    def _come_to(self, key: Key) -> set[int]:
        """The processes that have announced this."""
        waiting = {wait.number for wait in self.waits if wait.key == key}
        return waiting | self.said.get(key, set())

    def _objection(self, wait: _Wait, other: int, now: float) -> str | None:
        """The reason why another process will never reach the awaited point; None if it may."""
        if other in self.ended:
            return f"process {other} has ended, and did not come to {wait.name}"
        for its in self.waits:
            strange = its.number == other and wait.number not in self._come_to(its.key)
            if not strange or frozenset(its.key[1]) != frozenset(wait.key[1]):
                continue
            if not (wait.is_patient(now) or its.is_patient(now)):
                return (
                    f"process {wait.number} comes to {wait.name}, process {other} to {its.name}"
                    f"{_hint(wait.announcement, its.announcement)}"
                )
        return None


def _hint(one: Announcement, other: Announcement) -> str:
    """The usual reason for different announcements of one name."""
    if one["name"] != other["name"]:
        return ""
    if one["once"]:
        return ", with other values"
    return ", which differ: in a shape, a dtype, or a number that they were traced with"
