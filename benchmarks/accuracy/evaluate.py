"""Evaluates functions of one library in this process, which `largest_errors` starts.

It reads a line of JSON for each evaluation, the function, its inputs' files and by which argument
it is differentiated (or null), writes the results to the file named there, and answers "done".
"""

import functools
import importlib
import json
import sys

import numpy as np


def found(library, name):
    """The function of a name like `numpy.sin`; None if the library has none."""
    *path, last = name.split(".")
    if library == "numpy":
        return getattr(np, last, None) if path == ["numpy"] else None
    try:
        module = importlib.import_module(".".join([library, *path]))
    except ImportError:
        return None
    return getattr(module, last, None)


@functools.cache
def compiled(library, name, by):
    """The function, or its derivative by an argument, as users call it."""
    function = found(library, name)
    if function is None or (library == "numpy" and by is not None):
        return None
    if library == "numpy":
        return function
    root = importlib.import_module(library)
    if by is None:
        return root.jit(lambda *xs: function(*xs))

    def derivative(*xs):
        tangents = [root.numpy.full_like(x, float(n == by)) for n, x in enumerate(xs)]
        return root.jvp(function, xs, tuple(tangents))[1]

    return root.jit(derivative)


def main():
    library = sys.argv[1]
    if library != "numpy":
        importlib.import_module(f"{library}.numpy")
        importlib.import_module(library).config.update("jax_enable_x64", True)
    np.seterr(all="ignore")
    for line in sys.stdin:
        task = json.loads(line)
        function = compiled(library, task["name"], task["by"])
        if function is None:
            print("none", flush=True)
            continue
        dtype = task["dtype"]
        xs = [np.load(file).view(named(dtype)) for file in task["inputs"]]
        try:
            out = np.asarray(function(*xs))
        except TypeError as error:
            print(f"refused {str(error).splitlines()[0]}", flush=True)
            continue
        if out.dtype != xs[0].dtype:
            print(f"refused its result is {out.dtype}", flush=True)
            continue
        np.save(task["out"], out.view(f"u{out.dtype.itemsize}"))
        print("done", flush=True)


def named(dtype):
    if dtype == "bfloat16":
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return np.dtype(dtype)


if __name__ == "__main__":
    main()
