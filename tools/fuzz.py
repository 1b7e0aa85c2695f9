"""Runs random programs for a given time: the Hypothesis tests of the suite, with new seeds.

python tools/fuzz.py --seconds 600                  # every family, for the same time each
python tools/fuzz.py --family misuse --seconds 60   # one family; a test of it with --test
python tools/fuzz.py --family misuse --test test_functions_return_or_refuse --seed 7   # one round
python tools/fuzz.py --seconds 600 --seed 1000      # first round with this seed
python tools/fuzz.py --family compiler --seconds 3600 --jobs 2 --ledger build/compiler.txt

A round is `ROUND` programs drawn from one seed. Hypothesis makes what fails smaller, and it is
printed with the command that runs it again. Each test runs in a process of its own, with a limit of
memory: a program that ends the process, or that does not end, is printed too, as it was drawn. The
last lines say how many programs ran. Continuous integration runs the rounds of
tests/support/fuzz_corpus.txt.

A test with a function `from_seed` draws its programs itself, the k-th one from the number k, makes
a failing one smaller itself, and goes on. With --ledger its rounds are counted in a file: those of
the file are not run again, so that runs in several sittings add up.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The file of tests of each family; every Hypothesis test of a file belongs to its family.
FAMILIES = {
    "misuse": "tests/composition/test_random_misuse.py",
    "programs": "tests/composition/test_random_programs.py",
    "control": "tests/composition/test_random_control.py",
    "shard_map": "tests/spmd/test_shard_map_random.py",
    "partitioned": "tests/lowering/test_partitioned_random.py",
    "indexing": "tests/numpy/test_numpy_indexing.py",
    "hidden-state": "tests/tracing/test_hidden_state.py",
    "jaxprs": "tests/core/test_shared_jaxprs.py",
    "threads": "tests/composition/test_random_threads.py",
    "compiler": "tests/composition/test_random_compiler.py",
    "crafted-exports": "tests/export/test_crafted_exports.py",
    "crafted-checkpoints": "tests/checkpoints/test_crafted_checkpoints.py",
}
CORPUS = ROOT / "tests" / "support" / "fuzz_corpus.txt"
# How many programs are drawn from one seed.
ROUND = 50
MEMORY = 16 * 2**30
# After so long without a new program, the one that runs is taken not to end.
PATIENCE = 180.0


def tests_of(family: str) -> dict[str, Callable[[], None]]:
    """The tests of a family that draw programs, by name."""
    path = ROOT / FAMILIES[family]
    own = {str(ROOT / "tests"), str(ROOT / "tests" / "support"), str(path.parent)}
    sys.path[:0] = own - {*sys.path}
    if "weft" not in sys.modules:
        importlib.import_module("conftest")  # the settings of tests, before weft is imported
    module = importlib.import_module(path.stem)
    found = {name: getattr(module, name) for name in dir(module) if name.startswith("test_")}
    drawing = ("hypothesis", "from_seed")
    return {name: test for name, test in found.items() if any(hasattr(test, d) for d in drawing)}


def run_round(
    test: Any, seed: int, count: int = ROUND, before: Callable[[Any], None] | None = None
) -> int:
    """Runs a Hypothesis test with `count` programs drawn from a seed, and returns how many ran.

    before: called with the arguments of each program before it runs. Raises what the test raises,
    with the smallest program that Hypothesis finds in the notes of the error.
    """
    if hasattr(test, "from_seed"):
        ran, failed = run_numbered(test, seed, count, before)
        if failed:
            raise AssertionError("\n\n".join(failed))
        return ran
    drawn, inner = 0, test.hypothesis.inner_test

    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal drawn
        drawn += 1
        if before is not None:
            before(args or kwargs)
        inner(*args, **kwargs)

    chosen = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    # A test takes settings and a seed once; these are to stand in the place of its own.
    own = test._hypothesis_internal_use_settings
    test._hypothesis_internal_use_settings = chosen
    test._hypothesis_internal_use_seed = seed
    test.hypothesis.inner_test = counted
    try:
        test()
    finally:
        test.hypothesis.inner_test = inner
        test._hypothesis_internal_use_settings = own
        test._hypothesis_internal_use_seed = None
    return drawn


def run_numbered(
    test: Any, seed: int, count: int = ROUND, before: Callable[[Any], None] | None = None
) -> tuple[int, list[str]]:
    """Runs a round of a test that draws from numbers: how many programs ran, and what failed.

    A program that it leaves out, because it cannot be judged, does not count.
    """
    ran, failed = 0, []
    for number in range(seed * ROUND, seed * ROUND + count):
        if before is not None:
            before(number)
        try:
            ran += test.from_seed(number)
        except AssertionError as problem:
            ran += 1
            failed.append(f"program {number}:\n{problem}")
    return ran, failed


def rounds_done(ledger: pathlib.Path | None, name: str) -> dict[int, int]:
    """The seeds of a test that a ledger has, with the numbers of programs that ran."""
    if ledger is None or not ledger.exists():
        return {}
    rows = [line.split() for line in ledger.read_text(encoding="utf-8").splitlines()]
    return {int(seed): int(count) for test, seed, count in rows if test == name}


def corpus() -> Iterator[tuple[str, str, int, int]]:
    """(family, test, seed, number of programs) of the rounds that continuous integration runs."""
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            family, test, seed, count = line.split()
            yield family, test, int(seed), int(count)


def work(options: argparse.Namespace) -> int:
    """What the process of one test does: rounds until the time is over. Returns an exit status."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    test, notes, seed = tests_of(options.family)[options.test], options.work, options.seed
    clear_caches = importlib.import_module("weft").clear_caches
    end, total, failures = time.monotonic() + options.seconds, 0, 0
    done = rounds_done(options.ledger, options.test)

    def note(values: Any) -> None:
        notes.write_text(f"{seed} {values!r}", encoding="utf-8")

    while True:
        while seed in done:
            seed += options.jobs
        failed: list[str] = []
        if hasattr(test, "from_seed"):
            ran, failed = run_numbered(test, seed, before=note)
        else:
            ran = run_round(test, seed, before=note)
        total, failures = total + ran, failures + len(failed)
        print(json.dumps({"programs": total, "seed": seed, "failed": failed}), flush=True)
        if options.ledger is not None:
            with options.ledger.open("a", encoding="utf-8") as stream:
                stream.write(f"{options.test} {seed} {ran}\n")
        seed += options.jobs
        if time.monotonic() > end:
            return 0
        if total % (10 * ROUND) < ROUND:
            clear_caches()  # each compiled program keeps mappings of memory


