"""Writes figures by row into a file of JSON: a line for each, so that a change of one is a change
of one line."""

import json


def write_rows(path, versions, rows):
    """Writes the versions of the libraries, and rows of name -> library -> figures."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps({lib: rounded(of) for lib, of in row.items()})}"
        for name, row in sorted(rows.items())
    )
    text = f'{{"versions": {json.dumps(versions)}, "rows": {{\n{lines}\n}}}}\n'
    path.write_text(text, encoding="utf-8")


def rounded(figures):
    """The figures with four digits."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}
