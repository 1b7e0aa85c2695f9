"""Which files the tests about the source look at, and how they read them.

Used by the tests of layering, style and documentation; it imports nothing of weft, so that they
work on a tree that does not import yet.
"""

from __future__ import annotations

import ast
import functools
import os
import pathlib
import subprocess
from collections.abc import Iterable

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "weft"


@functools.cache
def project_files() -> tuple[pathlib.Path, ...]:
    """The project's files: those git tracks or would track; without git, all but hidden ones."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        names = [name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, inner, files in os.walk(ROOT):
            inner[:] = [name for name in inner if not name.startswith((".", "__pycache__"))]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    found = (ROOT / name for name in names)
    return tuple(sorted(path for path in found if path.is_file()))


def python_files(*folders: str) -> tuple[pathlib.Path, ...]:
    """The Python files below these folders of the project."""
    return tuple(
        path
        for path in project_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    )


@functools.cache
def parse(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a syntax tree: walking it takes as long as parsing did, and many checks ask."""
    return tuple(ast.walk(tree))


def relative(path: pathlib.Path) -> str:
    """The path as a developer names it, from the root of the project."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: pathlib.Path) -> str:
    """`weft/core/trace.py` is `weft.core.trace`; a package's `__init__.py` is the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def report(problems: Iterable[str]) -> None:
    """Fails the test with what was found, one problem a line."""
    __tracebackhide__ = True
    found = [*problems]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
