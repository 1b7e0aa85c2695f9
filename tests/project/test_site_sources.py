"""What Sphinx is given: every page is in the sidebar, and every link leads to a page."""

from __future__ import annotations

import json
import os
import re

import pytest

from source_files import ROOT
from tools import build_site, function_pages
from tools.notebook_pages import notebook_page

pytestmark = pytest.mark.fast

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """All sources, by name."""
    folder = tmp_path_factory.mktemp("sources")
    names = build_site.write_sources(folder, [])
    texts = [name for name in names if name.endswith(".md")]
    pages = {name: (folder / name).read_text(encoding="utf-8") for name in texts}
    return {**pages, **dict.fromkeys(names.difference(texts), "")}


def links(text):
    """The targets of the links outside of code."""
    outside = build_site.FENCE.sub("", text)
    for found in build_site.LINK.finditer(outside):
        if not found["code"]:
            yield found["target"]


def test_every_link_leads_to_a_page(sources):
    dead = []
    for name, text in sources.items():
        for target in links(text):
            file = target.partition("#")[0]
            there = os.path.normpath(os.path.join(os.path.dirname(name), file))
            if file and not re.match(r"[a-z]+:", file) and there not in sources:
                if not (there.startswith("_static/") and (ROOT / "docs" / there).exists()):
                    dead.append(f"{name}: {target}")
    assert dead == []


def test_every_page_is_in_the_sidebar_or_belongs_to_one_that_is(sources):
    listed = {"index.md"}
    for name, text in sources.items():
        for tree in TOCTREE.findall(text):
            folder = os.path.dirname(name)
            inner = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {f"{os.path.normpath(os.path.join(folder, line))}.md" for line in inner}
    pages = {name for name in sources if name.endswith(".md")}
    assert listed <= pages
    alone = {name for name in pages - listed if "orphan: true" not in sources[name][:60]}
    assert alone == set()


def test_every_guide_is_a_page(sources):
    missing = [
        path for path in build_site.guides() if str(build_site.staged_path(path)) not in sources
    ]
    assert missing == []


def test_pages_of_functions(sources):
    page = sources["api/weft.shard_map.md"]
    assert "```{py:function} weft.shard_map(f: Callable[..., Any] | None = None, mesh" in page
    for heading in ("Parameters", "Errors", "Example"):
        assert f"\n## {heading}\n" in page
    assert re.search(
        r"^\| `mesh` \| `AnyMesh \\\| None` \| `None` \| The mesh ", page, re.MULTILINE
    )
    assert "weft.shard_map.md" in sources["api/weft.md"]
    # The same name as a module's, but for the case of its letters.
    assert {"api/weft.ref.md", "api/weft.Ref-class.md"} <= sources.keys()


def test_names_of_files_differ_also_without_case(sources):
    lower = [name.lower() for name in sources]
    assert len(lower) == len(set(lower))


def test_links_out_of_the_documentation_are_settled():
    pages = build_site.Pages()
    here = ROOT / "docs" / "guide.md"

    def settled(text):
        return pages.rewritten(text, here)

    assert settled("[test_jit](../tests/dispatch/test_jit.py)") == "`tests/dispatch/test_jit.py`"
    assert settled("[a test](../tests/dispatch/test_jit.py)") == (
        "a test (`tests/dispatch/test_jit.py`)"
    )
    assert settled("[changes](../CHANGELOG.md)") == "[changes](project/CHANGELOG.md)"
    assert settled("[digits](../examples/digits.py)") == "[digits](examples/digits.py.md)"
    assert settled("[x](#there) and [y](https://a.b/c)") == "[x](#there) and [y](https://a.b/c)"
    assert settled("`[a](../README.md)`") == "`[a](../README.md)`"
    fenced = "```python\nx[0](../README.md)\n```\n"
    assert settled(fenced) == fenced
    assert ROOT / "CHANGELOG.md" in pages.wanted


def test_notebooks_are_pages_with_what_they_show(sources):
    page = sources["notebooks/first_tour.md"]
    assert page.startswith("# A first tour\n")
    assert "```python\nprint(x.mean(axis=0))\n```\n\n```text\n[0.36363637 " in page
    assert '```{raw} html\n<div class="weft-picture">' in page
    assert "at cell 9, line 3 in scaled" in page and "\x1b" not in page
    assert "[Many devices](many_devices.md)" in page and "](../guide.md)" in page
    assert "(notebooks/first_tour.md)" in sources["index.md"]


def test_blocks_of_notebooks_end_where_they_should(tmp_path):
    cell = {"cell_type": "code", "source": ["print('```')"], "outputs": [
        {"output_type": "stream", "text": ["```\n"]},
        {"output_type": "display_data", "data": {"text/plain": ["a plain text"]}},
    ]}  # fmt: skip
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    text = notebook_page(path, "docs/one.ipynb")
    assert "````python\nprint('```')\n````\n\n````text\n```\n````\n\n```text\na plain text" in text
    assert build_site.FENCE.sub("", text).strip() == "This page is the notebook `docs/one.ipynb`."


def test_sidebar():
    found = build_site.sidebar(
        ["guide", "shard_map", "new_page", "recipes/README", "recipes/one", "notebooks/a", "index"]
    )
    assert found["First steps"] == ["guide"] and found["Notebooks"] == ["notebooks/a"]
    assert found["Guides"] == ["new_page"] and found["Recipes"] == ["recipes/README"]
    assert found["Many devices"] == ["shard_map"] and "project/versions" in found["Project"]


def test_docstrings_by_parts():
    text = (
        "Does it.\n\nIt is quick. Raises ValueError for no.\nsize: how many. Returns two.\n\n"
        ">>> 1 + 1\n2\n\nAnd more:\n\n>>> 2\n2"
    )
    body = function_pages.body_of(text, ["size"])
    assert body.text == ["Does it.", "It is quick."] and body.errors == ["ValueError for no."]
    assert body.returns == ["Returns two."]
    assert body.examples == [">>> 1 + 1\n2", "And more:", ">>> 2\n2"]


def test_versions(tmp_path):
    for name in (build_site.version(), "0.0.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("")
    build_site.write_versions(tmp_path)
    text = (tmp_path / "versions.js").read_text()
    assert text == f'window.weftVersions = ["{build_site.version()}", "0.0.1"];\n'
    assert f"url={build_site.version()}/index.html" in (tmp_path / "index.html").read_text()
