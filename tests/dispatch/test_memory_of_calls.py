"""A call leaves no memory behind, whoever runs it and whether anything waits for its result or not.

`tests/support/memory_of_calls.py` measures each way to run something in a process of its own.
"""

from __future__ import annotations

import ctypes
import gzip
import os
import pathlib
import subprocess
import sys

import pytest

from processes import python_output
from weft.native import optional

MEASURING = pathlib.Path(__file__).parents[1] / "support" / "memory_of_calls.py"
PATHS = [
    pytest.param({"WEFT_COMPILED_CALLS": "1"}, id="compiled module"),
    pytest.param({"WEFT_COMPILED_CALLS": "0"}, id="Python"),
    pytest.param({"WEFT_ALLOCATION_TRACEBACKS": "1"}, id="with tracebacks"),
]


def left_by_calls(environment, *arguments):
    """The bytes that a call of each way leaves."""
    if environment.get("WEFT_COMPILED_CALLS") == "1" and optional.calls is None:
        pytest.skip("the compiled module is not built")
    # With another effort the compiled module leaves eager operations to Python.
    environment = {**os.environ, "WEFT_COMPILE_EFFORT": "full", **environment}
    out = python_output(MEASURING, *arguments, timeout=None, env=environment)
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) > 40
    return {name: float(left) for name, left in rows}


# Each allocation of the C library takes at least 32 bytes, and its books 16 of them.
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="no glibc from 2.33 on")
@pytest.mark.parametrize("environment", PATHS)
def test_a_call_leaves_no_memory(environment):
    left = left_by_calls(environment, "in-use", "3000")
    assert {name: each for name, each in left.items() if each > 8} == {}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="not Linux")
@pytest.mark.parametrize("environment", PATHS)
def test_a_million_calls_leave_no_memory(environment):
    left = left_by_calls(environment, "resident", "1000000")
    assert {name: each for name, each in left.items() if each > 0.5} == {}


def test_profiles_of_memory_name_lines_where_they_are_asked_for():
    program = (
        "import sys, weft, weft.numpy as jnp\n"
        "def made_here():\n"
        "    return jnp.ones((10, 10)) * 2\n"
        "kept = made_here()\n"
        "sys.stdout.buffer.write(weft.profiler.device_memory_profile())\n"
    )
    for flag in ("0", "1"):
        environment = {**os.environ, "WEFT_ALLOCATION_TRACEBACKS": flag}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert (b"made_here" in gzip.decompress(done.stdout)) == (flag == "1")
