"""Writes the tables of docs/settings.md: a row for each row of `weft.settings.rows`.

python tools/settings_table.py
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

import weft
from weft.settings import setting_blocks
from weft.settings.kinds import SAME
from weft.settings.rows import HOST_ROWS, ROWS

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = "| setting | default | block | JAX's name | meaning |\n|---|---|---|---|---|\n"
_TABLE = re.compile(r"^\| setting \|.*\n(?:\|.*\n)+", re.MULTILINE)


def line(name: str) -> str:
    """The row of one setting."""
    row = ROWS[name]
    jax = list(dict.fromkeys(name if one is SAME else one.name for one in row.jax))
    found = [*setting_blocks.__all__, *weft.config.__all__]
    blocks = [f"`weft.{one}`" for one in dict.fromkeys([name, *jax]) if one in found]
    spellings = ["same" if one == name else f"`{one}`" for one in jax]
    cells = [f"`{name}`", f"`{row.default!r}`", ", ".join(blocks), ", ".join(spellings)]
    return "| " + " | ".join([*cells, row.meaning]) + " |\n"


def text() -> str:
    """The page with its tables as they should be."""
    programs = HEAD + "".join(line(name) for name in ROWS if name not in HOST_ROWS)
    tables = iter([programs, HEAD + "".join(map(line, HOST_ROWS))])
    return _TABLE.sub(lambda _: next(tables), PAGE.read_text(encoding="utf-8"))


def main() -> int:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
