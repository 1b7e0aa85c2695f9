"""Whether the processes of a group run the same programs, in the same order.

A program of several processes waits in its collectives for the others to run it too; where one runs
another program, all of them hang. So each says before the first run which program it is about to
run, and waits until those that take part have said the same.

Safety. A process that runs a program once more says nothing, and one that has compiled an equal
program again (its cache was cleared, say) is answered at once, since all have said it before: no
process waits for what another is not going to say. Two processes are told that their programs
differ only where each waits for one that the other has not said, among the same processes, for
`_PATIENCE` seconds: a thread that is about to say it has that time to come. So programs of
different threads, in whatever order they come, and of overlapping groups of processes are not taken
for different ones.
"""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Programs"]

Program = dict[str, Any]
# The digest of a program, and the numbers of the processes that run it.
Key = tuple[str, tuple[int, ...]]
Answer = tuple[int, Program]

_PATIENCE = 2.0


class Programs:
    """What the processes have said about the programs that they run."""

    def __init__(self) -> None:
        self.said: dict[Key, set[int]] = {}
        self.waiting: dict[int, dict[Key, tuple[float, Program]]] = {}
        self.ended: set[int] = set()

    def announced(self, number: int, program: Program) -> list[Answer]:
        """Notes that a process is about to run a program; the answers that this makes possible."""
        key = _key(program)
        said = self.said.setdefault(key, set())
        said.add(number)
        if not said >= set(key[1]):
            self.waiting.setdefault(number, {})[key] = (time.monotonic(), program)
            return []
        answer = {"digest": key[0], "objection": None}
        there = [other for other, waits in self.waiting.items() if waits.pop(key, None)]
        return [(other, answer) for other in {number, *there}]

    def left(self, number: int) -> None:
        """Notes that a process runs no more programs."""
        self.ended.add(number)

    def differing(self) -> list[Answer]:
        """The answers to processes that wait for one another with different programs: to all that
        wait among the same processes, whose programs will not be run either."""
        now = time.monotonic()
        hopeless: dict[frozenset[int], str] = {}
        for number, key, since, program in self._all():
            if now - since < _PATIENCE or frozenset(key[1]) in hopeless:
                continue
            for other in sorted(set(key[1]) - self.said[key]):
                objection = self._objection(number, program, other, now)
                if objection is not None:
                    hopeless[frozenset(key[1])] = objection
                    break
        answers = []
        for number, key, _, _ in self._all():
            objection = hopeless.get(frozenset(key[1]))
            if objection is not None:
                del self.waiting[number][key]
                answers.append((number, {"digest": key[0], "objection": objection}))
        return answers

    def _all(self) -> list[tuple[int, Key, float, Program]]:
        """Who waits for what, and since when."""
        return [
            (number, key, since, program)
            for number, waits in self.waiting.items()
            for key, (since, program) in waits.items()
        ]

    def _objection(self, number: int, program: Program, other: int, now: float) -> str | None:
        """Why a program that a process waits for will not be run by another one; None if it may."""
        if other in self.ended:
            return f"process {other} has ended, and did not run {_named(program)}"
        for key, (since, its) in self.waiting.get(other, {}).items():
            strange = number not in self.said[key]
            if strange and set(key[1]) == set(program["processes"]) and now - since >= _PATIENCE:
                return (
                    f"process {number} runs {_named(program)}, process {other} {_named(its)}"
                    f"{_hint(program, its)}"
                )
        return None


def _key(program: Program) -> Key:
    return program["digest"], tuple(program["processes"])


def _named(program: Program) -> str:
    return f"`{program['name']}` ({program['where']})"


def _hint(program: Program, other: Program) -> str:
    """What makes programs of one name differ, mostly."""
    if program["name"] != other["name"]:
        return ""
    return ", which differ: in a shape, a dtype, or a number that they were traced with"
