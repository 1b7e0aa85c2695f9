"""Runs a main job of each library of the JAX ecosystem and compares what it computes.

python tests/ecosystem/run.py                           # on weft, in this environment, all jobs
python tests/ecosystem/run.py --only optax,flax_nnx
python tests/ecosystem/run.py --record --python VENV/bin/python   # real JAX: what is compared with
python tests/ecosystem/run.py --beside VENV/bin/python  # times of weft and of JAX, into times.json

Each job runs in a process of its own. The exit status is the number of jobs that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import outputs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOBS = HERE / "jobs"
RECORDED = HERE / "recorded"
TIMES = HERE / "times.json"
LIMIT = 600.0


class JobFailed(Exception):
    """A job ended with an error; the message is the end of what it printed."""


def run_job(job: str, system: str, python: str) -> dict[str, Any]:
    """One job's result in a fresh process of an interpreter.

    Raises:
        JobFailed: it ended with an error, or took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        command = [python, str(HERE / "run_job.py"), system, str(JOBS / f"{job}.py"), str(result)]
        # Nothing was compiled before: weft's cache is on, as for its users, and empty.
        cache = {"WEFT_CACHE_DIR": str(pathlib.Path(folder) / "cache")}
        try:
            done = subprocess.run(
                command, env=environment(system) | cache, cwd=folder, timeout=LIMIT,
                capture_output=True, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise JobFailed(f"took more than {LIMIT:.0f} seconds") from None
        if done.returncode or not result.exists():
            raise JobFailed(f"exit status {done.returncode}\n{done.stderr}")
        return {**json.loads(result.read_text(encoding="utf-8")), "stderr": done.stderr}


def environment(system: str) -> dict[str, str]:
    """The environment of a job: one CPU device, and weft's source where weft is asked for."""
    # Either finds its bytecode: pip has written that of what it installs.
    left_out = ("JAX_", "WEFT_", "XLA_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    kept |= {"JAX_PLATFORMS": "cpu"} if system == "jax" else {}
    return kept | ({"PYTHONPATH": str(ROOT)} if system == "weft" else {})


def all_jobs() -> list[str]:
    return sorted(path.stem for path in JOBS.glob("*.py"))


def record(jobs: Sequence[str], python: str) -> int:
    """Keeps what the jobs return under real JAX; how many failed."""
    failed = 0
    for job in jobs:
        try:
            result = run_job(job, "jax", python)
        except JobFailed as problem:
            print(f"{job:24s} {str(problem)[-2000:]}", flush=True)
            failed += 1
            continue
        kept = {name: result[name] for name in ("library", "version", "outputs")}
        path = RECORDED / f"{job}.json"
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"{job:24s} {in_words(result['seconds'])}", flush=True)
    return failed


def in_words(seconds: dict[str, float | None]) -> str:
    parts = [f"{name} {value:.4g} s" for name, value in seconds.items() if value is not None]
    return ", ".join(parts)


def check(job: str, python: str, verbose: bool) -> tuple[bool, str, dict[str, Any]]:
    """Whether a job's numbers under weft are the recorded ones, and a line about it."""
    path = RECORDED / f"{job}.json"
    if not path.exists():
        return False, "nothing recorded", {}
    try:
        result = run_job(job, "weft", python)
    except JobFailed as problem:
        text = str(problem).rstrip()
        return False, text if verbose else text.splitlines()[-1][:200], {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    found = outputs.compare(kept["outputs"], result["outputs"], result["tolerance"])
    result["difference"], result["equal"] = found.difference, found.equal
    if kept["version"] != result["version"]:
        return False, f"version {result['version']}, recorded {kept['version']}", result
    if found.problems:
        return False, "; ".join(found.problems), result
    return True, "equal" if found.equal else f"within {found.difference:.1e}", result


def check_all(jobs: Sequence[str], python: str, verbose: bool) -> int:
    failed = 0
    for job in jobs:
        passed, line, result = check(job, python, verbose)
        failed += not passed
        words = in_words(result["seconds"]) if result else ""
        print(f"{job:24s} {'ok  ' if passed else 'FAIL'} {line}  {words}", flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return failed


def beside(jobs: Sequence[str], python: str, other: str, repeats: int) -> int:
    """Runs the jobs on weft and on JAX in turns and keeps the least times of each."""
    kept = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    for job in jobs:
        row: dict[str, Any] = {"runs": False}
        least: dict[str, dict[str, float]] = {"weft": {}, "jax": {}}
        for _ in range(repeats):
            passed, line, result = check(job, python, verbose=False)
            row |= {"runs": passed, "result": line}
            row |= {name: result[name] for name in ("library", "version") if result}
            try:
                reference = run_job(job, "jax", other)
            except JobFailed as problem:
                print(f"{job:24s} JAX: {str(problem)[-300:]}")
                continue
            for system, one in (("weft", result), ("jax", reference)):
                for name, value in one.get("seconds", {}).items():
                    if value is not None:
                        least[system][name] = min(value, least[system].get(name, value))
            row |= {name: reference[name] for name in ("library", "version")}
        kept[job] = row | {"seconds": least}
        TIMES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{job:24s} {row.get('result')}  weft: {in_words(least['weft'])}", flush=True)
        print(f"{'':24s} {'':5s} jax: {in_words(least['jax'])}", flush=True)
    return sum(not kept[job]["runs"] for job in jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="jobs, separated by commas (all)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs them")
    parser.add_argument("--record", action="store_true", help="keep real JAX's numbers")
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter with JAX: compare times")
    parser.add_argument("--repeats", type=int, default=3, help="how often times are taken (3)")
    parser.add_argument("--verbose", action="store_true", help="whole tracebacks")
    args = parser.parse_args()
    # Each job runs in a folder of its own, where a path relative to this one leads nowhere.
    args.python = os.path.abspath(args.python)
    args.beside = args.beside and os.path.abspath(args.beside)
    jobs = [name for name in args.only.split(",") if name] or all_jobs()
    unknown = set(jobs) - set(all_jobs())
    if unknown:
        parser.error(
            f"no such job: {', '.join(sorted(unknown))}; there are {', '.join(all_jobs())}"
        )
    if args.record:
        return record(jobs, args.python)
    if args.beside:
        return beside(jobs, args.python, args.beside, args.repeats)
    return check_all(jobs, args.python, args.verbose)


if __name__ == "__main__":
    sys.exit(min(main(), 100))
