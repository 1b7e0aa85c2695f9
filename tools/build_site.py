"""Builds the documentation as web pages: `make site` writes build/site/.

The pages of docs/ are copied to build/site-source/, links that only mean something in the source
tree are settled, notebooks become pages (`tools/notebook_pages.py`), the reference gets a page per
function (`tools/function_pages.py`), and Sphinx makes HTML of all that. Nothing is fetched: no
fonts, scripts or inventories of other sites.

python tools/build_site.py                      # write the sources and run Sphinx
python tools/build_site.py --sources            # write the sources only: needs no Sphinx
python tools/build_site.py --only weft.random   # with the functions of some modules only
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from fnmatch import fnmatch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import function_pages
from tools.function_pages import ROOT, Reference
from tools.notebook_pages import notebook_page

DOCS = ROOT / "docs"
SOURCES = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
# What Sphinx remembers of pages that it has read.
READ = ROOT / "build" / "site-read"

# The sidebar: captions, and the pages below them. A page that no pattern names is a guide.
SECTIONS: dict[str, list[str]] = {
    "First steps": [
        "install*", "demo", "guide", "coming_from_numpy", "coming_from_jax", "coming_from_*",
        "numpy_differences", "ecosystem",
    ],
    "Notebooks": ["notebooks/*"],
    "Guides": [
        "control_flow", "custom_derivatives", "compiling", "retracing", "caching", "layouts",
        "references", "export", "checkpoints", "pictures", "*",
    ],
    "Recipes": ["recipes/README"],
    "Many devices": ["shard_map", "communication", "costs", "distributed", "faults"],
    "Extending": ["extending/README"],
    "Reference": ["api/README", "settings", "parity", "glossary"],
    "Project": [
        "features", "architecture", "day_in_the_source", "project/CHANGELOG",
        "project/CONTRIBUTING", "site", "releasing", "project/versions",
    ],
}  # fmt: skip
# Pages whose folder's other pages stand below them; those of other folders stand for themselves.
FOLDER_INDEX = "README"
# Files outside of docs/ that are pages of the site; others are pages if a page links to them.
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")

# Code comes first, so that what looks like a link inside of code is none.
FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"(?P<code>``[^\n]+?``|`[^`\n]+`)|(?P<image>!?)\[(?P<text>(?:`[^`\n]*`|[^\[\]`])*)\]"
    r"\((?P<target>[^)\s]+)\)"
)


# ---- links -----------------------------------------------------------------------------------


def staged_path(path: pathlib.Path) -> pathlib.PurePosixPath | None:
    """Where the site has a file of the project, or None: from the folder of the sources."""
    if not path.is_relative_to(ROOT):
        return None
    relative = pathlib.PurePosixPath(path.relative_to(ROOT).as_posix())
    if relative.suffix == ".ipynb":
        relative = relative.with_suffix(".md")
    if relative.parts[:1] == ("docs",):
        return pathlib.PurePosixPath(*relative.parts[1:])
    if relative == pathlib.PurePosixPath("README.md"):
        return pathlib.PurePosixPath("index.md")
    if relative.suffix in (".md", ".svg", ".png"):
        return pathlib.PurePosixPath("project", relative)
    if relative.parts[0] == "examples" and relative.suffix == ".py":
        return pathlib.PurePosixPath(f"{relative}.md")
    return None


class Pages:
    """The pages that are written, and the files that they lead to."""

    def __init__(self) -> None:
        self.wanted: list[pathlib.Path] = []

    def rewritten(self, text: str, source: pathlib.Path) -> str:
        """A page's text with links that lead to pages of the site; others become plain text."""
        here = staged_path(source)
        assert here is not None, source

        def settled(found: re.Match[str]) -> str:
            target = found["target"]
            if found["code"] or re.match(r"[a-z]+:|#", target):
                return found[0]
            name, _, anchor = target.partition("#")
            file = (source.parent / name).resolve()
            there = staged_path(file)
            if there is None or not file.is_file():
                shown = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else name
                same = found["text"].strip("`") in (shown, file.name, file.stem)
                return f"`{shown}`" if same else f"{found['text']} (`{shown}`)"
            self.wanted.append(file)
            place = f"{there}#{anchor}" if anchor else str(there)
            link = os.path.relpath(place, here.parent)
            return f"{found['image']}[{found['text']}]({link})"

        return outside_fences(text, lambda part: LINK.sub(settled, part))


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Applies a change to what is no block of code."""
    parts, start = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, change(text[start:])])


# ---- sources ---------------------------------------------------------------------------------


def guides() -> list[pathlib.Path]:
    """The pages of docs/, notebooks among them."""
    return sorted([*DOCS.rglob("*.md"), *DOCS.glob("*/*.ipynb")])


def example_page(path: pathlib.Path) -> str:
    """A program of examples/ as a page."""
    name = path.relative_to(ROOT).as_posix()
    return f"---\norphan: true\n---\n\n# {name}\n\n```python\n{path.read_text('utf-8')}\n```\n"


def sidebar(names: Iterable[str]) -> dict[str, list[str]]:
    """The pages below each caption: those that a pattern names exactly first, then the others."""
    names = set(names)
    left = sorted(
        name
        for name in names - {"index"}
        if name.endswith(f"/{FOLDER_INDEX}")
        or f"{name.rpartition('/')[0]}/{FOLDER_INDEX}" not in names
    )
    left += [f"project/{path.removesuffix('.md')}" for path in OUTSIDE] + ["project/versions"]
    left.append("api/README")
    result: dict[str, list[str]] = {caption: [] for caption in SECTIONS}
    for wild in (False, True):
        for caption, patterns in SECTIONS.items():
            for pattern in patterns:
                if ("*" == pattern) is wild:
                    found = [name for name in left if fnmatch(name, pattern)]
                    result[caption] += found
                    left = [name for name in left if name not in found]
    return {caption: pages for caption, pages in result.items() if pages}


def toctree(pages: Iterable[str], caption: str = "") -> str:
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def with_toctree(name: str, text: str, names: list[str]) -> str:
    """The start page with the sidebar, and the index of a folder with the folder's pages."""
    if name == "index":
        for caption, pages in sidebar(names).items():
            text += toctree(pages, caption)
    folder, _, file = name.rpartition("/")
    if file == FOLDER_INDEX:
        inner = [n for n in names if n.startswith(f"{folder}/") and n != name]
        if inner:
            text += toctree(n.removeprefix(f"{folder}/") for n in inner)
    return text


