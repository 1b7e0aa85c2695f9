"""The tests of `weft.profiler`, in a process of their own.

A profile belongs to the whole process and reaches into every thread of the compiler: the tests that
come after it shall not have it behind them.
"""

from __future__ import annotations

import os

import pytest

from processes import python_output
from source_files import ROOT

pytestmark = pytest.mark.fast

FOLDER = ROOT / "tests" / "support"


def test_the_profiler_in_a_process_of_its_own():
    python_output(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", FOLDER / "profiler_cases.py",
        cwd=FOLDER.parent, env={**os.environ, "WEFT_TEST_TIER": "all"},
    )  # fmt: skip
