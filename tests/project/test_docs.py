"""Every example runs: those in docstrings, and every Python block of README.md and docs/*.md.

In a page, the blocks share one namespace from top to bottom. What a block prints stands below the
statement that prints it, in lines that begin with `#>`; or the block is a session with `>>>`.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import linecache
import re
import textwrap
import types

import pytest

from source_files import ROOT, module_name, python_files
from tools import update_surface

pytestmark = pytest.mark.usefixtures("optimized")

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"^```python[^\S\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    module_name(path) for path in python_files("weft") if ">>> " in path.read_text(encoding="utf-8")
]


# What examples in docstrings use without importing it, as far as it exists.
SHOWN = {"weft": "weft", "np": "numpy", "jnp": "weft.numpy", "lax": "weft.lax"}


def shown_names():
    return {
        name: importlib.import_module(module)
        for name, module in SHOWN.items()
        if update_surface.exists(module)
    }


def run_session(test, clear_globs=True):
    """Runs one doctest; answers with the report of what went wrong."""
    out = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    failed, _ = runner.run(test, out=out.write, clear_globs=clear_globs)
    return out.getvalue() if failed else ""


def examples_of(module):
    """The examples in the docstrings that stand in a module.

    doctest finds those of functions and classes. Others belong to objects that are called: ufuncs,
    and functions that a declaration made.
    """
    globs = shown_names()
    tests = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=globs)
    found = {test.docstring for test in tests}
    source = inspect.getsource(module)
    for name, value in vars(module).items():
        text = getattr(value, "__doc__", None)
        if not isinstance(text, str) or ">>> " not in text or text in found:
            continue
        # A declaration may state the example only, and make the rest of the docstring.
        example = inspect.cleandoc(text[text.index(">>> ") :])
        if text in source or (
            getattr(value, "__module__", None) == module.__name__
            and textwrap.indent(example, "    ") in source
        ):
            names = {**vars(module), **globs}
            parsed = doctest.DocTestParser().get_doctest(
                text, names, f"{module.__name__}.{name}", module.__file__, None
            )
            tests.append(parsed)
            found.add(text)
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    tests = examples_of(importlib.import_module(name))
    assert tests, f"{name} has `>>>` that belongs to no docstring"
    problems = "".join(run_session(test) for test in tests)
    if problems:
        pytest.fail(problems, pytrace=False)


def blocks(text):
    """(line of the page, source) of every Python block."""
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(1)) + 1, found.group(1)


def expected_output(lines, first, last):
    """What the `#>` lines among lines[first:last] say, or None where there are none."""
    shown = [line.removeprefix("#>").removeprefix(" ") for line in lines[first:last]
             if line.startswith("#>")]  # fmt: skip
    return "\n".join(shown) + "\n" if shown else None


def run_block(page, start, source, namespace):
    """Runs the statements of a block one by one and compares what each prints with the page."""
    if source.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(source, namespace, page, page, start - 1)
        test.globs = namespace  # the parser copies it, and the blocks share one
        problems = run_session(test, clear_globs=False)
        assert not problems, problems
        return
    tree = ast.increment_lineno(ast.parse(source), start - 1)
    lines = [""] * (start - 1) + source.splitlines()
    checker = doctest.OutputChecker()
    for index, statement in enumerate(tree.body):
        following = tree.body[index + 1 :]
        end = following[0].lineno - 1 if following else len(lines)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile(ast.Module([statement], []), page, "exec", dont_inherit=True)
            exec(code, namespace)
        wanted = expected_output(lines, statement.end_lineno, end) or ""
        if not checker.check_output(wanted, printed.getvalue(), FLAGS):
            raise AssertionError(
                f"{page}:{statement.lineno}: prints\n{printed.getvalue()}\nbut the page shows\n"
                f"{wanted or '(nothing: show it in lines that begin with #>)'}"
            )


def run_page(name, text):
    """Runs all blocks of a page in one namespace."""
    # Tracebacks and weft's own messages then show the lines of the page.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = types.ModuleType("page").__dict__
    for start, source in blocks(text):
        run_block(name, start, source, namespace)


@pytest.mark.smoke
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_on_pages(page):
    run_page(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))


# ---- the checks themselves are able to fail --------------------------------------------


def page_of(*sources):
    return "\n".join(f"Text.\n```python\n{source}\n```\n" for source in sources)


@pytest.mark.fast
def test_a_page_with_right_output_passes():
    run_page(
        "page.md",
        page_of(
            "x = 1\nprint(x)\n#> 1\n\nfor i in range(2):\n    print(i)\n#> 0\n#> 1",
            ">>> x + 1\n2\n>>> y = 5",
            "print(x + y, 0.123456)\n#> 6 0.123...",
        ),
    )


@pytest.mark.fast
@pytest.mark.parametrize(
    "source", ["print(1)\n#> 2", "print(1)", "x = 1\n#> 1", ">>> 1 + 1\n3", "raise ValueError"]
)
def test_a_page_with_wrong_output_fails(source):
    with pytest.raises((AssertionError, ValueError)):
        run_page("page.md", page_of(source))


@pytest.mark.fast
def test_errors_name_the_line_of_the_page():
    with pytest.raises(AssertionError, match=r"page\.md:4"):
        run_page("page.md", page_of("x = 1\nprint(x)"))


@pytest.mark.fast
def test_examples_of_ufuncs_are_found():
    names = [test.name for test in examples_of(importlib.import_module("weft.numpy.elementary"))]
    assert "weft.numpy.elementary.sin" in names


@pytest.mark.fast
def test_a_wrong_docstring_is_found():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "f", "f", 0)
    assert "Expected" in run_session(test)
