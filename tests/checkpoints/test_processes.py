"""Checkpoints of several processes: each writes and reads its parts, into any other number of
processes; what happens to one of them is heard by all."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

import checkpoint_programs as programs
from weft import checkpoints

PROGRAM = pathlib.Path(programs.__file__)


def run(count, devices, *arguments):
    """(output, exit status) of each process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    shared = {
        **os.environ, "WEFT_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "WEFT_NUM_PROCESSES": str(count), "WEFT_NUM_CPU_DEVICES": str(devices),
    }  # fmt: skip
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    started = [
        subprocess.Popen(command, env=shared | {"WEFT_PROCESS_ID": str(n)}, **pipes)
        for n in range(count)
    ]
    return [(process.communicate(timeout=90)[0], process.returncode) for process in started]


def succeeds(*args):
    done = run(*args)
    assert [status for _, status in done] == [0] * len(done), "\n".join(out for out, _ in done)
    return "".join(out for out, _ in done)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of two processes with four devices each."""
    path = tmp_path_factory.mktemp("processes") / "model"
    succeeds(2, 4, "saving", path)
    return path


def test_what_two_processes_saved_one_restores(saved):
    programs.check(checkpoints.restore(saved))
    programs.restoring(saved)
    assert not (saved / "processes").exists()


def test_what_two_processes_saved_four_restore(saved):
    succeeds(4, 2, "restoring", saved)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder and what two processes print that do in it, one after the other, what the tests
    below look at."""
    folder = tmp_path_factory.mktemp("two")
    programs.saving(folder / "of_one")
    programs.saving_one(folder / "quarters")
    out = succeeds(
        2, 2, "restoring", folder / "of_one", "reading_what_is_needed", folder / "quarters",
        "steps", folder / "steps", "one_cannot_write", folder / "full",
        "different_trees", folder / "different", "of_other_processes", folder / "others",
    )  # fmt: skip
    return folder, out


def test_what_one_process_saved_two_restore(two):
    """The program's own checks have passed."""


def test_a_process_reads_what_its_devices_need(two):
    _, out = two
    assert sorted(re.findall("process . read .*", out)) == [
        f"process {n} read {programs.TABLE.nbytes // 2} of {programs.TABLE.nbytes} bytes"
        for n in range(2)
    ]


def test_steps_in_the_background(two):
    folder, _ = two
    kept = checkpoints.Checkpoints(folder / "steps")
    assert kept.steps() == [2, 3]
    assert (np.asarray(kept.restore()["w"]) == programs.TABLE + 3).all()


def test_all_hear_of_a_process_that_cannot_write(two):
    folder, out = two
    assert re.search("process 0: .*full.*was not written: .*process 1 failed.*No space left", out)
    assert re.search("process 1: .*full.*was not written: .*No space left", out)
    assert checkpoints.Checkpoints(folder / "full").steps() == [1, 3]


def test_processes_that_save_different_trees(two):
    folder, out = two
    assert r"process 1 saves another tree than process 0, at the leaf ['b']" in out
    assert re.search("process 1: .*different was not written", out)
    assert not (folder / "different").exists()


def test_an_array_that_process_0_has_nothing_of(two):
    folder, out = two
    assert re.search(r"process 0: .*others was not written: no process wrote .* leaf \['x'\]", out)
    assert re.search("process 1: .*others was not written", out)
    assert not (folder / "others").exists()


def test_a_process_killed_while_it_writes(tmp_path):
    done = run(2, 2, "killed", tmp_path)
    assert done[1][1] == -9 and done[0][1] not in (0, None) and "process 1" in done[0][0]
    kept = checkpoints.Checkpoints(tmp_path)
    assert kept.steps() == [1] and (tmp_path / "step_00000002.partial").is_dir()
    assert (np.asarray(kept.restore()["w"]) == programs.TABLE).all()
    kept.save(2, {"w": np.zeros(3)}, wait=True)
    assert sorted(os.listdir(tmp_path)) == ["step_00000001", "step_00000002"]
