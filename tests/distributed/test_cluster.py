"""What launchers and schedulers leave in the environment."""

from __future__ import annotations

import pytest

from weft.distributed import cluster
from weft.distributed.messages import address_of
from weft.errors import WeftValueError

pytestmark = pytest.mark.fast

WEFT = {
    "WEFT_COORDINATOR_ADDRESS": "node7:1234", "WEFT_NUM_PROCESSES": "4", "WEFT_PROCESS_ID": "2",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "1234", "SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_NNODES": "4",
    "SLURM_STEP_NODELIST": "gpu[007-009,012],cpu1", "SLURM_STEP_ID": "0",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_NAMESPACE": "prterun-host-77@1",
}  # fmt: skip
KUBERNETES = {
    "JOB_COMPLETION_INDEX": "3", "KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-3",
    "WEFT_NUM_PROCESSES": "8", "WEFT_SERVICE": "train-service",
}  # fmt: skip


def said(environment, kind=None):
    found = cluster.find(environment, kind)
    return found.source, found.coordinator_address, found.num_processes, found.process_id


def test_kinds():
    assert said(WEFT) == ("weft", "node7:1234", 4, 2)
    assert said(SLURM)[0] == "slurm" and said(SLURM)[2:] == (16, 5)
    assert address_of(said(SLURM)[1])[0] == "gpu007" and cluster.find(SLURM).hosts == 4
    assert said(OPEN_MPI)[0] == "open_mpi" and said(OPEN_MPI)[2:] == (4, 1)
    assert said(KUBERNETES) == ("kubernetes", "train-0.train-service:8476", 8, 3)
    assert cluster.find({}) is None


def test_weft_goes_first_and_a_kind_can_be_named():
    assert said(SLURM | WEFT)[0] == "weft" and said(SLURM | WEFT, "slurm")[0] == "slurm"
    assert cluster.find(WEFT, "slurm") is None
    with pytest.raises(WeftValueError, match="no kind of cluster 'slurn'") as caught:
        cluster.find({}, "slurn")
    assert cluster.find({}, caught.value.fix.data["cluster_detection_method"]) is None


def test_all_processes_of_a_job_find_one_address():
    """And steps of a job, or jobs of a machine, others."""
    addresses = {said(SLURM | {"SLURM_PROCID": str(n)})[1] for n in range(16)}
    assert len(addresses) == 1
    others = {said(SLURM | {"SLURM_STEP_ID": str(n)})[1] for n in range(8)}
    assert len(others) == 8
    ranks = {said(OPEN_MPI | {"OMPI_COMM_WORLD_RANK": str(n)})[1] for n in range(4)}
    assert len(ranks) == 1
    for number in range(0, 100_000, 37):
        _, port = address_of(said(SLURM | {"SLURM_JOB_ID": str(number)})[1])
        assert 61440 <= port < 65536


def test_open_mpi_on_several_machines():
    several = OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    with pytest.raises(WeftValueError, match="WEFT_COORDINATOR_ADDRESS has to be set"):
        cluster.find(several)
    older = several | {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"}
    assert said(older)[1].startswith("10.96.0.1:")


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        (WEFT | {"WEFT_NUM_PROCESSES": "four"}, "WEFT_NUM_PROCESSES"),
        ({k: v for k, v in WEFT.items() if k != "WEFT_PROCESS_ID"}, "WEFT_PROCESS_ID"),
        (SLURM | {"SLURM_NTASKS": ""}, "SLURM_NTASKS"),
        ({k: v for k, v in KUBERNETES.items() if k != "WEFT_SERVICE"}, "WEFT_SERVICE"),
        ({k: v for k, v in KUBERNETES.items() if k != "WEFT_NUM_PROCESSES"}, "WEFT_NUM_PROCESSES"),
        (WEFT | {"WEFT_LOCAL_DEVICE_IDS": "0;1"}, "WEFT_LOCAL_DEVICE_IDS"),
    ],
)
def test_bad_variables_are_named(environment, name):
    with pytest.raises(WeftValueError, match=name) as caught:
        cluster.find(environment)
    assert caught.value.fix.kind == "environment"


def test_local_device_ids():
    assert cluster.find(WEFT | {"WEFT_LOCAL_DEVICE_IDS": "0,3"}).local_device_ids == (0, 3)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("n1", "n1"), ("a1,b2", "a1"), ("gpu[007-009]", "gpu007"), ("x[3]", "x3"),
        ("rack1-[10,12]-ib,other", "rack1-10-ib"), ("a-b.example", "a-b.example"),
    ],
)  # fmt: skip
def test_lists_of_machines(text, first):
    assert cluster.first_host(text) == first


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:0", "host:70000", "host:x"])
def test_addresses_that_are_none(text):
    with pytest.raises(ValueError, match=r".*"):
        address_of(text)
