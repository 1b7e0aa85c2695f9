"""Prints how large the project is, folder by folder, and its longest files and functions.

Size is looked at per folder and capped per file (tests/project/test_style.py), never in total: a
total would reward dense code over clear code.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import subprocess
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent


def python_files(root: pathlib.Path) -> list[pathlib.Path]:
    """The Python files that git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = [root / name for name in listing.stdout.split("\0") if name]
    found = names or (
        path for path in root.rglob("*.py") if not any(p.startswith(".") for p in path.parts)
    )
    return sorted(path for path in found if path.is_file())


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that hold code: neither empty, nor a comment, nor part of a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    in_docstring: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            in_docstring.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in in_docstring
        for number, line in enumerate(text.splitlines(), 1)
    )


def functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(lines, name) of every function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, node.name


def main() -> None:
    """Reads the project and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=8, help="how many of the longest to show")
    arguments = parser.parse_args()

    folders: dict[str, list[int]] = {}
    files: list[tuple[int, str]] = []
    longest: list[tuple[int, str]] = []
    for path in python_files(ROOT):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=name)
        counts = folders.setdefault(name.rpartition("/")[0] or ".", [0, 0, 0])
        lines = len(text.splitlines())
        counts[0] += 1
        counts[1] += lines
        counts[2] += code_lines(text, tree)
        files.append((lines, name))
        longest += [(length, f"{name}: {function}") for length, function in functions(tree)]

    print(f"{'folder':32s} {'files':>6s} {'lines':>7s} {'of code':>8s}")
    for folder, (count, lines, code) in sorted(folders.items()):
        print(f"{folder:32s} {count:6d} {lines:7d} {code:8d}")
    for title, rows in (("longest files", files), ("longest functions", longest)):
        print(f"\n{title}")
        for length, name in sorted(rows, reverse=True)[: arguments.top]:
            print(f"{length:6d}  {name}")


if __name__ == "__main__":
    main()
