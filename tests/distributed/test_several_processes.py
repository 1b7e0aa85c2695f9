"""One program in several processes: the same values whatever the division, and arrays and numbers
that all of them have."""

from __future__ import annotations

import json

import numpy as np
import pytest
from group_runs import run


@pytest.fixture(scope="module")
def alone():
    """What one process with four devices computes."""
    (ended,) = run("values", 1, devices=4)
    assert ended.status == 0, ended.errors
    return results(ended)


def results(ended):
    return json.loads(ended.out.strip().splitlines()[-1].rpartition("\n")[2])


@pytest.mark.parametrize(("count", "devices"), [(2, 2), (4, 1)])
def test_values_do_not_depend_on_the_division(alone, count, devices):
    ended = run("values", count, devices)
    assert [one.status for one in ended] == [0] * count, ended[0].errors
    for one in ended:
        found = results(one)
        assert found.pop("processes") == count and found.keys() == alone.keys() - {"processes"}
        for name, value in found.items():
            np.testing.assert_allclose(value, alone[name], rtol=2e-6, atol=2e-6, err_msg=name)


def test_threads_may_come_in_another_order():
    ended = run("threads", 2)
    assert [one.status for one in ended] == [0, 0], ended[0].errors
    assert {one.out.strip().splitlines()[-1] for one in ended} == {"256.0"}
