"""What notebooks show of arrays, meshes, shardings and jaxprs: the pictures of `weft.show`.

Imported with weft, so it names the module that draws without importing it.
"""

from __future__ import annotations

from typing import Any

from weft.base.notebooks import show_in_notebooks
from weft.runtime.jaxlib.lazy import LazyModule

_show = LazyModule("weft.analysis.show")


def html_of(x: Any) -> str | None:
    """The HTML of a value in a notebook; None if its text suffices."""
    out: str | None = _show.in_notebook(x)
    return out


show_in_notebooks(html_of)
