"""The shard_map matrix once more, on one device: `weft.simulate` gives the numbers of the mesh."""

from __future__ import annotations

import pytest
from test_shard_map_matrix import agree, named

import weft
from shard_map_cases import CASES, mesh
from shard_map_uses import arrays, setting, uses_of


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_simulated(case):
    uses = uses_of(case)

    @weft.jit
    def program(given):
        return {name: use.run(setting(case, True, given)) for name, use in uses.items()}

    with weft.simulate(mesh()):
        found = program(arrays(case))
    for name, use in uses.items():
        agree(found[name], use.wanted(case), name)


EAGER = [case for case in CASES if case.every_use and (case.over == ("i",) or case.groups)][::4]


@pytest.mark.parametrize("case", EAGER, ids=named(EAGER))
def test_simulated_eagerly(case):
    for name, use in uses_of(case).items():
        with weft.simulate(mesh()):
            found = use.run(setting(case, True, arrays(case)))
        agree(found, use.wanted(case), name)
