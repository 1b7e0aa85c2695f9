"""The page that shows which primitive has which rules is what the tables say."""

from __future__ import annotations

import pytest

from tools import rule_matrix
from weft.define.declared_primitive import DefinedPrimitive
from weft.extend.core import Primitive, define_primitive, primitives
from weft.extend.interpreters import ad, mlir
from weft.testing.check_primitive import rule_sources

pytestmark = pytest.mark.fast

# Of references: a recorded program is without them before anything computes it.
DISCHARGED = {"addupdate", "get", "swap"}


def test_the_page_is_up_to_date():
    found = rule_matrix.PAGE.read_text(encoding="utf-8")
    assert found == rule_matrix.page(), "run: python tools/rule_matrix.py"


def test_every_primitive_has_a_row_and_every_row_its_cells():
    rows = [line for line in rule_matrix.page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == sorted(primitives)
    assert {row.count("|") for row in rows} == {len(rule_matrix.COLUMNS) + 2}


def test_every_primitive_of_weft_has_types_and_can_be_computed():
    for name in primitives:
        sources = rule_sources(primitives[name])
        declared = isinstance(primitives[name], DefinedPrimitive)  # Then both follow from its body.
        assert sources["type"] == ("derived" if declared else "given"), name
        if not declared and name not in DISCHARGED:
            assert "given" in (sources["lowering"], sources["evaluation"]), name


def test_where_rules_come_from():
    bare = Primitive("bare")
    assert rule_sources(bare)["jvp"] == rule_sources(bare)["linearize"] == "missing"
    ad.register_jvp(bare, lambda primals, tangents: None)
    assert rule_sources(bare)["jvp"] == "given"
    assert rule_sources(bare)["linearize"] == "the jvp rule"
    mlir.register_lowering(bare, lambda context, x: x, platform="cuda")
    assert rule_sources(bare)["lowering"] == "given"
    declared = define_primitive("declared", body=lambda x: x, vmap=lambda axis, x, d: (x[0], d[0]))
    sources = rule_sources(declared)
    assert sources["vmap"] == "given" and sources["transpose"] == "derived"
    ad.register_transpose(declared, lambda ct, x: [ct])
    assert rule_sources(declared)["transpose"] == "given"
