"""Measures every program on weft and JAX, and writes the table of both.

    python benchmarks/programs/run.py --python .venv/bin/python --beside JAX/bin/python

Each program runs in fresh processes that take turns, `--reps` times; of each figure the least
counts. `--torch PYTHON` adds PyTorch, as it is and compiled, for those that torch_programs.py has.
Results stand in benchmarks/programs/results.json and, in words, in results.md.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
# The programs are a package beside the other benchmarks; a folder of it is no place for imports.
sys.path[0] = str(HERE.parent)

# Found by the line above, as the processes that measure find them.
import processes  # noqa: E402
from programs import registry  # noqa: E402
from recorded import write_rows  # noqa: E402
from timers import MARK  # noqa: E402

RESULTS, TABLE, REASONS = HERE / "results.json", HERE / "results.md", HERE / "reasons.json"
LIMIT = 1.05
MIB = 2.0**20
# Figure -> (words, what is the least that counts as a difference).
FIGURES = {
    "step": ("step", 2e-6),
    "first": ("first call, CPU", 0.01),
    "temporary": ("temporary memory", 4096),
    "memory of compiling": ("peak memory of compiling", MIB),
    "memory of running": ("peak memory of running", MIB),
}


def run_program(lib, python, program, counts):
    """The row of one program, measured in a fresh process."""
    environment = processes.child_environment(program.devices)
    paths = [str(HERE.parent.parent), environment["PYTHONPATH"]]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    arguments = ["-m", "programs.measure", lib, program.name, *(["--counts"] if counts else [])]
    _, out, err, status = processes.spawn(python, arguments, environment, 900)
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if status or not lines:
        return {"error": f"ended with {status}: {err.strip()[-200:]}"}
    row = json.loads(lines[-1][len(MARK) :])
    if "trace and lower" in row:
        row["first"] = row["trace and lower"] + row["compile"]
    return row


def merge(kept, row):
    """The least of each figure; of samples the newest."""
    for name, value in row.items():
        kept[name] = value if isinstance(value, (list, str)) else min(value, kept.get(name, value))


def difference(ours, theirs):
    """The greatest difference between samples of results, beside the size of the array."""
    if [len(leaf) for leaf in ours] != [len(leaf) for leaf in theirs]:
        return math.inf
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        scale = max(abs(other[0]), 1e-30)
        for a, b in zip(mine, other, strict=True):
            if a != b and not (math.isnan(a) and math.isnan(b)):
                worst = max(worst, abs(a - b) / scale)
    return worst


def ratio(row, name, beside="jax"):
    """weft / JAX of a figure; None where it was not measured on both."""
    ours, theirs = (row.get(lib, {}).get(name) for lib in ("weft", beside))
    if ours is None or theirs is None:
        return None
    if abs(ours - theirs) <= FIGURES[name][1]:
        return 1.0
    return ours / theirs if theirs else math.inf


def shown(value):
    return "–" if value is None else f"**{value:.2f}**" if value > LIMIT else f"{value:.2f}"


def table(results, machine):
    """The page: medians, and a row for every program."""
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else {}
    programs = {name: p for name, p in registry.load().items() if name in results}
    lines = [
        "# Programs beside JAX",
        "",
        f"{len(programs)} programs, each jitted as a whole, by `make programs`. {machine}",
        "Ratios are weft / JAX: below 1, weft is faster or smaller. Where both compiled programs",
        "have the same instructions, other times are noise, or the order of the instructions.",
        "",
        "| figure | compared | median | above 1.05 | greatest |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, (words, _) in FIGURES.items():
        values = [v for row in results.values() if (v := ratio(row, name)) is not None]
        if values:
            above = sum(value > LIMIT for value in values)
            lines.append(
                f"| {words} | {len(values)} | {statistics.median(values):.2f} | {above} "
                f"| {max(values):.2f} |"
            )
    lines += ["", f"| program | ms | {' | '.join(w for w, _ in FIGURES.values())} | reason |"]
    lines.append(f"|---|--:|{'--:|' * len(FIGURES)}---|")
    for name, program in programs.items():
        row = results[name]
        step = row.get("weft", {}).get("step")
        ratios = " | ".join(shown(ratio(row, figure)) for figure in FIGURES)
        lines.append(
            f"| `{name}`: {program.description} | {f'{step * 1e3:.2f}' if step else '–'} "
            f"| {ratios} | {reason(program, row, reasons.get(name, ''))} |"
        )
    return "\n".join([*lines, *torch_lines(results)]) + "\n"


def reason(program, row, written):
    """Why a program is above the limit, with what went wrong in measuring it."""
    errors = [f"{lib}: {of['error']}" for lib, of in row.items() if "error" in of]
    gap = row.get("jax", {}).get("difference", 0.0)
    if gap > program.tolerance:
        errors.append(f"results differ by {gap:.2g}")
    prints = [row.get(lib, {}).get("fingerprint") for lib in ("weft", "jax")]
    if prints[0] == prints[1] is not None:
        written = f"The same instructions. {written}".strip()
    return " ".join([*errors, written]).replace("|", "\\|").replace("\n", " ")


def torch_lines(results):
    """A table of the programs that PyTorch runs too."""
    rows = {name: row for name, row in results.items() if "torch" in row}
    if not rows:
        return []
    lines = ["", "Beside PyTorch, milliseconds of a step:", ""]
    lines += ["| program | weft | JAX | PyTorch | compiled | results |"]
    lines += ["|---|--:|--:|--:|--:|---|"]
    for name, row in rows.items():
        cells = []
        for lib in ("weft", "jax", "torch", "torch-compile"):
            step = row.get(lib, {}).get("step")
            cells.append(f"{step * 1e3:.2f}" if step else "failed")
        away = [
            f"{lib} by {gap:.2g}"
            for lib in ("torch", "torch-compile")
            if (gap := row.get(lib, {}).get("difference", 0.0)) > registry.TOLERANCE
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {', '.join(away) or 'equal'} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter with weft")
    parser.add_argument("--beside", help="one with JAX; without, results.md is written anew")
    parser.add_argument("--torch", help="one with PyTorch")
    parser.add_argument("--counts", action="store_true", help="no times of steps")
    parser.add_argument("--reps", type=int, default=2, help="how often (2)")
    parser.add_argument("--only", default="", help="programs by name, with commas between")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = kept.get("rows", {})
    if args.beside:
        pythons = {"weft": args.python, "jax": args.beside}
        pythons |= {"torch": args.torch, "torch-compile": args.torch} if args.torch else {}
        pythons = {lib: os.path.abspath(python) for lib, python in pythons.items()}
        versions = {lib: processes.versions(lib, python) for lib, python in pythons.items()}
        kept["versions"] = kept.get("versions", {}) | versions
        chosen = args.only.split(",") if args.only else list(registry.load())
        for program in (registry.load()[name] for name in chosen):
            row = measured(program, pythons, args)
            before = results.get(program.name, {})
            for lib, figures in row.items():
                kept_of = before.get(lib, {}) if args.counts else {}
                before[lib] = kept_of | figures
            results[program.name] = before
            write_rows(RESULTS, kept["versions"], results)
            ratios = [shown(ratio(row, name)) for name in FIGURES]
            print(program.name, *ratios, reason(program, row, ""), flush=True)
    machine = "; ".join(dict.fromkeys(kept.get("versions", {}).values())) + "."
    TABLE.write_text(table(results, machine), encoding="utf-8")


def measured(program, pythons, args):
    """library -> figures of a program; the libraries take turns in who is first."""
    row = {lib: {} for lib in pythons}
    for repetition in range(1 if args.counts else args.reps):
        order = list(pythons) if repetition % 2 == 0 else list(reversed(pythons))
        for lib in order:
            if not lib.startswith("torch") or program.name in registry.TORCH:
                merge(row[lib], run_program(lib, pythons[lib], program, args.counts))
    found = {lib: figures.pop("samples", None) for lib, figures in row.items()}
    for lib, figures in row.items():
        if lib != "weft" and found[lib] and found["weft"]:
            figures["difference"] = difference(found["weft"], found[lib])
    return {lib: figures for lib, figures in row.items() if figures}


if __name__ == "__main__":
    main()
