"""Measures every expression of the sweep on weft and JAX, and writes the table of those above 1.1.

    python benchmarks/sweep/run.py --python .venv/bin/python --beside JAX/bin/python [--counts]

Chunks of expressions run in fresh processes that take turns, `--reps` times; of each figure the
least counts. Results go to build/sweep/results.json and, in words, to results.md
beside it. The fusions and bytes of weft's programs, which a test holds, are recorded in
benchmarks/sweep/counts.json.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

# Found by the line above, as `measure.py` finds them.
import expressions  # noqa: E402

import processes  # noqa: E402
from recorded import write_rows  # noqa: E402
from timers import MARK  # noqa: E402

BUILD = HERE.parents[1] / "build" / "sweep"
RESULTS, TABLE = BUILD / "results.json", BUILD / "results.md"
COUNTS, REASONS = HERE / "counts.json", HERE / "reasons.json"
LIMIT = 1.1
# What may be slower by that many seconds is within what the clock of a busy machine shows.
TICK = 1e-6
# XLA runs what has fewer operations on the thread of the caller, and other programs on one of its
# pool: that is 10 to 50 us.
THREAD = 1000
# Figure -> (words, what is the least that counts as a difference).
FIGURES = {
    "large wall": ("wall, large", TICK),
    "large cpu": ("CPU, large", TICK),
    "small wall": ("wall, small", TICK),
    "small cpu": ("CPU, small", TICK),
    "large first": ("first call", 0.01),
    "instructions": ("instructions", 0),
    "fusions": ("fusions", 0),
    "bytes": ("bytes", 0),
    "temporary": ("temporary memory", 4096),
}


def run_chunk(lib, python, numbers, options):
    """The rows of the expressions with these numbers, measured in a fresh process."""
    environment = processes.child_environment(1)
    arguments = [str(HERE / "measure.py"), lib, ",".join(map(str, numbers)), *options]
    _, out, err, status = processes.spawn(python, arguments, environment, 1800)
    if status:
        print(f"{lib} {numbers} ended with {status}: {err.strip()[-300:]}", flush=True)
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    return [json.loads(line[len(MARK) :]) for line in lines]


def merge(kept, rows, lib):
    """Adds rows to what is kept: the least of each figure."""
    for row in rows:
        key = f"{row.pop('expression')} | {row.pop('form')}"
        mine = kept.setdefault(key, {}).setdefault(lib, {})
        if "error" in row:
            mine.setdefault("error", row["error"])
        for name, value in row.items():
            if name != "error":
                mine[name] = value if isinstance(value, str) else min(value, mine.get(name, value))


def ratio(row, name):
    """weft / JAX of a figure; None where it was not measured on both."""
    ours, theirs = (row.get(lib, {}).get(name) for lib in ("weft", "jax"))
    if ours is None or theirs is None:
        return None
    least = FIGURES[name][1]
    if abs(ours - theirs) <= least:
        return 1.0
    return ours / theirs if theirs else math.inf


def is_time(name):
    """Whether a figure is a time of running."""
    return name.endswith((" wall", " cpu"))


def is_same_program(row, name):
    """Whether a figure is the time of two programs that have the same optimized instructions."""
    size = name.partition(" ")[0]
    ours, theirs = (row.get(lib, {}).get(f"{size} program") for lib in ("weft", "jax"))
    return is_time(name) and ours is not None and ours == theirs


def above(results):
    """(expression, figure, ratio) of all that weft is behind in, the greatest first. Times of equal
    programs are left out: `table` gives them in one line."""
    found = []
    for key, row in results.items():
        for name in FIGURES:
            value = ratio(row, name)
            if value is not None and value > LIMIT and not is_same_program(row, name):
                found.append((key, name, value))
    return sorted(found, key=lambda row: (list(FIGURES).index(row[1]), -row[2]))


def table(results, machine):
    """The page: what was measured, medians, and a row for everything above the limit."""
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else {}
    lines = [
        "# The sweep: every public function of arrays beside JAX",
        "",
        f"{len(expressions.EXPRESSIONS)} expressions and their gradients, jitted, by `make sweep`. "
        f"{machine}",
        "Ratios are weft / JAX: below 1, weft is faster or smaller.",
        "",
        "| figure | compared | median | above 1.1 |",
        "|---|--:|--:|--:|",
    ]
    behind, noise = above(results), noise_of(results)
    for name, (words, _) in FIGURES.items():
        values = [v for row in results.values() if (v := ratio(row, name)) is not None]
        if values:
            count = sum(n == name for _, n, _ in behind)
            lines.append(f"| {words} | {len(values)} | {statistics.median(values):.2f} | {count} |")
    lines += ["", *same_programs(results)]
    failed = {
        key: row["weft"]["error"]
        for key, row in results.items()
        if "error" in row.get("weft", {}) and "error" not in row.get("jax", {})
    }
    if failed:
        lines += ["", "Run on JAX and not on weft:", ""]
        lines += [f"- `{key}`: {error}" for key, error in failed.items()]
    lines += ["", "| expression | figure | weft / JAX | reason |", "|---|---|--:|---|"]
    for key, name, value in behind:
        code = key.replace("|", "\\|")
        reason = reasons.get(key, reasons.get(key.partition(" | ")[0])) or measured(
            results[key], name, noise
        )
        lines.append(f"| `{code}` | {FIGURES[name][0]} | {value:.2f} | {reason} |")
    return "\n".join(lines) + "\n"


def measured(row, name, noise):
    """What the figures themselves give as the reason: digits that JAX loses, more to compile, a
    greater count of something in a program that is not slower, or noise."""
    errors = [row.get(lib, {}).get("error in ulp") for lib in ("weft", "jax")]
    found = []
    if None not in errors and errors[1] >= max(4, 2 * errors[0]):
        ours, theirs = (f"{error:.2g}" if error < 1e4 else f"{error:.0e}" for error in errors)
        found.append(f"Errs by {ours} units in the last place at most, JAX by {theirs}.")
    times = {size: ratio(row, f"{size} wall") for size in ("large", "small")}
    if name == "large first":
        ours, theirs = (row[lib]["instructions"] for lib in ("weft", "jax"))
        found.append(f"{ours} instructions to compile, JAX's {theirs}.")
    size = name.partition(" ")[0]
    operations = [row.get(lib, {}).get(f"{size} operations") for lib in ("weft", "jax")]
    if is_time(name) and None not in operations and operations[1] < THREAD <= operations[0]:
        found.append(
            f"{operations[0]} operations, JAX's {operations[1]}: from {THREAD} on XLA calls "
            "another thread."
        )
    if not is_time(name) and None not in times.values() and max(times.values()) <= LIMIT:
        found.append(f"A call takes {times['large']:.2f} of JAX's time.")
    if is_time(name) and ratio(row, name) <= noise[name]:
        found.append("Within what equal programs show.")
    return " ".join(found)


def noise_of(results):
    """Time -> the ratio that one in twenty pairs of equal programs exceeds."""
    found = {}
    for name in filter(is_time, FIGURES):
        rows = [row for row in results.values() if is_same_program(row, name)]
        values = sorted(v for row in rows if (v := ratio(row, name)) is not None)
        found[name] = values[int(0.95 * (len(values) - 1))] if values else 1.0
    return found


def same_programs(results):
    """What the times of equal programs tell: the cost of a call, and the noise of the table."""
    lines = []
    for name in ("large wall", "small wall", "large cpu", "small cpu"):
        rows = [row for row in results.values() if is_same_program(row, name)]
        values = sorted(v for row in rows if (v := ratio(row, name)) is not None)
        if values:
            low, middle, high = (values[int(q * (len(values) - 1))] for q in (0.05, 0.5, 0.95))
            lines.append(
                f"{len(rows)} of {len(results)} rows have the same optimized instructions in both "
                f"libraries ({FIGURES[name][0]}): their ratios have "
                f"the median {middle:.2f} and lie between {low:.2f} and {high:.2f} in nine of ten "
                "rows. That is the cost of the call and the noise of the clock, so only programs "
                "that differ have a row of times below."
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter with weft")
    parser.add_argument("--beside", help="one with JAX; without, results.md is written anew")
    parser.add_argument("--counts", action="store_true", help="only what a machine cannot disturb")
    parser.add_argument("--digits", action="store_true", help="only how far results are off")
    parser.add_argument("--reps", type=int, default=2, help="how often (2)")
    parser.add_argument("--chunk", type=int, default=60, help="expressions of one process (60)")
    parser.add_argument("--again", action="store_true", help="only what was slower; least is kept")
    parser.add_argument("--more", action="store_true", help="the least of this and earlier runs")
    parser.add_argument("--only", default="", help="expressions that contain this")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = kept.get("rows", {})
    if args.beside:
        chosen = [k for k, text in enumerate(expressions.EXPRESSIONS) if args.only in text]
        if args.again:
            slower = {key.rpartition(" | ")[0] for key, name, _ in above(results) if is_time(name)}
            chosen = [k for k in chosen if expressions.EXPRESSIONS[k] in slower]
        pythons = {"weft": os.path.abspath(args.python), "jax": os.path.abspath(args.beside)}
        fresh = {}
        options = [f"--{option}" for option in ("counts", "digits") if getattr(args, option)]
        for repetition in range(1 if options else args.reps):
            for start in range(0, len(chosen), args.chunk):
                numbers = chosen[start : start + args.chunk]
                for lib in ("weft", "jax") if repetition % 2 == 0 else ("jax", "weft"):
                    merge(fresh, run_chunk(lib, pythons[lib], numbers, options), lib)
                print(f"{repetition + 1}: {len(numbers)} from {numbers[0]} measured", flush=True)
        for key, row in fresh.items():
            before = results.get(key, {})
            results[key] = {
                lib: updated(before.get(lib, {}), found, args) for lib, found in row.items()
            }
        kept = {"versions": {lib: processes.versions(lib, p) for lib, p in pythons.items()}}
        BUILD.mkdir(parents=True, exist_ok=True)
        write_rows(RESULTS, kept["versions"], results)
        record_counts(kept["versions"]["weft"], results)
    if not results:
        parser.error(f"there is no {RESULTS} yet: measure with --beside")
    machine = "; ".join(kept.get("versions", {}).values()) + "."
    TABLE.write_text(table(results, machine), encoding="utf-8")


def record_counts(version, results):
    """Records fusions and bytes of weft's programs, one a line; what was not measured stays."""
    kept = json.loads(COUNTS.read_text(encoding="utf-8"))["rows"] if COUNTS.exists() else {}
    for key, row in results.items():
        found = row.get("weft", {})
        if "bytes" in found:
            kept[key] = [found["fusions"], float(f"{found['bytes']:.4g}")]
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(kept.items()))
    text = f'{{"version": {json.dumps(version)}, "rows": {{\n{lines}\n}}}}\n'
    COUNTS.write_text(text, encoding="utf-8")


def updated(before, found, args):
    """The figures of an expression after it was measured once more."""
    if args.counts or args.digits:
        return before | found
    if not (args.again or args.more):  # How far results are off is measured apart.
        return {name: before[name] for name in ("error in ulp",) if name in before} | found
    least = {
        name: min(found[name], before[name]) for name in found if is_time(name) and name in before
    }
    return before | found | least


if __name__ == "__main__":
    main()
