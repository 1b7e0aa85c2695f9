"""Keeps the figures of benchmark runs and shows them as Markdown, beside the goals.

    python benchmarks/report.py benchmarks/results            # results.md from results.json anew
    python benchmarks/report.py benchmarks/results --readme   # and five rows into README.md

Nothing is left out: what failed is shown as failed, what a library does not have yet as not
available, what was never measured as not measured.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re

from cases import CASES
from goals import GOALS, goal_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
MORE_IS_BETTER = ("GB/s",)
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def machine():
    """The machine in a line: processor, cores, memory, system."""
    processor = platform.processor() or platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = models[0] if models else processor
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages / 2**30:.0f} GiB"
    except (OSError, ValueError):
        memory = ""
    return f"{processor}, {os.cpu_count()} cores{memory}, {platform.system()}"


def number(value):
    """A figure (or its record) in at most four significant digits; a dash for none."""
    if isinstance(value, dict):
        value = value["median"]
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value)}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def ratio(first, second):
    """B / A of two records, or None."""
    if not first or not second or not first["median"]:
        return None
    return second["median"] / first["median"]


def in_favour(value, unit):
    """A ratio turned so that below 1 is better."""
    return 1 / value if value and unit in MORE_IS_BETTER else value


def why_missing(record, side, metric):
    """`failed: …` or `not available yet`, from the failure of the part the metric belongs to."""
    failures = record["failures"].get(side, {})
    parts = [name for name in failures if name == "" or (metric + ".").startswith(name + ".")]
    if not parts:
        return "–"
    why = failures[max(parts, key=len)]
    text = why["note"].replace("|", "\\|")
    return f"not available yet ({text})" if why["absent"] else f"**failed**: {text}"


def verdict(goal, value, own):
    """Whether a goal is reached: by the ratio, or by weft's own figure."""
    reached = own if goal.absolute else value
    if reached is None:
        return "not reached"
    bounds = [("now", goal.now), ("in the end", goal.later)]
    met = [name for name, bound in bounds if bound is not None and reached <= bound]
    if "in the end" in met:
        return "reached"
    return "reached for now" if met else "not reached"


def goal_text(goal):
    """`≤ 0.5, later 0.3`."""
    mark = " (itself)" if goal.absolute else ""
    if goal.now is None:
        return f"later ≤ {goal.later:g}{mark}"
    if goal.now == goal.later:
        return f"≤ {goal.now:g}{mark}"
    return f"≤ {goal.now:g}, later {goal.later:g}{mark}"


def row(full_name, label, metric, record):
    """One line of a table: label, unit, A, B, ratio, goal, verdict."""
    figures = record["metrics"].get(metric, {"unit": ""})
    first, second = figures.get("A"), figures.get("B")
    unit = figures["unit"]
    cells = [label, unit]
    for side, value in (("A", first), ("B", second)):
        cells.append(number(value) if value else why_missing(record, side, metric))
    value = ratio(first, second)
    compared = "B" in record["failures"]  # every measured side has its list there
    goal = goal_of(full_name) if compared else None
    turned = in_favour(value, unit)
    own = second["median"] if second else None
    if goal and goal.absolute and unit in MORE_IS_BETTER:
        text, state = f"later ≥ {goal.later:g}", _at_least(own, goal.later)
    else:
        text = goal_text(goal) if goal else ""
        state = verdict(goal, turned, own) if goal else ""
    return [*cells, number(value), text, state]


def _at_least(own, bound):
    return "reached" if own is not None and own >= bound else "not reached"


