"""The packages under examples/extend/: each stands on what is public, and its own tests pass."""

from __future__ import annotations

import ast
import os
import re

import pytest

from processes import python_output
from source_files import ROOT
from tools import update_surface

FOLDER = ROOT / "examples" / "extend"
PACKAGES = sorted(path.name for path in FOLDER.iterdir() if (path / "pyproject.toml").is_file())
# What a package outside of weft may import of it; everything else is weft's own business.
PUBLIC = re.compile(
    r"weft(\.(numpy|lax|nn|random|errors|dtypes|tree|tree_util|testing|ffi|sharding|extend(\.\w+)*))?"
)


def files(package):
    found = sorted((FOLDER / package).rglob("*.py"))
    assert found
    return found


def imports(tree):
    """(line, module, name) of what a file imports; the name is None where it is the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def hidden_imports(tree):
    """What a file imports of weft that is not public: modules, and names their facades lack."""
    for line, module, name in imports(tree):
        if module.split(".")[0] != "weft":
            continue
        if not PUBLIC.fullmatch(module):
            yield f"{line}: {module} is not public"
        elif name is not None and name not in public_names(module):
            yield f"{line}: {module} does not promise {name}"


def public_names(module):
    """What a module promises, and the public modules inside of it."""
    inner = {m.rpartition(".")[2] for m in update_surface.MODULES if m.rpartition(".")[0] == module}
    loaded = update_surface.importlib.import_module(module)
    return {*update_surface.public_names(loaded), *inner}


@pytest.mark.fast
def test_there_are_packages_to_look_at():
    assert {"inversion", "intervals", "quantised"} <= set(PACKAGES)
    for package in PACKAGES:
        assert (FOLDER / package / "README.md").is_file()
        assert list((FOLDER / package / "tests").glob("test_*.py"))


@pytest.mark.fast
@pytest.mark.parametrize("package", PACKAGES)
def test_only_public_names_are_imported(package):
    problems = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in files(package)
        for problem in hidden_imports(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.fast
@pytest.mark.parametrize(
    "line",
    [
        "import weft.core.trace",
        "from weft.core.types import ArrayType",
        "from weft.ops.structural import shape",
        "from weft.extend.core import no_such_name",
        "from weft import core",
    ],
)
def test_what_is_not_public_is_found(line):
    assert list(hidden_imports(ast.parse(line)))
    assert not list(hidden_imports(ast.parse("from weft.extend.core import Trace\nimport numpy")))


@pytest.mark.smoke
@pytest.mark.parametrize("package", PACKAGES)
def test_the_tests_of_the_package_pass(package):
    folder = FOLDER / package
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    out = python_output(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "--doctest-modules",
        "-o", "doctest_optionflags=NORMALIZE_WHITESPACE", package, "tests", cwd=folder, timeout=600,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    assert re.search(r"\d+ passed", out)
