"""The tiers of tests: what `make check` lists is there, and `make smoke` looks at every example."""

from __future__ import annotations

import ast
import re
import sys

import pytest

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
    tiers = dict(re.findall(r"^(check|smoke|test):.*## (.*)$", MAKEFILE, re.MULTILINE))
    assert set(tiers) == {"check", "smoke", "test"}
    assert all(re.search(r"\d+ (s|minutes)", text) for text in tiers.values())


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
