"""Runs parts of the test-suites that the libraries of the JAX ecosystem ship, on JAX and on weft.

python tests/ecosystem/suites.py --beside VENV/bin/python              # all libraries
python tests/ecosystem/suites.py --beside VENV/bin/python --only optax,chex

Tests are drawn by the hash of their names and run under real JAX; those that pass there run on
weft. The result stands in suites.json, and from there in docs/ecosystem.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import table
from suites_table import SUITES, WITHOUT_TESTS, Suite

import run

RESULTS = run.HERE / "suites.json"
KEPT = run.ROOT / "out" / "suites"
BEGIN, END = "<!-- suites begin -->", "<!-- suites end -->"
LIMIT_OF_A_TEST = 60
# After this many seconds no test is begun on JAX any more.
SECONDS = 120.0
LIMIT = 1500.0
# A process that dies is started anew without the test that it died in, this often at most.
STARTS = 6
# Tests are named that take so many times as long on weft.
SLOWER = 2.0


class SuiteFailed(Exception):
    """No test of a library could be run; the message says why."""


@dataclasses.dataclass
class Outcome:
    """How the tests of a library ended: outcomes, reasons and times by test, errors by file."""

    tests: dict[str, tuple[str, str]]
    files: dict[str, str]
    seconds: dict[str, float]

    def passed(self) -> list[str]:
        return sorted(name for name, (outcome, _) in self.tests.items() if outcome == "passed")

    def failure(self, name: str) -> str | None:
        """Why a test did not pass; None if it did."""
        if name not in self.tests:
            file = name.partition("::")[0]
            return self.files.get(file, "the test is not there")
        outcome, reason = self.tests[name]
        return None if outcome == "passed" else reason or outcome


def version_of(library: str) -> str:
    """The release that requirements.txt pins."""
    text = (run.HERE / "requirements.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(library)}==(\S+)$", text, re.MULTILINE)
    if found is None:
        raise SuiteFailed(f"{library} has no line in requirements.txt")
    return found[1]


def fetched(suite: Suite, python: str) -> pathlib.Path:
    """The folder with a library's tests out of its source distribution.

    Only the tests are unpacked, so that the library itself is the installed one.
    """
    version = version_of(suite.library)
    target = KEPT / f"{suite.library}-{version}"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as folder:
        command = [
            python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--no-binary", suite.library, "--dest", folder, f"{suite.library}=={version}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        archives = list(pathlib.Path(folder).glob("*.tar.gz"))
        if done.returncode or not archives:
            raise SuiteFailed(f"no source distribution: {done.stderr.strip()[-300:]}")
        with tarfile.open(archives[0]) as archive:
            for member in archive.getmembers():
                _, _, path = member.name.partition("/")
                if path.startswith(f"{suite.folder}/"):
                    member.name = path
                    archive.extract(member, target, filter="data")
    return target


def site_packages(python: str) -> pathlib.Path:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return pathlib.Path(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    )


def run_tests(
    suite: Suite, system: str, python: str, only: Sequence[str] | None, log: pathlib.Path,
    seconds: float = LIMIT,
) -> Outcome:  # fmt: skip
    """Runs drawn tests of a library, or the named ones, in processes of an interpreter."""
    base = fetched(suite, python) if suite.folder else site_packages(python)
    excluded = {path for pattern in suite.without for path in base.glob(pattern)}
    files = sorted({path for pattern in suite.files for path in base.glob(pattern)} - excluded)
    if not files:
        raise SuiteFailed("no files of tests")
    if only is not None:
        wanted = {name.partition("::")[0] for name in only}
        files = [path for path in files if str(path.relative_to(base)) in wanted]
    outcome = Outcome({}, {}, {})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for _ in range(STARTS):
            ended = run_once(suite, system, python, base, files, only, folder, log, seconds)
            results = folder / "result.jsonl"
            read_results(results, outcome)
            started = [test for test, (how, _) in outcome.tests.items() if how == "started"]
            if not started:
                break
            for test in started:
                outcome.tests[test] = ("failed", f"the process ended: {ended}")
            if only is None:
                break
            only = [test for test in only if test not in outcome.tests]
    if not outcome.tests:
        raise SuiteFailed("; ".join(outcome.files.values())[:300] or f"pytest: {ended}")
    return outcome


def run_once(
    suite: Suite, system: str, python: str, base: pathlib.Path, files: Sequence[pathlib.Path],
    only: Sequence[str] | None, folder: pathlib.Path, log: pathlib.Path,
    seconds: float,
) -> str:  # fmt: skip
    """One process of pytest; how it ended."""
    result = folder / "result.jsonl"
    variables = run.environment(system) | dict(suite.variables)
    variables |= {
        "SUITE_RESULT": str(result), "SUITE_COUNT": str(suite.count), "SUITE_SYSTEM": system,
        "SUITE_SECONDS": str(seconds), "PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    paths = [str(run.HERE), variables.get("PYTHONPATH", ""), str(base)]
    variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if only is not None:
        (folder / "only").write_text("\n".join(only) + "\n", encoding="utf-8")
        variables["SUITE_ONLY"] = str(folder / "only")
    command = [
        python, "-m", "pytest", "-q", "-p", "suite_plugin", "-p", "no:cacheprovider",
        "--continue-on-collection-errors", "--timeout", str(LIMIT_OF_A_TEST), "-c", os.devnull,
        "--rootdir", str(base), "--tb", "short", *suite.options, *map(str, files),
    ]  # fmt: skip
    try:
        with log.open("a", encoding="utf-8") as output:
            done = subprocess.run(
                command, env=variables, cwd=folder, timeout=LIMIT, stdout=output, stderr=output
            )
        return f"exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT:.0f} seconds"


def read_results(path: pathlib.Path, outcome: Outcome) -> None:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "file" in row:
            outcome.files[row["file"]] = row["reason"]
        else:
            outcome.tests[row["test"]] = (row["outcome"], row.get("reason") or "")
            outcome.seconds[row["test"]] = row.get("seconds", 0.0)


def compare(suite: Suite, python: str, other: str, again: bool, seconds: float) -> dict[str, Any]:
    """One library's row: how many tests pass on JAX, how many of these on weft, and the rest."""
    version = version_of(suite.library)
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{suite.library}-{version}-{suite.count}.seconds.json"
    logs = {system: KEPT / f"{suite.library}-{system}.log" for system in ("jax", "weft")}
    if kept.exists() and not again:
        passed = json.loads(kept.read_text(encoding="utf-8"))
    else:
        logs["jax"].unlink(missing_ok=True)
        on_jax = run_tests(suite, "jax", other, None, logs["jax"], seconds)
        passed = {name: on_jax.seconds[name] for name in on_jax.passed()}
        kept.write_text(json.dumps(passed, indent=0), encoding="utf-8")
    logs["weft"].unlink(missing_ok=True)
    found = run_tests(suite, "weft", python, list(passed), logs["weft"])
    print_slower(passed, found.seconds)
    failures = {name: found.failure(name) for name in passed}
    failures = {name: reason[:300] for name, reason in failures.items() if reason is not None}
    return {
        "version": version,
        "jax": len(passed),
        "weft": len(passed) - len(failures),
        "failures": failures,
    }


