"""Writes docs/extending/matrix.md: for every primitive of weft which rules it has.

python tools/rule_matrix.py            # write it
python tools/rule_matrix.py --check    # only say whether it is up to date
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import sys

from weft.extend.core import primitives
from weft.testing.check_primitive import COLUMNS, rule_sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "extending" / "matrix.md"

HEAD = """# Which primitive has which rules

This page shows which rules each primitive of weft has. `python tools/rule_matrix.py` makes it from
the tables of rules.

- *yes*: the primitive has a rule of its own.
- A dot: the primitive needs no rule of its own, because weft treats it like every primitive without
  one. For `linearize`, weft uses the jvp rule. For partial evaluation, the results of an
  application are unknown if an operand is unknown. For the elimination of dead code, weft keeps or
  drops an application as a whole. For evaluation, it compiles a small program.
- A minus: there is no rule, and asking for it is an error. A primitive needs a transpose rule only
  if it is linear, and a jvp rule only if it has tangents.

[rules.md](rules.md) says what each rule must satisfy.

"""


def cell(source: str) -> str:
    """How one entry is shown."""
    if source in ("given", "derived"):
        return "yes"
    return "−" if source == "missing" else "·"


def page() -> str:
    """The page: a row per primitive, by name."""
    lines = [f"| primitive | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for name in sorted(primitives):
        sources = rule_sources(primitives[name])
        cells = " | ".join(cell(sources[table.kind]) for table in COLUMNS.values())
        lines.append(f"| `{name}` | {cells} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Writes the page, or compares it (1: it is not up to date)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    wanted, options = page(), parser.parse_args()
    if not options.check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    sys.stdout.writelines(
        difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), "page", "rules")
    )
    return int(found != wanted)


if __name__ == "__main__":
    sys.exit(main())
