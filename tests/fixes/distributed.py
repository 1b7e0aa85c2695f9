"""Fixes of what joins processes, as far as one process comes; tests/distributed has several."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np

import weft
from fixes import Fixed
from weft import distributed
from weft.distributed import cluster
from weft.errors import ShapeError, WeftValueError

SLURM = {
    "SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_NNODES": "2",
    "SLURM_STEP_NODELIST": "a[1-2]",
}  # fmt: skip


def split():
    return weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))


def made(length, shape=None):
    return weft.make_array_from_process_local_data(split(), np.arange(float(length)), shape)


def initialized(environment, *args):
    with mock.patch.dict(os.environ, environment):
        return distributed.initialize(*args)


FIXES = [
    Fixed(
        "pad the data to a multiple of the blocks",
        wrong=lambda: made(3),
        fixed=lambda fix: made(4),
        value=np.arange(4.0),
        error=ShapeError,
    ),
    Fixed(
        "leave global_shape out",
        wrong=lambda: made(4, (8,)),
        fixed=lambda fix: made(4),
        value=np.arange(4.0),
        error=ShapeError,
    ),
    Fixed(
        "pass 'slurm', or nothing",
        wrong=lambda: distributed.initialize(cluster_detection_method="slum"),
        fixed=lambda fix: cluster.find(SLURM, fix.data["cluster_detection_method"]).num_processes,
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        "set it, or pass coordinator_address, num_processes and process_id",
        wrong=lambda: initialized(SLURM | {"SLURM_NTASKS": "two"}),
        fixed=lambda fix: cluster.find(SLURM).num_processes,
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        "give the name or the address under which others reach the machine of process 0",
        wrong=lambda: initialized(SLURM, "127.0.0.1:80"),
        fixed=lambda fix: cluster.find(SLURM).coordinator_address.startswith("a1:"),
        value=True,
        error=WeftValueError,
    ),
]
