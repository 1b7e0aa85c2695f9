"""Every collective under every use, eager and jitted, with the check of results on and off.

Cases and uses are data (`shard_map_cases`, `shard_map_uses`); what has to come out is computed from
NumPy blocks in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from shard_map_cases import CASES
from shard_map_uses import arrays, setting, uses_of
from weft import tree


def named(cases):
    return [case.name for case in cases]


def agree(got, wanted, label):
    got_leaves, wanted_leaves = tree.leaves(got), tree.leaves(wanted)
    assert len(got_leaves) == len(wanted_leaves), label
    for k, (a, b) in enumerate(zip(got_leaves, wanted_leaves, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, np.float64), (label, k)
        np.testing.assert_allclose(
            np.asarray(a), b, rtol=1e-10, atol=1e-10, err_msg=f"{label}, result {k}"
        )


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_eager(case):
    given = arrays(case)
    for name, use in uses_of(case, eager=True).items():
        for check in (True, False):
            label = f"{name}, check_vma={check}"
            agree(use.run(setting(case, check, given)), use.wanted(case), label)


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_jitted(case):
    """All uses are one program, which compiles in a fraction of the time of many; without the check
    it is the same program."""
    uses, given = uses_of(case), arrays(case)

    def program(check):
        return lambda given: {
            name: use.run(setting(case, check, given)) for name, use in uses.items()
        }

    traced = weft.jit(program(True)).trace(given)
    found = traced.lower().compile()(given)
    for name, use in uses.items():
        agree(found[name], use.wanted(case), name)
    assert str(weft.make_jaxpr(program(False))(given)) == str(traced.jaxpr)


def test_every_collective_has_every_use():
    """Over one axis and over two, and with groups where they have a meaning."""
    full = {case.name.split()[0]: set() for case in CASES}
    for case in CASES:
        if case.every_use:
            full[case.name.split()[0]].add("groups" if case.groups else len(case.over))
    del full["pcast"], full["pvary"]  # pbroadcast by other names
    assert {name for name, ways in full.items() if 1 not in ways} == set()
    both = {"psum", "pmax", "ppermute", "all_gather", "psum_scatter", "all_to_all"}
    both |= {"all_gather_invariant", "pscatter"}
    assert {name for name, ways in full.items() if 2 in ways} == both
    assert {name for name, ways in full.items() if "groups" in ways} >= {"psum", "all_gather"}
