"""How a case measures: timers for short and long operations, and the figures they give.

Inside one process a short operation is timed in many short batches and the tenth percentile counts,
since the machine is shared; a long operation is timed a few times and the median is kept; tracing
and lowering are timed in CPU seconds. The driver then runs every case in several fresh processes,
alternating between the libraries, and takes the median of those figures.
"""

import contextlib
import gc
import json
import math
import re
import statistics
import sys
import time

MARK = "@@FIG "
clock = time.perf_counter


# Factors from seconds.
US, MS = 1e6, 1e3
# What a library lacks as yet; a slip in its use of another package is a failure like any other.
OTHERS = "(?!numpy|jaxlib|ml_dtypes|opt_einsum)"
ABSENT = re.compile(
    rf"module '{OTHERS}[\w.]+' has no attribute|No module named '{OTHERS}|no counterpart"
)


def failure(metric, error):
    """The row that says why something could not be measured, and whether it does not exist yet."""
    text = str(error) if isinstance(error, str) else f"{type(error).__name__}: {error}"
    first_line = (text.strip().splitlines() or ["died"])[0][:300]
    return {"metric": metric, "note": first_line, "absent": bool(ABSENT.search(first_line))}


def emit(row):
    """Prints a row for the driver at once: a case that dies keeps what it had measured."""
    sys.stdout.write(MARK + json.dumps(row) + "\n")
    sys.stdout.flush()


class Figures:
    """What a case returns: named figures, and notes on what could not be measured."""

    def __init__(self):
        self.rows = []
        self._prefix = []

    def _emit(self, row):
        self.rows.append(row)
        emit(row)

    def add(self, metric, value, unit):
        """Records one figure under the names of the parts that are open."""
        name = ".".join([*self._prefix, metric])
        self._emit({"metric": name, "value": float(value), "unit": unit})

    @contextlib.contextmanager
    def part(self, name=None):
        """One piece of a case: a failure in it is noted and the rest goes on.

        A young library lacks parts of the surface, and the others are to be measured all the same.
        """
        if name:
            self._prefix.append(name)
        try:
            yield self
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
            self._emit(failure(".".join(self._prefix), error))
        finally:
            if name:
                self._prefix.pop()
            gc.collect()


SLICE = 1.5e-3  # seconds a batch should last: shorter than a scheduler's turn


def _tenth(ts):
    ts = sorted(ts)
    return ts[len(ts) // 10]


def per_call(fn, budget=0.5, warmup=3):
    """Seconds per fn(): the tenth percentile over many short batches, so that
    the slices in which another process had the core fall away."""
    for _ in range(warmup):
        fn()
    n = 1
    while True:
        t = clock()
        for _ in range(n):
            fn()
        dt = clock() - t
        if dt >= SLICE / 2 or n >= 1_000_000:
            break
        n *= 2
    n = max(1, int(n * SLICE / max(dt, 1e-9)))
    out, end = [], clock() + budget
    while len(out) < 9 or (clock() < end and len(out) < 1000):
        t = clock()
        for _ in range(n):
            fn()
        out.append((clock() - t) / n)
    return _tenth(out)


def per_call_async(fn, block, budget=0.5, warmup=3, chunk=200):
    """As per_call for calls that only enqueue work: up to `chunk` calls, then
    one block on the last result, and that block is counted."""
    for _ in range(warmup):
        block(fn())

    def batch(n):
        t = clock()
        r = None
        for _ in range(n):
            r = fn()
        block(r)
        return (clock() - t) / n

    one = min(batch(4) for _ in range(3))
    n = max(1, min(chunk, int(SLICE / max(one, 1e-9))))
    out, end = [], clock() + budget
    while len(out) < 9 or (clock() < end and len(out) < 1000):
        out.append(batch(n))
    return _tenth(out)


def median_of(fn, reps=5):
    """Median seconds of fn() over reps calls."""
    out = []
    for _ in range(reps):
        t = clock()
        fn()
        out.append(clock() - t)
    return statistics.median(out)


def once(fn):
    t = clock()
    r = fn()
    return clock() - t, r


def once_cpu(fn):
    """CPU seconds of the whole process: for tracing and lowering, which never
    wait, and so the same on a busy machine as on an idle one."""
    t = time.process_time()
    r = fn()
    return time.process_time() - t, r


def steps(fn, block, budget=3.0, min_steps=5, max_steps=400, warmup=2):
    """Median seconds of fn() + block over a bounded number of steps."""
    for _ in range(warmup):
        block(fn())
    t, r = once(lambda: block(fn()))
    n = max(min_steps, min(max_steps, int(budget / max(t, 1e-6))))
    out = []
    for _ in range(n):
        t = clock()
        block(fn())
        out.append(clock() - t)
    return statistics.median(out)


def growth(ns, ts):
    """Least-squares slope of log t over log n: 1 is linear."""
    xs = [math.log(n) for n in ns]
    ys = [math.log(max(t, 1e-12)) for t in ts]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    num = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    den = sum((x - mx) ** 2 for x in xs)
    return num / den
