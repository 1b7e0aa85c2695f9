"""The script that a test of a recipe is about."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from source_files import ROOT

FOLDER = ROOT / "examples/recipes"


@pytest.fixture(scope="module")
def load_recipe():
    """A function that loads a script of examples/recipes by its name."""
    loaded = []

    def load(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def recipe(request, load_recipe):
    """The script that a file of tests is named after, loaded."""
    return load_recipe(request.path.stem.removeprefix("test_"))
