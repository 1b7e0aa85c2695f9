"""The names of weft that docs/coming_from_pytorch.md gives for PyTorch's exist."""

from __future__ import annotations

import importlib
import re

import pytest

import weft.numpy as jnp
from source_files import ROOT

pytestmark = pytest.mark.fast

PAGE = (ROOT / "docs" / "coming_from_pytorch.md").read_text(encoding="utf-8")
MODULES = {"weft": "weft", "jnp": "weft.numpy", "np": "numpy", "lax": "weft.lax", "nn": "weft.nn",
           "random": "weft.random"}  # fmt: skip
NAME = re.compile(r"\b(weft|jnp|np|lax|nn|random|x)((?:\.[a-z_]\w*)+)")


def names_of_weft():
    """(first part, other parts) of the names in the second column of the table of names."""
    table = PAGE[PAGE.index("| PyTorch | weft |") : PAGE.index("\n## Gradients")]
    for row in table.splitlines()[2:]:
        cells = [cell.strip() for cell in row.strip("|\n ").split(" | ")]
        if len(cells) > 1:
            for code in re.findall(r"`([^`]+)`", cells[1]):
                for first, rest in NAME.findall(code):
                    yield first, tuple(rest[1:].split("."))


def exists(first, parts):
    owner = jnp.ones(2) if first == "x" else importlib.import_module(MODULES[first])
    for part in parts:
        try:
            owner = getattr(owner, part)
        except AttributeError:
            try:
                owner = importlib.import_module(f"{owner.__name__}.{part}")
            except (AttributeError, ImportError):
                return False
    return True


def test_the_names_exist():
    names = set(names_of_weft())
    assert len(names) > 50
    assert [".".join((first, *parts)) for first, parts in names if not exists(first, parts)] == []


def test_names_that_do_not_exist_are_found():
    assert exists("jnp", ("linalg", "norm")) and exists("x", ("at",))
    assert not exists("jnp", ("cat",)) and not exists("x", ("detach",))
    assert not exists("weft", ("nn", "Linear"))
