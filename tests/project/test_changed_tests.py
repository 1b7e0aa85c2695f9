"""Which tests a change reaches: every way in which one file comes to need another, on small
projects."""

from __future__ import annotations

import pytest

from source_files import ROOT
from tools import changed_tests

pytestmark = pytest.mark.fast

FILES = {
    "pyproject.toml": None,
    "README.md": None,
    "weft/__init__.py": """
        import importlib
        from typing import TYPE_CHECKING
        from weft.core import types
        if TYPE_CHECKING:
            from weft.pmap import pmap
        _LAZY_MODULES = ("weft.scipy", "weft.nn")
        _LAZY_NAMES = {"weft.pmap": "pmap"}
        __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
        """,
    "weft/core/__init__.py": "",
    "weft/core/types.py": "",
    "weft/pmap.py": "from weft.runtime import device",
    "weft/nn.py": "",
    "weft/runtime/__init__.py": "device = LazyModule('weft.runtime.device')",
    "weft/runtime/device.py": "",
    "weft/scipy/__init__.py": """
        def __getattr__(name):
            return importlib.import_module(f"weft.scipy.{name}")
        """,
    "weft/scipy/stats.py": "from weft import nn",
    "weft/scipy/fft.py": "",
    "examples/digits.py": "import weft",
    "tests/conftest.py": "",
    "tests/cases.py": "import weft.nn as layers",
    "tests/rows/one.py": "",
    "tests/golden/jaxpr.txt": None,
    "tests/kernel.c": None,
    "tests/unread.bin": None,
    "tests/api/test_core.py": "import weft\nweft.jit",
    "tests/api/test_pmap.py": "import weft\nweft.pmap(f)",
    "tests/api/test_pmap_from.py": "from weft import pmap",
    "tests/api/test_helper.py": "from cases import x",
    "tests/api/test_rows.py": "FOLDER = HERE / 'rows'",
    "tests/api/test_stats.py": "from weft import scipy as s\ns.stats.norm()",
    "tests/api/test_any_name.py": "import weft\ngetattr(weft, name)",
    "tests/api/test_golden.py": "FOLDER = ROOT / 'tests' / 'golden'",
    "tests/api/test_kernel.py": "SOURCE = 'kernel.c'",
    "tests/api/test_process.py": "run('''\\n    import weft\\n    print(weft.nn.relu)\\n''')",
    "tests/api/test_digits.py": "run(ROOT / 'examples' / 'digits.py')",
    "tests/api/inner/conftest.py": "import cases",
    "tests/api/inner/deep/test_fixture.py": "def test_it(fixture): pass",
    "tests/api/test_style.py": "from source_files import python_files",
    "tests/api/test_by_name.py": "importlib.import_module(name)",
}
FIXTURE = "inner/deep/test_fixture.py"
EVERY = {path.removeprefix("tests/api/") for path in FILES if "/test_" in path}
# Tests that read the whole source, or import what only running them tells.
ALWAYS = {"test_style.py", "test_by_name.py"}


def reached(*changed, files=FILES):
    texts = {path: text and changed_tests.textwrap.dedent(text) for path, text in files.items()}
    project = changed_tests.Project({p: t if p.endswith(".py") else None for p, t in texts.items()})
    return {path.removeprefix("tests/api/") for path in project.reached(changed)}


IMPORTS_WEFT = {
    "test_core.py", "test_pmap.py", "test_pmap_from.py", "test_helper.py", "test_stats.py",
    "test_any_name.py", "test_process.py", "test_digits.py", FIXTURE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ("weft/core/types.py", IMPORTS_WEFT),  # through the eager imports of `weft`
        ("weft/core/__init__.py", IMPORTS_WEFT),  # a package runs before its modules
        ("weft/pmap.py", {"test_pmap.py", "test_pmap_from.py", "test_any_name.py"}),
        ("weft/runtime/device.py", {"test_pmap.py", "test_pmap_from.py", "test_any_name.py"}),
        ("weft/scipy/stats.py", {"test_stats.py"}),
        ("weft/scipy/fft.py", set()),
        ("weft/nn.py",
         {"test_helper.py", "test_process.py", "test_any_name.py", "test_stats.py", FIXTURE}),
        ("tests/cases.py", {"test_helper.py", FIXTURE}),
        ("tests/api/inner/conftest.py", {FIXTURE}),
        ("tests/rows/one.py", {"test_rows.py"}),
        ("tests/golden/jaxpr.txt", {"test_golden.py"}),
        ("tests/kernel.c", {"test_kernel.py"}),
        ("tests/api/test_core.py", {"test_core.py"}),
        ("examples/digits.py", {"test_digits.py"}),
        ("README.md", set()),
    ],
)  # fmt: skip
def test_a_change_reaches_what_needs_the_file(changed, wanted):
    assert reached(changed) == wanted | ALWAYS


@pytest.mark.parametrize(
    "changed", ["tests/conftest.py", "pyproject.toml", "tests/unread.bin", "weft/gone.py"]
)
def test_when_in_doubt_all_tests_are_reached(changed):
    assert reached(changed) == EVERY


def test_several_changes_reach_what_each_does():
    assert reached("tests/cases.py", "tests/kernel.c") == {
        "test_helper.py", "test_kernel.py", FIXTURE, *ALWAYS
    }  # fmt: skip


def test_no_change_reaches_nothing():
    assert reached() == set()


def test_the_project_itself_can_be_read():
    names = [*changed_tests.git("ls-files"), "weft/new_file.py"]
    found = changed_tests.read(names)
    assert found["Makefile"] is None and found["tools/update_surface.py"]
    assert "weft/new_file.py" not in found
    assert changed_tests.ROOT == ROOT
