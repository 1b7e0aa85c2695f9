"""The recipe of a profile: what it counts against closed forms, and what it measures against the
file that Perfetto opens. It runs in a process of its own, as a profile reaches into all threads."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest

import weft
from processes import python_output
from source_files import ROOT
from weft import random

pytestmark = pytest.mark.usefixtures("optimized")


@pytest.fixture(scope="module")
def given(recipe):
    params = weft.eval_shape(recipe.init, random.key(0))
    x = weft.ShapeDtypeStruct((recipe.BATCH, recipe.LENGTH, recipe.EMBED), "float32")
    return params, x


def test_the_operations_are_those_of_the_products(recipe, given):
    n, length, embed = recipe.BATCH * recipe.LENGTH, recipe.LENGTH, recipe.EMBED
    # A product costs as much again for each operand that has a gradient: the input of the block,
    # which is what attention multiplies first, has none.
    attention = 2 * n * (2 * 3 * embed**2 + 3 * embed**2 + 3 * 2 * length * embed)
    mlp = 2 * n * 3 * 8 * embed**2
    found = recipe.counted(*given)["operations"]
    # The rest is elementwise: softmax with its derivative, and gelu.
    assert 1 < found[0] / attention < 1.1 and 1 < found[1] / mlp < 1.15


@pytest.mark.smoke
def test_the_seconds_are_those_of_the_trace(recipe, given, tmp_path):
    printed = python_output(ROOT / "examples" / "recipes" / "profiling.py", cwd=tmp_path)
    trace = tmp_path / re.search(r"^profile: (\S+)$", printed, re.MULTILINE)[1]
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    steps = [event for event in events if event.get("name") == "step"]
    assert [step["args"]["step_num"] for step in steps] == [*"01234"]

    # The same scopes, found line by line.
    text = recipe.step.lower(*given).compile().as_text()
    scope_of = {}
    for line in text.splitlines():
        found = re.match(r'\s*(?:ROOT )?%([^ ]+) = .*op_name="([^"]*)"', line)
        if found:
            scope_of[found[1]] = found[2]
    seconds = dict.fromkeys(recipe.PARTS, 0.0)
    for event in events:
        scope = scope_of.get(event.get("args", {}).get("hlo_op"), "")
        for part in recipe.PARTS:
            if f"/{part}/" in scope or f"({part})" in scope:
                seconds[part] += event["dur"] / 1e6
    shown = re.search(r"^seconds +(\S+) +(\S+)$", printed, re.MULTILINE).groups()
    expected = np.array(list(seconds.values())) / recipe.STEPS
    np.testing.assert_allclose(np.array(shown, float), expected, rtol=0.01)
    assert (expected > 0).all()
