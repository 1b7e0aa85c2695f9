"""Every recipe has a page: it shows lines of the script, what the script prints, and its picture.

The blocks of a page run in tests/project/test_docs.py; what a recipe computes is compared with
references in the file of tests that has its name.
"""

from __future__ import annotations

import itertools
import re
import textwrap

import pytest

from processes import python_output
from source_files import ROOT

SCRIPTS = sorted((ROOT / "examples/recipes").glob("*.py"))
PAGES = ROOT / "docs/recipes"
INDEX = PAGES / "README.md"
# A block that needs a library that weft's tests do not install says `py`; it is not run as a page.
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT = 60_000
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")

# Scripts that stand on the page of another one.
SHARED = {"training_loop_optax": "training_loop"}
# A profile reaches into all threads of a process: these run in one of their own.
ALONE = {"profiling"}
RECIPES = [path.stem for path in SCRIPTS if path.stem not in SHARED]


def page_of(name):
    return (PAGES / f"{SHARED.get(name, name)}.md").read_text(encoding="utf-8")


def blocks(text, *languages):
    return [source for language, source in BLOCK.findall(text) if language in languages]


def has_lines(script, block):
    """Whether a block is a part of a script, which may stand deeper there."""
    wanted = block.rstrip().splitlines()
    lines = script.splitlines()
    return any(
        textwrap.dedent("\n".join(lines[i : i + len(wanted)])).splitlines() == wanted
        for i in range(len(lines) - len(wanted) + 1)
    )


def as_shown(wanted, printed):
    """Whether a text is that of a page: equal words, and numbers that differ by one in their last
    digit at most, since processors round sums differently. `...` stands for any one word."""
    pairs = list(itertools.zip_longest(wanted.split(), printed.split(), fillvalue=""))
    return all(of_page == "..." or same_word(of_page, word) for of_page, word in pairs)


def same_word(of_page, word):
    if NUMBER.sub("0", of_page) != NUMBER.sub("0", word):
        return False
    return all(
        abs(float(a[0]) - float(b[0])) < 1.5 * 10.0 ** -len(a[1] or "")
        and len(a[1] or "") == len(b[1] or "")
        for a, b in zip(NUMBER.finditer(of_page), NUMBER.finditer(word), strict=True)
    )


def texts_of(picture):
    """The words of a picture: Matplotlib writes them as comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", picture)


@pytest.mark.fast
def test_every_script_has_a_page_and_every_page_a_script():
    pages = {path.stem for path in PAGES.glob("*.md")} - {INDEX.stem}
    assert set(RECIPES) == pages
    rows = re.findall(r"^\| \[[^\]]+\]\((\w+)\.md\) \|", INDEX.read_text(), re.MULTILINE)
    assert sorted(rows) == RECIPES


@pytest.mark.fast
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short(path):
    docstring = re.compile(r'^""".*?^"""$', re.MULTILINE | re.DOTALL)
    code = [line for line in docstring.sub("", path.read_text()).splitlines() if line.strip()]
    assert (0 if path.stem in SHARED else 40) <= len(code) <= 100


@pytest.mark.fast
@pytest.mark.parametrize("name", RECIPES)
def test_blocks_are_lines_of_the_script(name):
    page = page_of(name)
    scripts = [path.read_text() for path in SCRIPTS if SHARED.get(path.stem, path.stem) == name]
    shown = blocks(page, "python", "py")
    assert len(shown) >= 3
    for block in shown:
        assert any(has_lines(script, block) for script in scripts), block
    assert f"examples/recipes/{name}.py" in page


@pytest.mark.fast
@pytest.mark.parametrize("name", RECIPES)
def test_a_page_shows_a_small_picture_that_was_drawn_by_the_script(name):
    (shown,) = re.findall(r"^!\[[^\]]{20,}\]\((\S+)\)$", page_of(name), re.MULTILINE)
    assert shown in (f"{name}.svg", f"{name}.png")
    assert (PAGES / shown).stat().st_size < LIMIT
    assert f"]({shown})" in INDEX.read_text() or f'src="{shown}"' in INDEX.read_text()


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_prints_what_its_page_shows(name, load_recipe, tmp_path, capsys):
    (picture,) = PAGES.glob(f"{name}.[sp][vn]g")
    drawn = tmp_path / picture.name
    if name in ALONE:
        script = ROOT / "examples" / "recipes" / f"{name}.py"
        printed = python_output(script, "--picture", drawn, timeout=None, cwd=tmp_path)
    else:
        assert load_recipe(name).main(["--picture", str(drawn)]) == 0
        printed = capsys.readouterr().out
    (wanted,) = blocks(page_of(name), "text")
    assert as_shown(wanted, printed), printed
    if picture.suffix == ".svg":
        assert texts_of(drawn.read_text()) == texts_of(picture.read_text())


@pytest.mark.fast
def test_a_block_that_is_not_in_the_script_is_found():
    script = "def f(x):\n    y = x\n    return y\n"
    assert has_lines(script, "y = x\nreturn y\n") and not has_lines(script, "return x\n")
    assert not has_lines(script, "y = x\n    return y\n")


@pytest.mark.fast
def test_another_text_is_found():
    shown = "loss 0.25, 12 steps, ... s: a.b"
    assert as_shown(shown, "loss  0.26, 12 steps, 3 s:\na.b")
    for other in ("loss 0.27, 12 steps, 3 s: a.b", "loss 0.25, 14 steps, 3 s: a.b",
                  "loss 0.25, 12 parts, 3 s: a.b", "loss 0.25, 12 steps, 3 s: a.b more",
                  "loss 0.25, 12 steps", "loss 0.250, 12 steps, 3 s: a.b"):  # fmt: skip
        assert not as_shown(shown, other), other
