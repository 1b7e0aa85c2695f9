"""Draws the blocks of an array as SVG: a cell for each block, with its devices in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from weft.analysis.picture_style import BLOCKS, LIGHT, SVG_CSS, block_colors
from weft.debug.block_layouts import Block, BlockLayout, TableView, abbreviate_range

# More is no picture any more: the middle is left out.
_MOST_ROWS = 10
_MOST_COLUMNS = 10
_MOST_SLICES = 12
# Tables of slices beside one another.
_PER_ROW = 4

# The advance of a character and the height of a line at the sizes below, in pixels. A wide
# monospace font advances by 0.602 of its size.
_SIZE, _TITLE_SIZE = 12, 14
_CHARACTER, _TITLE_CHARACTER = 0.61 * _SIZE, 0.61 * _TITLE_SIZE
_LINE = 18
_EDGE, _GAP = 14, 22
_LEAST_WIDTH, _LEAST_HEIGHT = 64, 38
_FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"


def svg_picture(
    title: str,
    notes: Sequence[str],
    layout: BlockLayout | None,
    view: TableView | None,
    values: Mapping[Block, str],
) -> str:
    """The SVG of a layout below its title and notes, with `values` in the cells."""
    drawing = _Drawing()
    y = float(_EDGE)
    drawing.text(_EDGE, y + _TITLE_SIZE, title, bold=True)
    y += _TITLE_SIZE + 10
    for note in notes:
        drawing.text(_EDGE, y + _SIZE, note, style="quiet")
        y += _LINE
    if layout is not None and view is not None:
        _draw_tables(drawing, layout, view, values, y + 8)
    return drawing.svg(title)


class _Drawing:
    """SVG elements and their extent."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.right = self.bottom = 0.0

    def reach(self, x: float, y: float) -> None:
        """Extends the picture to this point."""
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        style: str = "text",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Writes a line of text with its baseline at y."""
        advance = _TITLE_CHARACTER if bold else _CHARACTER
        size = f' font-size="{_TITLE_SIZE}" font-weight="600"' if bold else ""
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text class="weft-{style}" x="{x:.1f}" y="{y:.1f}" fill="{LIGHT[style]}"{at}{size}>'
            f"{escape(text)}</text>"
        )
        if anchor == "start":
            self.reach(x + len(text) * advance, y + 4)

    def cell(
        self, x: float, y: float, width: float, height: float, rank: int | None, title: str
    ) -> None:
        """Draws the background of a block; `rank` None stands for omitted blocks."""
        style = "weft-left-out" if rank is None else f"weft-block {block_colors(rank)}"
        fill = LIGHT["inner"] if rank is None else BLOCKS[rank % len(BLOCKS)][0]
        self.parts.append(
            f'<rect class="{style} weft-edge" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="4" fill="{fill}" stroke="{LIGHT["edge"]}" '
            f'stroke-width="2"><title>{escape(title)}</title></rect>'
        )
        self.reach(x + width, y + height)

    def svg(self, title: str) -> str:
        """The whole picture."""
        width, height = math.ceil(self.right + _EDGE), math.ceil(self.bottom + _EDGE)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="{_FONT}" font-size="{_SIZE}">'
            f"<title>{escape(title)}</title><style>{SVG_CSS}</style>"
            f'<rect class="weft-ground" width="{width}" height="{height}" rx="6" '
            f'fill="{LIGHT["ground"]}"/>' + "".join(self.parts) + "</svg>"
        )


class _CellSizes(NamedTuple):
    margin: float
    width: float
    height: float


def _sizes(
    layout: BlockLayout,
    view: TableView,
    rows: Sequence[int | None],
    columns: Sequence[int | None],
    values: Mapping[Block, str],
) -> _CellSizes:
    """The space for the ranges next to the rows, and the size of a cell."""
    heads = [] if view.rows is None else [layout.range(view.rows, r) for r in rows if r is not None]
    tops = []
    if view.columns is not None:
        tops = [layout.range(view.columns, c) for c in columns if c is not None]
    seen = [
        view.at(block, row, column)
        for block in layout.slices(view)[:_MOST_SLICES]
        for row in rows
        for column in columns
        if row is not None and column is not None
    ]
    texts = [*tops, *map(layout.label, seen), *(values.get(block, "") for block in seen)]
    widest = max(map(len, texts)) * _CHARACTER
    margin = max(map(len, heads)) * _CHARACTER + 8 if heads else 0.0
    height = _LEAST_HEIGHT + (_LINE if values else 0)
    return _CellSizes(margin, max(_LEAST_WIDTH, widest + 16), height)


def _draw_tables(
    drawing: _Drawing, layout: BlockLayout, view: TableView, values: Mapping[Block, str], top: float
) -> None:
    rows = abbreviate_range(1 if view.rows is None else layout.counts[view.rows], _MOST_ROWS)
    columns = abbreviate_range(
        1 if view.columns is None else layout.counts[view.columns], _MOST_COLUMNS
    )
    sizes = _sizes(layout, view, rows, columns, values)
    slices = layout.slices(view)
    titles = [layout.slice_title(view, block) if layout.ndim > 2 else "" for block in slices]
    longest = max(map(len, titles[:_MOST_SLICES])) * _CHARACTER
    width = max(sizes.margin + len(columns) * sizes.width, longest)
    head = (_LINE if view.columns is not None else 0) + (_LINE + 2 if layout.ndim > 2 else 0)
    height = head + len(rows) * sizes.height
    for place, block in enumerate(slices[:_MOST_SLICES]):
        x = _EDGE + (place % _PER_ROW) * (width + _GAP)
        y = top + (place // _PER_ROW) * (height + _GAP)
        if layout.ndim > 2:
            drawing.text(x, y + _SIZE, titles[place])
        _draw_table(drawing, layout, view, block, rows, columns, values, sizes, x, y + head)
    if len(slices) > _MOST_SLICES:
        text = f"… and {len(slices) - _MOST_SLICES} more"
        drawing.text(_EDGE, drawing.bottom + _LINE + 4, text, style="quiet")


def _draw_table(
    drawing: _Drawing,
    layout: BlockLayout,
    view: TableView,
    block: Block,
    rows: Sequence[int | None],
    columns: Sequence[int | None],
    values: Mapping[Block, str],
    sizes: _CellSizes,
    left: float,
    top: float,
) -> None:
    """Draws the cells of a table right of and below a point, with their ranges."""
    margin, width, height = sizes
    for j, column in enumerate(columns):
        if view.columns is not None:
            text = "…" if column is None else layout.range(view.columns, column)
            middle = left + margin + (j + 0.5) * width
            drawing.text(middle, top - 6, text, style="quiet", anchor="middle")
    for i, row in enumerate(rows):
        y = top + i * height
        middle = y + height / 2
        if view.rows is not None:
            text = "⋮" if row is None else layout.range(view.rows, row)
            drawing.text(left + margin - 8, middle + 4, text, style="quiet", anchor="end")
        for j, column in enumerate(columns):
            x = left + margin + j * width
            if row is None or column is None:
                drawing.cell(x, y, width, height, None, "left out")
                drawing.text(x + width / 2, middle + 4, "…", style="quiet", anchor="middle")
                continue
            here = view.at(block, row, column)
            lines = [layout.label(here), *([values[here]] if here in values else [])]
            drawing.cell(x, y, width, height, layout.ranks[here], _full_label(layout, here))
            base = middle + 4 - (len(lines) - 1) * _LINE / 2
            for number, line in enumerate(lines):
                at = base + number * _LINE
                drawing.text(x + width / 2, at, line, anchor="middle")


def _full_label(layout: BlockLayout, block: Block) -> str:
    """The index range of a block, and all its devices."""
    ranges = ", ".join(layout.range(d, n) for d, n in enumerate(block))
    numbers = ", ".join(map(str, layout.holders[block]))
    return f"[{ranges}] on {layout.platform} {numbers}"
