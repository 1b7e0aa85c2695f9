"""How notebooks show values, and how messages name the lines of a notebook.

A notebook asks a value for `_repr_html_` and shows that instead of its text; where it is None, the
text stays. Pictures are drawn with everything that there is, so classes of lower layers have the
method from here, and the function behind it is set from above.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

_drawn: list[Callable[[Any], str | None]] = []


def show_in_notebooks(html_of: Callable[[Any], str | None]) -> None:
    """Sets the function from a value to HTML, or to None if the text is to stay."""
    _drawn[:] = [html_of]


class ShownInNotebooks:
    """A mixin for values of which a notebook shows a picture."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return _drawn[0](self) if _drawn else None


# ---- lines -------------------------------------------------------------------------------------

# File names of cells that say the number, as `<ipython-input-3-5e0c…>`; and those of a kernel,
# which are made of the cell's text.
_NUMBERED = re.compile(r"<?ipython-input-(\d+)-")
_OF_KERNEL = re.compile(r"[/\\]ipykernel_\d+[/\\]\d+\.py$")


def shell() -> Any:
    """The shell that runs the cells; None outside of IPython, also where it is not loaded."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def line_text(file: str, line: int, function: str = "") -> str:
    """A line of a program in messages: `model.py:12 in loss`, and in a notebook, whose files users
    do not know, `cell 3, line 2 in loss`."""
    cell = _cell(file)
    place = f"{file}:{line}" if cell is None else f"{cell}, line {line}"
    at_top = cell is not None and function.startswith(("<module>", "<cell line"))
    return f"{place} in {function}" if function and not at_top else place


def _cell(file: str) -> str | None:
    """The cell of a file name; None for a file."""
    numbered = _NUMBERED.search(file)
    if numbered:
        return f"cell {numbered[1]}"
    # The number is that of the last run of the cell.
    describe = getattr(getattr(shell(), "compile", None), "format_code_name", None)
    known = describe(file) if describe is not None else None
    if known:
        number = re.search(r"\d+", known[1])
        return f"cell {number[0]}" if number else "a cell"
    return "a cell" if _OF_KERNEL.search(file) else None
