"""The tests of `make test`, and those that only `make test-all` runs besides.

`tests/data/test_seconds.json` has the seconds of each test function that takes longer than others,
over all its parameters, as `tools/record_test_seconds.py` wrote them. Of these the quick tier runs
as many parameters, spread evenly, as take `BUDGET` seconds, and every other function as it is. So a
new test is quick until it is measured. Rows of the op table are all there, each with
one dtype: that is what the environment variable WEFT_TEST_TIER says to `tests/ops/test_ops.py`.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

__all__ = ["BUDGET", "SECONDS", "TIER", "chosen", "function_of"]

# Of all tests, "quick" and "rest" run one part each; "smoke" narrows the op table, too.
TIER = os.environ.get("WEFT_TEST_TIER", "all")
# How many seconds of a function the quick tier runs.
BUDGET = 1.0
_RECORD = pathlib.Path(__file__).parents[1] / "data" / "test_seconds.json"
SECONDS: dict[str, float] = json.loads(_RECORD.read_text(encoding="utf-8"))
# All properties of all rows are quick. Those marked `smoke` take one dtype there.
_ROWS = "tests/ops/test_ops.py"


def function_of(nodeid: str) -> str:
    """The file and function of a test, without its parameters."""
    return nodeid.partition("[")[0]


def chosen(items: Sequence[Any], tier: str) -> list[Any]:
    """The items of a tier, in their order."""
    if tier not in ("quick", "rest"):
        return list(items)
    quick = _quick(items)
    if tier == "quick":
        return [x for x in items if x.nodeid in quick]
    return [x for x in items if x.nodeid not in quick or _is_narrowed(x)]


def _is_narrowed(item: Any) -> bool:
    """Whether a test does less in the quick tier."""
    return item.nodeid.startswith(_ROWS) and item.get_closest_marker("smoke") is not None


def _quick(items: Sequence[Any]) -> set[str]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(function_of(item.nodeid), []).append(item)
    found = set()
    for function, group in groups.items():
        count = len(group)
        if not function.startswith(_ROWS) and not group[0].get_closest_marker("smoke"):
            share = BUDGET / max(SECONDS.get(function, 0.0), BUDGET)
            # A function that alone takes long is none of the quick ones.
            count = int(share * count)
        found |= {group[i * len(group) // count].nodeid for i in range(count)}
    return found
