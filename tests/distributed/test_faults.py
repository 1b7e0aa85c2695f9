"""What goes wrong in a group of processes is named, in each of them, within seconds: nothing hangs
and no process dumps its core."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import time

import pytest
from group_runs import PROGRAM, finish, free_port, run, start

from processes import python_output
from weft.distributed.messages import SECONDARY

# From the fault to the end of the others.
WITHIN = 10.0


def spent(ended):
    """How long the others lived after the first that ended."""
    times = [one.seconds for one in ended]
    return max(times) - min(times)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_process_is_killed_during_a_step(victim):
    """Process 0 as well, which started the coordinator."""
    port = free_port()
    processes = [start(["die"], n, 3, port, VICTIM=str(victim)) for n in range(3)]
    assert processes[victim].wait(timeout=40) == -signal.SIGKILL
    began = time.monotonic()
    ended = finish(processes)
    assert time.monotonic() - began < WITHIN
    for number, one in enumerate(ended):
        if number != victim:
            assert one.status == SECONDARY
            assert f"process {victim} (" in one.errors and "without a word" in one.errors
            assert "group_program.py" in one.errors  # where it waited


def test_a_process_raises_an_error():
    ended = run("error", 3)
    assert [one.status for one in ended] == [SECONDARY, 1, SECONDARY] and spent(ended) < WITHIN
    assert ended[1].errors.rstrip().endswith("ValueError: bad data")
    for one in (ended[0], ended[2]):
        assert "process 1 (" in one.errors and "ended with ValueError: bad data" in one.errors


def test_errors_of_all_at_once():
    """Each prints its own, or that of another that came first; nothing comes in between."""
    for one in run("all_raise", 4):
        assert one.status in (1, SECONDARY) and "ValueError: bad data of" in one.errors
        assert one.errors.count("Traceback") == 1 and "lost sys.stderr" not in one.errors


def test_a_process_leaves_while_others_go_on():
    ended = run("leave", 2)
    assert [one.status for one in ended] == [SECONDARY, 7] and spent(ended) < WITHIN
    assert "process 1 has come to its end after" in ended[0].errors


def test_a_process_is_killed_while_others_do_not_wait_for_it():
    ended = run("sleep", 2)
    assert [one.status for one in ended] == [SECONDARY, -signal.SIGKILL] and spent(ended) < WITHIN
    assert "time.sleep(60)" in ended[0].errors


@pytest.mark.parametrize("mode", ["in_a_thread", "caught"])
def test_no_thread_waits_for_a_process_that_is_gone(mode):
    ended = run(mode, 2)
    assert [one.status for one in ended] == [SECONDARY, -signal.SIGKILL] and spent(ended) < WITHIN
    assert "process 1 (" in ended[0].errors
    assert ("caught: " in ended[0].out) == (mode == "caught")


def commands():
    """The numbers and command lines of all processes of the machine."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it may end while this is read
            yield int(path.parent.name), path.read_bytes()


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="needs /proc")
def test_the_coordinator_is_killed():
    port = free_port()
    processes = [start(["steps"], n, 2, port, VICTIM="9") for n in range(2)]
    wanted = f"weft.distributed.coordinator\x00127.0.0.1:{port}\x00".encode()
    numbers, deadline = [], time.monotonic() + 40
    while not numbers:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        numbers = [number for number, command in commands() if wanted in command]
    time.sleep(4)
    os.kill(numbers[0], signal.SIGKILL)
    began = time.monotonic()
    ended = finish(processes)
    assert time.monotonic() - began < WITHIN
    for one in ended:
        assert one.status == SECONDARY and "the coordinator ended" in one.errors


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("differ", "the processes run different programs"),
        ("put_different", "the processes put different values on the devices"),
        ("close_over_different", "an array that a program closes over"),
        ("different_barriers", "the processes wait at different barriers: process 0 at 'b'"),
        ("barrier_of_the_ended", "has come to its end, and does not come to barrier 'a'"),
    ],
)
def test_processes_that_do_different_things(mode, text):
    ended = run(mode, 2)
    assert max(one.seconds for one in ended) < WITHIN + 10  # with their starts
    blamed = [one for one in ended if one.status != 0]
    assert blamed and all(text in one.errors for one in blamed), ended
    if mode == "differ":
        assert all(one.errors.count("group_program.py:") >= 2 for one in blamed)


