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
from typing import Any

from weft.distributed.agreement import Agreement
from weft.distributed.messages import LIMIT, Message, address_of, decoded, encoded, keep_alive
from weft.runtime import coordination

__all__ = ["Coordinator"]

# How long the coordinator waits for processes that were told of a failure to end by themselves.
_GRACE = 30.0
# How long after a report of what all do none is made, though another process waits for long too.
_PAUSE = 5.0
# How long all processes may wait at different barriers: another thread of theirs may be about to
# come.
_PATIENCE = 3.0


@dataclasses.dataclass(eq=False)
class Member:
    """A process that has come: what it said of itself, and how to reach it."""

    about: Message
    writer: asyncio.StreamWriter
    left: bool = False

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
            self.writer.write(encoded(message))


class Coordinator:
    """The meeting of `count` processes, which have `timeout` seconds to come. A machine that is
    silent for `heartbeat_timeout` seconds is gone."""

    def __init__(self, host: str, count: int, timeout: float, heartbeat_timeout: int) -> None:
        self.host, self.count, self.timeout = host, count, timeout
        self.heartbeat_timeout = heartbeat_timeout
        self.members: dict[int, Member] = {}
        self.connections = 0
        self.service: Any = None
        self.over = asyncio.Event()
        self.barriers: dict[str, set[int]] = {}
        self.arrived = 0.0  # when a process came to a barrier last
        self.statuses: dict[int, Message] = {}
        self.asked = 0.0
        self.asker: Any = None
        self.agreement = Agreement()
        self.failed = False
        # Why the meeting came to nothing: who comes later is told, above all process 0, whose child
        # this is.
        self.refusal: str | None = None
        self.starter_came = False

    async def serve(self, listening: socket.socket) -> None:
        """Serves until all processes have left, failed, or not come in time."""
        server = await asyncio.start_server(self.welcome, sock=listening, limit=LIMIT)
        async with server:
            deadline = asyncio.create_task(self._deadline())
            looking = asyncio.create_task(self._compare())
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
                about = decoded(await reader.readline())["hello"]
            member = self._admitted(about, writer)
            if member is not None:
                while line := await reader.readline():
                    self._received(member, decoded(line))
        except (OSError, ValueError, KeyError, TypeError, TimeoutError):
            pass  # whoever it was, it does not speak as a process of the group does, or is gone
        finally:
            self.connections -= 1
            if member is not None:
                self._gone(member)
            writer.close()
            met = self.service is not None or (self.failed and self.starter_came)
            if self.connections == 0 and met:
                self.over.set()

    def _admitted(self, about: Message, writer: asyncio.StreamWriter) -> Member | None:
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
            f"{self.timeout:g} s: {_listed(missing)}"
        )

    def _refuse(self, objection: str) -> None:
        """Ends the meeting, unless all have met or it has ended before."""
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
        """All are here: starts jaxlib's service, and says where it is."""
        port, self.service = coordination.start_service(self.host, self.count)
        for member in self.members.values():
            member.send({"welcome": {"service_port": port}})

    # ---- the work --------------------------------------------------------------------------------

    def _received(self, member: Member, message: Message) -> None:
        ((kind, content),) = message.items()
        getattr(self, f"_on_{kind}")(member, content)

    def _on_barrier(self, member: Member, name: str) -> None:
        """A process waits for all others."""
        here = self.barriers.setdefault(name, set())
        here.add(member.number)
        self.arrived = time.monotonic()
        for other in self.members.values():
            if other.left:
                text = f"{other.name} has come to its end, and does not come to barrier {name!r}"
                self._fail(other, text)
        if len(here) == self.count:
            del self.barriers[name]
            self._tell({"barrier": name})

    def _on_announce(self, member: Member, announcement: Message) -> None:
        """A process has come to something that others are to come to as well."""
        for number, answer in self.agreement.announced(member.number, announcement):
            self.members[number].send({"answer": answer})

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for number, answer in self.agreement.differing():
                self.members[number].send({"answer": answer})
            self._compare_barriers()

    def _compare_barriers(self) -> None:
        """Fails where all processes wait at barriers, and none at one where all are."""
        waiting = set().union(*self.barriers.values())
        if len(waiting) == self.count and time.monotonic() - self.arrived > _PATIENCE:
            names = {min(here): name for name, here in self.barriers.items()}
            text = ", ".join(f"process {n} at {name!r}" for n, name in sorted(names.items()))
            self.barriers.clear()
            for member in self.members.values():
                self._fail(member, f"the processes wait at different barriers: {text}")

    def _on_stuck(self, member: Member, _: None) -> None:
        """A process waits for long: asks all what they do, unless it was just said."""
        now = time.monotonic()
        if now - self.asked >= _PAUSE:
            self.asked, self.asker = now, member
            self.statuses.clear()
            self._tell({"status": None})

    def _on_status(self, member: Member, content: Message) -> None:
        self.statuses[member.number] = content
        if len(self.statuses) == sum(not other.left for other in self.members.values()):
            self.asker.send({"report": {str(n): s for n, s in sorted(self.statuses.items())}})
            self.statuses.clear()

    def _on_leaving(self, member: Member, content: Message) -> None:
        """A process has come to its end, by an error or not."""
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

    def _gone(self, member: Member) -> None:
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


def _listed(numbers: list[str]) -> str:
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
