"""The benchmark driver and its report: every case is listed, and nothing measured is left out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from processes import python_output
from source_files import ROOT

pytestmark = pytest.mark.fast

FOLDER = ROOT / "benchmarks"


def run(*arguments):
    """A script of benchmarks/ in a process of its own, as `make bench` runs it."""
    return python_output(*arguments, timeout=None, cwd=ROOT)


def record(metrics, failures):
    return {
        "date": "2026-01-01",
        "machine": "a machine",
        "versions": {"A": "jax 1", "B": "weft 1"},
        "busy_elsewhere": {"A": 0.0, "B": 0.0},
        "metrics": metrics,
        "failures": failures,
    }


def figure(value):
    return {"median": value, "least": value, "most": value, "runs": 1}


@pytest.fixture
def report(tmp_path):
    """Renders cases of a made-up run and answers with the rows of its tables, by first cell."""

    def render(cases):
        kept = {"libraries": {"A": "jax", "B": "weft"}, "cases": cases}
        (tmp_path / "results.json").write_text(json.dumps(kept))
        run(FOLDER / "report.py", tmp_path / "results")
        text = (tmp_path / "results.md").read_text(encoding="utf-8")
        rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
        return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}

    return render


def test_the_driver_lists_every_case():
    listed = {line.split()[0] for line in run(FOLDER / "run.py", "--list").splitlines()}
    assert {"import_time", "eager_ops", "trace", "shard_eager", "shard_trace"} <= listed
    assert {"shard_eager_bodies", "transfer_sharded"} <= listed


def test_an_unknown_case_is_refused():
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", "--only", "no_such_case"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "no_such_case" in done.stderr and "eager_ops" in done.stderr


def test_ratios_stand_beside_goals(report):
    metrics = {
        "wall": {"unit": "s", "A": figure(1.0), "B": figure(0.25)},
        "peak_rss": {"unit": "MiB", "A": figure(100.0), "B": figure(90.0)},
    }
    rows = report({"import_time": record(metrics, {"A": {}, "B": {}})})
    assert rows["wall"][3:] == ["0.25", "≤ 0.5, later 0.3", "reached"]
    assert rows["peak_rss"][3:] == ["0.9", "≤ 0.7", "not reached"]
    assert rows["start to first jitted result"][1] == "not measured"


def test_more_is_better_for_rates(report):
    figures = {"unit": "GB/s", "A": figure(1.0), "B": figure(2.0)}
    metrics = {"256MB.array_copy": figures, "256MB.device_put_unaligned": figures}
    rows = report({"transfer": record(metrics, {"A": {}, "B": {}})})
    assert rows["256MB.array_copy"][3] == "2"
    assert rows["256MB.device_put_unaligned"][4:] == ["later ≥ 3", "not reached"]


def test_failures_are_shown(report):
    metrics = {
        "x+y.async": {"unit": "us", "A": figure(1.0)},
        "jnp.sin.async": {"unit": "us", "A": figure(1.0)},
    }
    failures = {
        "A": {},
        "B": {
            "x+y": {"note": "ValueError: a | b", "absent": False},
            "jnp.sin": {"note": "module 'weft.numpy' has no attribute 'sin'", "absent": True},
            "only_here": {"note": "KeyError: 1", "absent": False},
        },
    }
    rows = report({"eager_ops": record(metrics, failures)})
    assert rows["x+y.async"][2:] == [
        "**failed**: ValueError: a \\| b", "–", "≤ 1.3, later 1", "not reached",
    ]  # fmt: skip
    assert rows["jnp.sin.async"][2].startswith("not available yet") and "only_here" in rows


def test_the_readme_shows_the_figures_that_are_kept():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = """if True:
        import json, pathlib, sys
        sys.path.insert(0, "benchmarks")
        import report
        data = json.loads(pathlib.Path("benchmarks/results.json").read_text(encoding="utf-8"))
        assert len(report.goal_rows(data, report.README_ROWS)) == 5
        sys.stdout.write(report.with_figures(sys.stdin.read(), data))
    """
    assert python_output("-c", program, cwd=ROOT, input=text) == text
