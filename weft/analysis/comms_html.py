"""A report of communication as HTML: a picture of the bytes for each kind and axis, and the table.

Colours follow the reader's light or dark scheme, the paper's too, and nothing outside changes. The
picture is SVG. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from weft.analysis.comms_rows import CommsRow
from weft.analysis.comms_text import HEADINGS, cells, sums, total_of

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
