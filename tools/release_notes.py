"""Prints the notes of a version, from CHANGELOG.md, where all places agree on the version.

    python tools/release_notes.py            # of the version of the package
    python tools/release_notes.py 0.1.0
    python tools/release_notes.py --check    # print nothing; 1 where the places disagree

docs/releasing.md says what a release is made of. Tags are made by whoever releases, not from here.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Where the version of the package stands, and the pattern that finds it there.
PLACES = {
    "pyproject.toml": r'^version = "([^"]+)"',
    "weft/version.py": r'^__version__ = "([^"]+)"',
    "CITATION.cff": r"^version: (\S+)",
    "CHANGELOG.md": r"^## (\S+) \(",
}
_HEADING = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)\n", re.MULTILINE)


def versions(root: pathlib.Path = ROOT) -> dict[str, str | None]:
    """The version that each place names; of CHANGELOG.md the newest."""
    found: dict[str, str | None] = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        found[name] = match[1] if match else None
    return found


def notes(changelog: str, version: str) -> str:
    """The section of one version, without its heading. Raises KeyError where there is none."""
    headings = list(_HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    for heading, end in zip(headings, ends, strict=True):
        if heading[1] == version:
            return changelog[heading.end() : end].strip()
    raise KeyError(version)


def main(arguments: list[str] | None = None) -> int:
    """Prints the notes; returns 1 where the places disagree or there are none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="that of the package by default")
    parser.add_argument("--check", action="store_true", help="print no notes")
    given = parser.parse_args(arguments)
    found = versions()
    if len(set(found.values())) != 1 or None in found.values():
        places = ", ".join(f"{place} {version}" for place, version in found.items())
        print(f"the places disagree about the version: {places}", file=sys.stderr)
        return 1
    if given.check:
        return 0
    version = given.version or found["weft/version.py"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        print(f"weft {version}\n\n{notes(changelog, str(version))}")
    except KeyError:
        print(f"CHANGELOG.md has no section of version {version}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
