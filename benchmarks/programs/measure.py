"""Measures programs in this process: python -m programs.measure LIBRARY NAME [--counts].

LIBRARY is weft, jax, torch or torch-compile. Prints one line of JSON: samples of the results, times
of tracing and compiling, the time of a step, temporary memory and the peak of the process's memory.
"""

import hashlib
import importlib
import json
import re
import statistics
import sys
import time

import numpy as np

from programs import registry
from timers import MARK, clock

BUDGET = 1.0  # seconds of timed steps
BATCH = 0.02  # seconds that a batch of steps lasts at least: what starts and ends it counts little
SAMPLES = 48  # numbers of each result that are compared


def peak_memory():
    """The most bytes that this process has held: of this program only, as `ru_maxrss` is not."""
    with open("/proc/self/status", encoding="utf-8") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def samples(leaves):
    """Of each array its norm over the root of its size, and numbers spread over it."""
    found = []
    for leaf in leaves:
        values = np.asarray(leaf).astype(np.float64).ravel()
        chosen = values[np.linspace(0, values.size - 1, min(SAMPLES, values.size)).astype(int)]
        scale = float(np.sqrt(np.mean(np.square(values))))
        found.append([scale, *(float(f"{x:.7g}") for x in chosen)])
    return found


INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = (.*?) ([\w-]+)\(", re.MULTILINE)
# What only hands values on, under another name or in another order.
PASSES = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast"}


def fingerprint(compiled):
    """A text that is equal where programs have the same instructions, in whatever order."""
    found = INSTRUCTION.findall(compiled.as_text())
    kinds = sorted(f"{kind} {shape}" for shape, kind in found if kind not in PASSES)
    return hashlib.sha256("\n".join(kinds).encode()).hexdigest()[:12]


def step_times(step):
    """Seconds of a step: (the least, the median) over batches."""
    start = clock()
    step()
    count = max(1, int(BATCH / max(clock() - start, 1e-9)))
    taken, end = [], clock() + BUDGET
    while len(taken) < 7 or clock() < end:
        start = clock()
        for _ in range(count):
            step()
        taken.append((clock() - start) / count)
    return min(taken), statistics.median(taken)


def measured_steps(row, step):
    """Adds what running costs to a row."""
    for _ in range(3):
        step()
    row["step"], row["step median"] = step_times(step)
    row["memory of running"] = peak_memory()
    return row


def measure(lib, name, timed):
    """The row of one program of a library that traces."""
    step, arguments = registry.build(lib, name)
    lib.block_until_ready(arguments)
    wall, cpu = clock(), time.process_time()
    lowered = lib.jit(step).lower(*arguments)
    lowered_wall, lowered_cpu = clock(), time.process_time()
    compiled = lowered.compile()
    row = {
        "trace and lower": lowered_cpu - cpu,
        "compile": time.process_time() - lowered_cpu,
        "first wall": clock() - wall,
        "compile wall": clock() - lowered_wall,
        "memory of compiling": peak_memory(),
    }
    analysis = compiled.memory_analysis()
    row["temporary"] = int(analysis.temp_size_in_bytes)
    row["fingerprint"] = fingerprint(compiled)
    row["samples"] = samples(lib.tree_util.tree_leaves(compiled(*arguments)))
    if timed:
        measured_steps(row, lambda: lib.block_until_ready(compiled(*arguments)))
    return row


def measure_torch(name, compiled):
    """The row of one program of PyTorch."""
    # Only here: the other libraries' environments have no PyTorch.
    programs = importlib.import_module("programs.torch_programs")
    wall, cpu = clock(), time.process_time()
    step = programs.build(name, compiled)
    result = step()
    row = {"first wall": clock() - wall, "compile": time.process_time() - cpu}
    row["memory of compiling"] = peak_memory()
    row["samples"] = samples(programs.leaves(result))
    return measured_steps(row, step)


def main():
    library, name, *options = sys.argv[1:]
    try:
        if library.startswith("torch"):
            row = measure_torch(name, library == "torch-compile")
        else:
            row = measure(registry.library(library), name, "--counts" not in options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
        row = {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    print(MARK + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
