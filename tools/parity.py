"""Writes docs/parity.md: which names of NumPy, the Array API standard and JAX weft has.

    python tools/parity.py            # write the page
    python tools/parity.py --check    # only say whether it is up to date

The names are in tools/data/, recorded by tools/record_names.py; why one is missing is in
weft/base/missing_names.py, whose texts the errors for such names show too.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import api_reference, update_surface
from weft.as_jax.modules import MODULES
from weft.as_jax.overlay import parse_source
from weft.base.missing_names import REASONS, reason

ROOT = update_surface.ROOT
PAGE = ROOT / "docs" / "parity.md"
DATA = ROOT / "tools" / "data"

# The recorded libraries: their root, what stands for it here, and how the page calls them.
LIBRARIES = {
    "jax": ("jax", "weft", "JAX"),
    "numpy": ("numpy", "weft.numpy", "NumPy"),
    "array_api_strict": ("array_api_strict", "weft.numpy", "The Array API standard, 2024.12"),
}


class Comparison(NamedTuple):
    """A module of another library beside the one of weft."""

    library: str
    module: str
    ours: str
    functions: tuple[str, ...]
    others: tuple[str, ...]
    present: frozenset[str]

    @property
    def title(self) -> str:
        """The module by the name that its users know."""
        return self.module.replace("array_api_strict", "array_api")

    @property
    def missing(self) -> list[str]:
        return [name for name in (*self.functions, *self.others) if name not in self.present]

    @property
    def functions_present(self) -> int:
        return sum(name in self.present for name in self.functions)


def has(module: Any, name: str) -> bool:
    try:
        return hasattr(module, name)
    except ModuleNotFoundError:  # a part that is promised before it is written
        return False


def load(path: str) -> Any:
    """A module of weft, or None; some, such as a distribution, are attributes of their parent."""
    if update_surface.exists(path):
        return importlib.import_module(path)
    parent, _, name = path.rpartition(".")
    above = load(parent) if parent else None
    return getattr(above, name) if above is not None and has(above, name) else None


def recorded(library: str) -> dict[str, Any]:
    text = (DATA / f"names_{library}.json").read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(text)
    return result


def compare(library: str) -> Iterator[Comparison]:
    """The modules of a library, in order, those without names left out."""
    root, ours, _ = LIBRARIES[library]
    for module, kinds in recorded(library)["modules"].items():
        path, *overlaid = (
            sources(module) if library == "jax" else [ours + module.removeprefix(root)]
        )
        functions = tuple(kinds.get("function", ()))
        others = tuple(sorted([*kinds.get("class", ()), *kinds.get("value", ())]))
        places = map(parse_source, (path, *overlaid))
        found = [(load(place), names) for place, names in places]
        present = frozenset(
            name
            for name in (*functions, *others)
            for place, names in found
            if has(place, names.get(name, name)) and (not names or name in names)
        )
        if functions or others:
            yield Comparison(library, module, path, functions, others, present)


def sources(module: str) -> list[str]:
    """The modules of weft behind one of JAX; the last is the first to look for pages in."""
    return list(reversed(MODULES.get(module, (module.replace("jax", "weft", 1),))))


def unexplained(comparisons: list[Comparison]) -> list[str]:
    """The missing names without a reason, and reasons of what is not missing."""
    problems = [
        f"{one.module}.{name}: missing, without a reason"
        for one in comparisons
        for name in one.missing
        if reason(one.module, name) is None
    ]
    missing = {one.module: one.missing for one in comparisons}
    for module, groups in REASONS.items():
        for pattern in (pattern for names, _ in groups for pattern in names.split()):
            if pattern != "*" and not fnmatch.filter(missing.get(module, []), pattern):
                problems.append(f"{module}.{pattern}: a reason, but nothing of the name is missing")
    return problems


def percentage(there: int, total: int) -> str:
    """A share, rounded down, so that 100 % means all."""
    return f"{there * 1000 // total / 10:.1f} %" if total else "–"


# ---- the page --------------------------------------------------------------------------------


def summary(comparisons: list[Comparison]) -> str:
    lines = [
        "| module | here | functions | in weft | share | other names | in weft |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for one in comparisons:
        there = one.functions_present
        total = len(one.functions)
        other = len(one.present) - there
        lines.append(
            f"| {linked_title(one)} | `{one.ours}` | {total} | {there} | "
            f"{percentage(there, total)} | {len(one.others)} | {other} |"
        )
    return "\n".join(lines)


def linked_title(one: Comparison) -> str:
    """The module's name; a link where a section below has its missing names."""
    title = one.title
    return f"[{title}](#{api_reference.slug(title)})" if one.missing else f"`{title}`"


def section(one: Comparison) -> Iterator[str]:
    """The missing names of a module, with reasons."""
    yield f"### {one.title}"
    by_reason: dict[str, list[str]] = {}
    for name in one.missing:
        by_reason.setdefault(reason(one.module, name) or "(no reason given)", []).append(name)
    rows = [
        f"| {', '.join(f'`{name}`' for name in names)} | {text} |"
        for text, names in by_reason.items()
    ]
    yield "\n".join(["| missing | why, or what to use |", "|---|---|", *rows])


INTRODUCTION = """# Names of NumPy and JAX

This page counts the names of NumPy, the Array API standard and JAX that weft has, module by module,
and lists those that are missing, with the reason. Look here for what to use in place of a missing
name. For functions of one name that behave differently, see [coming from
NumPy](coming_from_numpy.md), [coming from JAX](coming_from_jax.md) and [differences from
NumPy](numpy_differences.md). `make docs` makes this page from the package itself and from the lists
of names in `tools/data/`."""


def text() -> str:
    """The page."""
    found = {library: list(compare(library)) for library in LIBRARIES}
    (of_numpy,) = (one for one in found["jax"] if one.module == "jax.numpy")
    share = percentage(of_numpy.functions_present, len(of_numpy.functions))
    parts = [INTRODUCTION, f"Of the functions of `jax.numpy`, weft has **{share}**."]
    for library, comparisons in found.items():
        name = LIBRARIES[library][2]
        version = "" if library == "array_api_strict" else f" {recorded(library)['version']}"
        parts += [f"## {name}{version}", summary(comparisons)]
        for one in comparisons:
            if one.missing:
                parts += section(one)
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Writes the page, or compares with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it differs")
    arguments = parser.parse_args()
    problems = unexplained([one for library in LIBRARIES for one in compare(library)])
    print("".join(problem + "\n" for problem in problems), end="")
    new = text()
    changed = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != new
    print(f"docs/parity.md {'has changed' if changed else 'is up to date'}")
    if arguments.check:
        return 1 if changed or problems else 0
    PAGE.write_text(new, encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
