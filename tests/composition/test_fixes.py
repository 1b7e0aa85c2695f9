"""Every fix that an error suggests is applied: the program that follows it runs and is right.

Those of arguments that their kinds refuse are applied in `tests/kinds`.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import sys

import numpy as np
import pytest

from fixes import NOT_REACHED
from source_files import ROOT, module_name, parse, python_files
from weft import tree
from weft.errors import Fix, WeftError
from wrong_arguments import runs, suggested_values, wrong_calls

FOLDER = ROOT / "tests" / "fixes"


def texts_of(row):
    """What the fix of a row says."""
    return [row.says] if isinstance(row.says, str) else row.says


ROWS = [
    pytest.param(row, id=f"{path.stem}-{number}-{texts_of(row)[0]}")
    for path in sorted(FOLDER.glob("[a-z]*.py"))
    for number, row in enumerate(importlib.import_module(f"fixes.{path.stem}").FIXES)
]


def fix_of(row):
    """The fix that the wrong program gets."""
    if issubclass(row.error, Warning):
        with pytest.warns(row.error) as warned:
            row.wrong()
        return next(one.message.fix for one in warned if issubclass(one.category, row.error))
    with pytest.raises(row.error) as caught:
        row.wrong()
    error = caught.value
    assert error.operation is not None or error.got is not None
    return error.fix


@pytest.mark.parametrize("row", ROWS)
def test_the_fix_works(row):
    fix = fix_of(row)
    assert isinstance(fix, Fix) and all(text in fix.text for text in texts_of(row)), fix
    found = row.fixed(fix)
    if callable(row.value):
        assert row.value(found), found
        return
    found, wanted = tree.leaves(found), tree.leaves(row.value)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6)


def constructions():
    """(file, lines, function) of every place in the package that makes a fix."""
    for path in python_files("weft"):
        functions = [("", parse(path))]
        while functions:
            name, node = functions.pop()
            for child in ast.iter_child_nodes(node):
                named = isinstance(child, ast.FunctionDef | ast.ClassDef)
                functions.append((f"{name}.{child.name}".lstrip(".") if named else name, child))
                if isinstance(child, ast.Call) and ast.unparse(child.func).split(".")[-1] == "Fix":
                    lines = range(child.lineno, child.end_lineno + 1)
                    yield str(path.relative_to(ROOT)), lines, name


def made_when_loaded():
    """The places of fixes that a module makes when it is loaded, by the identities of these."""
    found = {}
    for path in python_files("weft"):
        for node in parse(path).body:
            value = getattr(node, "value", None)
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "Fix":
                file = path.relative_to(ROOT)
                module = importlib.import_module(module_name(path))
                fix = getattr(module, node.targets[0].id)
                found[id(fix)] = (str(file), value.lineno)
    return found


def missing(reached):
    """The places whose fix no row gets, and the reasons in `NOT_REACHED` that are none."""
    places = [
        (f"{file}:{function}", f"{file}:{lines[0]}", any((file, n) in reached for n in lines))
        for file, lines, function in constructions()
    ]
    unapplied = [
        f"{line} in {place}" for place, line, got in places if not got and place not in NOT_REACHED
    ]
    wanted = {place for place, _, got in places if not got}
    return sorted(unapplied), sorted(set(NOT_REACHED) - wanted)


def reached_places(rows, monkeypatch):
    """(file, line) of every place whose fix is applied: by a row, or where a kind refuses an
    argument and the text says what to pass instead, by the tests of the kinds."""
    made = []
    original = Fix.__init__

    def recording(self, *args, **kwargs):
        frame = sys._getframe(1)
        path = pathlib.Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            made.append((str(path.relative_to(ROOT)), frame.f_lineno))
        original(self, *args, **kwargs)

    before = made_when_loaded()
    monkeypatch.setattr(Fix, "__init__", recording)
    raised = [fix_of(row) for row in rows]
    reached = {*made, *(before[id(fix)] for fix in raised if id(fix) in before)}
    for call in wrong_calls():
        made.clear()
        with pytest.raises(WeftError) as caught:
            call.run(call.value)
        fix = getattr(caught.value, "fix", None)
        if fix is None:
            continue
        places = {*made, before.get(id(fix))}
        if not places <= reached and any(
            runs(call, values) for values in suggested_values(fix, call.parameter, call.value)
        ):
            reached |= places
    return reached


def test_every_fix_of_the_package_is_applied(monkeypatch):
    rows = [param.values[0] for param in ROWS]
    unapplied, unneeded = missing(reached_places(rows, monkeypatch))
    assert not unneeded, "these are reached, or are not there"
    assert not unapplied, f"{len(unapplied)} fixes that no row in tests/fixes applies"


def test_fixes_are_made_where_the_test_can_see_it():
    """`Fix` is called, or named in an annotation or a check; never handed on to be called."""
    for path in python_files("weft"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call):
                handed = [*node.args, *(keyword.value for keyword in node.keywords)]
                called = ast.unparse(node.func)
                assert called in ("isinstance", "issubclass") or not any(
                    isinstance(value, ast.Name) and value.id == "Fix" for value in handed
                ), f"{path}:{node.lineno}"
