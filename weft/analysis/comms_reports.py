"""A report of communication: as text, and as HTML with a picture of the bytes.

Colours follow the reader's light or dark scheme, the paper's too, and nothing outside changes. The
picture is SVG. All text is escaped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

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


def list_rows(rows: Sequence[CommsRow]) -> str:
    """Returns rows for a message, one on each line; the end of a long list is left out."""
    lines = [str(row) for row in rows[:_MOST_ROWS]]
    more = len(rows) - len(lines)
    return "\n".join(lines + ([f"and {more} more"] if more > 0 else []))


_STYLE = """
.weft-comms { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328;
  --quiet: #59636e; --rule: #d1d9e0; --bar: #0969da; --back: #bc4c00; padding: 8px;
  background: var(--paper); color: var(--ink); font: 13px/1.5 system-ui, sans-serif;
  overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  .weft-comms { --paper: #0d1117; --ink: #f0f6fc; --quiet: #9198a1; --rule: #3d444d;
    --bar: #4493f8; --back: #db6d28; }
}
.weft-comms table { font: inherit; border-collapse: collapse; font-variant-numeric: tabular-nums; }
.weft-comms th, .weft-comms td { text-align: left; padding: 2px 10px; color: var(--ink);
  background: none; border-bottom: 1px solid var(--rule); white-space: nowrap; }
.weft-comms th, .weft-comms p.note { color: var(--quiet); font-weight: 500; }
.weft-comms svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.weft-comms .forward { fill: var(--bar); } .weft-comms .backward { fill: var(--back); }
"""
# Lengths in pixels: of a letter at most, of the longest bar, and of a row.
_LETTER, _BAR, _HEIGHT = 7, 320, 20


def html(name: str, rows: Sequence[CommsRow], notes: Iterable[str] = ()) -> str:
    """Returns the report of a function as an element of HTML that needs nothing else."""
    text = total_of(rows) if rows else "nothing"
    parts = [
        f'<div class="weft-comms"><style>{_STYLE}</style>',
        f"<p><b>{escape(name)}</b> communicates {text}</p>",
        *([_picture(rows), _table(rows)] if rows else []),
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
        "</div>",
    ]
    return "".join(parts)


def _table(rows: Sequence[CommsRow]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells(rows)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _picture(rows: Sequence[CommsRow]) -> str:
    """A bar for each kind along each of its axes: bytes forward, then backward."""
    found = sums(rows)
    passes = [sums(row for row in rows if row.backward == backward) for backward in (False, True)]
    most = max(size for _, size in found.values())
    names = [f"{kind} {', '.join(map(str, axes))}".rstrip() for kind, axes in found]
    start = _LETTER * max(map(len, names)) + 8
    bars = []
    for place, ((kind, axes), (_, size)) in enumerate(found.items()):
        label = escape(names[place])
        top = place * _HEIGHT
        bars.append(f'<text x="{start - 8}" y="{top + 14}" text-anchor="end">{label}</text>')
        left = float(start)
        for of_pass, style in zip(passes, ("forward", "backward"), strict=True):
            part = of_pass.get((kind, axes), (0, 0))[1]
            width = _BAR * part / most
            bars.append(
                f'<rect class="{style}" x="{left:.1f}" y="{top + 4}" width="{width:.1f}" '
                f'height="{_HEIGHT - 8}"><title>{style}: {part:,} bytes</title></rect>'
            )
            left += width
        bars.append(f'<text x="{left + 6:.1f}" y="{top + 14}">{size:,}</text>')
    height = len(found) * _HEIGHT + 4
    width = start + _BAR + 130
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>Bytes by kind and axes: forward, then backward'
        f"</title>{''.join(bars)}</svg>"
    )
