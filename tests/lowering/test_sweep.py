"""What XLA makes of every public function of arrays: no more fusions and bytes than were recorded.

`make sweep` measures the expressions of benchmarks/sweep beside JAX. How many fusions there are and
how many bytes they read and write does not depend on how busy a machine is; here it is held.
"""

import functools
import importlib.metadata
import json
import pathlib
import sys
import zlib

import pytest

import weft

SWEEP = pathlib.Path(__file__).parents[2] / "benchmarks" / "sweep"
RECORDED = json.loads((SWEEP / "counts.json").read_text(encoding="utf-8"))
# XLA's passes choose by costs, and a release or a processor may choose otherwise.
SLACK = 1.25
PARTS = 16


@functools.cache
def measuring():
    """The module that measures, with what expressions may name."""
    sys.path[:0] = [str(SWEEP), str(SWEEP.parent)]
    try:
        measure = __import__("measure")
    finally:
        del sys.path[:2]
    return measure, measure.namespace("weft")


def part(number):
    """A part of all expressions, by their text; but for the first, the parts are slow together."""
    keys = [key for key in RECORDED["rows"] if zlib.crc32(key.encode()) % PARTS == number]
    return pytest.param(keys, marks=[pytest.mark.slow] if number else [], id=str(number))


@pytest.mark.skipif(
    f"jaxlib {importlib.metadata.version('jaxlib')}," not in RECORDED["version"],
    reason="recorded with another release of XLA",
)
@pytest.mark.parametrize("keys", [part(number) for number in range(PARTS)])
@pytest.mark.usefixtures("optimized")
def test_no_more_fusions_and_bytes_than_recorded(keys):
    measure, names = measuring()
    worse = []
    for key in keys:
        text, form = key.rsplit(" | ", 1)
        fusions, size = RECORDED["rows"][key]
        found = measure.counts(compiled(measure, names, text, form))
        if found["fusions"] > SLACK * fusions + 1:
            worse.append(f"{key}: {found['fusions']} fusions, recorded {fusions}")
        if found["bytes"] > SLACK * size + 4096:
            worse.append(f"{key}: {found['bytes']:.4g} bytes, recorded {size:.4g}")
    assert not worse, "\n".join(worse)


def compiled(measure, names, text, form):
    function, arrays = measure.prepared(weft, names, text, form, "large")
    return weft.jit(function).lower(*arrays).compile()