def print_slower(on_jax: Mapping[str, float], on_weft: Mapping[str, float]) -> None:
    """The tests that take seconds more on weft, and several times as long."""
    print(f"{sum(on_weft.values()):.0f} s on weft, {sum(on_jax.values()):.0f} s on JAX")
    for name, seconds in sorted(on_weft.items(), key=lambda item: -item[1]):
        if seconds > 1 + SLOWER * on_jax[name]:
            print(f"    {seconds:.1f} s, {on_jax[name]:.1f} s on JAX: {name}", flush=True)


def table_of(results: dict[str, Any]) -> str:
    """The rows of docs/ecosystem.md."""
    lines = [
        "| library | version | tests that pass on JAX | of these on weft | share | failures |",
        "|---|---|--:|--:|--:|---|",
    ]
    for library, row in sorted(results.items()):
        if "problem" in row:
            lines.append(f"| {library} | {row['version']} | | | | {row['problem']} |")
            continue
        share = 100.0 * row["weft"] / row["jax"] if row["jax"] else 0.0
        reasons: dict[str, int] = {}
        for reason in row["failures"].values():
            reason = in_a_cell(row.get("why", {}).get(reason, reason))
            reasons[reason] = reasons.get(reason, 0) + 1
        words = "; ".join(
            f"{count} × {reason}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1])
        )
        lines.append(
            f"| {library} | {row['version']} | {row['jax']} | {row['weft']} | {share:.1f} % "
            f"| {words} |"
        )
    total, ours = (
        sum(row.get(system, 0) for row in results.values()) for system in ("jax", "weft")
    )
    share = 100.0 * ours / total if total else 0.0
    lines.append(f"| all | | {total} | {ours} | {share:.1f} % | |")
    names = ", ".join(WITHOUT_TESTS)
    lines += ["", f"The releases of {names} on PyPI have no tests, or not what these import."]
    return "\n".join(lines)


def in_a_cell(reason: str) -> str:
    text = re.sub(r"\s+", " ", reason).replace("|", "/").replace("<", "&lt;")
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    return text if len(text) <= 110 else text[:109] + "…"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="libraries, separated by commas (all)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter with weft")
    parser.add_argument("--beside", required=True, metavar="PYTHON", help="one with JAX")
    parser.add_argument("--again", action="store_true", help="draw anew, on JAX too")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"for the drawn tests, on JAX ({SECONDS:g})"
    )
    args = parser.parse_args()
    args.python, args.beside = os.path.abspath(args.python), os.path.abspath(args.beside)
    names = [name for name in args.only.split(",") if name] or list(SUITES)
    if unknown := set(names) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in names:
        try:
            row = compare(SUITES[name], args.python, args.beside, args.again, args.seconds)
            print(f"{name:16s} {row['weft']} of {row['jax']}", flush=True)
        except SuiteFailed as problem:
            row = {"version": version_of(name), "problem": str(problem), "failures": {}}
            print(f"{name:16s} {problem}", flush=True)
        why = results.get(name, {}).get("why", {})
        if kept := {reason: why[reason] for reason in why if reason in row["failures"].values()}:
            row["why"] = kept
        results[name] = row
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    table.write_between(BEGIN, END, table_of(results))
    return sum("problem" in results[name] for name in names)


if __name__ == "__main__":
    sys.exit(main())
