"""Lines of cells have names that a user of a notebook knows."""

from __future__ import annotations

import sys
import types

import pytest

import weft.numpy as jnp
from weft.base.notebooks import line_text
from weft.errors import ShapeError

pytestmark = pytest.mark.fast
KERNEL = "/var/folders/ipykernel_123/456.py"


class Compiler:
    """What IPython's compiler says of the names of cells."""

    def format_code_name(self, name):
        return ("Cell", "In[7]") if name == KERNEL else None


@pytest.fixture
def ipython(monkeypatch):
    shell = types.SimpleNamespace(compile=Compiler())
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return module


def test_lines_of_files():
    assert line_text("model.py", 12) == "model.py:12"
    assert line_text("model.py", 12, "loss") == "model.py:12 in loss"
    assert line_text("model.py", 12, "<module>") == "model.py:12 in <module>"


def test_lines_of_cells(ipython):
    assert line_text(KERNEL, 2, "loss") == "cell 7, line 2 in loss"
    assert line_text(KERNEL, 2, "<module>") == "cell 7, line 2"
    assert line_text("<ipython-input-3-5e0c1f>", 2, "<cell line: 1>") == "cell 3, line 2"
    assert line_text("model.py", 12, "loss") == "model.py:12 in loss"


def test_a_cell_without_a_number(monkeypatch, ipython):
    assert line_text(r"C:\Temp\ipykernel_1\2.py", 2) == "a cell, line 2"
    monkeypatch.setattr(ipython, "get_ipython", lambda: None)
    assert line_text(KERNEL, 2, "loss") == "a cell, line 2 in loss"
    monkeypatch.delitem(sys.modules, "IPython")
    assert line_text("<ipython-input-3-5e0c1f>", 2) == "cell 3, line 2"


def test_errors_name_the_cell(ipython):
    names = {"jnp": jnp}
    text = "def f(x):\n    y = 2 * x\n    return y + jnp.ones(3)\n"
    exec(compile(text, KERNEL, "exec"), names)
    with pytest.raises(ShapeError, match=r"at cell 7, line 3 in f"):
        names["f"](jnp.ones(2))
