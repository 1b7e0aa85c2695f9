"""No process outlives the test that started it."""

from __future__ import annotations

import group_runs
import pytest


@pytest.fixture(autouse=True)
def none_is_left():
    yield
    while group_runs.started:
        process = group_runs.started.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
