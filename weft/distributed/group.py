"""The group of processes that this one belongs to, seen from this one.

Each process has a connection to the coordinator, and a thread that listens to it. A process that
ends, or whose machine is gone, ends the others: `Group.fail` raises in the main thread, and where
that waits inside of XLA, which nothing can interrupt, ends the process after a moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from weft.base import source
from weft.base.notebooks import line_text
from weft.distributed.messages import SECONDARY, Message, decode, encode, print_notice
from weft.distributed.waits import Waits, collectives, place_of
from weft.distributed.watch import ASK_EVERY, SILENT_AFTER
from weft.errors import DistributedError, Fix

# How long the main thread has, after another process ended, to come out of what it waits for.
_GRACE = 3.0
# How long an error of the runtime waits for the coordinator to say which process has ended: one
# whose message names what carries collectives; any other.
_PATIENCE, _MOMENT = 10.0, 2.0
_UNREACHABLE = "the coordinator ended, or cannot be reached any more"
_TRANSPORTS = ("Gloo", "gloo", "NCCL", "coordination")
# How often a process looks whether the coordinator is there.
_LOOK_EVERY = 1.0
# See `agreement`: the patience of a process with one thread, and with several.
_BRIEF, _LONG = 2.0, 60.0
# Raises the error in the main thread. It has no other use, and is ignored where nothing handles it.
_SIGNAL = getattr(signal, "SIGURG", None)


class Group:
    """One of several processes, from the meeting until it leaves."""

    def __init__(self, connection: socket.socket, number: int, count: int) -> None:
        self.connection, self.number, self.count = connection, number, count
        self.waits = Waits()
        self.failure: str | None = None
        self.error: str | None = None  # this process's own
        self._status = 1
        # How many programs were started here, by the processes that run them. Those of the same
        # processes start in the same order in all of them.
        self.runs: Counter[tuple[int, ...]] = Counter()
        self._last: tuple[str, Any] | None = None
        self._started = self._heard = time.monotonic()
        self._report: dict[str, Message | None] | None = None
        self._leaving = self._raised = self._main_waits = False
        self._all_left = self._signals = False
        self._follows = False  # whether its own error was raised when another process had failed
        # The counts of the processes that have come to their end.
        self._left: dict[int, Counter[tuple[int, ...]]] = {}
        self._passed: set[str] = set()
        self._requests = 0
        self._answers: dict[int, str | None] = {}
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._replaced_hook = sys.excepthook

    def begin(self) -> None:
        """Starts the thread that receives the coordinator's messages, and installs the handler that
        raises errors in the main thread."""
        sys.excepthook = self._note_error
        if _SIGNAL is not None and threading.current_thread() is threading.main_thread():
            if signal.getsignal(_SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
                signal.signal(_SIGNAL, self._on_interrupt)
                self._signals = True
        threading.Thread(target=self._listen, name="weft group", daemon=True).start()

    # ---- waiting for others ----------------------------------------------------------------------

    def barrier(self, name: str) -> None:
        """Waits until all processes have come to the barrier of this name. Raises DistributedError
        if one of them ends."""
        self._send({"barrier": name})
        with self.waits.noting(f"barrier {name!r}"):
            self._wait(lambda: name in self._passed)
        self._passed.discard(name)

    def agree(
        self, digest: str, name: str, processes: Sequence[int], once: bool, problem: str, text: str
    ) -> None:
        """Waits until these processes have all announced the same digest; see `agreement`. Raises
        DistributedError if one announces another or ends: `problem` says what is wrong, and `text`
        what to do."""
        with self._changed:
            self._requests += 1
            request = self._requests
        announcement = {
            "id": request, "digest": digest, "name": name, "processes": list(processes),
            "where": source.describe(source.here()), "once": once, "patience": _patience(),
        }  # fmt: skip
        self._send({"announce": announcement})
        with self.waits.noting(f"the others to come to {name}"):
            self._wait(lambda: request in self._answers)
        objection = self._answers.pop(request)
        if objection is not None:
            message, wanted = f"the processes {problem}", "the same everywhere, in the same order"
            fix = Fix("same", text)
            raise DistributedError(message, operation=name, got=objection, wanted=wanted, fix=fix)

    def agree_program(self, digest: str, name: str, processes: Sequence[int]) -> None:
        """Waits until these processes are all about to run the program with this digest."""
        problem = "run different programs, which would wait for ever"
        text = (
            "call the same functions with the same shapes in all processes; what depends on "
            "weft.process_index() belongs into the values of arrays"
        )
        self.agree(digest, f"the first run of `{name}`", processes, False, problem, text)

    def agree_values(self, digest: str, name: str, processes: Sequence[int]) -> None:
        """Waits until these processes all put values with this digest."""
        text = (
            "put the same values in all processes, or make the array of what each has with "
            "weft.make_array_from_process_local_data"
        )
        self.agree(digest, name, processes, True, "put different values on the devices", text)

    def started(self, name: str, executable: Any, processes: tuple[int, ...]) -> None:
        """Records a run of a shared program. Raises DistributedError after a failure."""
        self.runs[processes] += 1
        self._last, self._started = (name, weakref.ref(executable)), time.monotonic()
        if self._left:
            self._look_for_ended()
        if self.failure is not None:
            raise self._failure_error()

    def _look_for_ended(self) -> None:
        """Fails if this process has started a program that a process which has ended did not start:
        its collectives would wait for ever."""
        for number, counts in list(self._left.items()):
            for processes, count in list(self.runs.items()):
                if number in processes and count > counts[processes] and not self._leaving:
                    self.fail(
                        f"process {number} has come to its end after {counts[processes]} shared "
                        f"programs; this one has started {count}, the last of them "
                        f"`{self._last[0] if self._last else None}`"
                    )

    def _wait(self, met: Any) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._main_waits = self._main_waits or main
        try:
            with self._changed:
                self._changed.wait_for(lambda: met() or self.failure is not None)
        finally:
            self._main_waits = self._main_waits and not main
        if not met():
            raise self._failure_error()

    def explain(self, problem: str) -> DistributedError | None:
        """Why the runtime fails with this message: None if it is no matter of other processes.

        The runtime notices that a process is gone before the coordinator has said which."""
        if any(name in problem for name in _TRANSPORTS):
            self._await_failure(_PATIENCE, f"the connection to another process broke: {problem}")
        else:
            self._await_failure(_MOMENT, None)
        return None if self.failure is None else self._failure_error()

    def _await_failure(self, seconds: float, otherwise: str | None) -> None:
        """Waits until the failed process is known; after `seconds` it is `otherwise`."""
        with self._changed:
            self._changed.wait_for(lambda: self.failure is not None, seconds)
            self.failure = self.failure or otherwise

    def _failure_error(self) -> DistributedError:
        if threading.current_thread() is threading.main_thread():
            self._raised = True
        stack = sys._current_frames().get(threading.main_thread().ident or 0)
        message = f"the group of processes failed: {self.failure}"
        return DistributedError(message, where=place_of(stack))

    # ---- what the coordinator says ---------------------------------------------------------------

    def _send(self, message: Message) -> None:
        try:
            with self._sending:
                self.connection.sendall(encode(message))
        except OSError:  # the listening thread finds out as well, and says so
            self._await_failure(_MOMENT, _UNREACHABLE)
            raise self._failure_error() from None

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.connection.makefile("rb") as lines:
            for line in lines:
                self._heard = time.monotonic()
                ((kind, content),) = decode(line).items()
                getattr(self, f"_on_{kind}")(content)
        if not self._leaving:
            self.fail(_UNREACHABLE)

    def _on_barrier(self, name: str) -> None:
        with self._changed:
            self._passed.add(name)
            self._changed.notify_all()

    def _on_answer(self, answer: Message) -> None:
        with self._changed:
            self._answers[answer["id"]] = answer["objection"]
            self._changed.notify_all()

    def _on_left(self, content: Message) -> None:
        counts = {tuple(processes): count for processes, count in content["runs"]}
        self._left[content["process"]] = Counter(counts)
        self._look_for_ended()

    def _on_all_left(self, _: None) -> None:
        with self._changed:
            self._all_left = True
            self._changed.notify_all()

    def _on_failed(self, content: Message) -> None:
        self.fail(content["text"])

    def _on_ping(self, _: None) -> None:
        with contextlib.suppress(DistributedError):
            self._send({"pong": self.waits.longest()})

    def _on_notice(self, text: str) -> None:
        print_notice(text)

    def _on_status(self, _: None) -> None:
        runs = [[list(processes), count] for processes, count in self.runs.items()]
        idle = time.monotonic() - self._started
        with contextlib.suppress(DistributedError):
            self._send({"status": self.waits.status() | {"runs": runs, "idle": idle}})

    def _program(self) -> str:
        """The last started program and its collectives."""
        if self._last is None:
            return "none"
        name, executable = self._last[0], self._last[1]()
        found = [] if executable is None else collectives(executable.as_text())
        return f"`{name}`, with {', '.join(found)}" if found else f"`{name}`"

    def _on_report(self, statuses: dict[str, Message | None]) -> None:
        # Not here: it may have to compile, and this thread has to answer.
        self._report = statuses

    # ---- the end ---------------------------------------------------------------------------------

    def fail(self, text: str) -> None:
        """Ends this process because another one failed, first by an error in its main thread."""
        with self._changed:
            if self.failure is None:
                self.failure = text
            self._changed.notify_all()
        if self._leaving:
            return
        if self._signals and _SIGNAL is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
        threading.Thread(target=self._see_it_end, name="weft group end", daemon=True).start()

    def _on_interrupt(self, *_: Any) -> None:
        """The signal handler in the main thread; `_wait` raises the error there."""
        quiet = self._raised or self._leaving or self._main_waits
        if self.failure is not None and not quiet:
            raise self._failure_error()

    def _see_it_end(self) -> None:
        """Ends the process if its main thread does not raise the error in time, and later if a
        thread waits for values that will not come."""
        time.sleep(_GRACE)
        while self._raised and self.waits.longest() < _GRACE:
            time.sleep(0.1)
        if not self._leaving:
            self._end()

    def _end(self) -> None:
        """Prints the reason and ends the process at once."""
        stack = sys._current_frames().get(threading.main_thread().ident or 0)
        print("Most recent call, which waits for another process, last:", file=sys.stderr)
        traceback.print_stack(stack, file=sys.stderr)
        print(f"weft.errors.DistributedError: {self._failure_error()}", file=sys.stderr)
        self._exit()

    def _exit(self) -> None:
        """Ends the process at once, with the status of an error: its own, or that of another. What
        another process says after an error of this one does not make that one a follower."""
        follows = self.failure is not None and (self.error is None or self._follows)
        status = SECONDARY if follows else self._status
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)

    def _note_error(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        """The hook for an uncaught error: tells the others. From then on errors of other processes
        are ignored."""
        self._raised = True
        self._follows = self.failure is not None
        if issubclass(kind, KeyboardInterrupt):  # as a shell has it
            self._status = 128 + signal.SIGINT
        lines = traceback.format_exception_only(kind, error)
        self.error = "".join(lines).strip().replace("\n", "\n    ")
        frames = [f for f, _ in traceback.walk_tb(trace)]
        place = next(
            (f for f in reversed(frames) if not source.is_internal(f.f_code.co_filename)), None
        )
        if place is not None and not isinstance(error, DistributedError):
            self.error += f"\n    at {line_text(place.f_code.co_filename, place.f_lineno)}"
        self._replaced_hook(kind, error, trace)

    def leave(self, timeout: float) -> None:
        """Leaves the group; waits for the others if this process has succeeded. After a failure the
        process ends here: XLA's threads would wait for ever for lost processes, and the interpreter
        for them."""
        if self._leaving:
            return
        sys.excepthook = self._replaced_hook
        self._leaving = True
        if self.failure is None:
            with contextlib.suppress(DistributedError):
                runs = [[list(processes), n] for processes, n in self.runs.items()]
                self._send({"leaving": {"error": self.error, "runs": runs}})
        if self.failure is not None or self.error is not None:
            self._exit()
        with self._changed:
            self._changed.wait_for(lambda: self._all_left or self.failure is not None, timeout)
        if self.failure is not None:  # after all that this process had to do
            print(f"weft: {self.failure}", file=sys.stderr)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def watch(self, seconds: float | None) -> None:
        """Starts the thread that checks that the coordinator is alive and, after a wait of
        `seconds` if given, asks all processes for their status."""

        def look() -> None:
            asked, named, looked = False, False, time.monotonic()
            while not self._leaving:
                self._pause(_LOOK_EVERY if seconds is None else min(_LOOK_EVERY, seconds / 4))
                now = time.monotonic()
                if now - looked > 3 * _LOOK_EVERY:  # this process was stopped itself
                    self._heard = now
                looked = now
                silent = now - self._heard > SILENT_AFTER + ASK_EVERY
                if silent and not named:
                    print_notice(
                        f"the coordinator does not answer for {now - self._heard:.0f} s: its "
                        "process, or its machine, is stopped"
                    )
                named = silent
                late = seconds is not None and self.waits.longest() > seconds
                if late and not asked:
                    with contextlib.suppress(DistributedError):
                        self._send({"stuck": None})
                asked = late
                report, self._report = self._report, None
                if report is not None:
                    print("\n".join(_report(report, self._program())), file=sys.stderr, flush=True)

        threading.Thread(target=look, name="weft watchdog", daemon=True).start()

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._leaving, seconds)


def _patience() -> float:
    """The seconds after which a different announcement of others counts as a difference."""
    own = [t for t in threading.enumerate() if not t.name.startswith("weft")]
    return _BRIEF if len(own) == 1 else _LONG


def _report(statuses: dict[str, Message | None], program: str) -> Iterator[str]:
    """The statuses of all processes, and the ones that others wait for."""
    counts = {
        number: sum(count for _, count in status["runs"])
        for number, status in statuses.items()
        if status is not None
    }
    yield "weft: processes wait for one another for long:"
    for number, status in statuses.items():
        if status is None:
            yield f"  process {number} does not answer <- the others wait for it"
            continue
        behind = " <- the others wait for it" if counts[number] < max(counts.values()) else ""
        yield f"  process {number} has started {counts[number]} shared programs{behind}"
        if not status["waits"]:
            yield f"    runs {status['main']}"
        for wait in status["waits"]:
            yield f"    waits {wait['seconds']:.0f} s for {wait['what']}, in {wait['where']}"
    yield f"  the last program here: {program}"
