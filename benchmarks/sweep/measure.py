"""Measures expressions of the sweep in this process: measure.py LIBRARY NUMBERS [--OPTION].

Prints a line of JSON for each expression and form (its value, its gradient). With `--counts` only
figures that do not depend on the machine, with `--digits` only how far results are off.
"""

import hashlib
import importlib
import json
import re
import sys
import time

import expressions
import numpy as np

from timers import MARK, SLICE, clock

MODULES = {
    "jnp": "numpy", "lax": "lax", "nn": "nn", "random": "random", "image": "image", "ops": "ops",
    "jsp": "scipy",
}  # fmt: skip
SUBMODULES = (
    "lax.linalg", "numpy.fft", "numpy.linalg", "scipy.special", "scipy.stats", "scipy.signal",
    "scipy.ndimage", "scipy.fft", "scipy.integrate", "scipy.linalg",
)  # fmt: skip
BUDGET = 0.015  # seconds of timed calls of one function


def namespace(lib_name):
    """What an expression may name besides its operands."""
    names = {"np": np}
    for name, module in MODULES.items():
        names[name] = importlib.import_module(f"{lib_name}.{module}")
    for module in SUBMODULES:
        importlib.import_module(f"{lib_name}.{module}")
    return names


def compile_expression(text, names):
    """(function of its operands, the letters of these)."""
    code = compile(text, "<sweep>", "eval")
    letters = sorted(set(all_names(code)) & set(expressions.OPERANDS))
    return eval(f"lambda {', '.join(letters)}: {text}", names), letters


def all_names(code):
    """The names that an expression reads, also inside its functions: but not their parameters."""
    found = [name for name in code.co_names if name not in code.co_varnames]
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            found += all_names(constant)
    return found


def gradient(lib, names, function, letters, arguments):
    """The gradient of the sum of squares of what is real in the results; None where nothing is."""
    jnp = names["jnp"]
    by = [k for k, letter in enumerate(letters) if expressions.OPERANDS[letter][1].inexact]
    if not by:
        return None
    leaves = lib.tree_util.tree_leaves(lib.eval_shape(function, *arguments))
    real = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, np.floating)]
    if not real:
        return None

    def loss(*args):
        found = lib.tree_util.tree_leaves(function(*args))
        # Squared, so that the cotangents are no constants that XLA computes with.
        return sum(jnp.sum(jnp.square(found[k])) for k in real)

    return lib.grad(loss, argnums=tuple(by))


def cost_of(compiled):
    """XLA's figures of a compiled function."""
    cost = compiled.cost_analysis()
    return cost[0] if isinstance(cost, list) else cost


def counts(compiled):
    """What of a compiled function does not depend on the machine's speed."""
    text = compiled.as_text()
    cost = cost_of(compiled)
    return {
        "instructions": len(re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = ", text, re.MULTILINE)),
        "fusions": len(re.findall(r" fusion\(", text)),
        "bytes": float(cost.get("bytes accessed", 0.0)),
        "temporary": int(compiled.memory_analysis().temp_size_in_bytes),
    }


def digest(text):
    """Names the instructions of an optimized program: equal for two programs that have the same
    ones, with the same types and attributes, in whatever order and under whatever names."""
    lines = re.findall(r"^\s+(?:ROOT )?%[\w.-]+ = (.*)$", text, re.MULTILINE)
    noise = r", (metadata|frontend_attributes|origin|backend_config)=.*|/\*index=\d+\*/"
    lines = sorted(re.sub(r"%[\w.-]+", "%", re.sub(noise, "", line)) for line in lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def per_call(function):
    """Seconds on the clock for a call, the least of many short batches; and of CPU, the mean of
    them, as the time of a running thread of XLA's pool is booked late, with a later batch."""
    for _ in range(3):
        function()
    n = 1
    while True:
        start = clock()
        for _ in range(n):
            function()
        taken = clock() - start
        if taken >= SLICE / 2 or n >= 100_000:
            break
        n *= 2
    n = max(1, int(n * SLICE / max(taken, 1e-9)))
    wall, start_cpu, end = [], time.process_time(), clock() + BUDGET
    while len(wall) < 5 or (clock() < end and len(wall) < 500):
        start = clock()
        for _ in range(n):
            function()
        wall.append((clock() - start) / n)
    return min(wall), (time.process_time() - start_cpu) / (n * len(wall))


def prepared(lib, names, text, form, size):
    """(function, arrays) of an expression in one form; None for the function if it has none."""
    function, letters = compile_expression(text, names)
    arrays = []
    for letter in letters:
        shape, operand = expressions.OPERANDS[letter]
        arrays.append(names["jnp"].asarray(operand.make(expressions.SHAPES[size][shape])))
    if form == "gradient":
        function = gradient(lib, names, function, letters, arrays)
    return function, arrays


def measure(lib, names, text, form, timed):
    """The figures of one expression in one form; None where it has no such form."""
    row = {}
    for size in expressions.SHAPES:
        function, arrays = prepared(lib, names, text, form, size)
        if function is None:
            return None
        start = time.process_time()
        jitted = lib.jit(function)
        compiled = jitted.lower(*arrays).compile()
        row[f"{size} first"] = time.process_time() - start
        row[f"{size} program"] = digest(compiled.as_text())
        row[f"{size} operations"] = int(cost_of(compiled).get("flops", 0))
        if size == "large":
            row |= counts(compiled)
        if timed:
            lib.block_until_ready(jitted(*arrays))

            def call(jitted=jitted, arrays=arrays):
                lib.block_until_ready(jitted(*arrays))

            row[f"{size} wall"], row[f"{size} cpu"] = per_call(call)
    return row


def largest_error(lib, names, text, form):
    """How far float32 results of an expression are from those of the same library in double
    precision: the most of all elements, in units of the last place of float32."""
    function, arrays = prepared(lib, names, text, form, "large")
    if function is None or "random." in text:
        return None
    found = lib.tree_util.tree_leaves(lib.jit(function)(*arrays))
    with lib.enable_x64(True):
        jnp = names["jnp"]
        doubles = [
            jnp.asarray(np.asarray(a, np.float64) if a.dtype == np.float32 else np.asarray(a))
            for a in arrays
        ]
        exact = lib.tree_util.tree_leaves(lib.jit(function)(*doubles))
        exact = [np.asarray(leaf) for leaf in exact]
    worst = 0.0
    for ours, theirs in zip(found, exact, strict=True):
        ours = np.asarray(ours)
        if ours.dtype != np.float32 or theirs.dtype != np.float64:
            continue
        counted = np.isfinite(theirs) & (np.abs(theirs) > 1e-30) & (np.abs(theirs) < 3e38)
        ours, theirs = ours[counted].astype(np.float64), theirs[counted]
        if ours.size:
            unit = np.spacing(np.abs(theirs).astype(np.float32)).astype(np.float64)
            worst = max(worst, float(np.max(np.abs(ours - theirs) / unit)))
    return {"error in ulp": worst}


def main():
    lib_name, numbers, *options = sys.argv[1:]
    lib = importlib.import_module(lib_name)
    names = namespace(lib_name)
    for number in map(int, numbers.split(",")):
        text = expressions.EXPRESSIONS[number]
        for form in ("value", "gradient"):
            row = {"expression": text, "form": form}
            try:
                if "--digits" in options:
                    found = largest_error(lib, names, text, form)
                else:
                    found = measure(lib, names, text, form, "--counts" not in options)
            except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
                found = {"error": f"{type(error).__name__}: {str(error).strip()[:200]}"}
            if found is not None:
                print(MARK + json.dumps(row | found), flush=True)


if __name__ == "__main__":
    main()
