"""Which tests a change reaches: those that import, in whatever many steps, a file that changed.

python tools/changed_tests.py                 # files that differ from HEAD, or are new
python tools/changed_tests.py --base main     # files that differ from another revision
python tools/changed_tests.py weft/nn/init.py # these files

It prints one file of tests a line. The graph is read from the source, by what
tests/support/layers.py knows of imports, and nothing is run. What a package hands out lazily is
needed by a file that names it (`weft.scipy.stats`), not by all that import the package. Code and
names of files in a test's texts count as if they stood in the test. Where the source does not
tell, more tests are printed.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

import layers  # noqa: E402  (tests/support is no package)

# A change of these reaches every test: settings of all tests, and what is installed.
REACHES_ALL = re.compile(r"tests/conftest\.py|pyproject\.toml|requirements/.*")
# A test that asks for these looks at the source of the whole project.
LOOKS_AT_ALL = frozenset({"project_files", "python_files"})
# Data in these folders is read by some test, even if its name stands nowhere.
READ_FOLDERS = ("tests/", "weft/", "tools/", "examples/")
_CHAIN = re.compile(r"\bweft(?:\.\w+)*")


@dataclasses.dataclass
class Handed:
    """What the modules of a package's `__getattr__` are: by attribute, and those of any other."""

    named: dict[str, str]
    other: list[str]


