"""An array in a notebook: what it is, a small table of its values, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from weft import dtypes
from weft.analysis.picture_style import PAGE_CSS
from weft.arrays.array import Array
from weft.arrays.texts import edges, values_at
from weft.errors import WeftError

# A dimension that is longer than twice this shows this many of its first and of its last indices.
_EDGE = 4


def array_html(x: Array, picture: str = "") -> str:
    """A line that says what the array is, its values, and a picture of where it lies. Only the
    values in the table are read. Where they cannot be, a line says why instead."""
    lines = [_heading(x), _values(x)]
    return f'<div class="weft-picture"><style>{PAGE_CSS}</style>{"".join(lines)}</div>{picture}'


def _heading(x: Array) -> str:
    numeric = isinstance(x.dtype, np.dtype)
    dtype = x.dtype.name if numeric else dtypes.short_name(x.dtype)
    facts = [f"shape {x.shape}", dtype]
    if x.type.weak_type:
        facts.append("weak type")
    if numeric:
        facts.append(f"{x.nbytes:,} bytes")
    if x.is_deleted():
        facts.append("deleted")
    elif x.num_devices == 1:
        facts.append(f"on {next(iter(x.devices()))}")
    else:
        facts.append(f"on {x.num_devices:,} devices")
    return f"<p><b>Array</b> {escape(', '.join(facts))}</p>"


def _values(x: Array) -> str:
    if x.is_deleted() or not x.size:
        return ""
    if not isinstance(x.dtype, np.dtype):
        return _note("Its values are random keys, which are not shown.")
    if not x._is_whole():
        return _note("A part of it is on other processes, so its values are not shown.")
    # The table shows the last two dimensions, at the first index of all others.
    outer = max(x.ndim - 2, 0)
    shown = [edges(length, _EDGE, _EDGE) for length in x.shape[outer:]]
    try:
        values = values_at(x, [[0]] * outer + shown)
    except (WeftError, RuntimeError) as error:  # the program that computes it has failed, say
        reason = str(error).partition("\n")[0]
        return _note(f"Its values cannot be read: {reason}")
    rows: list[list[int]] = [[]] * (2 - len(shown)) + shown
    table = _table(values.reshape([max(len(picked), 1) for picked in rows]), rows, x.shape)
    at = f"[{', '.join('0' * outer)}, :, :]"
    return (_note(f"The values at {at}:") if outer else "") + table


def _note(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(
    values: np.ndarray[Any, Any], indices: Sequence[Sequence[int]], shape: Sequence[int]
) -> str:
    """Values with the indices of their columns and rows; dots stand for omitted indices."""
    rows, columns = indices
    left_out_rows = bool(rows) and len(rows) < shape[-2]
    left_out_columns = bool(columns) and len(columns) < shape[-1]
    lines = [_cells("th", ["", *map(str, columns)], left_out_columns)] if columns else []
    for number, row in enumerate(values):
        if left_out_rows and number == _EDGE:
            lines.append(_cells("td", ["⋮"] * (len(row) + 1), left_out_columns, gap="⋱"))
        name = str(rows[number]) if rows else ""
        lines.append(_cells("td", [name, *map(_text, row)], left_out_columns))
    return f"<table>{''.join(lines)}</table>"


def _cells(tag: str, texts: Sequence[str], left_out: bool, gap: str = "…") -> str:
    """A row of a table; the first cell is its heading."""
    first, *rest = texts
    if left_out:
        rest.insert(_EDGE, gap)
    cells = "".join(f"<{tag}>{escape(text)}</{tag}>" for text in rest)
    return f"<tr><th>{escape(first)}</th>{cells}</tr>"


def _text(value: Any) -> str:
    """A number with the digits that fit a table."""
    if value.dtype in dtypes.FLOATING:
        return f"{float(value):.5g}"
    return f"{complex(value):.5g}" if value.dtype in dtypes.COMPLEX else str(value)
