"""The habits of CONTRIBUTING.md that a program can check."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap

import pytest

from source_files import (
    PACKAGE,
    module_name,
    nodes,
    parse,
    project_files,
    python_files,
    relative,
    report,
)

pytestmark = pytest.mark.fast

LONGEST_FILE = 700
LONGEST_FUNCTION = 60
SOURCE = python_files("weft", "tests", "tools", "examples", "benchmarks")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".sh", ".c", ".yml", ".yaml", ".cfg", ".csv", ""}

# Written so that the patterns do not find themselves.
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|farm|home/\w+|Users/\w+|tmp/\w+)/")
REGISTRY_HOST = re.compile(
    r"pypi\.(org|python)|python"
    r"hosted|anaconda\.(org|com)|--(extra-)?index"
    r"-url|--find"
    r"-links"
)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
BARE_SKIP = re.compile(r"@pytest\.mark\.(skip|xfail)(\(\s*\))?\s*$|pytest\.(skip|xfail)\(\s*\)")


def text_files():
    for path in project_files():
        if path.suffix in TEXT_SUFFIXES and path.name != "LICENSE":
            yield path, path.read_text(encoding="utf-8")


def matches(pattern, text):
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line):
            yield number, line.strip()[:90]


# ---- what the checks look for ----------------------------------------------------------


def functions_too_long(tree):
    """Docstrings do not count: they grow with the number of parameters, each with its meaning."""
    for node in nodes(tree):
        if isinstance(node, FUNCTION):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            if length > LONGEST_FUNCTION:
                yield node.lineno, f"{node.name} has {length} lines"


def nameless_functions(tree):
    for node in nodes(tree):
        if isinstance(node, FUNCTION) and not node.name.strip("_"):
            yield node.lineno


def silent_not_implemented(tree):
    for node in nodes(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            call = node.exc if isinstance(node.exc, ast.Call) else None
            name = call.func if call else node.exc
            if getattr(name, "id", "") == "NotImplementedError" and not (call and call.args):
                yield node.lineno


def silent_skips(tree, text):
    for number, _ in matches(BARE_SKIP, text):
        yield number
    if "skipif" not in text and "xfail" not in text:
        return
    for node in nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "pytest.mark.skipif",
            "pytest.mark.xfail",
        ):
            reason = [k for k in node.keywords if k.arg == "reason"]
            if not reason:
                yield node.lineno


def undocumented(module):
    """The public functions and classes of a module that say nothing of themselves."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for name in names:
        value = getattr(module, name)
        ours = str(getattr(value, "__module__", "")).startswith("weft")
        if ours and (inspect.isclass(value) or callable(value)) and not inspect.getdoc(value):
            yield name


# ---- the checks ------------------------------------------------------------------------


def test_files_are_short():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE}
    report(
        f"{relative(path)}: {length} lines; {LONGEST_FILE} at most"
        for path, length in lengths.items()
        if length > LONGEST_FILE
    )


def test_functions_are_short():
    report(
        f"{relative(path)}:{line}: {what}; {LONGEST_FUNCTION} at most"
        for path in python_files("weft")
        for line, what in functions_too_long(parse(path))
    )


def test_every_module_says_what_it_is():
    report(
        f"{relative(path)}: opens without a docstring"
        for path in SOURCE
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(parse(path))
    )


def test_rules_have_names():
    report(
        f"{relative(path)}:{line}: a function needs a name that can be searched for"
        for path in python_files("weft")
        for line in nameless_functions(parse(path))
    )


def test_not_implemented_errors_have_a_message():
    report(
        f"{relative(path)}:{line}: NotImplementedError without a message"
        for path in python_files("weft")
        for line in silent_not_implemented(parse(path))
    )


def test_skipped_tests_give_a_reason():
    report(
        f"{relative(path)}:{line}: a skipped test needs a reason"
        for path in python_files("tests")
        if path.name != "test_style.py"  # its examples of what is wrong
        for line in silent_skips(parse(path), path.read_text(encoding="utf-8"))
    )


FORBIDDEN = {
    "what is left for later": UNFINISHED,
    "a path of one machine": MACHINE_PATH,
    "a package registry": REGISTRY_HOST,
}


@pytest.mark.parametrize("pattern", FORBIDDEN.values(), ids=FORBIDDEN)
def test_no_file_names(pattern):
    report(
        f"{relative(path)}:{number}: {line}"
        for path, text in text_files()
        for number, line in matches(pattern, text)
    )


# Where users look functions up. A name that is not there yet is simply not looked at; test_surface
# keeps the list of what is there.
DOCUMENTED = "weft.numpy weft.lax weft.api.jit weft.random weft.nn weft.numpy.linalg".split()


@pytest.mark.parametrize(
    "name", [m for m in DOCUMENTED if m in {module_name(p) for p in python_files("weft")}]
)
def test_public_functions_have_docstrings(name):
    module = importlib.import_module(name)
    report(f"{name}.{function} has no docstring" for function in undocumented(module))


# ---- the checks themselves are able to fail --------------------------------------------


def tree(text):
    return ast.parse(textwrap.dedent(text))


def test_a_long_function_is_found():
    body = "\n".join(f"    x{i} = {i}" for i in range(LONGEST_FUNCTION))
    assert list(functions_too_long(tree("def f():\n" + body)))
    assert list(functions_too_long(tree('def f():\n    """Text."""\n' + body)))
    assert not list(functions_too_long(tree("def f():\n    return 1")))
    docstring = '    """Text.' + LONGEST_FUNCTION * "\n    More." + '\n    """\n'
    assert not list(functions_too_long(tree("def f():\n" + docstring + "    return 1")))


def test_a_nameless_rule_is_found():
    assert list(nameless_functions(tree("@rule\ndef _(x): ..."))) == [2]
    assert not list(nameless_functions(tree("@rule\ndef sin_jvp(x): ...")))


@pytest.mark.parametrize("text", ["raise NotImplementedError", "raise NotImplementedError()"])
def test_a_silent_error_is_found(text):
    assert list(silent_not_implemented(tree(text)))
    assert not list(silent_not_implemented(tree("raise NotImplementedError('why')")))


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.skip\ndef f(): ...",
        "@pytest.mark.xfail()\ndef f(): ...",
        "pytest.skip()",
        "@pytest.mark.skipif(x)\ndef f(): ...",
    ],
)
def test_a_silent_skip_is_found(text):
    assert list(silent_skips(tree(text), text))
    reasoned = "@pytest.mark.skipif(x, reason='why')\ndef f():\n    pytest.skip('why')"
    assert not list(silent_skips(tree(reasoned), reasoned))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "see " + "/".join(["", "work", "main"])),
        (MACHINE_PATH, "in " + "/".join(["", "home", "me", "x"])),
        (REGISTRY_HOST, "https://" + ".".join(["pypi", "org"])),
        (UNFINISHED, "# TO" + "DO: later"),
    ],
)
def test_a_forbidden_text_is_found(pattern, text):
    assert list(matches(pattern, "fine\n" + text)) == [(2, text)]


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").exists()
