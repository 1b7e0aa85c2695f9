"""A report of communication as text: a table with sums, and lists of rows in messages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from weft.analysis.comms_rows import KINDS, CommsRow

# fmt: off
HEADINGS = (
    "count", "kind", "operation", "axes", "dtype", "bytes", "group", "trips", "pass", "origin",
    "line",
)
# fmt: on
# Columns of numbers, which end at one place.
_NUMBERS = {"count", "bytes", "group", "trips", "runs", "total bytes"}
_MOST_ROWS = 12


def cells(rows: Iterable[CommsRow]) -> list[tuple[str, ...]]:
    """Returns the texts of a table's cells: a row for all that are equal, with their number."""
    return [
        (
            str(count),
            row.kind,
            row.operation,
            ", ".join(map(str, row.axes)) or "-",
            row.dtype.name,
            f"{row.bytes:,}",
            str(row.group),
            ("?" if row.trips is None else str(row.trips)) + ("|" if row.branch else ""),
            "backward" if row.backward else "forward",
            row.origin,
            short(row.line),
        )
        for row, count in Counter(rows).items()
    ]


def short(line: str) -> str:
    """A line with the file's name instead of its path."""
    file, colon, rest = line.partition(":")
    return os.path.basename(file) + colon + rest if colon else line


def sums(rows: Iterable[CommsRow]) -> dict[tuple[str, tuple[str, ...]], tuple[int, int]]:
    """Returns how many collectives run and their bytes, for each kind along each of its axes."""
    found: dict[tuple[str, tuple[str, ...]], tuple[int, int]] = {}
    for row in rows:
        runs, size = found.get((row.kind, row.axes), (0, 0))
        found[row.kind, row.axes] = (runs + row.times, size + row.total_bytes)
    places = {kind: place for place, kind in enumerate(KINDS)}
    return dict(sorted(found.items(), key=lambda pair: (places.get(pair[0][0], len(KINDS)), pair)))


def total_of(rows: Sequence[CommsRow]) -> str:
    """Returns the sums over all rows in words."""
    runs, size = sum(row.times for row in rows), sum(row.total_bytes for row in rows)
    return f"{size:,} bytes per device in {runs:,} collective{'' if runs == 1 else 's'}"


def table(name: str, rows: Sequence[CommsRow], notes: Iterable[str] = ()) -> str:
    """Returns the report of a function: a line for each row, then sums, then notes."""
    if not rows:
        return "\n".join([f"{name} communicates nothing", *notes])
    total = [
        (kind, ", ".join(map(str, axes)) or "-", f"{runs:,}", f"{size:,}")
        for (kind, axes), (runs, size) in sums(rows).items()
    ]
    lines = [f"{name} communicates {total_of(rows)}", ""]
    lines += _columns(HEADINGS, cells(rows))
    lines += ["", *_columns(("kind", "axes", "runs", "total bytes"), total)]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            text.rjust(width) if heading in _NUMBERS else text.ljust(width)
            for text, width, heading in zip(row, widths, headings, strict=True)
        ).rstrip()
        for row in (headings, *rows)
    ]


def listed(rows: Sequence[CommsRow]) -> str:
    """Returns rows for a message, one on each line; the end of a long list is left out."""
    lines = [str(row) for row in rows[:_MOST_ROWS]]
    more = len(rows) - len(lines)
    return "\n".join(lines + ([f"and {more} more"] if more > 0 else []))