def test_a_stuck_process_is_named():
    ended = run("stuck", 3)
    assert [one.status for one in ended] == [0, 0, 0]
    report = ended[0].errors + ended[2].errors
    assert "process 1 has started" in report and "<- the others wait for it" in report
    assert "in be_stuck" in report and "all-reduce at" in report
    line = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "psum(x" in text)
    assert f"group_program.py:{line}" in report


# ---- the meeting ---------------------------------------------------------------------------------


def test_a_number_is_there_twice():
    port = free_port()
    ended = finish([start(["nothing"], n, 3, port) for n in (0, 1, 1)])
    assert {one.status for one in ended} == {1}
    assert all("two processes have one number: process 1" in one.errors for one in ended)


def test_a_process_is_missing():
    port = free_port()
    ended = finish([start(["nothing"], n, 3, port, INITIALIZATION="3") for n in (0, 2)])
    assert {one.status for one in ended} == {1} and max(one.seconds for one in ended) < 13
    assert all("1 did not come within 3 s: 1" in one.errors for one in ended)


def test_counts_differ():
    port = free_port()
    ended = finish([start(["nothing"], 0, 3, port), start(["nothing"], 1, 2, port)])
    assert {one.status for one in ended} == {1}
    assert all("different counts: process 1" in one.errors for one in ended)


def test_the_coordinator_is_not_there():
    port = free_port()
    (ended,) = finish([start(["nothing"], 1, 2, port, INITIALIZATION="2")])
    assert (
        ended.status == 1 and f"does not reach the coordinator at 127.0.0.1:{port}" in ended.errors
    )


def test_the_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (ended,) = finish([start(["nothing"], 0, 2, port, INITIALIZATION="2")])
    assert ended.status == 1 and "no coordinator can be started" in ended.errors
    assert "choose another port" in ended.errors


def test_a_stranger_speaks_to_the_coordinator():
    """What is no process of the group does not disturb the meeting."""
    port = free_port()
    first = start(["nothing"], 0, 2, port)
    for _ in range(400):
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
            break
        except OSError:
            time.sleep(0.05)
    with stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        ended = finish([first, start(["nothing"], 1, 2, port)])
    assert [one.status for one in ended] == [0, 0], ended


def test_arguments_of_initialize():
    """In processes of their own: a process joins once."""
    script = """
import os, weft
from weft.distributed import initialize
from weft.errors import WeftValueError
def refused(text, *args, **kwargs):
    try:
        initialize(*args, **kwargs)
    except WeftValueError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
refused("coordinator_address is not given")
refused("process_id is not given", "localhost:1", 2)
refused("a whole number from 0 to 1", "localhost:1", 2, 2)
refused("how many processes", "localhost:1", 0, 0)
for address in ("localhost", "localhost:", ":80", "localhost:99999", 80):
    refused("a host and a port", address, 2, 0)
refused("there is no kind of cluster", cluster_detection_method="slum")
os.environ.update(
    SLURM_JOB_ID="1", SLURM_PROCID="0", SLURM_NTASKS="x", SLURM_STEP_NODELIST="a[1-2]"
)
refused("SLURM_NTASKS is a whole number")
os.environ.update(SLURM_NTASKS="2", SLURM_NNODES="2")
refused("means each machine itself", "127.0.0.1:80")
initialize("localhost:1234", 1, 0)
assert weft.distributed.is_initialized() and weft.process_count() == 1
try:
    initialize("localhost:1234", 1, 0)
except RuntimeError as error:
    assert "called once" in str(error)
weft.distributed.shutdown()
"""
    python_output("-c", script)
