"""Writes docs/accuracy.md from what `largest_errors` has recorded."""

from __future__ import annotations

import json
import pathlib

__all__ = ["page"]

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "accuracy.md"
DTYPES = ("float32", "bfloat16", "float16", "float64")
LIBRARIES = {"weft": "weft", "jax": "JAX", "numpy": "NumPy"}
# More than this is listed with the place where it is.
MOST = 4.0

HEAD = """# Accuracy

This page says how far the results of elementwise functions, and of their derivatives, are from the
true values. Read it to choose a dtype, or to set a tolerance. Errors are in units in the last place
(ulp): 0.5 is a correctly rounded result, and 1 ulp of float32 is about 6e-8 of the value. Each
figure is the largest error that was found. `make accuracy` measures what is not recorded yet, and
writes this page from `benchmarks/accuracy/results.json`.

{covered}

The figures for float32 were recorded with a stride. Those of weft are of all normal numbers for
{whole} of the {rows} rows of one argument (`benchmarks/accuracy/all_inputs.py`). There those of the
others are taken where weft's error is largest, too.

How it is counted:

- The reference has more digits: SciPy and NumPy in float64 for the narrower dtypes, mpmath with 50
  digits for float64.
- Numbers below the smallest normal one are left out as inputs, and such a result counts as right if
  it is 0: XLA's code for CPUs has no smaller numbers.
- Infinity counts as the number that would follow the largest one. `wrong` is NaN in place of a
  number, or the other way around, or infinity of the wrong sign. `endless` is a function that had
  not ended after two minutes.
- A derivative is compared where it is finite. One of two operands has a tangent of 0 while the
  derivative by the other is measured: if the factor of that 0 is infinite, the sum is NaN, and
  shown as `wrong`. Functions are jitted and optimized as users' programs
  are, on a CPU.
- A dash means that the library has no such function, none of this dtype, or that the row is not
  recorded yet. NumPy has no derivatives. Complex numbers are not compared.

"""


def shown(error):
    """An error as people read it."""
    if error is None:
        return "–"
    if error != error:
        return "endless"
    if error == float("inf"):
        return "wrong"
    if error < 0.005:
        return "0"
    if error < 100:
        return f"{error:.2f}" if error < 9.995 else f"{error:.1f}"
    return f"{error:.0f}" if error < 1e4 else f"{error:.0e}".replace("e+0", "e").replace("e+", "e")


def table(recorded, names):
    """One row for each function: by dtype the errors of the libraries."""
    lines = [f"| function | {' | '.join(DTYPES)} |", f"|---|{'---|' * len(DTYPES)}"]
    for name in names:
        cells = []
        for dtype in DTYPES:
            worst = recorded.get(f"{name} {dtype}", {}).get("worst", {})
            libraries = [lib for lib in LIBRARIES if lib != "numpy" or " by " not in name]
            found = [shown(worst[lib][0] if lib in worst else None) for lib in libraries]
            cells.append(" / ".join(found))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def kind_of(got, want):
    """What is wrong with a result, in words."""
    if got != got or want != want:
        return "NaN in place of a number" if got != got else "a number in place of NaN"
    if abs(got) == float("inf"):
        return "a step on the way is infinite"
    if got == 0:
        return "a step on the way is 0 or too small"
    return "digits are lost"


def listed(recorded, reasons):
    """Rows with errors of more than `MOST`, or more than JAX's."""
    lines = [
        "| function | dtype | ulp | JAX | where | result | true value | what happens |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key, row in sorted(recorded.items()):
        name, _, dtype = key.rpartition(" ")
        worst = row["worst"]
        if "weft" not in worst:
            continue
        error, at, got, want = worst["weft"]
        others = worst.get("jax", [None])[0]
        worse = others is not None and error > 1.05 * others + 0.05
        if error > MOST or worse:
            place = ", ".join(f"{x:.9g}" for x in at)
            why = reasons.get(name) or kind_of(got, want)
            cells = (f"`{name}`", dtype, shown(error), shown(others), place)
            lines.append(f"| {' | '.join(cells)} | {got:.9g} | {want:.9g} | {why} |")
    return "\n".join(lines)


def page(recorded, reasons):
    """The text of the page."""
    names = list(dict.fromkeys(key.rpartition(" ")[0] for key in recorded))
    by_dtype = {}
    for key, row in sorted(recorded.items()):
        by_dtype.setdefault(key.rpartition(" ")[2], {}).setdefault(kind(row), []).append(key)
    covered = ["| dtype | functions | inputs compared |", "|---|---|---|"]
    for dtype in DTYPES:
        for what, keys in by_dtype.get(dtype, {}).items():
            covered.append(f"| {dtype} | {what} ({len(keys)} rows) | {span(recorded, keys)} |")
    narrow = [row for key, row in recorded.items() if key.endswith(" float32")]
    unary = [row for row in narrow if kind(row) == "of one argument"]
    whole = sum(row.get("weft") == "all" for row in unary)
    parts = [HEAD.format(covered="\n".join(covered), whole=whole, rows=len(unary))]
    values = sorted(n for n in names if " by " not in n)
    slopes = sorted(n for n in names if " by " in n)
    order = "The errors are those of weft / JAX / NumPy."
    parts.append(f"## Values\n\n{order}\n\n{table(recorded, values)}\n\n")
    text = "`by 0` is the derivative by the first argument. The errors are those of weft / JAX."
    parts.append(f"## Derivatives\n\n{text}\n\n{table(recorded, slopes)}\n\n")
    parts.append(
        f"## Where the errors are\n\nThe rows above {MOST:g} ulp, or above JAX's error, "
        f"with the input of the largest error.\n\n{listed(recorded, reasons)}\n"
    )
    return "".join(parts)


def kind(row):
    return "of two arguments" if "pairs" in row["covered"] else "of one argument"


def span(recorded, keys):
    """How many inputs the rows were compared at, in words."""
    texts = sorted({recorded[key]["covered"] for key in keys}, key=lambda text: (len(text), text))
    return texts[0] if len(texts) == 1 else f"{texts[0]}; or {texts[-1]}, by function"


def main():
    recorded = json.loads((HERE / "results.json").read_text())
    reasons = json.loads((HERE / "reasons.json").read_text())
    PAGE.write_text(page(recorded, reasons), encoding="utf-8")


if __name__ == "__main__":
    main()
