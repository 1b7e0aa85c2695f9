"""One measurement of one library in this process: measure.py LIBRARY NUMBER SIZE [SIZE …].

Prints a row as soon as it has a figure, so that what was too slow leaves the smaller sizes.
"""

import gc
import importlib
import os
import sys
import time

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

# Found by the line above.
import ir_stats  # noqa: E402
from child import load  # noqa: E402
from timers import clock, emit, median_of, per_call  # noqa: E402

LONG = 0.05  # seconds from which on a call is timed by itself
PATIENCE = 2.0  # seconds after which nothing is repeated


def seconds_of_call(function):
    """Seconds of one of many calls."""
    start = clock()
    function()
    taken = clock() - start
    if taken < LONG:
        return per_call(function, budget=0.3)
    return median_of(function, 3) if taken < PATIENCE else taken


def parts(prepared):
    return prepared.items() if isinstance(prepared, dict) else (("", prepared),)


def measure(measurement, start, size):
    """label -> (seconds, equations or None) at one size."""
    found = {}
    for repetition in range(measurement.repetitions):
        begun = clock()
        for label, part in parts(start(size)):
            gc.collect()
            if hasattr(part, "function"):
                if not repetition:
                    found[label] = seconds_of_call(part.function), None
                continue
            before = time.process_time()
            result = part()
            taken = time.process_time() - before
            # Counting is for what nests: chains have as many as the size says.
            counted = measurement.work == "equations" and result is not None
            equations = ir_stats.count_eqns(result)[1] if counted else None
            least, known = found.get(label, (taken, equations))
            found[label] = min(least, taken), equations or known
        if clock() - begun > PATIENCE:
            break
    return found


def main():
    lib, number, *sizes = sys.argv[1:]
    sys.setrecursionlimit(100_000)  # for neither library is the depth of a nest a mistake
    measurement = importlib.import_module("quantities").MEASUREMENTS[int(number)]
    start = measurement.start(load(lib))
    warm = measurement.repetitions > 1
    if warm:  # what the first use of a process loads is charged to no size
        measure(measurement, start, int(sizes[0]) if len(sizes) == 1 else min(8, int(sizes[0])))
    for size in map(int, sizes):
        emit({"begun": size})
        for label, (seconds, equations) in measure(measurement, start, size).items():
            emit({"label": label, "size": size, "seconds": seconds, "equations": equations})


if __name__ == "__main__":
    main()
