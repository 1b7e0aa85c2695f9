"""Joining the processes that work together, and leaving them."""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from weft.distributed.cluster import Membership, find
from weft.distributed.group import Group
from weft.distributed.messages import address_of, decode, encode, keep_alive, print_notice
from weft.errors import DistributedError, Fix, GuardError, WeftValueError, api_boundary
from weft.runtime import client, coordination
from weft.version import __version__

OPERATION = "distributed.initialize"
# How long a connection may not succeed before a line says that it is tried.
_SAID_AFTER = 5.0

_initialized = False
_group: Group | None = None
_shutdown_timeout = 300.0


@api_boundary("distributed.initialize")
def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 9,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    watchdog_seconds: float | None = None,
) -> None:
    """Joins the processes that run this program together, each with its own devices.

    To be called before anything that uses a device. What is not given is found in the environment:
    variables of weft's own (WEFT_COORDINATOR_ADDRESS, WEFT_NUM_PROCESSES, WEFT_PROCESS_ID, which
    `python -m weft.launch` sets), of Slurm, of Open MPI, or of an indexed job of Kubernetes.

    Args:
        coordinator_address: "host:port", where all processes reach process 0, which listens there.
        num_processes: How many processes there are.
        process_id: The number of this process, from 0.
        local_device_ids: Which GPUs of the machine are this process's.
        cluster_detection_method: "weft", "slurm", "open_mpi" or "kubernetes": the only environment
            that is looked at.
        initialization_timeout: The seconds in which all processes have to come.
        heartbeat_timeout_seconds: How long a machine may be silent.
        shutdown_timeout_seconds: How long a process that has come to its end waits for the others.
        coordinator_bind_address: Where process 0 listens, if that is another address.
        slice_index: Has no meaning here.
        partition_index: Has no meaning here.
        watchdog_seconds: After so long a wait for others, what each process does is printed to
            standard error. A process that is stuck is named within 10 seconds without it.

    Raises WeftValueError for arguments and variables that are missing or contradict each other,
    GuardError where a device was used before or this was called before, and DistributedError where
    the coordinator cannot be reached, or processes are missing, have the same number, different
    counts or different releases.
    """
    global _initialized, _group, _shutdown_timeout
    if _initialized:
        raise GuardError(f"{OPERATION} is called once")
    member = _membership(
        coordinator_address, num_processes, process_id, local_device_ids, cluster_detection_method
    )
    if client.is_started():
        message = f"{OPERATION} is called before anything that uses a device"
        raise GuardError(message, fix=Fix("order", "call it first in the program"))
    _shutdown_timeout = float(shutdown_timeout_seconds)
    if member.num_processes > 1:
        seconds = (initialization_timeout, heartbeat_timeout_seconds)
        _group = _join(member, coordinator_bind_address, *seconds)
        _group.watch(watchdog_seconds)
        atexit.register(shutdown)
    _initialized = True


def is_initialized() -> bool:
    """Whether `initialize` was called.

    >>> import weft
    >>> weft.distributed.is_initialized()
    False
    """
    return _initialized


def shutdown() -> None:
    """Leaves the processes that work together, once all of them do; called when a program ends.
    Nothing happens where none were joined."""
    global _initialized, _group
    _initialized = False
    if _group is not None:
        _group.leave(_shutdown_timeout)
        _group = None


# ---- what the arguments and the environment say --------------------------------------------------


def _membership(
    address: str | None, count: int | None, number: int | None,
    device_ids: int | Sequence[int] | None, kind: str | None,
) -> Membership:  # fmt: skip
    found = None
    if address is None or count is None or number is None:
        found = find(os.environ, kind)
    if found is not None:
        address = found.coordinator_address if address is None else address
        count = found.num_processes if count is None else count
        number = found.process_id if number is None else number
        device_ids = found.local_device_ids if device_ids is None else device_ids
    if number is None and count == 1:
        number = 0
    given = {"coordinator_address": address, "num_processes": count, "process_id": number}
    for name, value in given.items():
        if value is None:
            raise _missing_error(name)
    assert address is not None and count is not None and number is not None
    ids = (device_ids,) if isinstance(device_ids, int) else device_ids
    member = Membership(
        address, count, number, found.source if found else "arguments",
        found.hosts if found else None, tuple(ids) if ids is not None else None,
    )  # fmt: skip
    _check(member)
    return member


def _check(member: Membership) -> None:
    """Raises WeftValueError for what cannot be a place in a group."""
    count, number = member.num_processes, member.process_id
    if type(count) is not int or count < 1:
        message = f"{OPERATION}: num_processes is how many processes there are"
        wanted = "a whole number of 1 or more"
        raise WeftValueError(message, got=f"{count!r}", wanted=wanted)
    if type(number) is not int or not 0 <= number < count:
        message = f"{OPERATION}: process_id is the number of this process"
        got, wanted = f"process_id={number!r}", f"a whole number from 0 to {count - 1}"
        raise WeftValueError(message, got=got, wanted=wanted)
    try:
        host, _ = address_of(member.coordinator_address)
    except (ValueError, AttributeError):
        message = f"{OPERATION}: coordinator_address is a host and a port"
        got, wanted = f"{member.coordinator_address!r}", "an address like 'node1:1234'"
        raise WeftValueError(message, got=got, wanted=wanted) from None
    if host in coordination.LOOPBACK and (member.hosts or 1) > 1:
        message = f"{OPERATION}: the coordinator's address means each machine itself"
        got = f"{member.coordinator_address} for processes on {member.hosts} machines"
        text = "give the name or the address under which others reach the machine of process 0"
        wanted = "an address that all machines reach"
        raise WeftValueError(message, got=got, wanted=wanted, fix=Fix("argument", text))


