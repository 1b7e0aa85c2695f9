"""Draws the picture of docs/index.md, by running the program that stands there.

python tools/landing_picture.py     # writes docs/_static/descents.svg
"""

from __future__ import annotations

import io
import pathlib
import re
import sys

import matplotlib
import numpy as np
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "index.md"
PICTURE = ROOT / "docs" / "_static" / "descents.svg"
EXTENT = 7.0


def draw() -> None:
    """Runs the page's program, and draws the heights and the paths."""
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    names: dict[str, object] = {}
    exec(found[1], names)
    matplotlib.rcParams["svg.hashsalt"] = "weft"
    line = np.linspace(-EXTENT, EXTENT, 80)
    x, y = np.meshgrid(line, 0.5 * line)
    heights = (x**2 + y**2) / 8 - np.cos(2 * x) - np.cos(2 * y)
    figure = Figure(figsize=(8, 4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.contourf(x, y, heights, levels=14, cmap="Blues_r")
    paths = np.asarray(names["paths"])
    for path in paths:
        axes.plot(*path.T, color="#ffb84d", linewidth=1.3, solid_capstyle="round")
    axes.plot(*paths[:, 0].T, "o", color="#ffb84d", markersize=3)
    axes.plot(*paths[:, -1].T, "o", color="white", markersize=5, markeredgecolor="#0b5c8f")
    axes.set(xlim=(-EXTENT, EXTENT), ylim=(-EXTENT / 2, EXTENT / 2))
    axes.set_axis_off()
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    # A tenth of a point is finer than any screen.
    PICTURE.write_text(re.sub(r"(\d+\.\d)\d+", r"\1", drawn.getvalue()), encoding="utf-8")


if __name__ == "__main__":
    draw()
