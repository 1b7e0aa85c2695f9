"""What notebooks show of arrays, meshes, shardings and jaxprs: the pictures of `weft.show`.

Imported with weft, so it names the module that draws without importing it.
"""

from __future__ import annotations

from typing import Any

from weft.base.notebooks import show_in_notebooks
from weft.runtime.jaxlib.lazy import LazyModule

_show = LazyModule("weft.analysis.show")


def html_of(x: Any) -> str | None:
    """The HTML that a notebook shows of a value; None if its text says as much."""
    found: str | None = _show.in_notebook(x)
    return found


show_in_notebooks(html_of)
