"""Runs one job of the ecosystem in this process: `run_job.py SYSTEM JOB.py RESULT.json`.

SYSTEM is `jax`, the package as installed, or `weft`, which answers for `jax` then. The result holds
what the job returned and how long import, first step and later steps took.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import outputs


class Timed:
    """Wraps a job's steps: each call ends when its result is there, and is timed."""

    def __init__(self) -> None:
        self.seconds: list[list[float]] = []

    def __call__(self, step: Callable[..., Any]) -> Callable[..., Any]:
        import jax  # whichever system answers for it

        durations: list[float] = []
        self.seconds.append(durations)

        def timed_step(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = jax.block_until_ready(step(*args, **kwargs))
            durations.append(time.perf_counter() - start)
            return result

        return timed_step

    def first(self) -> float | None:
        """How long the first calls took, all wrapped functions together."""
        return sum(one[0] for one in self.seconds if one) if any(self.seconds) else None

    def steady(self) -> float | None:
        """How long later calls take: the sum of the medians."""
        later = [one[1:] for one in self.seconds if len(one) > 1]
        return sum(statistics.median(one) for one in later) if later else None


def load(path: pathlib.Path) -> types.ModuleType:
    """The module of a job, under a name that hides no library."""
    name = f"ecosystem_job_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(system: str, path: pathlib.Path) -> dict[str, Any]:
    """A job's outputs and times; `jax` is imported from `system`."""
    start = time.perf_counter()
    if system == "weft":
        importlib.import_module("weft.as_jax")
    job = load(path)
    imported = time.perf_counter()
    timed = Timed()
    found = job.main(timed)
    done = time.perf_counter()
    return {
        "library": job.DISTRIBUTION,
        "version": importlib.metadata.version(job.DISTRIBUTION),
        "tolerance": getattr(job, "TOLERANCE", outputs.TOLERANCE),
        "seconds": {
            "import": imported - start,
            "first": timed.first(),
            "steady": timed.steady(),
            "main": done - imported,
        },
        "outputs": {name: outputs.summary(value) for name, value in found.items()},
    }


if __name__ == "__main__":
    system, job_path, result_path = sys.argv[1:]
    result = run(system, pathlib.Path(job_path))
    pathlib.Path(result_path).write_text(json.dumps(result), encoding="utf-8")
