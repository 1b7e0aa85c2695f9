"""Notebooks of docs/notebooks/ as pages of the site: their texts, their code, and what it showed.

A notebook is read as its file has it (`tools/run_notebooks.py` writes what the cells show), so
nothing runs, and Jupyter is not needed.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["notebook_page"]


def notebook_page(path: pathlib.Path, name: str) -> str:
    """The Markdown of a notebook that is called `name` in the project."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    parts = [part for cell in cells for part in _parts(cell)]
    parts.append(f"This page is the notebook `{name}`.")
    return "\n\n".join(parts) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield _fenced("python", source)
    for output in cell["outputs"]:
        yield _shown(output)


def _shown(output: dict[str, Any]) -> str:
    """What a cell showed: HTML as it is, where there is some."""
    if output["output_type"] == "stream":
        return _fenced("text", "".join(output["text"]))
    if output["output_type"] == "error":
        return _fenced("text", "\n".join(output["traceback"]))
    data = output["data"]
    if "text/html" in data:
        return _fenced("{raw} html", "".join(data["text/html"]))
    return _fenced("text", "".join(data["text/plain"]))


def _fenced(language: str, text: str) -> str:
    """A block of code, between more backticks than it holds."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
