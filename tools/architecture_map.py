"""Writes the table of floors and rooms in docs/architecture.md, from tests/support/layers.py.

python tools/architecture_map.py
"""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

# Found by the line above.
import layers  # noqa: E402

PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- map: begin -->\n", "<!-- map: end -->\n"


def table() -> str:
    """A row for each room, from the bottom up, with the modules that live in it."""
    lines = ["| floor | modules | what they are |", "|--:|---|---|"]
    for floor, rooms in enumerate(layers.FLOORS):
        for room in rooms:
            shown = [name_of(module) for module, at in layers.LAYER_OF.items() if at == room]
            lines.append(f"| {floor} | {' '.join(shown)} | {layers.WHAT[room]} |")
    return "\n".join(lines) + "\n"


def name_of(module: str) -> str:
    """A module as the page names it: a folder with a slash, without the package's own name."""
    path = module.replace(".", "/")
    short = path.removeprefix("weft/")
    return f"`{short}/`" if short != path and (ROOT / path).is_dir() else f"`{short}`"


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n" + table() + "\n" + END + after


def main() -> int:
    """Writes the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
