"""Starts the processes of a program on one machine.

    python -m weft.launch -n 4 [--devices-per-process 2] script.py [arguments]

Each process runs the script, which calls `weft.distributed.initialize()`. Their output is shown
line by line, with the number of the process before it. The first process that fails ends all, and
what it wrote to standard error last is shown at the end; its exit status is that of the launcher.
Signals to the launcher go to all processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO

from weft.distributed.messages import SECONDARY

# How long the others have to end by themselves when one has failed, and then by a signal.
_GRACE = 15.0
_TERMINATING = 5.0
# How many lines of standard error are kept of each process.
_KEPT = 200
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

_writing = threading.Lock()


class Process:
    """One process, and the threads that forward its output."""

    def __init__(self, number: int, command: Sequence[str], environment: dict[str, str]) -> None:
        self.number = number
        self.errors: deque[str] = deque(maxlen=_KEPT)
        # In a session of its own: Ctrl-C reaches it once, from the launcher.
        self.popen = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=None if number == 0 else subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self.popen.stdout is not None and self.popen.stderr is not None
        self.threads = [
            threading.Thread(target=self._pass_on, args=(self.popen.stdout, sys.stdout, None)),
            threading.Thread(
                target=self._pass_on, args=(self.popen.stderr, sys.stderr, self.errors)
            ),
        ]
        for thread in self.threads:
            thread.start()

    def _pass_on(self, source: IO[bytes], target: IO[str], kept: deque[str] | None) -> None:
        rest = b""
        while part := os.read(source.fileno(), 1 << 16):
            *lines, rest = re.split(rb"(?<=[\r\n])", rest + part)
            self._show([line.decode(errors="replace") for line in lines], target, kept)
        if rest:
            self._show([rest.decode(errors="replace") + "\n"], target, kept)

    def _show(self, lines: list[str], target: IO[str], kept: deque[str] | None) -> None:
        if kept is not None:
            kept.extend(lines)
        with _writing, contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            target.writelines(f"[{self.number}] {line}" for line in lines)
            target.flush()

    def wait_for_exit(self) -> int:
        """The exit status, as a shell has it, once all output was passed on."""
        for thread in self.threads:
            thread.join()
        code = self.popen.wait()
        return code if code >= 0 else 128 - code

    def send(self, number: int) -> None:
        """Sends a signal to a running process."""
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.popen.send_signal(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the launcher, and returns the exit status."""
    options = _options(arguments)
    command = [sys.executable, *(["-m"] if options.module else []), options.script, *options.rest]
    signals = _received_signals()
    with _free_port() as port:
        address = f"127.0.0.1:{port}"
    processes = [
        Process(number, command, _environment(options, number, address))
        for number in range(options.processes)
    ]
    failed = _wait(processes, signals)
    return 0 if failed is None else _report(failed, options.processes)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m weft.launch", description="Starts the processes of a program."
    )
    parser.add_argument("-n", "--processes", type=_positive, required=True, help="how many")
    parser.add_argument(
        "--devices-per-process", type=_positive, help="CPU devices of each process (all cores: 1)"
    )
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    parser.add_argument("script", help="the program, which all processes run")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    if not options.module and not os.path.exists(options.script):
        parser.error(f"there is no file {options.script}")
    return options


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _environment(options: argparse.Namespace, number: int, address: str) -> dict[str, str]:
    out = dict(
        os.environ,
        WEFT_COORDINATOR_ADDRESS=address,
        WEFT_NUM_PROCESSES=str(options.processes),
        WEFT_PROCESS_ID=str(number),
        PYTHONUNBUFFERED="1",
    )
    if options.devices_per_process is not None:
        out["WEFT_NUM_CPU_DEVICES"] = str(options.devices_per_process)
    return out


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _received_signals() -> deque[int]:
    """The signals that come from now on. They are sent on between two looks at the processes: a
    handler that sent them on would miss a process that is being started."""
    received: deque[int] = deque()
    for name in _FORWARDED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: received.append(number))
    return received


def _wait(processes: list[Process], signals: deque[int]) -> Process | None:
    """Waits for all processes, sends signals on to them, and ends them if one has failed. Returns
    the first that failed; None if none did."""
    first: Process | None = None
    since = 0.0
    running = list(processes)
    while running:
        time.sleep(0.02)
        while signals:
            number = signals.popleft()
            for process in processes:
                process.send(number)
        for process in running:
            code = process.popen.poll()
            # One that ends since another failed may be faster than that.
            if code and (first is None or first.popen.poll() == SECONDARY != code):
                since = since if first is not None else time.monotonic()
                first = process
        running = [process for process in running if process.popen.poll() is None]
        late = time.monotonic() - since if first is not None else 0.0
        if late > _GRACE:
            number = signal.SIGTERM if late < _GRACE + _TERMINATING else signal.SIGKILL
            for process in running:
                process.send(number)
    for process in processes:
        process.wait_for_exit()
    return first


def _report(failed: Process, count: int) -> int:
    """Prints the reason for the failure at the end."""
    status = failed.wait_for_exit()
    how = f"exit status {status}"
    if status > 128:
        with contextlib.suppress(ValueError):
            how = f"killed by {signal.Signals(status - 128).name}"
    print(f"weft.launch: process {failed.number} of {count} failed first: {how}", file=sys.stderr)
    sys.stderr.writelines(_traceback(list(failed.errors)))
    sys.stderr.flush()
    return status


def _traceback(lines: list[str]) -> list[str]:
    """The last traceback in the lines, or the last ten lines."""
    for start in range(len(lines) - 1, -1, -1):
        if lines[start].startswith("Traceback (most recent call last)"):
            return lines[start:]
    return lines[-10:]


if __name__ == "__main__":
    sys.exit(main())