def _missing_error(name: str) -> WeftValueError:
    message = f"{OPERATION}: {name} is not given, and nothing in the environment says it"
    text = (
        "pass coordinator_address, num_processes and process_id, or start the program with "
        "`python -m weft.launch -n 4 script.py`, srun or mpirun"
    )
    return WeftValueError(message, got=f"no {name}", fix=Fix("argument", text))


# ---- the meeting ---------------------------------------------------------------------------------


def _join(
    member: Membership, bind_address: str | None, timeout: int, heartbeat_timeout: int
) -> Group:
    """Meets the other processes."""
    deadline = time.monotonic() + timeout
    if member.process_id == 0:
        _start_coordinator(member, bind_address, timeout, heartbeat_timeout)
    connection = _connect(member, deadline)
    keep_alive(connection, heartbeat_timeout)
    connection.sendall(encode({"hello": _about(member)}))
    # The coordinator says in time that others are missing.
    connection.settimeout(max(0.0, deadline - time.monotonic()) + 10)
    port = _service_port(member, connection)
    connection.settimeout(None)
    host = address_of(member.coordinator_address)[0]
    group = Group(connection, member.process_id, member.num_processes)
    group.begin()  # before it waits for the others again, so that it hears of them
    distributed = coordination.connect(
        host, port, member.process_id, member.num_processes, timeout,
        member.local_device_ids, group,
    )  # fmt: skip
    client.set_distributed(distributed)
    return group


def _about(member: Membership) -> dict[str, Any]:
    releases = f"weft {__version__}, jaxlib {importlib.metadata.version('jaxlib')}"
    return {
        "process_id": member.process_id, "num_processes": member.num_processes,
        "host": socket.gethostname(), "pid": os.getpid(), "versions": releases,
    }  # fmt: skip


def _start_coordinator(
    member: Membership, bind_address: str | None, timeout: int, heartbeat_timeout: int
) -> None:
    """Starts the coordinator as a process, which outlives this one; see `coordinator`."""
    host, port = address_of(member.coordinator_address)
    if bind_address is None:
        local = host if host in coordination.LOOPBACK else "0.0.0.0"
        bind_address = f"{local}:{port}"
    command = [
        sys.executable, "-m", "weft.distributed.coordinator", bind_address,
        str(member.num_processes), str(timeout), str(heartbeat_timeout),
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # In a session of its own: a signal from the terminal to all processes leaves it alone.
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    answer = process.stdout.readline().strip()
    process.stdout.close()
    if answer != "ready":
        message = f"{OPERATION}: no coordinator can be started at {bind_address}: {answer}"
        text = "choose another port in coordinator_address, for all processes"
        raise DistributedError(message, fix=Fix("argument", text))


def _connect(member: Membership, deadline: float) -> socket.socket:
    """A connection to the coordinator, which may still be starting."""
    address = address_of(member.coordinator_address)
    said = time.monotonic() + _SAID_AFTER
    while True:
        remaining = deadline - time.monotonic()
        try:
            return socket.create_connection(address, timeout=max(0.1, min(5.0, remaining)))
        except OSError as error:
            reason = str(error)
        now = time.monotonic()
        if now > deadline:
            message = (
                f"{OPERATION}: process {member.process_id} does not reach the coordinator at "
                f"{member.coordinator_address}: {reason}"
            )
            wanted = "process 0 running there, at an address and port that this machine reaches"
            text = (
                "start process 0, and look whether coordinator_address is the same in all "
                "processes and a firewall lets its port through"
            )
            raise DistributedError(message, wanted=wanted, fix=Fix("address", text))
        if now > said:
            said = deadline + 1
            print_notice(
                f"process {member.process_id} waits for the coordinator at "
                f"{member.coordinator_address}, which process 0 starts ({reason})"
            )
        time.sleep(0.1)


def _service_port(member: Membership, connection: socket.socket) -> int:
    """The port of jaxlib's service, once all processes have joined."""
    try:
        answer = _next_message(connection)
        while "notice" in answer:
            print_notice(answer["notice"])
            answer = _next_message(connection)
    except (OSError, ValueError):
        message = f"{OPERATION}: {member.coordinator_address} does not answer as weft's coordinator"
        raise DistributedError(message) from None
    if "refused" in answer:
        message = f"{OPERATION}: {answer['refused']}"
        text = "start each process once, with the same count and numbers from 0"
        raise DistributedError(message, fix=Fix("processes", text))
    return int(answer["welcome"]["service_port"])


def _next_message(connection: socket.socket) -> dict[str, Any]:
    """Reads the next message, and no byte more: the rest is for the group."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            break
        line += part
    return decode(line)
