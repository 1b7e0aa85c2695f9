"""Runs a program in several processes that work together, each a process of the system."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = HERE / "group_program.py"


# All processes that tests have started: none outlives its test.
started: list[subprocess.Popen[str]] = []


@dataclasses.dataclass
class Ended:
    """A process that has ended: its status (negative for a signal), its output, and when."""

    status: int
    out: str
    errors: str
    seconds: float


def free_port():
    """A port of this machine that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def environment(number, count, port, devices=2, **more):
    """The variables of one process of a group."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_FLAGS"))}
    return kept | {
        "PYTHONPATH": str(ROOT),
        "WEFT_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "WEFT_NUM_PROCESSES": str(count),
        "WEFT_PROCESS_ID": str(number),
        "WEFT_NUM_CPU_DEVICES": str(devices),
        **more,
    }


def start(arguments, number, count, port, devices=2, **more):
    """Starts one process of a group."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment(number, count, port, devices, **more),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started.append(process)
    return process


def finish(processes, limit=60.0):
    """Waits for processes; those that take longer than the limit are killed, and the test fails."""
    began = time.monotonic()
    ended = []
    for process in processes:
        try:
            out, errors = process.communicate(timeout=max(0.1, began + limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            out, errors = process.communicate()
            raise AssertionError(f"a process hangs:\n{out}\n{errors}") from None
        ended.append(Ended(process.returncode, out, errors, time.monotonic() - began))
    return ended


def run(mode, count, devices=2, **more):
    """The ended processes of a group that runs one mode of the program."""
    port = free_port()
    return finish([start([mode], n, count, port, devices, **more) for n in range(count)])
