"""Functions made anew, and functions that close over a large array."""

import functools
import resource
import sys

import numpy as np

from cases.registry import case
from timers import MS, US, Figures, clock, median_of

LARGE = 25 * 2**20  # elements of 4 bytes: 100 MiB


class Model:
    """What a user's object with parameters looks like."""

    def __init__(self, weights, rate, tick):
        self.weights, self.rate, self.tick = weights, rate, tick

    def apply(self, x):
        self.tick()
        return x * self.weights * self.rate


def _rebuilt(lib, tick):
    """Name -> what makes the same function once more and calls it."""
    x = lib.numpy.asarray(np.ones(8, np.float32))
    w = lib.numpy.asarray(np.full(8, 2, np.float32))
    rate, options = 0.5, {"rate": 0.5}
    model = Model(w, rate, tick)

    def scaled(x, w, rate):
        tick()
        return x * w * rate

    def through_lambda():
        return lib.jit(lambda x: (tick(), x * w * options["rate"])[1])(x)

    def body(carry, _):
        tick()
        return carry * w * rate, None

    return {
        "lambda": through_lambda,
        "partial": lambda: lib.jit(functools.partial(scaled, w=w, rate=rate))(x),
        "method": lambda: lib.jit(model.apply)(x),
        "grad": lambda: lib.jit(lib.grad(lambda x: scaled(x, w, rate).sum()))(x),
        "loop_body": lambda: lib.lax.scan(lambda c, xs: body(c, xs), x, None, length=3)[0],
    }


@case(reps=5)
def retrace(lib):
    """A lambda, a partial, a method, a gradient and a loop's body made anew for each call."""
    figures = Figures()
    block = lib.block_until_ready
    counts = {"traces": 0}

    def tick():
        counts["traces"] += 1

    for name, use in _rebuilt(lib, tick).items():
        with figures.part(name):
            counts["traces"] = 0
            for _ in range(5):
                block(use())
            figures.add("traces_of_5", counts["traces"], "count")
            figures.add("rebuilt_call", median_of(lambda use=use: block(use()), 30) * US, "us")
    return figures


def _peak_megabytes():
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20


def _first_result(lib, make):
    """Seconds from a new function to its first finished result, and how far memory rose."""
    before = _peak_megabytes()
    start = clock()
    lib.block_until_ready(make())
    return clock() - start, _peak_megabytes() - before


@case(reps=5)
def closure_100mb(lib):
    """100 MiB closed over, given as an argument, and closed over as a NumPy array."""
    figures = Figures()
    values = np.ones(LARGE, np.float32)
    array = lib.block_until_ready(lib.numpy.asarray(values))
    x = lib.numpy.asarray(np.float32(2.0))
    # What is loaded by the first compilation of a process is charged to none of them.
    lib.block_until_ready(lib.jit(lambda x: x + 1)(x))
    ways = {
        "argument": lambda k: lib.jit(lambda x, w: (x * w).sum() + k)(x, array),
        "closure": lambda k: lib.jit(lambda x: (x * array).sum() + k)(x),
        "numpy_closure": lambda k: lib.jit(lambda x: (x * values).sum() + k)(x),
    }
    costs = {name: [] for name in ways}
    for k in range(5):  # in turns, so that a busy machine disturbs all alike
        for i, (name, use) in enumerate(ways.items()):
            # Numbers of its own for each, so that no program is found that another has compiled.
            costs[name].append(_first_result(lib, lambda k=k + 10 * i, use=use: use(k)))
    for name, found in costs.items():
        with figures.part(name):
            figures.add("first_result", sorted(seconds for seconds, _ in found)[2] * MS, "ms")
            figures.add("peak_rise", sum(rise for _, rise in found), "MiB")
    found = {row["metric"]: row.get("value", 0.0) for row in figures.rows}
    if found.get("argument.first_result") and found.get("closure.first_result"):
        ratio = found["closure.first_result"] / found["argument.first_result"]
        figures.add("closure.over_argument", ratio, "ratio")
    return figures
