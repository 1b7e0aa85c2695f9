"""How the cost of each piece of work grows, on weft and JAX: benchmarks/growth/results.md.

    python benchmarks/growth/run.py --python .venv/bin/python --beside JAX/bin/python
    python benchmarks/growth/run.py --list

Every measurement of a library runs in a fresh process with a limit of time; the libraries take
turns. Sizes double up to the largest, and the exponent is the slope of log time over log size, by
least squares, over the upper half of the sizes. A row that was too slow says so and keeps the sizes
that it reached.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

# Found by the line above.
from quantities import MEASUREMENTS  # noqa: E402

import processes  # noqa: E402
from report import machine, number  # noqa: E402
from timers import MARK, growth  # noqa: E402

RESULTS, TABLE = HERE / "results.json", HERE / "results.md"
LIBRARIES = ("jax", "weft")
# Below that many seconds the clock and the system have more part in it than the library.
NOTHING = 1e-5


def name_of(measurement, label=""):
    return " | ".join(filter(None, (measurement.quantity, measurement.name, label)))


def run_one(lib, python, index, limit):
    """label -> {"sizes", "seconds", "equations"}, and a note on what was not reached."""
    measurement = MEASUREMENTS[index]
    sizes = measurement.sizes
    # The number of host devices is that of the process.
    batches = [(size,) for size in sizes] if measurement.devices else [sizes]
    found, notes = {}, []
    for batch in batches:
        environment = processes.child_environment(batch[0] if measurement.devices else 1)
        arguments = [str(HERE / "measure.py"), lib, str(index), *map(str, batch)]
        _, out, err, status = processes.spawn(python, arguments, environment, limit)
        lines = [line for line in out.splitlines() if line.startswith(MARK)]
        begun = None
        for row in (json.loads(line[len(MARK) :]) for line in lines):
            begun = row.get("begun", begun)
            if "label" in row:
                kept = found.setdefault(row["label"], {"sizes": [], "seconds": [], "equations": []})
                for key, field in (("sizes", "size"), ("seconds",) * 2, ("equations",) * 2):
                    kept[key].append(row[field])
        if status == -1:
            notes.append(f"over {limit} s at {begun:,}" if begun else f"over {limit} s")
        elif status:
            why = (err.strip().splitlines() or ["died"])[-1][:160]
            notes.append(f"at {begun or batch[0]:,}: {why}")
    return found, "; ".join(dict.fromkeys(notes))


def exponent(record, work):
    """The slope over the upper half of the sizes; None where that says nothing."""
    xs, ts = record["sizes"], record["seconds"]
    if work == "equations":
        # Each level records what is within it, so the work is that of all levels together.
        if None in record["equations"]:
            return None
        xs = list(itertools.accumulate(record["equations"]))
    half = len(xs) // 2
    xs, ts = xs[half:], ts[half:]
    if len(xs) < 2 or xs[0] == xs[-1] or ts[-1] < NOTHING:
        return None
    return growth(xs, ts)


def at_largest(ours, theirs):
    """The largest size that both have reached, and the seconds of each there."""
    common = set(ours["sizes"]) & set(theirs["sizes"])
    if not common:
        return None
    size = max(common)
    return size, *(r["seconds"][r["sizes"].index(size)] for r in (ours, theirs))


EMPTY = {"sizes": [], "seconds": [], "equations": []}


def row(key, record):
    """One line of the table."""
    work = record["work"]
    ours, theirs = (record.get(lib, EMPTY) for lib in reversed(LIBRARIES))
    both = at_largest(ours, theirs)
    cells = [", ".join(key.split(" | ")[1:])]
    largest = f"{ours['sizes'][-1]:,}" if ours["sizes"] else "–"
    counted = ours["equations"][-1] if ours["equations"] else None
    if counted:
        largest += f" ({counted:,} eqns)"
    cells += [largest, number(ours["seconds"][-1]) if ours["seconds"] else "–"]
    if not theirs["sizes"]:
        cells += ["–", "–"]
    else:
        there = "" if theirs["sizes"][-1:] == ours["sizes"][-1:] else f" at {theirs['sizes'][-1]:,}"
        cells += [number(theirs["seconds"][-1]) + there]
        cells += [number(both[1] / both[2]) if both and both[2] else "–"]
    for found in (ours, theirs):
        slope = exponent(found, work)
        cells.append("–" if slope is None else f"{slope:.2f}")
    notes = [f"{lib} {r['note']}" for lib, r in (("weft", ours), ("JAX", theirs)) if r.get("note")]
    return [*cells, "; ".join(notes).replace("|", "\\|")]


def render(data):
    """The whole table as Markdown."""
    lines = [
        "# Cost as work grows",
        "",
        f"{data['machine']}; {' beside '.join(reversed(data['versions'].values()))}.",
        "Work done once (tracing, lowering, compiling, filling a cache) is in CPU seconds, the",
        "least of up to three; calls are in seconds of wall time. The exponent is the slope of log",
        "time over log size (where transformations nest: over log of the equations of all levels),",
        "fitted over the upper half of the sizes. A measurement of a library has",
        f"{data['limit']} s; one that needs more says at which size, and the ratio is that at the",
        "largest size both reached. `make growth` writes this page.",
    ]
    quantity = None
    for key, record in data["rows"].items():
        if (heading := key.partition(" | ")[0]) != quantity:
            quantity = heading
            lines += ["", f"## {quantity}", ""]
            header = ["what", "largest size", "weft, s", "JAX, s", "weft / JAX", "exponent, weft",
                      "exponent, JAX", ""]  # fmt: skip
            lines += table_lines(header)
        lines.append("| " + " | ".join(row(key, record)) + " |")
    return "\n".join(lines) + "\n"


def table_lines(header):
    align = ["---", *["--:"] * (len(header) - 2), "---"]
    return ["| " + " | ".join(line) + " |" for line in (header, align)]


def keep(data):
    """Writes the figures, one line for each library of a row, and the table."""
    text = json.dumps(data, indent=1)
    text = re.sub(r"\{[^{}]*\}", lambda found: " ".join(found.group().split()), text)
    RESULTS.write_text(text + "\n")
    TABLE.write_text(render(data), encoding="utf-8")


def ordered(rows):
    """Rows in the order of the measurements, whatever was measured last."""
    order = {name_of(m): i for i, m in enumerate(MEASUREMENTS)}
    place = lambda key: max(
        (i for name, i in order.items() if (key + " | ").startswith(name + " | ")), default=-1
    )
    return dict(sorted(rows.items(), key=lambda item: place(item[0])))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has weft")
    parser.add_argument("--beside", help="the interpreter that has JAX")
    parser.add_argument("--only", default="", help="the measurement of this name, or those with it")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each measurement")
    parser.add_argument("--list", action="store_true", help="show the measurements and stop")
    parser.add_argument("--show", action="store_true", help="write the table anew and stop")
    arguments = parser.parse_args()
    data = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    if arguments.list:
        for measurement in MEASUREMENTS:
            print(f"{name_of(measurement):70s} to {measurement.sizes[-1]:,}")
        return
    if arguments.show:
        keep(data)
        return
    pythons = {"weft": arguments.python, "jax": arguments.beside}
    pythons = {lib: python for lib, python in pythons.items() if python}
    data |= {"machine": machine(), "limit": arguments.limit}
    data["date"] = datetime.date.today().isoformat()
    versions = {lib: processes.versions(lib, python) for lib, python in pythons.items()}
    versions = data.get("versions", {}) | versions
    data["versions"] = {lib: versions[lib] for lib in LIBRARIES if lib in versions}
    names = [name_of(measurement) for measurement in MEASUREMENTS]
    # A whole name means itself only, though others begin with it.
    whole = arguments.only in names
    for index, measurement in enumerate(MEASUREMENTS):
        if not (names[index] == arguments.only if whole else arguments.only in names[index]):
            continue
        for lib, python in pythons.items():
            found, note = run_one(lib, python, index, arguments.limit)
            if found and "" not in found:  # the row of an earlier run that had no figure
                data["rows"].pop(names[index], None)
            for label, record in (found or {"": dict(EMPTY)}).items():
                kept = data["rows"].setdefault(name_of(measurement, label), {})
                kept["work"] = measurement.work
                kept[lib] = record | ({"note": note} if note else {})
                print(name_of(measurement, label), lib, *record["seconds"][-1:], note, flush=True)
        data["rows"] = ordered(data["rows"])
        keep(data)


if __name__ == "__main__":
    main()