class Project:
    """The files of a project, by path from its root; those in Python as syntax trees."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self.trees = {
            path: ast.parse(text)
            for path, text in texts.items()
            if path.endswith(".py") and text is not None
        }
        self.data = [path for path in texts if path not in self.trees]
        self.modules: dict[str, str] = {}
        self._walked: dict[tuple[str, ...], tuple[str, ...]] = {}
        for path in self.trees:
            self.modules.setdefault(module_of(path), path)
        self.named: dict[str, list[str]] = {}
        for path in texts:
            for name in self._called(path):
                self.named.setdefault(name, []).append(path)

    def _called(self, path: str) -> Iterator[str]:
        """The words by which a text may speak of a file: its name, or a folder that it is in."""
        *folders, name = path.split("/")
        top = folders[0] if folders else ""
        yield name
        programs = top in ("examples", "benchmarks", "tools")
        if programs:
            yield name.removesuffix(".py")
        # Some tests run all programs of a folder, or import all modules of one beside them; but
        # every test of a project speaks of `weft` and `tests`.
        if path in self.data or programs or (top == "tests" and path not in self.tests):
            yield from folders[1:] if top in ("tests", "weft") else folders

    @functools.cached_property
    def tests(self) -> set[str]:
        """The files of tests."""
        names = ((path, path.rpartition("/")[2]) for path in self.trees)
        return {p for p, name in names if p.startswith("tests/") and name.startswith("test_")}

    @functools.cached_property
    def handed(self) -> dict[str, Handed]:
        """Per package what it hands out when it is asked for it."""
        return {
            module: handed_out(self.trees[path], module)
            for module, path in self.modules.items()
            if path.endswith("/__init__.py")
        }

    def walk(self, names: Sequence[str]) -> tuple[str, ...]:
        """The modules that `a.b.c` needs: all those on the way, and what is handed out for c."""
        found = self._walked.get(tuple(names))
        if found is None:
            found = self._walked[tuple(names)] = tuple(dict.fromkeys(self._walk(names)))
        return found

    def _walk(self, names: Sequence[str]) -> Iterator[str]:
        module = names[0]
        if module in self.modules:
            yield module
        for position, name in enumerate(names[1:]):
            inner, handed = f"{module}.{name}", self.handed.get(module, Handed({}, []))
            if inner not in self.modules:
                if name in handed.named:
                    inner = handed.named[name]
                    yield from self.walk(inner.split("."))
                    if inner in self.modules and position + 2 < len(names):
                        yield from self.walk([inner, *names[position + 2 :]])
                elif handed.other:
                    yield from (m for other in handed.other for m in self.walk(other.split(".")))
                return
            yield (module := inner)

    @functools.cached_property
    def needs(self) -> dict[str, set[str]]:
        """The files that each file in Python needs."""
        return {path: set(self._needed(path)) - {path} for path in self.trees}

    def _needed(self, path: str) -> Iterator[str]:
        tree, module = self.trees[path], module_of(path)
        yield from self._modules(tree, module, path.endswith("/__init__.py"))
        folders = path.split("/")[:-1]
        # Fixtures are used without an import. Those of tests/conftest.py are in REACHES_ALL.
        beside = ("/".join((*folders[:n], "conftest.py")) for n in range(2, len(folders) + 1))
        yield from (fixtures for fixtures in beside if fixtures in self.trees)
        if path.startswith("weft/"):
            return
        told = {
            node.value for node in layers.nodes(tree) if isinstance(node, ast.Expr)
        }  # docstrings tell what is there; they need nothing
        for node in layers.nodes(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
                yield from self._said(node.value, module)

    def _said(self, text: str, module: str) -> Iterator[str]:
        """The files that a text of a test names, or needs if it is a program."""
        yield from self.named.get(text.strip("/").rpartition("/")[2], ())
        if "weft" in text:
            try:
                tree = ast.parse(textwrap.dedent(text))
            except (SyntaxError, ValueError):
                tree = ast.Module([], [])
            yield from self._modules(tree, module, False)
            for chain in _CHAIN.findall(text):
                yield from map(self.modules.get, filter(self.modules.get, self._dots(chain)))

    def _dots(self, chain: str) -> Iterator[str]:
        return self.walk(chain.split("."))

    def _modules(self, tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
        """The files of the modules that a piece of code needs."""
        for name in self._named_modules(tree, module, is_package):
            if name in self.modules:
                yield self.modules[name]

    def _named_modules(self, tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
        unseen = layers.lines_for_type_checkers(tree)
        unseen |= lines_handed_out(tree) if is_package else set()
        for found in layers.imports_of(tree, module, is_package):
            if found.line in unseen:
                continue
            start = found.module.split(".")
            yield from self.walk(start)
            if found.names == ("*",):
                yield from layers.targets(found, frozenset(self.modules))
            for name in found.names:
                yield from self.walk_from(found.module, [name])
        bound = dict(self._bound(tree))
        inside = set()
        for node in layers.nodes(tree):
            if isinstance(node, ast.Attribute):
                names, root = [], node
                while isinstance(root, ast.Attribute):
                    names.append(root.attr)
                    root = root.value
                if isinstance(root, ast.Name) and root.id in bound:
                    inside.add(root)
                    yield from self.walk_from(bound[root.id], names[::-1])
        for node in layers.nodes(tree):  # `getattr(weft, name)`: any name at all
            if isinstance(node, ast.Name) and node.id in bound and node not in inside:
                handed = self.handed.get(bound[node.id], Handed({}, []))
                for other in (*handed.named.values(), *handed.other):
                    yield from self.walk(other.split("."))

    def walk_from(self, module: str, names: Sequence[str]) -> Iterator[str]:
        """As `walk`, for names that are asked of a module."""
        yield from self.walk(module.split("."))
        yield from self.walk([module, *names])

    def _bound(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        """(name, module) of the names that imports give to modules."""
        for node in layers.nodes(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (
                        alias.asname or alias.name.split(".")[0],
                        (alias.name if alias.asname else alias.name.split(".")[0]),
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    handed = self.handed.get(node.module, Handed({}, [])).named
                    if module in self.modules or alias.name in handed:
                        yield alias.asname or alias.name, handed.get(alias.name, module)

    def looks_at_all(self, path: str) -> bool:
        """Whether a test reads the source of everything, or imports by names nobody can read."""
        asked = {
            alias.name
            for node in layers.nodes(self.trees[path])
            if isinstance(node, ast.ImportFrom) and node.module == "source_files"
            for alias in node.names
        }
        return bool(asked & LOOKS_AT_ALL) or any(layers.hidden_imports(self.trees[path]))

    def reached(self, changed: Sequence[str]) -> set[str]:
        """The files of tests that a change of these files reaches."""
        if not changed:
            return set()
        everything = {path for path in self.tests if self.looks_at_all(path)}
        found, waiting = set(changed), list(changed)
        # A file that is gone is needed by those that still import it.
        needed_by: dict[str, set[str]] = {}
        for path, needs in self.needs.items():
            for other in needs:
                needed_by.setdefault(other, set()).add(path)
        for path in changed:
            gone = path not in self.trees and path not in self.data
            unread = path not in self.trees and path not in needed_by
            if REACHES_ALL.fullmatch(path) or (unread and path.startswith(READ_FOLDERS)) or gone:
                return set(self.tests)
        while waiting:
            for path in needed_by.get(waiting.pop(), ()):
                if path not in found:
                    found.add(path)
                    waiting.append(path)
        return (found & self.tests) | everything


def module_of(path: str) -> str:
    """The name by which a file is imported: those of tests, examples and benchmarks by their own,
    since pytest and the programs have their folders on the path."""
    parts = path.removesuffix(".py").split("/")
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if parts[:2] == ("tests", "support"):
        return ".".join(parts[2:])
    return ".".join(parts[1:] if parts[0] in ("tests", "examples", "benchmarks") else parts)


def handed_out(tree: ast.Module, module: str) -> Handed:
    """What the `__init__` of a package hands out when it is first asked for."""
    named = layers.handed_out(tree) if module in layers.HANDING_OUT else {}
    for node in layers.nodes(tree):
        if isinstance(node, ast.Assign):
            for home, names in layers.lazy_table(node).items():
                named |= dict.fromkeys(names, home)
    other = [
        found.module
        for function in _lazy_functions(tree)
        for found in layers.imports_of(function, module)
        if found.names != ("*",)  # submodules are found by their own names
    ]
    return Handed(named, other)


def lines_handed_out(tree: ast.Module) -> set[int]:
    """The lines of a package's imports that run when a name is first asked for."""
    lines = {
        line
        for node in _lazy_functions(tree)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for node in layers.nodes(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Dict, ast.Tuple, ast.Call)):
            name = getattr(node.targets[0], "id", "")
            made = getattr(getattr(node.value, "func", None), "id", "")
            if name in layers.LAZY_TABLES or made in layers.DYNAMIC_IMPORTS:
                lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _lazy_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in layers.nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            yield node


def git(*arguments: str) -> list[str]:
    """The names that git lists."""
    done = subprocess.run(
        ["git", *arguments, "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name]


def read(names: Sequence[str]) -> dict[str, str | None]:
    """The texts of Python files; None for all others."""
    return {
        name: (ROOT / name).read_text(encoding="utf-8") if name.endswith(".py") else None
        for name in names
        if os.path.isfile(ROOT / name)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="*", help="files that changed, from the project's root")
    parser.add_argument("--base", default="HEAD", help="the revision to compare with")
    asked = parser.parse_args()
    new = git("ls-files", "--others", "--exclude-standard")
    changed = asked.files or [*git("diff", "--name-only", asked.base), *new]
    project = Project(read([*git("ls-files"), *new]))
    print("\n".join(sorted(project.reached(changed))))


if __name__ == "__main__":
    main()
