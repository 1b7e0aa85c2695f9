"""The programs of benchmarks/programs at a tiny size: they run, and compute what NumPy computes."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import numpy as np
import pytest

import program_references
import weft
from source_files import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from programs import registry

    PROGRAMS = registry.load()
finally:
    del sys.path[0]

registry.library("weft")
RECORDED = json.loads(
    (ROOT / "benchmarks" / "programs" / "results.json").read_text(encoding="utf-8")
)
# XLA cuts its loops by the number of cores, and each part has buffers of its own.
SLACK = 1.1
# Programs whose memory a rule of weft's decides; those of the others are slow together.
QUICK = ("group_statistics", "image_registration", "lstm_training", "point_cloud_network")


def results(name):
    """(arguments, flat results) of a tiny program as NumPy arrays; keys stay as they are."""
    step, arguments = registry.build(weft, name, registry.tiny)
    found = [np.asarray(leaf) for leaf in weft.tree.leaves(weft.jit(step)(*arguments))]

    def double(leaf):
        if weft.dtypes.issubdtype(leaf.dtype, weft.dtypes.prng_key):
            return leaf
        array = np.asarray(leaf)
        return array.astype(np.float64) if array.dtype == np.float32 else array

    return weft.tree.map(double, arguments), found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tiny_program_has_the_results_of_its_reference(name):
    arguments, found = results(name)
    assert found
    for leaf in found:
        assert np.isfinite(leaf).all()
    if name not in program_references.REFERENCES:
        return
    wanted = program_references.REFERENCES[name](*arguments)
    assert len(wanted) <= len(found)
    for mine, reference in zip(found, wanted, strict=False):
        reference = np.asarray(reference)
        assert mine.shape == reference.shape
        if mine.dtype.kind in "iub":
            np.testing.assert_array_equal(mine, reference)
        else:
            scale = max(np.abs(reference).max(), 1e-6)
            # Single precision, through some tens of operations one after another.
            np.testing.assert_allclose(mine / scale, reference / scale, rtol=0, atol=2e-5)


@pytest.mark.usefixtures("optimized")
@pytest.mark.skipif(
    f"jaxlib {importlib.metadata.version('jaxlib')}," not in RECORDED["versions"]["weft"],
    reason="recorded with another release of XLA",
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, program in PROGRAMS.items()
        if program.devices == 1
    ],
)
def test_no_more_temporary_memory_than_recorded(name):
    step, arguments = registry.build(weft, name)
    compiled = weft.jit(step).lower(*arguments).compile()
    found = compiled.memory_analysis().temp_size_in_bytes
    recorded = RECORDED["rows"][name]["weft"]["temporary"]
    assert found <= SLACK * recorded + 4096, f"{found} bytes, recorded {recorded}"


def test_every_reference_is_of_a_program():
    assert set(program_references.REFERENCES) <= set(PROGRAMS)
    assert set(registry.TORCH) <= set(PROGRAMS)
    assert len(PROGRAMS) >= 40
