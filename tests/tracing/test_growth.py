"""The cost of tracing, lowering and calling grows as the work does: counted, so that it is exact.

What benchmarks/growth times to the largest sizes is done here at small ones, and the lines and
calls of Python that it takes are counted.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
import weft.lax
import weft.numpy
import weft.tree_util
from source_files import ROOT

sys.path[:0] = [str(ROOT / "benchmarks" / "growth"), str(ROOT / "benchmarks")]

# Found by the line above.
import quantities  # noqa: E402

import ir_stats  # noqa: E402

LIMIT = 1.1
# Every level looks its function up by content, and the content of a function has that of all within
# it: a few dozen steps for each pair of levels.
KEYS_OF_NESTS = 1.7
# XLA is not Python; only the calls of Python are compared.
COUNTED = [m for m in quantities.MEASUREMENTS if "XLA" not in m.name]
SMALL = {
    "devices": (2, 4, 8),
    "nested transformations": (1, 2, 3, 4, 5, 6),
    "signatures in a cache": (8, 16),
}


def steps_of(function: Callable[[], Any]) -> tuple[int, Any]:
    """The lines and calls of Python that a call takes, and its result."""
    count = itertools.count()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        next(count)
        return trace

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call":
            next(count)

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        result = function()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return next(count), result


def series(measurement: Any) -> Iterator[tuple[str, list[int], list[int]]]:
    """For each thing that is measured: its name, the work at each size, the steps it took."""
    sizes = SMALL.get(measurement.quantity, (60, 120, 240))
    prepare = measurement.start(weft)
    if measurement.repetitions > 1:  # what the first use fills is charged to no size
        for part in parts(prepare(sizes[0])).values():
            getattr(part, "function", part)()
    found: dict[str, tuple[list[int], list[int]]] = {}
    for size in sizes:
        for label, part in parts(prepare(size)).items():
            if "XLA" in label:
                part()
                continue
            call = getattr(part, "function", part)
            if call is not part:
                call()
            taken, result = steps_of(call)
            work, steps = found.setdefault(label, ([], []))
            steps.append(taken)
            nests = measurement.work == "equations"
            work.append(ir_stats.count_eqns(result)[1] if nests else size)
    for label, (work, steps) in found.items():
        if measurement.work == "equations":  # each level records what is within it
            work = list(itertools.accumulate(work))
        yield label, work, steps


def parts(prepared: Any) -> dict[str, Any]:
    return prepared if isinstance(prepared, dict) else {"": prepared}


def exponent(work: list[int], steps: list[int]) -> float:
    """Over the upper half of the sizes."""
    half = len(work) // 2 if len(work) > 2 else 0
    return math.log(steps[-1] / steps[half]) / math.log(work[-1] / work[half])


@pytest.mark.parametrize(
    "measurement", COUNTED, ids=[f"{m.quantity}, {m.name or m.start.__name__}" for m in COUNTED]
)
def test_steps_grow_no_faster_than_the_work(measurement):
    nests = measurement.quantity == "nested transformations" and measurement.work == "size"
    limit = KEYS_OF_NESTS if nests else LIMIT
    for label, work, steps in series(measurement):
        assert exponent(work, steps) <= limit, (label, work, steps)
        if measurement.quantity == "signatures in a cache" and "call" in label:
            assert steps[0] == steps[-1], (label, steps)


def test_what_grows_faster_is_found():
    steps = [steps_of(lambda n=n: sum(1 for i in range(n) for j in range(i)))[0] for n in (60, 120)]
    assert exponent([60, 120], steps) > 1.8
