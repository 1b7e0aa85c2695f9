"""What mypy and pyright make of weft: the types and errors that stand in comments of tests/typing.

A line with `# T: <type>` reveals this type, written as both checkers' answers are here: without
modules, without defaults, `Any` for what pyright calls unknown. Two types are mypy's and pyright's.
A line with `# E: <codes>, <codes>` is an error for mypy and for pyright, of one of the codes; `-`
says that a checker accepts it. Lines without a comment are no errors. The files `program_*.py` are
what users write: they have no errors under `mypy --strict` and pyright, and they run.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

from source_files import ROOT

FOLDER = ROOT / "tests" / "typing"
FILES = sorted(path.name for path in FOLDER.glob("*.py"))
PROGRAMS = sorted(path.name for path in FOLDER.glob("program_*.py"))

# What `mypy --strict` asks for, as far as it can be said for single files.
STRICT = """
disallow_any_generics = true
disallow_incomplete_defs = true
disallow_subclassing_any = true
disallow_untyped_calls = true
disallow_untyped_decorators = true
disallow_untyped_defs = true
extra_checks = true
implicit_reexport = false
strict_equality = true
warn_return_any = true
warn_unused_ignores = true
"""


@dataclasses.dataclass
class Found:
    """What a checker says of one line."""

    types: list[str] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str]] = dataclasses.field(default_factory=list)


Report = dict[tuple[str, int], Found]


def plain(text: str) -> str:
    """A revealed type without what only one of the checkers writes."""
    text = re.sub(r"\b(?:\w+\.)+(\w)", r"\1", text)  # modules
    text = text.replace("def (", "(").replace("Unknown", "Any").replace("(...)", "(*Any, **Any)")
    text = re.sub(r" = [^,)\]]+", " =", text)
    # The parameters in a class over them: mypy writes [[x: int], R], pyright [(x: int), R].
    return re.sub(r"\[\[(.*?)\], ", r"[(\1), ", text)


def expectations(name: str) -> dict[int, tuple[str, list[str]]]:
    """Per line, "T" or "E" and what stands behind it for mypy and pyright."""
    found = {}
    for number, line in enumerate((FOLDER / name).read_text().split("\n"), start=1):
        match = re.search(r"# ([TE]): (.*?)(?:  # noqa.*)?$", line)
        if match:
            kind, text = match.groups()
            parts = split_outside_brackets(text)
            found[number] = kind, parts if len(parts) == 2 else [text, text]
    return found


def split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def run_checker(arguments: list[str]) -> str:
    process = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "MYPY_FORCE_COLOR": "0"},
    )  # fmt: skip
    assert process.stdout, process.stderr
    return process.stdout


@pytest.fixture(scope="session")
def mypy(tmp_path_factory) -> Report:
    cache = tmp_path_factory.mktemp("mypy")
    # Strict for the programs alone: a user's settings say nothing of what is installed.
    strict = "".join(f"[mypy-{pathlib.Path(name).stem}]{STRICT}" for name in FILES)
    config = cache / "mypy.ini"
    config.write_text("[mypy]\nfollow_imports = silent\n" + strict)
    output = run_checker(
        ["mypy", "--config-file", str(config), "--cache-dir", str(cache / "cache"),
         "--python-version", "3.11", "--hide-error-context", "--no-pretty",
         *(str(FOLDER / name) for name in FILES)]
    )  # fmt: skip
    report: Report = {}
    for line in output.split("\n"):
        match = re.match(r".*?typing/(\w+\.py):(\d+): (note|error): (.*)", line)
        if match is None:
            continue
        name, number, kind, text = match.groups()
        found = report.setdefault((name, int(number)), Found())
        revealed = re.match(r'Revealed type is "(.*)"$', text)
        code = re.search(r"\[([\w-]+)\]$", text)
        if revealed:
            found.types.append(plain(revealed[1]))
        elif kind == "error":
            found.errors.append((code[1] if code else "", text))
    return report


@pytest.fixture(scope="session")
def pyright() -> Report:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    # Files given by name are checked with pyright's own defaults, whatever stands around them.
    output = run_checker(
        ["pyright", "--pythonpath", sys.executable, "--pythonversion", "3.11", "--outputjson",
         *(str(FOLDER / name) for name in FILES)]
    )  # fmt: skip
    report: Report = {}
    for item in json.loads(output)["generalDiagnostics"]:
        name, number = pathlib.Path(item["file"]).name, item["range"]["start"]["line"] + 1
        found = report.setdefault((name, number), Found())
        revealed = re.match(r'Type of ".*" is "(.*)"$', item["message"], re.DOTALL)
        if item["severity"] == "information" and revealed:
            found.types.append(plain(revealed[1]))
        elif item["severity"] == "error":
            found.errors.append((item.get("rule", ""), item["message"]))
    return report


def differences(name: str, report: Report, place: int) -> list[str]:
    """Where a checker says something else than the comments of a file."""
    wanted = expectations(name)
    lines = {number for file, number in report if file == name} | set(wanted)
    problems = []
    for number in sorted(lines):
        found = report.get((name, number), Found())
        kind, texts = wanted.get(number, ("", ["", ""]))
        text = texts[place]
        codes = text.split() if kind == "E" and text != "-" else []
        if kind == "T" and found.types != [text]:
            problems.append(f"{name}:{number}: wanted {text}, got {found.types}")
        if codes and not found.errors:
            problems.append(f"{name}:{number}: wanted an error {codes}, got none")
        problems += [
            f"{name}:{number}: {code}: {message}"
            for code, message in found.errors
            if code not in codes
        ]
    return problems


@pytest.mark.parametrize("name", FILES)
def test_mypy(mypy, name):
    assert not (problems := differences(name, mypy, 0)), "\n".join(problems)


@pytest.mark.parametrize("name", FILES)
def test_pyright(pyright, name):
    assert not (problems := differences(name, pyright, 1)), "\n".join(problems)


def test_every_file_expects_something():
    assert len(FILES) >= 8 and len(PROGRAMS) >= 3
    for name in set(FILES).difference(PROGRAMS):
        assert any(kind == "T" for kind, _ in expectations(name).values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run(name, capsys):
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert capsys.readouterr().out


def test_differences_are_found():
    report: Report = {("transformations.py", 1): Found(errors=[("name-defined", "what")])}
    problems = differences("transformations.py", report, 0)
    assert "transformations.py:1: name-defined: what" in problems
    assert any("wanted an error" in problem for problem in problems)
    assert any("wanted Array, got []" in problem for problem in problems)
