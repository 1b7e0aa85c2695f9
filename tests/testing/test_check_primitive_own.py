"""`check_primitive` on the primitives of weft itself: `primitive_examples` has the examples.

A part of them runs with all tests; every one, on several examples each, where it is asked for
(`make test-slow`).
"""

from __future__ import annotations

import pytest

import primitive_examples
from weft.define.builtin_primitives import primitives
from weft.extend import check_primitive

# One of each family, and what has rules of its own that are easily wrong.
QUICK = (
    "argmax", "bitcast_convert_type", "broadcast_in_dim", "concatenate", "convert_element_type",
    "cumsum", "dot_general", "dynamic_slice", "eq", "integer_pow", "key_bits", "mul", "name", "pad",
    "pow", "pure_callback", "reduce_max", "reduce_sum", "reshape", "select_n", "shift_left", "sin",
    "slice", "stop_gradient", "transpose",
)  # fmt: skip
# How many examples of each are run where time is no matter.
MOST = 2


@pytest.mark.parametrize("name", QUICK)
def test_the_rules_agree(name):
    applied = primitive_examples.examples(name)[0]
    check_primitive(applied.primitive, [applied.example]).raise_if_failed(missing=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(primitives) - set(primitive_examples.UNCHECKED)))
def test_the_rules_agree_on_every_kind_of_example(name):
    for applied in primitive_examples.examples(name)[:MOST]:
        report = check_primitive(applied.primitive, [applied.example])
        assert report.broken is None and not report.missing, f"{applied.row}: {report!r}"


def test_every_primitive_is_checked_or_has_a_reason():
    checked, unchecked = primitive_examples.checked(), set(primitive_examples.UNCHECKED)
    neither = set(primitives) - checked - unchecked
    assert not neither, f"neither an example nor a reason: {sorted(neither)}"
    assert unchecked <= set(primitives)
    assert set(primitive_examples.DERIVATIVES) <= checked and set(QUICK) <= checked
