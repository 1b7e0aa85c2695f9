"""Which processes of a group are stuck: the coordinator's clock, and what it says to the others.

A process is *silent* where it does not answer the coordinator: it is stopped, its machine is, or
code in it keeps the interpreter's lock. It is *behind* where it answers, but others wait for long
for it to come to what they have come to: a program, a barrier, a comparison. What is only slow in
all processes alike is neither: all have started the same programs then.

Times are given, and nothing is sent here. The longest ways to the name of a stuck process add up to
less than 10 seconds: the next question, `SILENT_AFTER` without an answer, and a look after each; or
`BEHIND_AFTER`, the next question, which says so, and a round of questions to all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

LOOK_EVERY = 0.5
"""The seconds between two looks of the coordinator."""
ASK_EVERY = 2.0
"""The seconds after an answer until a process is asked again whether it is there."""
SILENT_AFTER = 4.0
"""The seconds without an answer after which a process is silent. No Python code keeps the lock as
long, and little native code does."""
BEHIND_AFTER = 3.0
"""The seconds for which others have to wait for a process until it is behind."""
ROUND_PAUSE, ROUND_SECONDS = 2.0, 1.5
"""The seconds between two rounds, in which all are asked what they do, and for an answer to one."""
MEET_AFTER = 5.0
"""The seconds after which a process that has come to the meeting hears who is missing."""


class Clock:
    """The times of a process's last question and answer."""

    def __init__(self, now: float) -> None:
        self.answered = now
        self.asked: float | None = None
        self.silent = False

    def is_due(self, now: float) -> bool:
        """Whether to ask the process now. It is asked once at a time: unread messages would pile
        up."""
        if self.asked is not None or now - self.answered < ASK_EVERY:
            return False
        self.asked = now
        return True

    def falls_silent(self, now: float) -> bool:
        """Whether the process has become silent since the last look."""
        if self.silent or self.asked is None or now - self.asked < SILENT_AFTER:
            return False
        self.silent = True
        return True

    def answers(self, now: float) -> bool:
        """Records an answer; returns whether the process was silent before."""
        before, self.silent = self.silent, False
        self.asked, self.answered = None, now
        return before

    def forgive(self, now: float) -> None:
        """Begins anew: the coordinator itself was stopped."""
        self.asked = None if self.asked is None else now


@dataclasses.dataclass(frozen=True)
class Unmet:
    """A point that some processes have reached and others not: its name, who waits, for whom, and
    since when."""

    what: str
    here: frozenset[int]
    missing: frozenset[int]
    since: float


@dataclasses.dataclass(frozen=True)
class LateProcess:
    """A process that others wait for. `when` distinguishes waits of one name."""

    number: int
    what: str
    seconds: float
    waiting: tuple[int, ...]
    when: float


def late_processes(
    statuses: Mapping[int, Mapping[str, Any]], unmet: Iterable[Unmet], now: float
) -> Iterator[LateProcess]:
    """The late processes, by the statuses of all and by unmet points."""
    for wait in unmet:
        seconds, here = now - wait.since, tuple(sorted(wait.here))
        if seconds >= BEHIND_AFTER:
            for number in sorted(wait.missing & statuses.keys()):
                yield LateProcess(number, wait.what, seconds, here, wait.since)
    started = {n: {tuple(p): count for p, count in s["runs"]} for n, s in statuses.items()}
    for processes in sorted({p for counts in started.values() for p in counts}):
        known = [n for n in processes if n in statuses]
        yield from _behind_in_programs(
            {n: started[n].get(processes, 0) for n in known}, {n: statuses[n] for n in known}
        )


def _behind_in_programs(
    counts: Mapping[int, int], statuses: Mapping[int, Mapping[str, Any]]
) -> Iterator[LateProcess]:
    """The processes that have started fewer shared programs than others that wait. One that waits
    for values itself, or has just started a program, is not behind: it is on its way, and all
    compute the values."""
    most = max(counts.values())
    waiting = {n: _longest_wait(statuses[n]) for n, count in counts.items() if count == most}
    waiting = {n: seconds for n, seconds in waiting.items() if seconds >= BEHIND_AFTER}
    if not waiting:
        return
    for number, count in counts.items():
        status = statuses[number]
        if (
            count < most
            and status["idle"] >= BEHIND_AFTER
            and not _waits_for_program(status["waits"])
        ):
            what = f"shared program {count + 1}"
            yield LateProcess(number, what, max(waiting.values()), tuple(sorted(waiting)), 0.0)


def _longest_wait(status: Mapping[str, Any]) -> float:
    return max((wait["seconds"] for wait in status["waits"]), default=0.0)


def _waits_for_program(waits: Sequence[Mapping[str, Any]]) -> bool:
    return any(wait["of_program"] for wait in waits)
