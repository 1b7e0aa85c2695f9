"""The tiers of tests: what `make check` lists is there, and `make smoke` looks at every example."""

from __future__ import annotations

import ast
import re
import sys

import pytest

import tiers
from source_files import ROOT, parse, python_files, relative

pytestmark = pytest.mark.fast

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CHECKED = re.search(r"^CHECKED := ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1]
CHECKED = [ROOT / name for name in CHECKED.replace("\\\n", " ").split()]
# What examples share, or is run by the tests of the others.
PARTS = {"build", "training_loop_optax"}


def smoke_tests():
    """(file, function) of the tests that are marked."""
    for path in python_files("tests"):
        for node in parse(path).body:
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", ())]
            if "pytest.mark.smoke" in marks:
                yield path, node


def test_what_is_checked_is_there():
    assert [path for path in CHECKED if not path.exists()] == []


def test_tests_on_the_fake_backend_alone_are_checked():
    """A file that only ever runs on the fake backend compiles nothing, and is quick."""
    names = {"use_backend(FakeBackend()", "use_backend(fake"}
    alone = [
        path
        for path in python_files("tests")
        if path.name.startswith("test_") and "fake" in path.name
        and any(name in path.read_text(encoding="utf-8") for name in names)
    ]  # fmt: skip
    assert alone and set(alone) <= set(CHECKED)


def test_smoke_looks_at_every_example():
    looked_at = set()
    for path, function in smoke_tests():
        looked_at.add(path.stem.removeprefix("test_"))
        looked_at |= {argument.arg for argument in function.args.args}
    programs = {
        path.stem
        for path in python_files("examples")
        if path.parent.name in ("examples", "ffi", "recipes") and path.stem not in PARTS
    }
    assert programs and programs <= looked_at
    assert "package" in looked_at  # those of examples/extend are tested by their own tests


def test_smoke_looks_at_every_page_and_operation():
    names = {function.name for _, function in smoke_tests()}
    assert {"test_examples_on_pages", "test_values", "test_derivatives", "test_vmap"} <= names


def test_every_tier_says_how_long_it_takes():
    times = dict(re.findall(r"^(check|smoke|test|test-all):.*## (.*)$", MAKEFILE, re.MULTILINE))
    assert set(times) == {"check", "smoke", "test", "test-all"}
    assert all(re.search(r"\d+ (s|minutes)", text) for text in times.values())


class Item:
    """A test as pytest collects it."""

    def __init__(self, nodeid, marks=()):
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name):
        return name if name in self.marks else None


def test_every_test_belongs_to_a_part(monkeypatch):
    rows, others = "tests/ops/test_ops.py", "tests/api/test_x.py"
    names = [f"{others}::test_long[{i}]" for i in range(40)]
    names += [f"{others}::test_longest", f"{others}::test_new", f"{rows}::test_values[sin]"]
    items = [Item(name, ("smoke",) * ("values" in name)) for name in names]
    seconds = {f"{others}::test_long": 20 * tiers.BUDGET, f"{others}::test_longest": 9.0}
    monkeypatch.setattr(tiers, "SECONDS", seconds)
    quick, rest = ([x.nodeid for x in tiers.chosen(items, part)] for part in ("quick", "rest"))
    assert quick == [f"{others}::test_long[{i}]" for i in (0, 20)] + names[-2:]
    assert set(quick) & set(rest) == {f"{rows}::test_values[sin]"}
    assert set(quick) | set(rest) == set(names)
    assert tiers.chosen(items, "all") == items


def test_the_tests_that_take_long_are_there():
    """Those that were renamed or are gone are recorded anew: tools/record_test_seconds.py."""
    gone = []
    for function in tiers.SECONDS:
        path, *names = function.split("::")
        # A test of a state machine is named after its class alone.
        if not (ROOT / path).exists() or names[0] not in (ROOT / path).read_text("utf-8"):
            gone.append(function)
    assert gone == []


def imported(path):
    """The packages that a file imports at its top, by their first name."""
    for node in parse(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def test_newest_pythons_can_import_every_test():
    """Continuous integration collects them all there, with the packages of requirements/newest.txt
    alone: what only requirements/test.txt installs is asked for by `pytest.importorskip`."""
    newest = (ROOT / "requirements" / "newest.txt").read_text(encoding="utf-8")
    packages = set(re.findall(r"^([\w-]+)", newest, re.MULTILINE))
    # `compat` is the package `jax` that forwards to weft; its tests put it on the path.
    available = packages | set(sys.stdlib_module_names) | {"weft", "tools", "jax"}
    files = [path for path in python_files("tests") if path.parent.name != "jobs"]
    # Some put the benchmarks' folders on the path.
    own = {path.stem for path in (*files, *python_files("benchmarks"))}
    own |= {path.parent.name for path in files}
    missing = {
        (relative(path), name)
        for path in files
        for name in imported(path)
        if name not in available | own
    }
    assert len(files) > 300 and missing == set()
