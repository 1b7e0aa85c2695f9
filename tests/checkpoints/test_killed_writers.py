"""A writer that is killed at any moment leaves the checkpoint before, and nothing that counts.

A process that has imported all there is forks the writers, so that a killed one costs milliseconds.
A writer first restores the last checkpoint, all of it verified, and ends with a status of its own
where it is not as it was saved.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from weft.checkpoints import Checkpoints

WRITERS = """
import os, pathlib, signal, sys
import numpy as np
import weft, weft.numpy as jnp, tensorstore
from weft import checkpoints
from weft.checkpoints import chunks, restoring, saving, step_directory

EVENTS = {"open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.listdir", "os.scandir",
          "fcntl.flock", "shutil.rmtree"}
NAMELESS = {"os.rmdir", "os.remove", "fcntl.flock"}

def tree(step):
    return {"zeros": np.zeros(step % 5), "w": jnp.full((64, 64), step),
            "big": np.arange(200_000) + step, "step": step}

def restored(kept):
    last = kept.latest()
    if last is None:
        return -1
    found, wanted = kept.restore(), tree(last)
    for name, value in wanted.items():
        if not np.array_equal(found[name], value):
            os._exit(3)
    return last

def writer(directory, deadly):
    kept = checkpoints.Checkpoints(directory, keep=2)
    step = restored(kept) + 1
    if deadly:  # dies at this operation on files in the directory
        left = deadly
        def hook(event, args):
            nonlocal left
            # What is removed is named in its folder.
            if event in EVENTS and (directory in str(args[:1]) or event in NAMELESS):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        kept.save(step, tree(step), wait=True)
        return
    kept.save(step, tree(step), wait=True)
    os.write(1, b"w")
    while True:  # until it is killed
        step += 1
        kept.save(step, tree(step))

for line in sys.stdin:
    directory, deadly = line.split()
    pid = os.fork()
    if not pid:
        try:
            writer(directory, int(deadly))
            os._exit(0)
        except BaseException as error:
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(4)
    os.write(1, f"{pid}\\n".encode())
    os.write(1, f"{os.waitpid(pid, 0)[1]}\\n".encode())
"""

KILLED = signal.SIGKILL


@pytest.fixture(scope="module")
def writers():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITERS], **pipes) as process:
        yield process
        process.stdin.close()


def say(writers, directory, deadly):
    writers.stdin.write(f"{directory} {deadly}\n".encode())
    writers.stdin.flush()


def last_whole(directory):
    """The last step. All of every step that counts is as it was saved."""
    kept = Checkpoints(directory)
    for step in kept.steps():
        found = kept.restore(step)
        assert found["step"] == step and (np.asarray(found["w"]) == step).all()
        assert (found["big"] == np.arange(200_000) + step).all()
        assert found["zeros"].shape == (step % 5,)
    last = kept.latest()
    return -1 if last is None else last


def test_killed_at_each_operation_on_files(writers, tmp_path):
    """At the first, the second, … until a save is not reached by the kill any more."""
    reached = []
    for number in range(1, 400):
        before = last_whole(tmp_path)
        say(writers, tmp_path, number)
        writers.stdout.readline()
        status = int(writers.stdout.readline())
        after = last_whole(tmp_path)
        assert after in (before, before + 1)
        if status == 0:
            break
        assert os.WTERMSIG(status) == KILLED, f"status {status} at operation {number}"
        reached.append(after - before)
    assert status == 0 and after == before + 1
    assert sum(reached) > 0, "some were killed after the commit"
    assert reached.count(0) > 15, "many were killed before it"
    steps = [n for n in (after - 1, after) if n >= 0]
    assert sorted(os.listdir(tmp_path)) == [f"step_{n:08d}" for n in steps]


def test_killed_at_random_moments(writers, tmp_path):
    rng = random.Random(0)
    lasts = []
    for _ in range(30):
        say(writers, tmp_path, 0)
        found = b""
        while found.count(b"w") < 1 or not found.replace(b"w", b"").endswith(b"\n"):
            found += os.read(writers.stdout.fileno(), 1)
        time.sleep(rng.uniform(0, 0.15))
        os.kill(int(found.replace(b"w", b"")), KILLED)
        status = int(writers.stdout.readline())
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == KILLED, status
        lasts.append(last_whole(tmp_path))
    assert lasts == sorted(set(lasts)), "each writer saved one step before it was killed"
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(lasts[-1] + 1, {"x": 1}, wait=True)
    assert os.listdir(tmp_path) == [f"step_{lasts[-1] + 1:08d}"]