def table(header, rows):
    """Markdown lines of a table whose figures stand right."""
    align = ["---", "---", "--:", "--:", "--:", "---", "---"]
    lines = [header, align[: len(header)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


# The goals that stand for all in README.md.
README_ROWS = (
    "import_time.wall",
    "jit_dispatch.scalar_array.1arg.async",
    "trace.a3_chain5000_grad.warm",
    "steady.mlp_sgd",
    "reverse_memory.scan1000_grad.temp",
)


def summary(data, header):
    """The goals of today, a line each."""
    return table(header, goal_rows(data))


def goal_rows(data, names=None):
    """The cells of the goals of today, or of those with these names."""
    rows = []
    for name, goal in GOALS.items():
        if not goal.summary or (names is not None and name not in names):
            continue
        case = name.partition(".")[0]
        record = data["cases"].get(case)
        if record is None:
            rows.append(
                [goal.summary, "", "not measured", "not measured", "–", goal_text(goal), ""]
            )
            continue
        metrics = [m for m in record["metrics"] if f"{case}.{m}".startswith(name)]
        metric = min(metrics, key=_preference, default=name.partition(".")[2].rstrip("."))
        rows.append(row(f"{case}.{metric}", goal.summary, metric, record))
    return rows


def _preference(metric):
    """Which of several metrics of a goal stands for it: per equation, or without waiting."""
    order = ("warm_per_eqn", "warm_per_op", ".async", "")
    return next(i for i, word in enumerate(order) if word in metric), len(metric)


def machines(data):
    """The machines on which the cases were measured."""
    return " and ".join(dict.fromkeys(record["machine"] for record in data["cases"].values()))


def render(data):
    """The whole report as Markdown."""
    a, b = data["libraries"]["A"], data["libraries"].get("B", "")
    header = ["what", "unit", a, b, f"{b} / {a}", "goal", ""]
    lines = [
        f"# {b} beside {a}" if b else f"# {a}",
        "",
        f"Measured on {machines(data)}. Every figure is the median over fresh processes that",
        "take turns between the two libraries; a ratio below 1 says that the second is faster or",
        "smaller (for GB/s, above 1). `make bench` writes this page; the goals stand in",
        "benchmarks/goals.py.",
        "",
        "## The goals of today",
        "",
        *summary(data, header),
    ]
    for name, case in CASES.items():
        record = data["cases"].get(name)
        lines += ["", f"## {name}", ""]
        if case.summary:
            lines += [case.summary, ""]
        if record is None:
            lines += ["Not measured."]
            continue
        loads = ", ".join(f"{load:g}" for load in record["busy_elsewhere"].values())
        versions = "; ".join(record["versions"].values())
        where = f"{record['date']}, {record['machine']}"
        lines += [f"{where}: {versions}. Cores kept busy by others: {loads}.", ""]
        metrics = list(record["metrics"])
        metrics += [m for m in _failed_parts(record) if m not in metrics]
        lines += table(header, [row(f"{name}.{m}", m or "(all)", m, record) for m in metrics])
    return "\n".join(lines) + "\n"


def _failed_parts(record):
    """Parts of which neither library has a figure, so that no row would show the failure."""
    names = {name for failures in record["failures"].values() for name in failures}
    return sorted(
        name for name in names if not any((m + ".").startswith(name + ".") or not name
                                          for m in record["metrics"])
    )  # fmt: skip


def keep(path, case, record, libraries):
    """Puts the record of one case into PATH.json and writes PATH.md anew."""
    file = pathlib.Path(path + ".json")
    data = json.loads(file.read_text()) if file.exists() else {}
    if data.get("libraries") != libraries:  # Figures of others say nothing beside these.
        data = {"libraries": libraries, "cases": {}}
    # The figures of a case are compared with one another only, so each may have its machine.
    data["cases"][case] = _rounded({"machine": machine(), **record})
    text = json.dumps(data, indent=1)
    # One line for the figures of one library, so that a new run is a readable change.
    text = re.sub(r"\{[^{}]*\}", lambda found: " ".join(found.group().split()), text)
    file.write_text(text + "\n")
    write(path, data)


def _rounded(value):
    """Figures to six significant digits: the rest is noise and would fill the history."""
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, float) and value and math.isfinite(value):
        return round(value, 5 - math.floor(math.log10(abs(value))))
    return value


def write(path, data):
    """Writes PATH.md."""
    pathlib.Path(path + ".md").write_text(render(data), encoding="utf-8")


def with_figures(text, data):
    """The text of README.md with its table of figures, between two marks, from kept ones."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"README.md lacks the marks {BEGIN} and {END}")
    a, b = data["libraries"]["A"], data["libraries"].get("B", "")
    header = ["", "unit", a, b, f"{b} / {a}"]
    lines = table(header, [cells[: len(header)] for cells in goal_rows(data, README_ROWS)])
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + after


def main():
    """Writes the report from kept figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="NAME of NAME.json")
    parser.add_argument("--readme", action="store_true", help="copy five rows into README.md")
    arguments = parser.parse_args()
    data = json.loads(pathlib.Path(arguments.path + ".json").read_text())
    write(arguments.path, data)
    if arguments.readme:
        readme = ROOT / "README.md"
        readme.write_text(with_figures(readme.read_text(encoding="utf-8"), data), encoding="utf-8")


if __name__ == "__main__":
    main()
