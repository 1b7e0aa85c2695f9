"""What `weft.show` returns: pictures as text, as SVG, in a notebook, and in files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from weft.analysis.jaxpr_html import jaxpr_html
from weft.analysis.picture_style import PAGE_CSS
from weft.analysis.picture_svg import svg_picture
from weft.core.jaxpr import Jaxpr, show_jaxpr
from weft.debug.block_layouts import Block, BlockLayout, layout_over
from weft.debug.pictures import tables
from weft.errors import Fix, WeftValueError, api_boundary
from weft.sharding.mesh import AnyMesh

# Tables of text longer than this leave their middle out.
_MOST_ROWS = 12
_MOST_DEVICES = 64


class Picture:
    """A picture: its `repr` is text, a notebook shows it as HTML, `save` writes it into a file."""

    title: str

    @property
    def text(self) -> str:
        """The picture as text."""
        raise NotImplementedError(f"{type(self).__name__} does not define text")

    @property
    def html(self) -> str:
        """The picture as an element of HTML, which needs nothing else and runs no scripts."""
        raise NotImplementedError(f"{type(self).__name__} does not define html")

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        raise NotImplementedError(f"{type(self).__name__} does not define svg")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    @api_boundary("save")
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture into a file: text, SVG or a page, by the suffix `.txt`, `.svg` or
        `.html`. Raises WeftValueError for another suffix."""
        suffix = Path(path).suffix.lower()
        if suffix == ".txt":
            written = self.text + "\n"
        elif suffix == ".svg":
            written = self.svg
        elif suffix in (".html", ".htm"):
            written = self._page()
        else:
            html = str(Path(path).with_suffix(".html"))
            raise WeftValueError(
                "save writes text, SVG or a page, by the suffix of the file",
                got=f"{os.fspath(path)!r}",
                wanted="a name that ends in .txt, .svg or .html",
                fix=Fix("path", f"save it as {html!r}", {"path": html}),
            )
        Path(path).write_text(written, encoding="utf-8")

    def _page(self) -> str:
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{escape(self.title)}</title></head><body>{self.html}</body></html>\n"
        )


class LayoutPicture(Picture):
    """Which device holds which block: of an array, of a value in a `shard_map`, or of a mesh.

    Args:
        title: The first line of the text, and the title of the picture.
        notes: The lines below it.
        layout: The blocks and their holders; None where there is nothing to draw.
        values: What a block holds, as text, by the indices of the block.
        mesh: The mesh, for the places of devices in it.
    """

    def __init__(
        self,
        title: str,
        notes: Sequence[str],
        layout: BlockLayout | None = None,
        values: Mapping[Block, str] | None = None,
        mesh: AnyMesh | None = None,
    ) -> None:
        self.title = title
        self._notes = tuple(notes)
        self._layout = layout
        self._values = values or {}
        self._mesh = mesh

    @property
    def text(self) -> str:
        """The title, the dimensions, and a table of blocks."""
        layout, lines = self._layout, [self.title, *self._notes]
        if layout is not None:
            lines += tables(layout, layout.split_two, most_rows=_MOST_ROWS)
            for block, value in self._values.items():
                place = ", ".join(layout.range(d, n) for d, n in enumerate(block))
                lines.append(f"{place or 'on all devices'}: {value}")
        return "\n".join(lines)

    @property
    def svg(self) -> str:
        """The picture as SVG: readable in light and dark, and in programs that know no CSS."""
        layout = self._layout
        view = None if layout is None else layout.split_two
        return svg_picture(self.title, self._notes, layout, view, self._values)

    @property
    def html(self) -> str:
        """The SVG, and a table of what each device holds."""
        return (
            f'<div class="weft-picture"><style>{PAGE_CSS}</style>{self.svg}{self._devices()}</div>'
        )

    def _devices(self) -> str:
        """A table of devices: the position of each in the mesh, and its block."""
        layout = self._layout
        if layout is None or not layout.holders:
            return ""
        holds = {
            number: [layout.range(d, n) for d, n in enumerate(block)]
            for block, numbers in layout.holders.items()
            for number in numbers
        }
        mesh, places = self._mesh, {}
        heads = [f"dimension {d}" for d in range(layout.ndim)]
        if layout.axes:
            heads = [f"axis {axis}" for axis in layout.axes]
        elif mesh is not None:
            places = _coordinates(mesh)
            heads = [*(f"axis {axis}" for axis in mesh.axis_names), *heads]
        rows = [
            [f"{layout.platform} {number}", *places.get(number, ()), *holds[number]]
            for number in sorted(holds)[:_MOST_DEVICES]
        ]
        if len(holds) > _MOST_DEVICES:
            rows.append([f"… and {len(holds) - _MOST_DEVICES:,} more"])
        head = "".join(f"<th>{escape(text)}</th>" for text in ("device", *heads))
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        return (
            "<details><summary>What each device holds</summary>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
        )


def _coordinates(mesh: AnyMesh) -> dict[int, list[str]]:
    """The place of each device in a mesh, by its number."""
    layout = layout_over(mesh, mesh.axis_names)
    return {
        number: list(map(str, place))
        for place, numbers in layout.holders.items()
        for number in numbers
    }


class JaxprPicture(Picture):
    """A jaxpr: its text, and in a notebook a page on which inner jaxprs open, with the costs and
    the line of each equation.

    jaxpr: the program that is shown, with the programs inside of it.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._jaxpr = jaxpr
        self.title = f"jaxpr of {jaxpr.name}" if jaxpr.name else "jaxpr"

    @property
    def text(self) -> str:
        """The text of the jaxpr."""
        return show_jaxpr(self._jaxpr)

    @property
    def html(self) -> str:
        """A row for each equation; costs of loops and branches are said in the titles of cells."""
        return f'<div class="weft-picture"><style>{PAGE_CSS}</style>{jaxpr_html(self._jaxpr)}</div>'

    @property
    def svg(self) -> str:
        """A jaxpr has no SVG: raises WeftValueError."""
        raise WeftValueError(
            "a jaxpr is shown as text and as a page, not as SVG",
            operation="svg",
            got=self.title,
            wanted="the attribute html or text, or a file that ends in .html or .txt",
            fix=Fix("html", "use the attribute html", {"attribute": "html"}),
        )
