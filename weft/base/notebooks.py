"""What notebooks show of a value.

A notebook asks a value for `_repr_html_` and shows that instead of its text; where it is None, the
text stays. Pictures are drawn with everything that there is, so classes of lower layers have the
method from here, and the function behind it is set from above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ShownInNotebooks", "show_in_notebooks"]

_drawn: list[Callable[[Any], str | None]] = []


def show_in_notebooks(html_of: Callable[[Any], str | None]) -> None:
    """Sets the function from a value to HTML, or to None if the text is to stay."""
    _drawn[:] = [html_of]


class ShownInNotebooks:
    """A mixin for values of which a notebook shows a picture."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return _drawn[0](self) if _drawn else None
