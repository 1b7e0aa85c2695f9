"""One case of one library in this process: child.py LIBRARY CASE, started by the driver."""

import importlib
import importlib.util
import sys

from timers import emit, failure


def load(lib):
    """The root package, with those of its modules imported that it has."""
    root = importlib.import_module(lib)
    for name in ("numpy", "lax", "random", "nn", "tree_util", "sharding"):
        if importlib.util.find_spec(f"{lib}.{name}"):
            importlib.import_module(f"{lib}.{name}")
    return root


def main():
    lib, name = sys.argv[1:3]
    if lib in ("torch", "torch-compile"):
        # Only here: the other libraries' environments have no PyTorch.
        importlib.import_module("torch_cases").run(name, compiled=lib == "torch-compile")
        return
    cases = importlib.import_module("cases").CASES
    try:
        cases[name].function(load(lib))
    except Exception as error:
        emit(failure("", error))
        raise


if __name__ == "__main__":
    main()
