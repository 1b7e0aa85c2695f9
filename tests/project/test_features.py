"""docs/features.md tells the truth: every row is there, and every test that shows one exists."""

from __future__ import annotations

import ast
import json
import re

import pytest

from source_files import ROOT, parse

pytestmark = pytest.mark.fast

PAGE = ROOT / "docs" / "features.md"
# Row -> the tests that show it: `tests/test_x.py::test_y`, or a whole file of tests.
TESTS = json.loads((ROOT / "tests" / "data" / "feature_tests.json").read_text(encoding="utf-8"))
STATUS = {"works", "partly", "later"}
ROWS = [
    *(f"A{i}" for i in range(1, 14)),
    *(f"B{i}" for i in range(1, 12)),
    *(f"C{i}" for i in range(1, 9)),
    *(f"D{i}" for i in range(1, 8)),
    *(f"E{i}" for i in range(1, 6)),
    *(f"F{i}" for i in range(1, 6)),
    *("F5b", "F5c", "F5d", "F5e", "F5f", "F6", "F7", "F7c", "F7b", "F7a"),
    *("F8", "F8a"),
    *(f"F{i}" for i in range(9, 26)),
]


def table(text):
    """letter -> (what, status) for the rows `| A1 | what | status |`."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if re.fullmatch(r"[A-F]\d+[a-z]?", cells[0]):
            assert len(cells) == 3, f"{cells[0]}: three columns, not {len(cells)}"
            assert cells[0] not in rows, f"{cells[0]} stands there twice"
            rows[cells[0]] = cells[1:]
    return rows


def names_of_tests(path):
    """The tests of a file, those in classes as Class::test."""
    names = set()
    for node in parse(path).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            names.update(f"{node.name}::{name}" for name in methods)
    return {name for name in names if name.split("::")[-1].startswith("test")}


def wrong_references(references):
    """What is wrong with the tests of a row."""
    for reference in references:
        file, _, name = reference.partition("::")
        path = ROOT / file
        if not path.is_file():
            yield f"there is no {file}"
        elif name and name not in names_of_tests(path):
            yield f"{file} has no {name}"
        elif not name and not names_of_tests(path):
            yield f"{file} has no tests"


@pytest.fixture(scope="module")
def rows():
    return table(PAGE.read_text(encoding="utf-8"))


def test_every_row_is_there(rows):
    assert list(rows) == list(TESTS) == ROWS


@pytest.mark.parametrize("letter", ROWS)
def test_a_row_claims_what_a_test_shows(rows, letter):
    what, status = rows[letter]
    assert what
    assert status in STATUS
    assert not list(wrong_references(TESTS[letter]))
    named = bool(TESTS[letter])
    assert named == (status != "later"), (
        "a row that works names its tests" if not named else "a row with tests is not 'later'"
    )


def test_a_wrong_reference_is_found():
    here = "tests/project/test_features.py"
    assert not list(wrong_references([f"{here}::test_every_row_is_there", here]))
    assert list(wrong_references([f"{here}::test_that_is_not_there"]))
    assert list(wrong_references(["tests/no_such_file.py"]))
    assert list(wrong_references(["tests/support/source_files.py"]))


def test_a_double_row_is_found():
    with pytest.raises(AssertionError, match="twice"):
        table("| A1 | x | later |\n| A1 | y | later |")
