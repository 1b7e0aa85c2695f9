"""Measures a library, alone or beside another.

    python benchmarks/run.py --lib jax --python OTHER/bin/python --vs weft --vs-python bin/python
    python benchmarks/run.py --lib weft --only eager_ops,trace --reps 3
    python benchmarks/run.py --list

Every (library, case) runs in a fresh interpreter. With --vs the two take turns (A B, B A, A B …),
so that a busy machine disturbs both alike, and the load that other processes put on the machine
meanwhile is shown. Printed are the medians over the repetitions and the ratio B / A of those
medians: below 1, B is faster or smaller; for GB/s above 1. With --report NAME the figures are also
kept in NAME.json, where a run replaces those of the cases it measured, and shown in NAME.md. The
libraries `torch` and `torch-compile` are served by torch_cases.py.
"""

import argparse
import collections
import datetime
import json
import os
import resource
import statistics
import sys
import time

import processes
import report
from cases import CASES
from timers import MARK, failure

CHILD = os.path.join(processes.HERE, "child.py")
QUIET = 0.4  # cores kept busy by others below which a machine counts as quiet

Side = collections.namedtuple("Side", "name lib python environment")


def busy_seconds():
    """CPU seconds that the whole machine has spent busy; 0 where the system does not tell."""
    try:
        with open("/proc/stat") as file:
            fields = [int(x) for x in file.readline().split()[1:9]]
    except OSError:
        return 0.0
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Others:
    """How many cores others kept busy while the block ran."""

    def __enter__(self):
        self.start, self.busy, self.own = time.perf_counter(), busy_seconds(), self._own()
        return self

    @staticmethod
    def _own():
        usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def __exit__(self, *_):
        elapsed = time.perf_counter() - self.start
        others = (busy_seconds() - self.busy) - (self._own() - self.own)
        self.cores = max(0.0, others) / max(elapsed, 1e-9)


def wait_for_quiet(patience):
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        with Others() as others:
            time.sleep(0.5)
        if others.cores < QUIET:
            return
        time.sleep(1.0)


def run_once(side, name):
    """The rows of one run of a case in a fresh process."""
    case = CASES[name]
    environment = processes.child_environment(case.devices, side.environment)
    if case.process:
        return processes.measure(side.lib, name, side.python, environment, case.timeout)
    _, out, err, status = processes.spawn(
        side.python, [CHILD, side.lib, name], environment, case.timeout
    )
    rows = [json.loads(line[len(MARK) :]) for line in out.splitlines() if line.startswith(MARK)]
    if status and not any(row["metric"] == "" for row in rows):
        rows.append(failure("", (err.strip().splitlines() or ["died"])[-1]))
    return rows


def measure(name, sides, reps, extra, patience):
    """side -> the quietest `reps` runs of a case, each a pair (load of others, rows)."""
    runs = {side.name: [] for side in sides}
    if CASES[name].process:  # once uncounted, so that neither side pays for reading files from disk
        for side in sides:
            run_once(side, name)
    for repetition in range(reps + extra):
        quiet = [sum(load < QUIET for load, _ in done) for done in runs.values()]
        if repetition >= reps and min(quiet) >= reps:
            break
        for side in sides if repetition % 2 == 0 else sides[::-1]:
            wait_for_quiet(patience)
            with Others() as others:
                rows = run_once(side, name)
            runs[side.name].append((others.cores, rows))
    return {side: sorted(done, key=lambda run: run[0])[:reps] for side, done in runs.items()}


def summarise(runs):
    """The record of a case: medians and spread of every metric and side, failures, loads."""
    metrics, notes = {}, {side: {} for side in runs}
    for side, done in runs.items():
        values = {}
        for _, rows in done:
            for row in rows:
                if "note" in row:
                    notes[side][row["metric"]] = {k: row[k] for k in ("note", "absent")}
                else:
                    values.setdefault((row["metric"], row["unit"]), []).append(row["value"])
        for (metric, unit), found in values.items():
            record = metrics.setdefault(metric, {"unit": unit})
            record[side] = {
                "median": statistics.median(found),
                "least": min(found),
                "most": max(found),
                "runs": len(found),
            }
    loads = {
        side: round(statistics.median(run[0] for run in done), 2) for side, done in runs.items()
    }
    return {
        "date": datetime.date.today().isoformat(),
        "metrics": metrics,
        "failures": notes,
        "busy_elsewhere": loads,
    }


