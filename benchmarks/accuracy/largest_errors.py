"""The largest error of every elementwise function and its derivative, in ulp: docs/accuracy.md.

    largest_errors.py --python PY --beside JAX_PY   # what is not recorded yet
    largest_errors.py ... --stride 1 --again        # all inputs of float32
    largest_errors.py ... --only sinc --dtypes float32,float64
    largest_errors.py ... --at-worst      # the others, where weft's error is largest of all inputs

A row is a function, or its derivative by an argument, at one dtype. Each row is recorded when it is
done, so that a run that ends can go on. Errors are distances from a reference with more digits (see
`float_references`), in units in the last place of the dtype at the reference. NaN in place of a
number is an infinite error, and infinity counts as the number that would follow the largest one. A
reference below the smallest normal number is met by 0: XLA's code for CPUs has no smaller numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import float_points as points
import ml_dtypes
import numpy as np
from elementwise_table import BINARY, UNARY, Unary
from float_references import Double, exact_namespace

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
# A library that takes longer for one batch of numbers, in seconds, is taken not to end.
PATIENCE = 120.0
DTYPES = ("float32", "bfloat16", "float16", "float64")
# Bits of the significand, the exponent of the smallest normal number, and that of the number that
# would follow the largest one.
FORMATS = {
    "float16": (11, -14, 16), "bfloat16": (8, -126, 128), "float32": (24, -126, 128),
    "float64": (53, -1022, 1024),
}  # fmt: skip
LIBRARIES = ("weft", "jax", "numpy")


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class EndlessError(Exception):
    """A function did not end within `PATIENCE` seconds."""


class Evaluator:
    """A process that evaluates functions of one library."""

    def __init__(self, python, library, folder):
        self.folder, self.library = folder, library
        self.command = [python, str(HERE / "evaluate.py"), library]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, name, by, dtype, inputs):
        """The results as float64; None if the library has no such function. Raises EndlessError."""
        out = str(self.folder / f"{self.library}.npy")
        task = {"name": name, "by": by, "dtype": dtype, "inputs": inputs, "out": out}
        print(json.dumps(task), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready:
            self.process.kill()
            self.process.wait()
            self.start()
            raise EndlessError
        answer = self.process.stdout.readline().strip()
        if answer != "done":
            return None if answer else sys.exit(f"the process of {self.library} ended at {task}")
        return np.load(out).view(dtype_of(dtype)).astype(np.float64)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def errors(results, references, dtype):
    """The errors of results in ulp, given references in float64."""
    bits, least, most = FORMATS[dtype]
    size = np.abs(references)
    # Infinity is as far away as the number that would follow the largest one.
    following = np.ldexp(1.0, most) if most < 1024 else np.finfo("float64").max
    _, exponent = np.frexp(np.where(np.isfinite(size), np.minimum(size, following), following))
    exponent = np.where(size == 0, least, np.minimum(exponent, most))
    ulp = np.ldexp(1.0, np.maximum(exponent, least + 1) - bits)
    near = np.where(np.isinf(results), np.copysign(following, results), results)
    found = np.abs(near - np.clip(references, -following, following)) / ulp
    same = (results == references) | (np.isnan(results) & np.isnan(references))
    same |= (size < np.ldexp(1.0, least) * (1 + 2.0 ** (4 - bits))) & (results == 0)
    found = np.where(same, 0.0, found)
    return np.where(np.isnan(found), np.inf, found)


def batches(row, dtype, stride):
    """The batches of inputs of a row, and how much of all inputs they are."""
    if isinstance(row, Unary):
        if dtype in ("float16", "bfloat16"):
            return lambda: [(points.all_halves(dtype_of(dtype)),)], "all"
        if dtype == "float32":
            near = points.dense("float32", row.near, 256, 200_000)

            def every():
                if stride > 1:
                    yield (near,)
                for chunk in range(points.strided_chunks(stride)):
                    yield (points.strided(stride, chunk),)

            if stride == 1:
                return every, "all"
            return every, f"every {stride}th, and {near.size:,} near powers of 2 and special points"
        near = points.dense("float64", row.near, 1, 2000)
        # Each takes some 100 microseconds: fewer of the neighbours of powers of two.
        chosen = np.random.default_rng(1).choice(near, 3000, replace=False)
        special = points.dense("float64", row.near, 3, 0)[-8 * (len(row.near) + 2) :]
        near = np.unique(np.concatenate([chosen, special]))
        return lambda: [(near,)], f"{near.size:,}"
    count = {"float32": 1 << 20, "float64": 1500}.get(dtype, 1 << 19)
    pairs = points.dense_pairs(dtype_of(dtype), count)
    return lambda: [pairs], f"{pairs[0].size:,} pairs"


def measured(row, by, dtype, evaluators, stride, folder):
    """What is recorded of a row: by library the largest error and where it is."""
    expression = row.value if by is None else derivatives_of(row)[by]
    make, covered = batches(row, dtype, stride)
    worst = {}
    for xs in make():
        files = []
        for number, x in enumerate(xs):
            files.append(str(folder / f"x{number}.npy"))
            np.save(files[-1], x.view(f"u{x.dtype.itemsize}"))
        want = Reference(expression, xs, dtype, by)
        for library, evaluate in evaluators.items():
            if library in worst and math.isnan(worst[library][0]):
                continue
            try:
                got = evaluate(row.name, by, dtype, files)
            except EndlessError:
                worst[library] = [math.nan, [], math.nan, math.nan]
                continue
            if got is None:
                continue
            found = want.errors(got)
            place = int(np.argmax(found))
            if library not in worst or found[place] > worst[library][0]:
                at = [float(x[place]) for x in xs]
                worst[library] = [float(found[place]), at, float(got[place]), want.shown(place)]
    return {"covered": covered, "worst": worst}


def is_compared(xs, values, by):
    """Which of the references, to inputs of narrow dtypes, count."""
    xs = [x.astype(np.float64) for x in xs]
    if by is not None:  # at finite points where there is one
        return np.isfinite(values) & np.all([np.isfinite(x) for x in xs], axis=0)
    return ~(np.any([np.isinf(x) for x in xs], axis=0) & np.isnan(values))


def compare_at_worst(row, by, found, evaluators, folder):
    """Takes the others' errors where weft's is largest, if they are larger than those recorded.

    weft's is over all inputs of float32, theirs are not.
    """
    x = np.asarray(found["weft"][1], np.float32)
    file = str(folder / "x0.npy")
    np.save(file, x.view(np.uint32))
    want = Reference(row.value if by is None else derivatives_of(row)[by], [x], "float32", by)
    for library, evaluate in evaluators.items():
        got = None if library == "weft" else evaluate(row.name, by, "float32", [file])
        if got is None or library not in found:
            continue
        error = float(want.errors(got)[0])
        if error > found[library][0]:
            found[library] = [error, found["weft"][1], float(got[0]), want.shown(0)]


class Reference:
    """The references for a batch of inputs."""

    def __init__(self, expression, xs, dtype, by):
        self.dtype = dtype
        self.compared = np.ones(xs[0].shape, bool)
        if dtype != "float64":
            with np.errstate(all="ignore"):
                self.values = np.asarray(expression(Double, *(x.astype(np.float64) for x in xs)))
            self.compared = is_compared(xs, self.values, by)
            return
        exact, mp = exact_namespace()
        self.exact, self.values = [], np.full(xs[0].shape, np.nan)
        for number, point in enumerate(zip(*(x.tolist() for x in xs), strict=True)):
            value = None
            if all(map(np.isfinite, point)):
                with contextlib.suppress(Exception):  # not here, or it does not converge
                    value = expression(exact, *map(mp.mpf, point))
                    value = value if isinstance(value, mp.mpf) and mp.isfinite(value) else None
            self.exact.append(value)
            self.compared[number] = value is not None
            self.values[number] = np.nan if value is None else float(value)

    def errors(self, got):
        found = errors(got, self.values, self.dtype)
        if self.dtype == "float64":
            # The part of an ulp that float64 does not show.
            _, exponent = np.frexp(np.where(np.isfinite(self.values), self.values, 1.0))
            ulp = np.ldexp(1.0, np.maximum(exponent, -1021) - 53)
            for number in np.flatnonzero(self.compared & np.isfinite(got) & (found < 1e6)):
                tiny = abs(self.values[number]) < 2.3e-308 and got[number] == 0
                if not tiny and np.isfinite(self.values[number]):
                    difference = abs(self.exact[number] - float(got[number]))
                    found[number] = float(difference / float(ulp[number]))
        return np.where(self.compared, found, 0.0)

    def shown(self, place):
        return float(self.values[place])


def derivatives_of(row):
    if isinstance(row, Unary):
        return () if row.derivative is None else (row.derivative,)
    return row.derivatives


def rows(only, dtypes):
    for dtype in dtypes:
        for row in (*UNARY, *BINARY):
            for by in (None, *range(len(derivatives_of(row)))):
                if only in row.name:
                    yield row, by, dtype


def key_of(row, by, dtype):
    return f"{row.name}{'' if by is None else f' by {by}'} {dtype}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has weft")
    parser.add_argument("--beside", help="the interpreter that has jax")
    parser.add_argument("--only", default="", help="functions whose names have this text")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--stride", type=int, default=257, help="every n-th number of float32")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--at-worst", action="store_true", help="at weft's worst inputs alone")
    options = parser.parse_args()
    file = options.results
    recorded = json.loads(file.read_text()) if file.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        evaluators = {
            library: Evaluator(python, library, folder)
            for library, python in zip(
                LIBRARIES, (options.python, options.beside, sys.executable), strict=True
            )
            if python
        }
        for row, by, dtype in rows(options.only, options.dtypes.split(",")):
            key = key_of(row, by, dtype)
            began = time.monotonic()
            if options.at_worst:
                if recorded.get(key, {}).get("weft") != "all":
                    continue
                compare_at_worst(row, by, recorded[key]["worst"], evaluators, folder)
            elif key in recorded and not options.again:
                continue
            else:
                recorded[key] = measured(row, by, dtype, evaluators, options.stride, folder)
            worst = {lib: f"{one[0]:.3g}" for lib, one in recorded[key]["worst"].items()}
            print(f"{key}: {worst} {time.monotonic() - began:.1f} s", flush=True)
            file.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")
        for evaluate in evaluators.values():
            evaluate.close()


if __name__ == "__main__":
    main()
