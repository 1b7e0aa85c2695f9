"""Which processes work together, found in the environment that a launcher or a scheduler left.

Each kind of launcher is a function that reads a mapping of environment variables, and returns what
it says of this process, or None if it did not start it. Sources: the variables of Slurm
(https://slurm.schedmd.com/srun.html), Open MPI (https://docs.open-mpi.org, "Environment variables
set by mpirun"), and indexed jobs of Kubernetes
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from weft.errors import Fix, WeftValueError
from weft.errors.argument_errors import close_name

Environment = Mapping[str, str]
OPERATION = "distributed.initialize"


@dataclasses.dataclass(frozen=True)
class Membership:
    """The facts a process needs to join: the address of the meeting, the number of processes, and
    its own number. `source` says where they were found; `hosts` is the number of machines, if
    known."""

    coordinator_address: str
    num_processes: int
    process_id: int
    source: str
    hosts: int | None = None
    local_device_ids: tuple[int, ...] | None = None


def _weft(environment: Environment) -> Membership | None:
    """Variables of weft's own, which `python -m weft.launch` sets."""
    if "WEFT_COORDINATOR_ADDRESS" not in environment:
        return None
    return Membership(
        environment["WEFT_COORDINATOR_ADDRESS"],
        _number(environment, "WEFT_NUM_PROCESSES"),
        _number(environment, "WEFT_PROCESS_ID"),
        "weft",
        local_device_ids=_device_ids(environment),
    )


def _slurm(environment: Environment) -> Membership | None:
    """A step of Slurm with several tasks: `srun python script.py`."""
    if not {"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST"} <= environment.keys():
        return None
    # Of one number for all tasks of a step, and of another for each step of a job: steps of a job
    # that share a machine do not meet at one address.
    step = _number(environment, "SLURM_STEP_ID") if "SLURM_STEP_ID" in environment else 0
    port = _port_of(_number(environment, "SLURM_JOB_ID") * 31 + step)
    host = first_host(environment["SLURM_STEP_NODELIST"])
    count = "SLURM_STEP_NUM_NODES" if "SLURM_STEP_NUM_NODES" in environment else "SLURM_NNODES"
    return Membership(
        f"{host}:{port}",
        _number(environment, "SLURM_NTASKS"),
        _number(environment, "SLURM_PROCID"),
        "slurm",
        hosts=_number(environment, count) if count in environment else None,
        local_device_ids=_device_ids(environment),
    )


def _open_mpi(environment: Environment) -> Membership | None:
    """A rank of Open MPI: `mpirun python script.py`."""
    if "OMPI_COMM_WORLD_RANK" not in environment:
        return None
    size = _number(environment, "OMPI_COMM_WORLD_SIZE")
    local = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")
    # Up to release 4 the launcher's address is in the environment, as 1234.0;tcp://10.0.0.1:34567;
    # later ones do not say where the first rank is.
    known = environment.get("OMPI_MCA_orte_hnp_uri", "")
    found = re.match(r"(\d+)\.\d+;tcp6?://\[?([^,:\]/]+)", known)
    if found:
        address = f"{found[2]}:{_port_of(int(found[1]))}"
    elif size == local:
        name = environment.get("PMIX_NAMESPACE", environment.get("OMPI_MCA_ess_base_jobid", "0"))
        address = f"127.0.0.1:{_port_of(sum(map(ord, name)) * 31)}"
    else:
        address = _variable(environment, "WEFT_COORDINATOR_ADDRESS", "Open MPI on several machines")
    return Membership(
        address,
        size,
        _number(environment, "OMPI_COMM_WORLD_RANK"),
        "open_mpi",
        hosts=1 if size == local else None,
        local_device_ids=_device_ids(environment),
    )


