"""Writes the table of libraries in docs/ecosystem.md from times.json: `python
tests/ecosystem/table.py`.

`make test-ecosystem-times` measures and calls this.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import run

PAGE = run.ROOT / "docs" / "ecosystem.md"
BEGIN, END = "<!-- jobs begin -->", "<!-- jobs end -->"
HEAD = (
    "| job | library | version | numbers "
    "| import | of JAX | first step | of JAX | later steps | of JAX |\n"
    "|---|---|---|---|--:|--:|--:|--:|--:|--:|"
)


def table(times: dict[str, Any]) -> str:
    """The rows, and how many jobs run."""
    passed = sum(row["runs"] for row in times.values())
    rows = [row_of(job, row) for job, row in sorted(times.items())]
    return "\n".join([f"{passed} of {len(times)} jobs run.", "", HEAD, *rows])


def row_of(job: str, row: dict[str, Any]) -> str:
    cells = [job, row.get("library", ""), row.get("version", ""), row["result"].replace("|", "/")]
    for name in ("import", "first", "steady"):
        ours, theirs = (row["seconds"][system].get(name) for system in ("weft", "jax"))
        cells.append(in_words(ours))
        cells.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "")
    return f"| {' | '.join(cells)} |"


def in_words(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.2f} ms"


def write_between(begin: str, end: str, rows: str) -> None:
    """Replaces what stands between two lines of docs/ecosystem.md."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if begin not in text:
        sys.exit(
            f"{PAGE} has no line {begin!r} before the place of the table, and {end!r} after it"
        )
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{rows}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    write_between(BEGIN, END, table(json.loads(run.TIMES.read_text(encoding="utf-8"))))
