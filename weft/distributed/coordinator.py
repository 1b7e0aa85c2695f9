"""The coordinator of a group of processes: where they meet, and what tells them of one another.

Process 0 starts it as a process of its own, so that it outlives each of them:

    python -m weft.distributed.coordinator HOST:PORT NUM_PROCESSES TIMEOUT HEARTBEAT_TIMEOUT

It starts jaxlib's coordination service once all processes have come, and ends when all have left.
Why jaxlib's service is not enough: its client ends a process with a core dump where another one is
missing, has the same number, or ends, and takes no function of Python's that could say so better.
Here each process keeps a connection, whose end says that it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from weft.distributed.agreement import Agreement
from weft.distributed.messages import LIMIT, Message, address_of, decode, encode, keep_alive
from weft.distributed.watch import (
    BEHIND_AFTER,
    LOOK_EVERY,
    MEET_AFTER,
    ROUND_PAUSE,
    ROUND_SECONDS,
    Clock,
    LateProcess,
    Unmet,
    late_processes,
)
from weft.runtime import coordination

# How long the coordinator waits for processes that were told of a failure to end by themselves.
_GRACE = 30.0
# How long all processes may wait at different barriers: another thread of theirs may be about to
# come.
_PATIENCE = 3.0


@dataclasses.dataclass(eq=False)
class Member:
    """A process that has joined: its description and its connection."""

    about: Message
    writer: asyncio.StreamWriter
    left: bool = False
    came: float = dataclasses.field(default_factory=time.monotonic)
    clock: Clock = dataclasses.field(default_factory=lambda: Clock(time.monotonic()))
    # What it was said to be behind with, and whether it has heard who is missing.
    behind_with: set[tuple[str, float]] = dataclasses.field(default_factory=set)
    heard: bool = False

    @property
    def number(self) -> int:
        return int(self.about["process_id"])

    @property
    def name(self) -> str:
        """The process for a message to people."""
        return f"process {self.number} ({self.about['host']}, pid {self.about['pid']})"

    def send(self, message: Message) -> None:
        """Sends a message, unless the process is gone."""
        if not self.writer.is_closing():
            self.writer.write(encode(message))


class Coordinator:
    """The meeting of `count` processes, which have `timeout` seconds to join. A machine that is
    silent for `heartbeat_timeout` seconds is gone."""

    def __init__(self, host: str, count: int, timeout: float, heartbeat_timeout: int) -> None:
        self.host, self.count, self.timeout = host, count, timeout
        self.heartbeat_timeout = heartbeat_timeout
        self.members: dict[int, Member] = {}
        self.connections = 0
        self.service: Any = None
        self.over = asyncio.Event()
        # Who has come to a barrier, and when.
        self.barriers: dict[str, dict[int, float]] = {}
        self.statuses: dict[int, Message] | None = None  # while all are asked what they do
        self.asked = 0.0
        self.askers: list[Member] = []  # who want to hear what all do
        self.looked = time.monotonic()
        self.agreement = Agreement()
        self.failed = False
        # Why the meeting came to nothing: who comes later is told, above all process 0, whose child
        # this is.
        self.refusal: str | None = None
        self.starter_came = False

    async def serve(self, listening: socket.socket) -> None:
        """Serves until all processes have left, or have failed, or are missing at the timeout."""
        server = await asyncio.start_server(self.welcome, sock=listening, limit=LIMIT)
        async with server:
            deadline = asyncio.create_task(self._deadline())
            looking = asyncio.create_task(self._look_often())
            await self.over.wait()
            deadline.cancel()
            looking.cancel()

    # ---- the meeting -----------------------------------------------------------------------------

    async def welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection, from its first message to its end."""
        keep_alive(writer.get_extra_info("socket"), self.heartbeat_timeout)
        self.connections += 1
        member: Member | None = None
        try:
            async with asyncio.timeout(10):
                about = decode(await reader.readline())["hello"]
            member = self._admit(about, writer)
            if member is not None:
                while line := await reader.readline():
                    self._receive(member, decode(line))
        except (OSError, ValueError, KeyError, TypeError, TimeoutError):
            pass  # whoever it was, it does not speak as a process of the group does, or is gone
        finally:
            self.connections -= 1
            if member is not None:
                self._on_disconnect(member)
            writer.close()
            met = self.service is not None or (self.failed and self.starter_came)
            if self.connections == 0 and met:
                self.over.set()

    def _admit(self, about: Message, writer: asyncio.StreamWriter) -> Member | None:
        member = Member(about, writer)
        self.starter_came = self.starter_came or member.number == 0
        objection = self.refusal or self._objection(member)
        if objection is None:
            self.members[member.number] = member
            if len(self.members) == self.count:
                self._begin()
            return member
        member.send({"refused": objection})
        self._refuse(objection)  # the others would wait for nothing
        return None

    def _objection(self, new: Member) -> str | None:
        about = new.about
        if about["num_processes"] != self.count:
            return (
                f"the processes have different counts: {new.name} was started as one of "
                f"{about['num_processes']}, process 0 as one of {self.count}"
            )
        if not 0 <= new.number < self.count:
            return f"{new.name} has a number that is not below the count, {self.count}"
        if new.number in self.members:
            return f"two processes have one number: {self.members[new.number].name} and {new.name}"
        for other in self.members.values():
            if other.about["versions"] != about["versions"]:
                mine, its = other.about["versions"], about["versions"]
                return (
                    f"the processes have different releases: {other.name} {mine}, {new.name} {its}"
                )
        return None

    async def _deadline(self) -> None:
        await asyncio.sleep(self.timeout)
        missing = [str(n) for n in range(self.count) if n not in self.members]
        self._refuse(
            f"of {self.count} processes, {len(missing)} did not come within "
            f"{self.timeout:g} s: {_list_numbers(missing)}"
        )

    def _refuse(self, objection: str) -> None:
        """Ends the meeting unless all have met or it has ended."""
        if self.service is not None or self.refusal is not None:
            return
        self.failed, self.refusal = True, objection
        for member in self.members.values():
            member.left = True
            member.send({"refused": objection})
        if self.connections == 0 and self.starter_came:
            self.over.set()
        asyncio.get_running_loop().call_later(_GRACE, self.over.set)

    def _begin(self) -> None:
        """Starts jaxlib's service once all are present, and sends its address."""
        port, self.service = coordination.start_service(self.host, self.count)
        for member in self.members.values():
            member.send({"welcome": {"service_port": port}})

    # ---- the work --------------------------------------------------------------------------------

    def _receive(self, member: Member, message: Message) -> None:
        ((kind, content),) = message.items()
        getattr(self, f"_on_{kind}")(member, content)

    def _on_barrier(self, member: Member, name: str) -> None:
        """A process waits for all others."""
        here = self.barriers.setdefault(name, {})
        here[member.number] = time.monotonic()
        for other in self.members.values():
            if other.left:
                text = f"{other.name} has come to its end, and does not come to barrier {name!r}"
                self._fail(other, text)
        if len(here) == self.count:
            del self.barriers[name]
            self._tell({"barrier": name})

    def _on_announce(self, member: Member, announcement: Message) -> None:
        """A process has reached a point that others are to reach too."""
        for number, answer in self.agreement.record_announcement(member.number, announcement):
            self.members[number].send({"answer": answer})

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for number, answer in self.agreement.differing():
                self.members[number].send({"answer": answer})
            self._compare_barriers()
            self._look(time.monotonic())

    def _compare_barriers(self) -> None:
        """Fails if all processes wait at different barriers."""
        times = [when for here in self.barriers.values() for when in here.values()]
        waiting = set().union(*self.barriers.values())
        if len(waiting) == self.count and time.monotonic() - max(times) > _PATIENCE:
            names = {min(here): name for name, here in self.barriers.items()}
            text = ", ".join(f"process {n} at {name!r}" for n, name in sorted(names.items()))
            self.barriers.clear()
            for member in self.members.values():
                self._fail(member, f"the processes wait at different barriers: {text}")

    # ---- who is stuck ----------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Asks all processes regularly whether they are alive, and names the silent ones to the
        others; see `watch`."""
        was_stopped, self.looked = now - self.looked > 2 + LOOK_EVERY, now
        if self.service is None:
            self._name_missing(now)
            return
        for member in self._present_members():
            if was_stopped:
                member.clock.forgive(now)
            if member.clock.is_due(now):
                member.send({"ping": None})
            if member.clock.falls_silent(now):
                text = "does not answer: it is stopped, or code in it holds the interpreter's lock"
                self._notice(member, f"{member.name} {text}")
        if self.statuses is not None and now - self.asked > ROUND_SECONDS:
            self._conclude()

    def _present_members(self) -> list[Member]:
        return [member for member in self.members.values() if not member.left]

    def _name_missing(self, now: float) -> None:
        """Tells waiting processes which ones are missing."""
        missing = [str(n) for n in range(self.count) if n not in self.members]
        for member in self.members.values():
            if not member.heard and now - member.came > MEET_AFTER and self.refusal is None:
                member.heard = True
                text = f"{self.count} processes are to meet; not here yet: {_list_numbers(missing)}"
                member.send({"notice": text})

    def _on_pong(self, member: Member, waits: float) -> None:
        """A process is alive; it has waited for others for `waits` seconds."""
        now = time.monotonic()
        if member.clock.answers(now):
            self._notice(member, f"{member.name} answers again")
        if waits >= BEHIND_AFTER:
            self._ask(now)

    def _on_stuck(self, member: Member, _: None) -> None:
        """A process has waited long and asks for a report on all."""
        self.askers.append(member)
        self._ask(time.monotonic())

    def _ask(self, now: float) -> None:
        """Asks all processes for their status, unless just asked."""
        if now - self.asked < ROUND_PAUSE:
            return
        self.asked, self.statuses = now, {}
        for member in self._present_members():
            if not member.clock.silent:
                member.send({"status": None})

    def _on_status(self, member: Member, content: Message) -> None:
        if self.statuses is not None:
            self.statuses[member.number] = content
            if all(m.number in self.statuses or m.clock.silent for m in self._present_members()):
                self._conclude()

    def _conclude(self) -> None:
        """Names the late processes, and reports to those that have asked."""
        statuses, self.statuses = self.statuses or {}, None
        for late in late_processes(statuses, self._unmet(), time.monotonic()):
            self._name_late(late, statuses[late.number])
        for asker in self.askers:
            report = {str(m.number): statuses.get(m.number) for m in self._present_members()}
            asker.send({"report": dict(sorted(report.items(), key=lambda item: int(item[0])))})
        self.askers.clear()

    def _unmet(self) -> Iterator[Unmet]:
        """The points that some processes have reached, and others not."""
        yield from self.agreement.unmet()
        for name, here in self.barriers.items():
            missing = frozenset(range(self.count)) - here.keys()
            yield Unmet(f"barrier {name!r}", frozenset(here), missing, min(here.values()))

    def _name_late(self, late: LateProcess, status: Message) -> None:
        """Tells the others once that a process is late for something."""
        member = self.members[late.number]
        if (late.what, late.when) in member.behind_with:
            return
        member.behind_with.add((late.what, late.when))
        others = _list_numbers([str(n) for n in late.waiting])
        doing = f"it runs {status['main']}"
        if status["waits"]:
            wait = max(status["waits"], key=lambda wait: wait["seconds"])
            doing = f"it waits for {wait['what']}, in {wait['where']}"
        self._notice(
            member,
            f"{member.name} has not come to {late.what}, for which process {others} has waited "
            f"{late.seconds:.0f} s; {doing}",
        )

    def _notice(self, about: Member, text: str) -> None:
        """Sends a notice about one process to all others, which print it."""
        for member in self._present_members():
            if member is not about:
                member.send({"notice": text})

    # ---- the end ---------------------------------------------------------------------------------

    def _on_leaving(self, member: Member, content: Message) -> None:
        """A process ends, by an error or not."""
        member.left = True
        if content["error"] is not None:
            self._fail(member, f"{member.name} ended with {content['error']}")
            return
        self.agreement.left(member.number)
        for name in self.barriers:
            text = f"{member.name} has come to its end, and does not come to barrier {name!r}"
            self._fail(member, text)
        for other in self.members.values():
            if not other.left:
                other.send({"left": {"process": member.number, "runs": content["runs"]}})
        if all(other.left for other in self.members.values()):
            self._tell({"all_left": None})

    def _on_disconnect(self, member: Member) -> None:
        """The connection of a process has ended."""
        if not member.left:
            member.left = True
            self._fail(member, f"{member.name} ended without a word, as after `kill -9`")

    def _fail(self, member: Member, text: str) -> None:
        self.failed = True
        for other in self.members.values():
            if other is not member:
                other.send({"failed": {"process": member.number, "text": text}})
        asyncio.get_running_loop().call_later(_GRACE, self.over.set)

    def _tell(self, message: Message) -> None:
        for member in self.members.values():
            member.send(message)


def _list_numbers(numbers: list[str]) -> str:
    shown = ", ".join(numbers[:10])
    return shown if len(numbers) <= 10 else f"{shown} and {len(numbers) - 10} more"


def main() -> None:
    """Serves one group. The first line of output is "ready", or why it cannot be served."""
    address, count, timeout, heartbeat_timeout = sys.argv[1:]
    host, port = address_of(address)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Not `reuse_port`: a second group at the same address has to hear of the first.
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        print(f"{error.strerror or error}", flush=True)
        return
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        made = Coordinator(host, int(count), float(timeout), int(heartbeat_timeout))
        asyncio.run(made.serve(listening))


if __name__ == "__main__":
    main()
