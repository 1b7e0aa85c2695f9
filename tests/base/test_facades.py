"""The names that a facade hands on, and the modules that it loads on first use."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types

import pytest

from weft.base.facades import handed_on, load_on_first_use

pytestmark = pytest.mark.fast


def test_public_names_are_handed_on_and_modules_are_not():
    namespace = {"f": 1, "_g": 2, "sys": sys, "Any": 3, "__array_api_version__": 4, "__doc__": 5}
    assert handed_on(namespace) == ["__array_api_version__", "f"]
    late = handed_on(namespace, ["a.b"], {"a.c": "x y"})
    assert late == ["__array_api_version__", "b", "f", "x", "y"]


def test_chapters_are_loaded_when_a_name_is_first_used(monkeypatch):
    loaded = []
    chapters = {"a.c": types.SimpleNamespace(x=1, c=2), "a.b": types.SimpleNamespace()}

    real = importlib.import_module

    def load(name):
        if name not in chapters:
            return real(name)
        loaded.append(name)
        return chapters[name]

    monkeypatch.setattr(importlib, "import_module", load)
    namespace = {"f": 1, "imported": 2, "__all__": ["b", "f", "x"]}
    get, names = load_on_first_use("a", namespace, ["a.b"], {"a.c": "x c"})
    assert names() == ["b", "f", "x"] and not loaded
    assert get("x") == 1 and get("c") == 2 and get("b") is chapters["a.b"]
    assert loaded == ["a.c", "a.c", "a.b"]
    assert namespace.keys() >= {"f", "x", "c", "b"}
    with pytest.raises(AttributeError, match="module 'a' has no attribute 'missing'"):
        get("missing")


@pytest.mark.parametrize("name", ["weft", "weft.lax", "weft.numpy", "weft.nn", "weft.ops"])
def test_no_late_name_is_that_of_a_module(name):
    """Importing a module sets its name in its package, where a function of that name would be."""
    facade = importlib.import_module(name)
    late = {x for names in facade._LAZY_NAMES.values() for x in names.split()}
    assert not late & {found.name for found in pkgutil.iter_modules(facade.__path__)}