def write(path: pathlib.Path, text: str) -> None:
    """Writes a source, unless it is there: Sphinx reads those again that are newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_sources(folder: pathlib.Path, only: list[str]) -> set[str]:
    """Writes all sources into a folder; returns their names."""
    reference = function_pages.read()
    pages = Pages()
    written = set()

    def put(name: str, text: str) -> None:
        write(folder / name, text)
        written.add(name)

    sources = guides()
    names = [path.relative_to(DOCS).with_suffix("").as_posix() for path in sources]
    waiting = [*sources, *(ROOT / name for name in OUTSIDE)]
    done = set()
    while waiting:
        source = waiting.pop(0)
        staged = staged_path(source)
        if source in done or staged is None:
            continue
        done.add(source)
        if source.suffix == ".py":
            put(str(staged), example_page(source))
            continue
        if source.suffix not in (".md", ".ipynb"):
            (folder / staged).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / staged)
            written.add(str(staged))
            continue
        if source.suffix == ".ipynb":
            text = notebook_page(source, source.relative_to(ROOT).as_posix())
        else:
            text = source.read_text("utf-8")
        text = pages.rewritten(text, source)
        name = str(staged.with_suffix(""))
        if not source.is_relative_to(DOCS) and source.name not in OUTSIDE:
            text = f"---\norphan: true\n---\n\n{text}"
        put(str(staged), with_toctree(name, text, names))
        waiting += pages.wanted
        pages.wanted = []
    put("project/versions.md", versions_page())
    write_reference(reference, only, put)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in written:
            path.unlink()
    return written


def write_reference(reference: Reference, only: list[str], put: Callable[[str, str], None]) -> None:
    """Writes the pages of the reference; of the functions of other modules than `only`, stubs."""
    for name, text in function_pages.pages(reference):
        module = re.search(r"^module: (.*)$", text, re.MULTILINE) if "orphan:" in text else None
        if only and module is not None and module[1] not in only:
            text = f"---\norphan: true\n---\n\n# {name.removesuffix('.md')}\n"
        put(f"api/{name}", text)


# ---- versions --------------------------------------------------------------------------------


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def tagged_versions() -> list[str]:
    """The versions that are tagged (v1.2.3), the newest first."""
    done = subprocess.run(
        ["git", "tag", "--list", "v*", "--sort=-version:refname"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [line.removeprefix("v") for line in done.stdout.split()]


def versions_page() -> str:
    """The page that lists versions: that of this source, and those with a tag."""
    tagged = tagged_versions()
    lines = [f"- {version()}: these pages" + ("" if version() in tagged else ", not released yet")]
    lines += [f"- {name}: tag `v{name}`" for name in tagged if name != version()]
    return (
        "# Versions\n\n" + "\n".join(lines) + "\n\n"
        "Each version has its own pages. If several are published together, the sidebar leads from "
        "one to another. [Changes](CHANGELOG.md) says what differs.\n"
    )


def write_versions(site: pathlib.Path) -> None:
    """Lists the versions whose pages are below `site`, for the choice in the sidebar."""
    known = [version(), *tagged_versions()]
    there = {path.parent.name for path in site.glob("*/index.html")}
    ordered = [name for name in dict.fromkeys(known) if name in there]
    ordered += sorted(there.difference(ordered), reverse=True)
    (site / "versions.js").write_text(
        f"window.weftVersions = {json.dumps(ordered)};\n", encoding="utf-8"
    )
    (site / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>weft</title>\n'
        f'<meta http-equiv="refresh" content="0; url={ordered[0]}/index.html">\n'
        f'<a href="{ordered[0]}/index.html">weft {ordered[0]}</a>\n',
        encoding="utf-8",
    )


def build(jobs: str) -> int:
    """Runs Sphinx; every warning is an error."""
    out = SITE / version()
    command = [
        sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going",
        "--quiet", "--jobs", jobs, "--conf-dir", str(DOCS), "-d", str(READ),
        "-D", f"release={version()}", str(SOURCES), str(out),
    ]  # fmt: skip
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        # Pages that are not read again would not be warned of again.
        shutil.rmtree(READ, ignore_errors=True)
    else:
        write_versions(SITE)
        print(f"{len(list(out.rglob('*.html')))} pages: {(SITE / 'index.html').relative_to(ROOT)}")
    return code


def main() -> int:
    """Writes the sources, and makes pages of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", action="store_true", help="write the sources only")
    parser.add_argument("--only", nargs="+", default=[], help="modules whose functions are shown")
    parser.add_argument("--jobs", default="auto", help="processes of Sphinx")
    arguments = parser.parse_args()
    write_sources(SOURCES, arguments.only)
    return 0 if arguments.sources else build(arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