def show(name, record, sides, match):
    """Prints the figures of a case as soon as it is done."""
    for metric, figures in record["metrics"].items():
        full = f"{name}.{metric}"
        if match and match not in full:
            continue
        first = figures.get("A")
        line = f"{full:62s} {figures['unit']:8s} {report.number(first):>11s}"
        if len(sides) > 1:
            second = figures.get("B")
            ratio = report.ratio(first, second)
            line += f" {report.number(second):>11s} {report.number(ratio):>8s}"
        if first and first["least"] != first["most"]:
            line += f"   {report.number(first['least'])}..{report.number(first['most'])}"
        print(line)
    loads = ", ".join(f"{side} {load:.2f}" for side, load in record["busy_elsewhere"].items())
    print(f"  ({name}: cores kept busy by others meanwhile: {loads})")
    for side, failures in record["failures"].items():
        for metric, why in failures.items():
            kind = "not available yet" if why["absent"] else "failed"
            print(f"  ! {side} {name}.{metric} {kind}: {why['note']}")
    sys.stdout.flush()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lib", default="jax", help="the library to measure, A")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has it")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="for A's runs")
    parser.add_argument("--vs", help="the library to measure beside it, B")
    parser.add_argument("--vs-python", help="the interpreter that has B")
    parser.add_argument("--vs-env", action="append", default=[], metavar="K=V", help="for B's runs")
    parser.add_argument("--only", help="cases, separated by commas")
    parser.add_argument("--match", help="print only metrics that contain this")
    parser.add_argument("--reps", type=int, help="repetitions of every case")
    parser.add_argument("--patience", type=float, default=0, metavar="S",
                        help="wait up to S s for a quiet machine before each run")  # fmt: skip
    parser.add_argument("--extra", type=int, default=0,
                        help="up to so many more repetitions where others were busy;\n"
                        "the quietest count")  # fmt: skip
    parser.add_argument(
        "--report", metavar="NAME", help="keep the figures in NAME.json and NAME.md"
    )
    parser.add_argument("--list", action="store_true", help="show the cases and stop")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, case in CASES.items():
            print(f"{name:18s} devices={case.devices} reps={case.reps}  {case.summary}")
        return
    names = arguments.only.split(",") if arguments.only else list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"no case {unknown[0]!r}; there are: {', '.join(CASES)}")
    sides = [Side("A", arguments.lib, arguments.python, arguments.env)]
    if arguments.vs:
        python = arguments.vs_python or arguments.python
        sides.append(Side("B", arguments.vs, python, arguments.vs_env))

    described = {side.name: processes.versions(side.lib, side.python) for side in sides}
    print(f"# {datetime.date.today().isoformat()}  {report.machine()}")
    for side in sides:
        print(f"# {side.name} = {side.lib}: {described[side.name]}")
    print(f"{'case.metric':62s} {'unit':8s} {'A':>11s}"
          + (f" {'B':>11s} {'B/A':>8s}" if arguments.vs else "") + "   spread of A")  # fmt: skip
    for name in names:
        reps = arguments.reps or CASES[name].reps
        runs = measure(name, sides, reps, arguments.extra, arguments.patience)
        record = summarise(runs)
        record["versions"] = described
        show(name, record, sides, arguments.match)
        if arguments.report:  # after every case, so that an interrupted run keeps what it has
            libraries = {side.name: side.lib for side in sides}
            report.keep(arguments.report, name, record, libraries)
    if arguments.report:
        print(f"written: {arguments.report}.md")


if __name__ == "__main__":
    main()
