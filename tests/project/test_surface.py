"""The public surface is what tests/golden/surface.txt records; it changes only on purpose."""

from __future__ import annotations

import ast
import importlib
import inspect
import types

import pytest

import weft
from tools import api_reference, update_surface
from weft.base.facades import handed_on


def test_the_surface_is_as_recorded():
    recorded = update_surface.GOLDEN.read_text(encoding="utf-8")
    changed = update_surface.difference(recorded, update_surface.surface())
    if changed:
        pytest.fail(
            "the public surface changed; if that is meant, run `python tools/update_surface.py` "
            f"and commit the file\n{changed}",
            pytrace=False,
        )


def test_every_name_that_is_promised_can_be_had():
    for name in filter(update_surface.exists, update_surface.MODULES):
        module = update_surface.importlib.import_module(name)
        missing = [n for n in update_surface.public_names(module) if not hasattr(module, n)]
        assert not missing, f"{name}.__all__ promises {missing}"


@pytest.mark.parametrize("name", ["lax", "random"])
def test_facades_hand_on_no_more_than_they_promise(name):
    """Those with a list of their own; for the others the recorded surface is the list."""
    module = importlib.import_module(f"weft.{name}")
    found = handed_on(vars(module), getattr(module, "_LAZY_MODULES", ()))
    assert not sorted(set(found) - set(module.__all__))


def test_completion_offers_what_is_documented():
    """`dir` of a public module: its public names, and the documented modules below it."""
    known = api_reference.public_modules()
    wrong = {}
    for name in known:
        module = importlib.import_module(name)
        below = {inner.rpartition(".")[2] for inner in known if inner.rpartition(".")[0] == name}
        offered = set(dir(module)) - {"__version__"}
        differs = offered ^ below.union(update_surface.public_names(module))
        if differs or not all(hasattr(module, found) for found in offered):
            wrong[name] = sorted(differs)
    assert len(known) > 100 and not wrong


def test_names_that_completion_does_not_offer_can_be_had():
    """What a module imports for itself is still there, as in every module."""
    assert "api" not in dir(weft) and weft.api and hasattr(weft, "_LAZY_NAMES")
    assert "linear_algebra" not in dir(weft.numpy) and weft.numpy.linear_algebra
    names = {}
    exec("from weft.numpy import *", names)
    assert names.keys() - {"__builtins__"} == set(dir(weft.numpy))


@pytest.mark.fast
def test_a_change_of_a_signature_shows():
    def before(x: int, *, axis: int = 0) -> int:
        return x + axis

    def after(x: int, *, axis: int = 1) -> int:
        return x + axis

    old, new = ("\n".join(update_surface.describe("weft", "f", f)) for f in (before, after))
    assert old != new
    assert "-weft.f" in update_surface.difference(old, new)


@pytest.mark.fast
def test_only_stated_names_are_public():
    module = types.ModuleType("m")
    module.__dict__.update(a=1, _b=2, c=types)
    assert update_surface.public_names(module) == ["a"]
    module.__all__ = ["c", "a"]
    assert update_surface.public_names(module) == ["a", "c"]


@pytest.mark.fast
def test_addresses_do_not_show():
    marker = object()

    def f(x=marker):
        return x

    assert "0x" not in update_surface.signature(f)


@pytest.mark.fast
def test_a_module_that_is_not_there_is_left_out():
    assert not update_surface.exists("weft.no_such_module.inner")


def test_what_weft_imports_late_is_what_type_checkers_are_told():
    late = {name: module for module, names in weft._LAZY_NAMES.items() for name in names.split()}
    whole = {module.rpartition(".")[2]: module for module in weft._LAZY_MODULES}
    for name, module in late.items():
        assert getattr(weft, name) is getattr(importlib.import_module(module), name)
    for name, module in whole.items():
        assert getattr(weft, name) is importlib.import_module(module)
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(weft)).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    told = {}
    for node in block.body:
        for alias in node.names:
            told[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    assert told.keys() == late.keys() | whole.keys()
    for name, path in told.items():
        module, _, attribute = path.rpartition(".")
        assert getattr(weft, name) is getattr(importlib.import_module(module), attribute)