def _kubernetes(environment: Environment) -> Membership | None:
    """A pod of an indexed job with a headless service, which gives pods their names."""
    if not {"JOB_COMPLETION_INDEX", "KUBERNETES_SERVICE_HOST"} <= environment.keys():
        return None
    index = _number(environment, "JOB_COMPLETION_INDEX")
    # The host name of a pod of an indexed job is that of the job, and the index.
    name = environment.get("HOSTNAME", "").removesuffix(f"-{index}")
    service = _variable(environment, "WEFT_SERVICE", "a job of Kubernetes: its headless service")
    return Membership(
        f"{name}-0.{service}:{environment.get('WEFT_COORDINATOR_PORT', '8476')}",
        int(_variable(environment, "WEFT_NUM_PROCESSES", "a job of Kubernetes: its completions")),
        index,
        "kubernetes",
        local_device_ids=_device_ids(environment),
    )


KINDS: dict[str, Callable[[Environment], Membership | None]] = {
    "weft": _weft,
    "slurm": _slurm,
    "open_mpi": _open_mpi,
    "kubernetes": _kubernetes,
}


def find(environment: Environment, kind: str | None = None) -> Membership | None:
    """Finds the membership of this process from environment variables: those of the first kind of
    launcher that started it, or of the named kind. None if no launcher did.

    Raises WeftValueError for an unknown kind, and for variables that are missing or no numbers.

    >>> from weft.distributed.cluster import find
    >>> found = find(
    ...     {
    ...         "SLURM_JOB_ID": "7",
    ...         "SLURM_PROCID": "3",
    ...         "SLURM_NTASKS": "8",
    ...         "SLURM_NNODES": "2",
    ...         "SLURM_STEP_NODELIST": "node[04-05]",
    ...     }
    ... )
    >>> found.coordinator_address, found.num_processes, found.process_id
    ('node04:61657', 8, 3)
    """
    if kind is not None and kind not in KINDS:
        near = close_name(kind, list(KINDS)) or "slurm"
        message = f"{OPERATION}: there is no kind of cluster {kind!r}"
        fix = Fix("argument", f"pass {near!r}, or nothing", {"cluster_detection_method": near})
        wanted = f"one of {', '.join(map(repr, KINDS))}"
        raise WeftValueError(message, operation=OPERATION, got=kind, wanted=wanted, fix=fix)
    for name, read in KINDS.items():
        if kind in (None, name) and (out := read(environment)) is not None:
            return out
    return None


def first_host(nodes: str) -> str:
    """The first machine of a list as Slurm writes it.

    >>> first_host("gpu[007-009,12],cpu1"), first_host("a1,b2")
    ('gpu007', 'a1')
    """
    found = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodes)
    assert found is not None  # every text matches
    return "".join(part or "" for part in found.groups())


def _port_of(number: int) -> int:
    """A port that all processes of a job derive from its number, above the ephemeral ports of Linux
    (32768 to 60999)."""
    return 61440 + number % 4096


def _device_ids(environment: Environment) -> tuple[int, ...] | None:
    text = environment.get("WEFT_LOCAL_DEVICE_IDS")
    if not text:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        message = f"{OPERATION}: WEFT_LOCAL_DEVICE_IDS is a list of whole numbers"
        raise _environment_error(message, text, "numbers like 0,1") from None


def _number(environment: Environment, name: str) -> int:
    text = environment.get(name, "")
    if not text.isdigit():
        message = f"{OPERATION}: the environment variable {name} is a whole number"
        raise _environment_error(message, repr(text) if text else "nothing", "a whole number")
    return int(text)


def _variable(environment: Environment, name: str, where: str) -> str:
    text = environment.get(name, "")
    if not text:
        message = f"{OPERATION}: the environment variable {name} has to be set ({where})"
        raise _environment_error(message, "nothing", f"{name}=...")
    return text


def _environment_error(message: str, got: str, wanted: str) -> WeftValueError:
    text = "set it, or pass coordinator_address, num_processes and process_id"
    fix = Fix("environment", text)
    return WeftValueError(message, operation=OPERATION, got=got, wanted=wanted, fix=fix)
