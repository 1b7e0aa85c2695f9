"""Pictures of how an array lies on devices: tables of text, coloured on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.debug.block_layouts import Block, BlockLayout, TableView, abbreviate_range, layout_of
from weft.errors import ConcretizationError, Fix, WeftTypeError, api_boundary
from weft.sharding.sharding import Sharding, checked_shape

# A picture is to fit on a screen: beyond these numbers its middle is left out.
MOST_ROWS = 32
MOST_TABLES = 16
# Light backgrounds out of the 256 colours of a terminal, for black text.
_COLORS = (117, 216, 157, 222, 183, 152, 211, 187, 110, 180, 151, 146, 223, 116, 218, 194)


@api_boundary
def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool | None = None,
    min_width: int = 9,
    max_width: int = 80,
) -> None:
    """Prints which devices hold which block of an array of this shape.

    The table has a cell for each block, headed by the indices along the last two dimensions; for
    arrays of more dimensions there is a table for each block of the first ones. Devices that hold
    copies share one cell.

    `use_color=None` colours cells if the output is a terminal and the environment variable NO_COLOR
    is not set. Cells are `min_width` characters wide if they fit into `max_width`; the middle of a
    table that is too wide even so, or too long, is left out.

    Args:
        shape: The lengths of the array.
        sharding: How the array is split, a `Sharding`.
        use_color: Whether cells are coloured; None for terminals alone, unless the environment
            variable NO_COLOR is set.
        min_width: The width of cells in characters.
        max_width: The width of the table in characters.

    Raises WeftTypeError for anything that is neither a shape nor a sharding, and ShapeError if the
    shape cannot be split so.

    >>> from weft.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> mesh = Mesh(np.array(weft.devices()[:8]).reshape(4, 2), ("i", "j"))
    >>> weft.debug.visualize_sharding((8, 6), NamedSharding(mesh, P("j")))
                   0:6
        ┌─────────────┐
    0:4 │ CPU 0,2,4,6 │
        ├─────────────┤
    4:8 │ CPU 1,3,5,7 │
        └─────────────┘
    """
    if use_color is None:
        use_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    widths = {"min_width": min_width, "max_width": max_width}
    print(sharding_picture(shape, sharding, use_color=use_color, **widths))


@api_boundary
def visualize_array_sharding(x: Any, **options: Any) -> None:
    """Prints which devices hold which block of an array; see `visualize_sharding` for the options.

    x: an array of weft; options: the options of `visualize_sharding`, by keyword.

    Raises WeftTypeError for anything that is on no device, such as a NumPy array, and
    ConcretizationError for a traced array: its sharding is decided when the function is compiled.

    >>> weft.debug.visualize_array_sharding(jnp.ones((2, 3)))
             0:3
        ┌─────────┐
    0:2 │  CPU 0  │
        └─────────┘
    """
    known = x.concrete() if isinstance(x, Tracer) else x
    if type(known) is not Array:
        raise _no_place(x)
    visualize_sharding(known.shape, known.sharding, **options)


def _no_place(x: Any) -> ConcretizationError | WeftTypeError:
    if isinstance(x, Tracer):
        return ConcretizationError(
            "visualize_array_sharding: where a traced array lies is not known yet",
            got=x.describe(),
            wanted="an array with values",
            fix=Fix("outside", "call it on the result of the function"),
        )
    message = "visualize_array_sharding takes an array on devices"
    got = f"{x!r:.100} ({type(x).__name__})"
    fix = Fix("device_put", "put it on a device with weft.device_put(x, sharding)")
    return WeftTypeError(message, got=got, wanted="a weft.Array", fix=fix)


@api_boundary("visualize_sharding")
def sharding_picture(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = False,
    min_width: int = 9,
    max_width: int = 80,
) -> str:
    """The text that `visualize_sharding` prints, without a line break at its end.

    >>> print(sharding_picture((4,), weft.sharding.SingleDeviceSharding(weft.devices()[3])))
        0:4
    ┌─────────┐
    │  CPU 3  │
    └─────────┘
    """
    lengths = checked_shape("visualize_sharding", shape)
    if not isinstance(sharding, Sharding):
        raise WeftTypeError(
            "visualize_sharding takes a shape and a sharding",
            got=f"{sharding!r:.100} ({type(sharding).__name__})",
            wanted="a sharding, such as NamedSharding(mesh, PartitionSpec('i'))",
            fix=Fix("sharding", "pass x.sharding"),
        )
    sharding.check_shape("visualize_sharding", "an array", lengths)
    layout = layout_of(lengths, sharding)
    widths = {"min_width": min_width, "max_width": max_width}
    return "\n".join(tables(layout, layout.last_two, use_color=use_color, **widths))


def tables(
    layout: BlockLayout,
    view: TableView,
    *,
    use_color: bool = False,
    min_width: int = 9,
    max_width: int = 80,
    most_rows: int = MOST_ROWS,
) -> list[str]:
    """The lines of the tables of a layout: one table for each block of the dimensions that are not
    in view, with a line above that says which."""
    picture = _Picture(layout, view, use_color, min_width, max_width, most_rows)
    slices = layout.slices(view)
    if layout.ndim < 3:
        return picture.table(slices[0])
    lines: list[str] = []
    for block in slices[:MOST_TABLES]:
        lines += [layout.slice_title(view, block), *picture.table(block)]
    if len(slices) > MOST_TABLES:
        lines.append(f"… and {len(slices) - MOST_TABLES} more")
    return lines


class _Picture:
    """The tables of one layout. A column or row index of None stands for omitted ones."""

    def __init__(
        self,
        layout: BlockLayout,
        view: TableView,
        use_color: bool,
        min_width: int,
        max_width: int,
        most_rows: int,
    ) -> None:
        self._layout, self._view = layout, view
        self._labels = {block: layout.label(block) for block in layout.holders}
        self._use_color = use_color
        self._rows = abbreviate_range(
            1 if view.rows is None else layout.counts[view.rows], most_rows
        )
        self._measure(min_width, max_width)

    def _measure(self, min_width: int, max_width: int) -> None:
        texts = list(self._labels.values())
        across = self._view.columns
        columns = 1 if across is None else self._layout.counts[across]
        if across is not None:
            texts.append(self._layout.range(across, columns - 1))
        heads = [self._head(row) for row in self._rows]
        self._margin = max(map(len, heads)) + 1 if any(heads) else 0
        # Cells are narrower than asked for before columns are left out.
        space = max_width - self._margin - 1
        self._width = max(min(min_width, space // columns - 1), *(len(text) + 2 for text in texts))
        self._columns = abbreviate_range(columns, max(space // (self._width + 1), 3))

    def _head(self, row: int | None) -> str:
        if self._view.rows is None:
            return ""
        return "⋮" if row is None else self._layout.range(self._view.rows, row)

    def table(self, block: Block) -> list[str]:
        """The lines of the table for one block of the hidden dimensions."""
        space = " " * self._margin
        lines = []
        if self._view.columns is not None:
            heads = [
                "…" if column is None else self._layout.range(self._view.columns, column)
                for column in self._columns
            ]
            lines.append(
                (space + " " + " ".join(head.center(self._width) for head in heads)).rstrip()
            )
        lines.append(space + self._rule("┌┬┐"))
        for position, row in enumerate(self._rows):
            if position:
                lines.append(space + self._rule("├┼┤"))
            cells = [self._cell(block, row, column) for column in self._columns]
            head = self._head(row).rjust(self._margin - 1) + " " if self._margin else ""
            lines.append(head + "│" + "│".join(cells) + "│")
        lines.append(space + self._rule("└┴┘"))
        return lines

    def _rule(self, corners: str) -> str:
        lines = ["─" * self._width] * len(self._columns)
        return corners[0] + corners[1].join(lines) + corners[2]

    def _cell(self, block: Block, row: int | None, column: int | None) -> str:
        if row is None or column is None:
            return "…".center(self._width)
        block = self._view.at(block, row, column)
        text = self._labels[block].center(self._width)
        if not self._use_color:
            return text
        color = _COLORS[self._layout.ranks[block] % len(_COLORS)]
        return f"\x1b[48;5;{color}m\x1b[30m{text}\x1b[0m"