def watch(
    family: str, name: str, options: argparse.Namespace, seed: int, seconds: float
) -> tuple[int, str | None]:
    """Runs one test in processes of its own: how many programs ran, and what failed, as a text."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        jobs = [
            threads.submit(watch_one, family, name, options, seed + job, seconds)
            for job in range(options.jobs)
        ]
        found = [job.result() for job in jobs]
    problems = [problem for _, problem in found if problem is not None]
    return sum(programs for programs, _ in found), "\n\n".join(problems) or None


def watch_one(
    family: str, name: str, options: argparse.Namespace, seed: int, seconds: float
) -> tuple[int, str | None]:
    """Runs one test in a process of its own: how many programs ran, and what failed, as a text."""
    with tempfile.TemporaryDirectory() as folder:
        notes, out, err = (pathlib.Path(folder, part) for part in ("notes", "out", "err"))
        notes.write_text("")
        arguments = ["--work", str(notes), "--family", family, "--test", name]
        arguments += ["--seed", str(seed), "--seconds", str(seconds), "--jobs", str(options.jobs)]
        arguments += ["--ledger", str(options.ledger.resolve())] if options.ledger else []
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, __file__, *arguments], stdout=stdout, stderr=stderr, cwd=ROOT
            )
        ended = wait(process, notes)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        last = lines[-1] if lines else {"programs": 0, "seed": seed - options.jobs}
        failed = [text for line in lines for text in line["failed"]]
        if ended == 0:
            return last["programs"], "\n\n".join(failed) or None
        following = last["seed"] + options.jobs
        again = f"make fuzz ARGS='--family {family} --test {name} --seed {following}'"
        if ended is None:
            said = f"this program did not end within {PATIENCE:.0f} s:\n{notes.read_text()}"
        elif ended < 0 or "test case" not in err.read_text() + out.read_text():
            said = f"the process ended with status {ended} after:\n{notes.read_text()}\n"
            said += err.read_text()[-3000:]
        else:
            said = err.read_text()[-6000:]
        return last["programs"], "\n\n".join([*failed, f"{said}\nagain: {again}"])


def wait(process: subprocess.Popen[bytes], notes: pathlib.Path) -> int | None:
    """The exit status of a process; None if it was ended because one program took too long."""
    before, since = "", time.monotonic()
    while process.poll() is None:
        time.sleep(0.1)
        now = notes.read_text()
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            process.kill()
            process.wait()
            return None
    return process.returncode


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="how long in all; one round each without it")
    parser.add_argument("--family", choices=FAMILIES, help="one family, of all")
    parser.add_argument("--test", help="one test of the family")
    parser.add_argument("--seed", type=int, help="the seed of the first round; else a random one")
    parser.add_argument("--jobs", type=int, default=1, help="processes of each test at once")
    parser.add_argument("--ledger", type=pathlib.Path, help="the file that counts rounds")
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if options.work is not None:
        return work(options)
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    if options.ledger is not None:
        options.ledger.parent.mkdir(parents=True, exist_ok=True)
        seed = options.seed or 0
    families = FAMILIES if options.family is None else [options.family]
    every = [(f, name) for f in families for name in tests_of(f) if options.test in (None, name)]
    if not every:
        print(f"no test is named {options.test} in {', '.join(families)}")
        return 2
    # Each family has the same time, and so has each test of it.
    share = {f: (options.seconds or 0) / len(families) for f in families}
    counts, failed = dict.fromkeys(families, 0), 0
    for family, name in every:
        seconds = share[family] / sum(f == family for f, _ in every)
        programs, problem = watch(family, name, options, seed, seconds)
        counts[family] += programs
        print(f"{family:14} {programs:7} programs  {name}", flush=True)
        if problem is not None:
            failed += 1
            print(problem, flush=True)
    print(f"{sum(counts.values())} programs from seed {seed}: {failed or 'none'} failed")
    print(", ".join(f"{family} {count}" for family, count in counts.items()))
    for _, name in every if options.ledger else []:
        print(f"{sum(rounds_done(options.ledger, name).values())} programs of {name} in the ledger")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
