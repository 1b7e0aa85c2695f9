"""Memory over 100,000 calls of functions made anew, on weft and JAX: benchmarks/growth/memory.md.

    python benchmarks/growth/memory.py --python .venv/bin/python --beside JAX/bin/python

A library that needs more than the limit of time shows how many calls it made. What counts is the
growth from a fifth of the calls on, when what is kept up to a bound is there.
"""

import argparse
import datetime
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

# Found by the line above.
from rebuilt import KINDS  # noqa: E402

import processes  # noqa: E402
from report import machine  # noqa: E402
from timers import MARK  # noqa: E402

RESULTS, TABLE = HERE / "memory.json", HERE / "memory.md"
DEVICES = 8


def run_one(lib, python, kind, calls, limit):
    """The rows of one kind of one library, and why there are none."""
    environment = processes.child_environment(DEVICES)
    arguments = [str(HERE / "rebuilt.py"), lib, kind, str(calls), str(limit)]
    _, out, err, status = processes.spawn(python, arguments, environment, 2 * limit + 60)
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    rows = [json.loads(line[len(MARK) :]) for line in lines]
    why = (err.strip().splitlines() or ["died"])[-1][:160] if status else ""
    return {key: [row[key] for row in rows] for key in ("calls", "seconds", "rss", "objects")}, why


def cells(record):
    """Calls, microseconds per call, and growth per 1,000 calls in KiB and in objects."""
    if not record or not record["calls"]:
        return [record["note"] if record else "–", "–", "–", "–"]
    calls, rss, objects = (record[key] for key in ("calls", "rss", "objects"))
    each = record["seconds"][-1] / calls[-1] * 1e6
    start = len(calls) // 5
    thousands = (calls[-1] - calls[start]) / 1000
    if not thousands:
        return [f"{calls[-1]:,}", f"{each:.0f}", "–", "–"]
    grown = (rss[-1] - rss[start]) / 1024 / thousands
    more = (objects[-1] - objects[start]) / thousands
    return [f"{calls[-1]:,}", f"{each:.0f}", f"{grown:.1f}", f"{more:.1f}"]


def render(data):
    """The table as Markdown."""
    lines = [
        "# Memory over calls of functions made anew",
        "",
        f"{data['machine']}; {' beside '.join(reversed(data['versions'].values()))}.",
        f"{data['calls']:,} calls, or as many as a library makes in {data['limit']} s; growth is",
        "that from a fifth of the calls on, after a collection of garbage, for each 1,000 calls.",
        "`make growth-memory` writes this page.",
        "",
    ]
    header = ["function", *(f"{lib}: {what}" for lib in ("weft", "JAX") for what in
              ("calls", "µs each", "KiB / 1,000", "objects / 1,000"))]  # fmt: skip
    align = ["---", *["--:"] * (len(header) - 1)]
    rows = [
        [kind, *cells(record.get("weft")), *cells(record.get("jax"))]
        for kind, record in data["rows"].items()
    ]
    lines += ["| " + " | ".join(line) + " |" for line in (header, align, *rows)]
    return "\n".join(lines) + "\n"


def keep(data):
    text = json.dumps(data, indent=1)
    text = re.sub(r"\{[^{}]*\}", lambda found: " ".join(found.group().split()), text)
    RESULTS.write_text(text + "\n")
    TABLE.write_text(render(data), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", help="the interpreter that has weft")
    parser.add_argument("--beside", help="the interpreter that has JAX")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--limit", type=int, default=120, help="seconds for each kind")
    arguments = parser.parse_args()
    data = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    pythons = {"jax": arguments.beside, "weft": arguments.python}
    pythons = {lib: python for lib, python in pythons.items() if python}
    versions = {lib: processes.versions(lib, python) for lib, python in pythons.items()}
    versions = data.get("versions", {}) | versions
    data["versions"] = {lib: versions[lib] for lib in ("jax", "weft") if lib in versions}
    data |= {"machine": machine(), "limit": arguments.limit, "calls": arguments.calls}
    data["date"] = datetime.date.today().isoformat()
    for kind in (kind for kind in KINDS if arguments.only in kind):
        for lib, python in pythons.items():
            record, why = run_one(lib, python, kind, arguments.calls, arguments.limit)
            data["rows"].setdefault(kind, {})[lib] = record | ({"note": why} if why else {})
            print(kind, lib, *cells(data["rows"][kind][lib]), flush=True)
        data["rows"] = {k: data["rows"][k] for k in KINDS if k in data["rows"]}
        keep(data)


if __name__ == "__main__":
    main()
